"""Random types, contexts and events; contexts are right most of the time, not always."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
from hypothesis import strategies as st
from page import (
    NONE,
    ContextData,
    Pattern,
    Refused,
    World,
    alternatives,
    attributes,
    classes,
    element,
    identity,
    is_class,
    known,
    make,
    mappings,
    met_types,
    parse,
)

from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.standard import is_machinery

SCALARS: list[type] = [int, str, float]
NO_DEFAULT = dataclasses.MISSING


class Field(NamedTuple):
    """An attribute of a class to be made."""

    hint: Any
    default: Any = NO_DEFAULT


@dataclasses.dataclass(repr=False)
class Case:
    """A world, and the classes its events may be of; strangers are subtypes no context knows."""

    world: World
    locals: dict[str, list[type]]
    strangers: list[type]

    def __repr__(self) -> str:
        listed = [cls for each in self.world.contexts.values() for cls in each.types]
        lines = [written(cls) for cls in [*self.world.root_types, *listed, *self.strangers]]
        lines += [f"{name}: {data}" for name, data in self.world.contexts.items()]
        return "\n".join(["", *lines])

    def population(self, name: str | None) -> list[type]:
        """The classes whose objects are published in a context, the root included."""
        return self.world.root_types if name is None else self.locals[name]


def written(cls: type) -> str:
    """A class in one line, for the report of a failure."""
    names = ", ".join(each.__name__ for each in cls.__bases__)
    defaults = declared_defaults(cls)
    held = [f"{k}: {v}{' = ...' if defaults[k] else ''}" for k, v in attributes(cls).items()]
    return f"{cls.__name__}({names}): {'; '.join(held)}".replace("worlds.", "")


class Dice:
    """Choices; the simplest one of each is what shrinking goes for."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) >= 100 - percent

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def pick(self, choices: Any) -> Any:
        return self._draw(st.sampled_from(list(choices)))

    def shuffled(self, things: list[Any]) -> list[Any]:
        return self._draw(st.permutations(things))


def make_class(name: str, kind: str, bases: tuple[type, ...], fields: dict[str, Field]) -> Any:
    """A class of some library; recursive annotations work for dataclasses only."""
    hints = {key: field.hint for key, field in fields.items()}
    space: dict[str, Any] = {"__module__": __name__, "__annotations__": hints}
    given = {key: field.default for key, field in fields.items() if field.default is not NO_DEFAULT}
    if kind in ("frozen", "mutable"):
        for key, default in given.items():
            is_factory = isinstance(default, type)
            space[key] = dataclasses.field(default_factory=default) if is_factory else default
        made = type(name, bases, space)
        return dataclasses.dataclass(made, frozen=kind == "frozen", kw_only=True)  # type: ignore[call-overload]
    if kind == "struct":
        return msgspec.defstruct(name, list(hints.items()), kw_only=True, module=__name__)
    if kind == "attrs":
        return attrs.frozen(type(name, (), space))
    if kind == "pydantic":
        return pydantic.create_model(
            name, __module__=__name__, **{key: (hint, ...) for key, hint in hints.items()}
        )
    if kind == "namedtuple":
        made = NamedTuple(name, list(hints.items()))  # type: ignore[misc]
        made.__module__ = __name__
        return made
    return type(name, (), space)


def mirrored(hint: Any, partner: Callable[[type], Any]) -> Any:
    """An annotation with each class replaced."""
    parts = []
    for part in alternatives(hint):
        inner = element(part)
        if inner is not None:
            new = mirrored(inner[1], partner)
            key = typing.get_args(part)[0]
            rest = {tuple: (new, ...), dict: (key, new)}.get(inner[0], new)
            parts.append(inner[0][rest])  # type: ignore[index]
        else:
            parts.append(partner(part) if is_class(part) and part is not NONE else part)
    return typing.Union[tuple(parts)]  # noqa: UP007


