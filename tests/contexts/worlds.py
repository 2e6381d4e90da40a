"""Random types, contexts and events; contexts are right most of the time, not always."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st
from page import ContextData, Pattern, Refused, World, identity, known, mappings, met_types, parse
from page_types import NONE, alternatives, attributes, classes, element, longest_chain, make
from world_types import (
    SCALARS,
    Dice,
    Field,
    local_types,
    make_class,
    mirrored,
    root_types,
    written,
)

from polycast.typesystem.standard_types import is_machinery, is_standard


@dataclasses.dataclass(repr=False)
class Case:
    """A world, and the classes its events may be of; strangers are subtypes no context knows."""

    world: World
    locals: dict[str, list[type]]
    strangers: list[type]

    def __repr__(self) -> str:
        listed = [cls for data in self.world.contexts.values() for cls in data.types]
        lines = [written(cls) for cls in [*self.world.root_types, *listed, *self.strangers]]
        lines += [f"{name}: {data}" for name, data in self.world.contexts.items()]
        return "\n".join(["", *lines])

    def population(self, name: str | None) -> list[type]:
        """The classes whose objects are published in a context, the root included."""
        return self.world.root_types if name is None else self.locals[name]


def stamp(hint: Any, text: str) -> Any:
    """A value of an annotation that shows a text."""
    part = alternatives(hint)[0] if NONE not in alternatives(hint) else NONE
    inner = element(part)
    if part is NONE or part is Any:
        return None
    if inner is not None:
        return inner[0]()
    if typing.get_origin(part) is tuple:
        return tuple(stamp(argument, text) for argument in typing.get_args(part))
    if part is tuple:
        return (text,)
    if part in (int, float):
        return part(zlib.crc32(text.encode()))
    if part is str:
        return text
    return make(part, {key: stamp(hint, text) for key, hint in attributes(part).items()})


def plain(value: Any) -> Any:
    """A value as nested data that can be compared, whatever library its classes are of."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, set | frozenset):
        return [type(value).__name__, *sorted(map(repr, map(plain, value)))]
    if is_standard(type(value)):
        return value
    names = attributes(type(value))
    return [type(value).__name__, {key: plain(getattr(value, key)) for key in names}]


def tagged(name: str, given: Any, returned: Any) -> Callable[[Any], Any]:
    """A function of two annotations whose result shows that it ran, and on what.

    It changes what it is given, if that can be changed, as the one in the paper does.
    """

    def function(x: Any) -> Any:
        text = f"{name}:{zlib.crc32(repr(plain(x)).encode()):08x}"
        spoil(x)
        return stamp(returned, text)

    function.__annotations__ = {"x": given, "return": returned}
    function.__name__ = function.__qualname__ = name
    return function


def spoil(value: Any) -> None:
    """Change an object and all that it holds, as far as it lets one."""
    names = attributes(type(value))
    held = [getattr(value, key) for key in names]
    if isinstance(value, list | tuple | set | frozenset | dict):
        held += value.values() if isinstance(value, dict) else value
    for part in held:
        spoil(part)
    for key in names:
        try:
            setattr(value, key, "spoilt")
        except (AttributeError, TypeError, ValueError):
            break  # it is frozen
    if isinstance(value, list | set | dict):
        value.clear()


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
        deeper = {key: hint for key, hint in held.items() if set(classes(hint)) - {*SCALARS, tuple}}
        if not held:
            break
        name = dice.pick(deeper if deeper and dice.chance(60) else held)
        current = dice.pick(met_types(there, held[name]))
        path.append(Place(name, held[name], current))
    return head, path


def _above(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if not is_machinery(base)]


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


def _paths(there: list[type], head: type) -> list[tuple[type, list[Place]]]:
    """The first paths of an event type, the short ones first."""
    found: list[tuple[type, list[Place]]] = [(head, [])]
    for _, path in found:
        current = path[-1].met if path else head
        for key, hint in attributes(current).items() if len(path) < 4 else ():
            for met in met_types(there, hint):
                if len(found) < 200 and met not in [head, *(place.met for place in path)]:
                    found.append((head, [*path, Place(key, hint, met)]))
    return found[1:]