def _some_field(dice: Dice, earlier: list[type], later: list[str]) -> Field:
    """An attribute; of a class that is not made yet only its number is known."""
    if dice.chance(45):
        return _of_scalar(dice)
    if later and dice.chance(30):
        hint = dice.pick(later)
        default: Any = None
        return Field(("later", hint, dice.pick(["optional", "list", "dict"])), default)
    if not earlier:
        return _of_scalar(dice)
    cls: Any = dice.pick(earlier)
    other = dice.pick([*earlier, *SCALARS])
    shapes: list[Any] = [cls, cls, cls | None, list[cls], tuple[cls, ...], dict[str, cls]]
    shapes += [cls | other, list[cls | None], dict[str, list[cls]], cls | other | None]
    hint = dice.pick(shapes)
    return Field(hint, _some_default(dice, hint))


def _of_scalar(dice: Dice) -> Field:
    cls: Any = dice.pick(SCALARS)
    shapes = [cls, cls, cls, cls | None, list[cls], frozenset[cls], tuple[cls, str], Any]
    hint = dice.pick(shapes)
    default = cls(7) if hint is cls else _default_of(hint)
    return Field(hint, default if dice.chance(30) else NO_DEFAULT)


def _some_default(dice: Dice, hint: Any) -> Any:
    return _default_of(hint) if dice.chance(30) else NO_DEFAULT


def _default_of(hint: Any) -> Any:
    for part in alternatives(hint):
        if part is NONE:
            return None
        if typing.get_origin(part) in (list, dict):
            return typing.get_origin(part)
    return NO_DEFAULT


def _resolve(cls: type, by_name: dict[str, type]) -> None:
    """Put the classes that were made later into the annotations of an earlier one."""
    for key, hint in cls.__annotations__.items():
        if isinstance(hint, tuple):
            late: Any = by_name[hint[1]]
            shapes = {"optional": late | None, "list": list[late] | None}
            cls.__annotations__[key] = shapes.get(hint[2], dict[str, late] | None)


def _root_types(dice: Dice) -> list[type]:
    kind = dice.pick(["mutable", "frozen"])
    names = [f"R{number}" for number in range(dice.number(2, 6))]
    made: dict[str, type] = {}
    family: list[type] = []
    for position, name in enumerate(names):
        is_apart = dice.chance(20)
        bases = () if is_apart else _some_bases(dice, family)
        taken = {key for base in bases for key in attributes(base)}
        own = [f"{letter}{position}" for letter in "abc"]  # some names are shared, most are not
        free = [f"n{position}", *[dice.pick([key, *"xy"]) for key in own]]
        free = [key for key in dict.fromkeys(free) if key not in taken]
        later = [] if is_apart else names[position:]
        apart = dice.pick(["struct", "attrs", "pydantic", "namedtuple", "plain"])
        # Pydantic looks into the classes it holds at once, when annotations may not be whole.
        earlier = [] if is_apart and apart == "pydantic" else list(made.values())
        fields = {free[0]: Field(dice.pick(SCALARS))}
        for key in free[1 : 1 + dice.number(0, 3)]:
            fields[key] = _some_field(dice, earlier, later)
        if is_apart:
            fields = {key: Field(field.hint) for key, field in fields.items()}
        made[name] = make_class(name, apart if is_apart else kind, bases, fields)
        family += [] if is_apart else [made[name]]
    for cls in made.values():
        _resolve(cls, made)
    return list(made.values())


def _some_bases(dice: Dice, family: list[type]) -> tuple[type, ...]:
    count = dice.number(0, min(3, len(family)))
    bases: tuple[type, ...] = ()
    for base in dice.shuffled(family)[:count]:
        clash = any(set(attributes(base)) & set(attributes(each)) for each in bases)
        related = any(base in each.__mro__ or each in base.__mro__ for each in bases)
        bases = bases if clash and not related else (*bases, base)
    try:
        type("Tried", bases, {})
    except TypeError:  # no linear order: Python does not allow it
        return bases[:1]
    return bases


def _local_types(dice: Dice, letter: str, roots: list[type]) -> dict[type, type]:
    """Partners of some root types: much the same, renamed, with small differences."""
    kind = dice.pick(["mutable", "frozen"])
    partners: dict[type, type] = {}
    for root in [each for each in roots if dice.chance(75)]:
        bases = tuple(partners[b] for b in root.__bases__ if b in partners)
        try:
            type("Tried", bases, {})
        except TypeError:
            bases = bases[:1]
        taken = {key for base in bases for key in attributes(base)}
        fields = {key: Field(hint) for key, hint in attributes(root).items() if key not in taken}
        for key in list(fields):
            if dice.chance(5):
                del fields[key]
            elif dice.chance(25):
                fields[key] = Field(fields[key].hint, _default_of(fields[key].hint))
        if dice.chance(25):
            fields["extra"] = Field(int, 5 if dice.chance(97) else NO_DEFAULT)
        partners[root] = make_class(f"{letter}{root.__name__[1:]}", kind, bases, fields)

    def partner(cls: type) -> type:
        return partners[cls] if cls in partners and dice.chance(75) else cls

    for cls in partners.values():
        for key, hint in cls.__annotations__.items():
            cls.__annotations__[key] = mirrored(hint, partner)
    return partners