def are_few(there: list[type], heads: list[type]) -> bool:
    """Whether events of some types have a number of paths that can be looked at one by one."""
    found = [(head,) for head in heads]
    for path in found:
        for hint in attributes(path[-1]).values():
            for met in met_types(there, hint):
                if met not in path and attributes(met):
                    found.append((*path, met))
        if len(found) > 60 * len(heads):
            return False
    return True


def _duels(head: type, path: list[Place]) -> Iterator[tuple[str, list[str]]]:
    """Pairs of patterns of which a rare priority chooses one at a path."""
    last, start = path[-1], head.__name__
    met = last.met.__name__
    above = [cls.__name__ for cls in _above(last.met) if cls is not last.met]
    there = ".".join([start, *(place.attribute for place in path[:-1])])
    near = [near_type for near_type in _above(last.met) if longest_chain(last.met, near_type) == 1]
    if len(near) > 1 and head not in near:  # two supertypes that are as near
        yield "P4", [f"{there}.{base.__name__}" for base in near]
    if above:
        yield "P3", [f"{there}.{met}", f"{there}.{above[0]}"]
        if last.met not in classes(last.hint):  # a subtype against the attribute
            yield "P6", [f"{there}.{met}", f"{there}.{last.attribute}"]
        if len(path) > 1:  # and against more levels
            yield "P6", [f"{start}.{met}", f"{there}.{above[0]}"]
    if len(path) > 2:  # an attribute further out against more levels
        levels = [place.met.__name__ for place in path]
        narrowed = f"{path[0].attribute}({levels[0]})"
        yield "P5", [f"{start}.{narrowed}.{met}", ".".join([start, *levels[:2], met])]


class Written(NamedTuple):
    """A pattern, and a path at which it applies."""

    text: str
    pattern: Pattern
    head: type
    path: list[Place]


def _some_patterns(dice: Dice, there: list[type], heads: list[type]) -> list[Written]:
    """Valid patterns that compete at a few paths."""
    found: list[Written] = []
    for _ in range(dice.number(1, 3)):
        head, path = _some_path(dice, there, heads)
        texts = [_some_pattern(dice, head, path) for _ in range(dice.number(1, 4)) if path]
        found += _valid(there, texts, head, path)
    duels: dict[str, list[Any]] = {}
    for head in heads:
        for _, path in _paths(there, head):
            for kind, texts in _duels(head, path):
                duels.setdefault(kind, []).append((texts, head, path))
    for kind in [label for label in sorted(duels) if dice.chance(90 if label == "P4" else 45)]:
        found += _valid(there, *dice.pick(duels[kind]))
    return found


def _valid(there: list[type], texts: list[str], head: type, path: list[Place]) -> list[Written]:
    found = []
    for text in texts:
        try:
            found.append(Written(text, parse(there, text), head, path))
        except Refused:
            continue
    return found


def _needed(world: World, name: str, line: Written) -> list[type]:
    """What the target takes at the path of a pattern, as far as mappings say."""
    table = mappings(world, name, "?") | mappings(world, name, "!")
    target = table.get(line.head, line.head)
    found: list[type] = []
    for place in line.path:
        found = classes(attributes(target).get(place.attribute, Any))
        wanted = (table.get(place.met), place.met)
        target = next((candidate for candidate in found if candidate in wanted), NONE)
    return found


def _some_rule(dice: Dice, world: World, name: str, number: int, line: Written) -> tuple[str, Any]:
    """A function for a pattern; most return what the target takes."""
    if dice.chance(8):
        return line.text, "-"
    pattern = line.pattern
    given = pattern.steps[-1].types if pattern.steps else frozenset([pattern.head])
    ordered = sorted(given, key=lambda cls: cls.__name__)
    needed = _needed(world, name, line) or ordered
    if dice.chance(10) or tuple in (*given, *needed):  # nobody says how long a new one would be
        return line.text, identity
    returned = dice.pick(needed if dice.chance(85) else ordered)
    takes = typing.Union[tuple(ordered)]  # noqa: UP007
    return line.text, tagged(f"f{number}", takes, returned)


def _some_wholes(dice: Dice, lines: list[tuple[type, type, str]]) -> list[tuple[type, Any]]:
    """Functions of whole events: they take the source; a few are wrong, and want the target."""
    found = []
    for number, (source, target, _) in enumerate(lines):
        if dice.chance(10):
            takes = source if dice.chance(90) else target
            found.append((source, tagged(f"w{number}", takes, target)))
    return found