def stamp(hint: Any, text: str) -> Any:
    """A value of an annotation that shows a text."""
    part = alternatives(hint)[0] if NONE not in alternatives(hint) else NONE
    inner = element(part)
    if part is NONE or part is Any:
        return None
    if inner is not None:
        return inner[0]()
    if typing.get_origin(part) is tuple:
        return tuple(stamp(each, text) for each in typing.get_args(part))
    if part in (int, float):
        return part(zlib.crc32(text.encode()))
    if part is str:
        return text
    return make(part, {key: stamp(each, text) for key, each in attributes(part).items()})


def plain(value: Any) -> Any:
    """A value as nested data that can be compared, whatever library its classes are of."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, set | frozenset):
        return [type(value).__name__, *sorted(map(repr, map(plain, value)))]
    names = attributes(type(value))
    if not names:
        return value
    return [type(value).__name__, {key: plain(getattr(value, key)) for key in names}]


def tagged(name: str, given: Any, returned: Any) -> Callable[[Any], Any]:
    """A function of two annotations whose result shows that it ran, and on what."""

    def function(x: Any) -> Any:
        return stamp(returned, f"{name}:{zlib.crc32(repr(plain(x)).encode()):08x}")

    function.__annotations__ = {"x": given, "return": returned}
    function.__name__ = function.__qualname__ = name
    return function


class Place(NamedTuple):
    """A step of a path: an attribute, what it is declared as, and the type met there."""

    attribute: str
    hint: Any
    met: type


def _some_path(dice: Dice, there: list[type], heads: list[type]) -> tuple[type, list[Place]]:
    head = current = dice.pick(heads)
    path: list[Place] = []
    for _ in range(dice.number(1, 4)):
        held = {key: hint for key, hint in attributes(current).items() if classes(hint)}
        deeper = {key: hint for key, hint in held.items() if set(classes(hint)) - set(SCALARS)}
        if not held:
            break
        name = dice.pick(deeper if deeper and dice.chance(60) else held)
        current = dice.pick(met_types(there, held[name]))
        path.append(Place(name, held[name], current))
    return head, path


def _above(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if not is_machinery(each)]


def _some_pattern(dice: Dice, head: type, path: list[Place]) -> str:
    """One of the many patterns that apply at a path."""
    last = path[-1]
    if dice.chance(20):
        return str(dice.pick(_above(last.met)).__name__)
    text = str(dice.pick([head, head, *_above(head)]).__name__)
    gap = dice.number(0, len(path) - 1) if dice.chance(40) else 0
    for place in path[: len(path) - 1 - gap]:
        text += f".{_some_qualifier(dice, place)}"
    final = dice.pick(_above(last.met)).__name__ if gap else _some_qualifier(dice, last)
    return f"{text}.{final}"


def _some_qualifier(dice: Dice, place: Place) -> str:
    above = _above(place.met)
    narrow = [b for b in above if any(c in b.__mro__ for c in classes(place.hint))]
    narrowed = f"{place.attribute}({dice.pick(narrow).__name__})"
    return str(dice.pick([place.attribute, narrowed, dice.pick(above).__name__]))


def _some_patterns(dice: Dice, there: list[type], heads: list[type]) -> list[tuple[str, Pattern]]:
    """Valid patterns that compete at a few paths."""
    found = []
    for _ in range(dice.number(1, 3)):
        head, path = _some_path(dice, there, heads)
        for text in [_some_pattern(dice, head, path) for _ in range(dice.number(1, 4))]:
            try:
                found.append((text, parse(there, text)))
            except Refused:
                continue
    return found


def _some_rule(
    dice: Dice, number: int, text: str, pattern: Pattern, partners: dict[type, type]
) -> tuple[str, Any]:
    """A function for a pattern; most return what they are given a kind of."""
    if dice.chance(10):
        return text, "-"
    if dice.chance(12):
        return text, identity
    given = pattern.steps[-1].types if pattern.steps else frozenset([pattern.head])
    ordered = sorted(given, key=lambda cls: cls.__name__)
    returned = dice.pick(ordered)
    back = {local: root for root, local in partners.items()}
    other = partners.get(returned, back.get(returned, returned))
    function = tagged(
        f"f{number}",
        typing.Union[tuple(ordered)],  # noqa: UP007
        other if dice.chance(12) else returned,
    )
    return text, function


def _some_mappings(dice: Dice, partners: dict[type, type]) -> list[tuple[type, type, str]]:
    found = []
    for root, local in partners.items():
        found += [(root, local, "?")] if dice.chance(93) else []
        found += [(local, root, "!")] if dice.chance(70) else []
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A world of up to three contexts, the last one with two parents."""
    dice = Dice(draw)
    roots = _root_types(dice)
    world, held, numbers = World(roots, {}), {}, itertools.count()
    for name, letter in (("one", "L"), ("two", "M"), ("both", "N"))[: dice.number(1, 3)]:
        parents = (
            list(world.contexts) if name == "both" else list(world.contexts)[: dice.number(0, 1)]
        )
        mapped = [cls for parent in parents for cls in mappings(world, parent, "?")]
        free = [cls for cls in roots if cls not in mapped or dice.chance(15)]
        partners = _local_types(dice, letter, free)
        data = ContextData(dice.shuffled(parents), list(partners.values()))
        world.contexts[name] = data
        data.mappings = _some_mappings(dice, partners)
        there = known(world, name)
        heads = [*partners, *partners.values()] or roots
        data.rules = [
            _some_rule(dice, next(numbers), text, pattern, partners)
            for text, pattern in _some_patterns(dice, there, heads)
        ]
        inherited = [line for parent in parents for line in world.contexts[parent].rules]
        if inherited and dice.chance(40):
            data.rules.append((dice.pick(inherited)[0], dice.pick(["-", identity])))
        held[name] = data.types + [each for parent in parents for each in held[parent]]
    return Case(world, held, _strangers(dice, roots))


@st.composite
def round_trips(draw: st.DrawFn) -> Case:
    """One context whose types mirror the root's, with rules that undo each other."""
    dice = Dice(draw)
    roots = _root_types(dice)
    partners: dict[type, type] = {}
    for root in roots:
        bases = tuple(partners[base] for base in root.__bases__ if base in partners)
        own = {key: Field(attributes(root)[key]) for key in root.__annotations__}
        partners[root] = make_class(f"L{root.__name__[1:]}", "mutable", bases, own)
    for cls in partners.values():
        for key, hint in cls.__annotations__.items():
            cls.__annotations__[key] = mirrored(hint, lambda each: partners.get(each, each))
    lines = [line for root, local in partners.items() for line in _both(root, local)]
    data = ContextData([], list(partners.values()), dice.shuffled(lines))
    world = World(roots, {"one": data})
    for number, (text, pattern) in enumerate(_some_patterns(dice, known(world, "one"), roots)):
        if pattern.steps and pattern.steps[-1].types == {int}:
            data.rules.append((text, shifted(number + 1)))
            data.rules.append((re.sub(r"\bR(?=\d)", "L", text), shifted(-number - 1)))
    return Case(world, {"one": data.types}, [])


def _both(root: type, local: type) -> list[tuple[type, type, str]]:
    return [(root, local, "?"), (local, root, "!")]


def shifted(by: int) -> Callable[[int], int]:
    """A function that the one for the opposite number undoes."""

    def shift(x: int) -> int:
        return x + by

    return shift


def _strangers(dice: Dice, roots: list[type]) -> list[type]:
    open_ones = [cls for cls in roots if dataclasses.is_dataclass(cls)]
    found = []
    for number, cls in enumerate(each for each in open_ones if dice.chance(40)):
        kind = "frozen" if cls.__dataclass_params__.frozen else "mutable"  # type: ignore[attr-defined]
        found.append(make_class(f"X{number}", kind, (cls,), {"strange": Field(int, 3)}))
    return found