def _some_mappings(dice: Dice, partners: dict[type, type]) -> list[tuple[type, type, str]]:
    found = []
    for root, local in partners.items():
        found += [(root, local, "?")] if dice.chance(97) else []
        found += [(local, root, "!")] if dice.chance(85) else []
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A world of up to three contexts, the last one with two parents."""
    dice = Dice(draw)
    roots = root_types(dice)
    assume(are_few(roots, roots))
    world, held, numbers = World(roots, {}), {}, itertools.count()
    for name, letter in (("one", "L"), ("two", "M"), ("both", "N"))[: dice.number(1, 3)]:
        parents = (
            list(world.contexts) if name == "both" else list(world.contexts)[: dice.number(0, 1)]
        )
        mapped = [cls for parent in parents for cls in mappings(world, parent, "?")]
        free = [cls for cls in roots if cls not in mapped or dice.chance(15)]
        partners = local_types(dice, letter, free)
        on_both_sides = [cls for cls in free if cls not in partners and dice.chance(15)]
        partners |= {cls: cls for cls in on_both_sides}
        data = ContextData(dice.shuffled(parents), list(partners.values()))
        world.contexts[name] = data
        data.mappings = _some_mappings(dice, partners)
        data.wholes = _some_wholes(dice, data.mappings)
        assume(are_few(known(world, name), roots + data.types))
        heads = list(dict.fromkeys([*partners, *partners.values()])) or roots
        data.rules = [
            _some_rule(dice, world, name, next(numbers), line)
            for line in _some_patterns(dice, known(world, name), heads)
        ]
        data.rules += _again(dice, world, name, next(numbers))
        held[name] = data.types + [cls for parent in parents for cls in held[parent]]
    return Case(world, held, _strangers(dice, roots))


def _again(dice: Dice, world: World, name: str, number: int) -> list[tuple[str, Any]]:
    """A pattern of another context: disabled, kept, or in conflict with what it does there."""
    there = known(world, name)
    rules = [rule for context in world.contexts.values() for rule in context.rules]
    lines = [rule for rule in rules if rule[1] != "-"]
    found = []
    for text, function in lines if dice.chance(40) else ():
        if callable(function) and function is not identity and dice.chance(30):
            hints = function.__annotations__
            other = tagged(f"g{number}", hints["x"], hints["return"])
            for line in _valid(there, [text], NONE, []):
                found.append((line.text, dice.pick(["-", identity, other, other])))
    return found


@st.composite
def round_trips(draw: st.DrawFn) -> Case:
    """One context whose types mirror the root's, with rules that undo each other."""
    dice = Dice(draw)
    roots = root_types(dice)
    assume(are_few(roots, roots))
    partners: dict[type, type] = {}
    for root in roots:
        bases = tuple(partners[base] for base in root.__bases__ if base in partners)
        own = {key: Field(attributes(root)[key]) for key in root.__annotations__}
        partners[root] = make_class(f"L{root.__name__[1:]}", "mutable", bases, own)
    for cls in partners.values():
        for key, hint in cls.__annotations__.items():
            cls.__annotations__[key] = mirrored(hint, lambda one: partners.get(one, one))
    attributes.cache_clear()
    lines = [line for root, local in partners.items() for line in _both(root, local)]
    data = ContextData([], list(partners.values()), dice.shuffled(lines))
    world = World(roots, {"one": data})
    for number, line in enumerate(_some_patterns(dice, known(world, "one"), roots)):
        text, pattern = line.text, line.pattern
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
    """Subclasses that no context knows, some with attributes that a check would not let pass."""
    open_ones = [cls for cls in roots if dataclasses.is_dataclass(cls)]
    found: list[type] = []
    for number, cls in enumerate(open_one for open_one in open_ones if dice.chance(40)):
        kind = "frozen" if cls.__dataclass_params__.frozen else "mutable"  # type: ignore[attr-defined]
        hint: Any = dice.pick([int, str, *open_ones])
        names = dice.pick([[], ["strange"], ["extra"], ["x", "strange"]])
        fields = {key: Field(hint) for key in names if key not in attributes(cls)}
        base = dice.pick([cls, cls, *[subtype for subtype in found if cls in subtype.__mro__]])
        found.append(make_class(f"X{number}", kind, (base,), fields))
    return found
