"""Random types: classes of all libraries, with several supertypes, recursion and containers."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
from hypothesis import strategies as st
from page_types import NONE, alternatives, attributes, class_of, element, is_class

from polycast.typesystem.attributes import declared_defaults

SCALARS: list[type] = [int, str, float]
NO_DEFAULT = dataclasses.MISSING
DATACLASSES = ("mutable", "frozen", "slots", "places", "own")
OTHERS = ("struct", "frozen struct", "attrs", "mutable attrs", "pydantic", "namedtuple", "plain")
APART = tuple(kind for kind in OTHERS if kind != "pydantic")
PLAIN = ("plain init", "plain odd init", "plain slots")


class Field(NamedTuple):
    """An attribute of a class to be made."""

    hint: Any
    default: Any = NO_DEFAULT


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


def written(cls: type) -> str:
    """A class in one line, for the report of a failure."""
    names = ", ".join(base.__name__ for base in cls.__bases__)
    defaults = declared_defaults(cls)
    held = [f"{k}: {v}{' = ...' if defaults[k] else ''}" for k, v in attributes(cls).items()]
    text = f"{cls.__name__}({names}): {'; '.join(held)}  # {getattr(cls, 'made_as', '')}"
    return text.replace(f"{__name__}.", "")


def make_class(name: str, kind: str, bases: tuple[type, ...], fields: dict[str, Field]) -> Any:
    """A class of some kind; recursive annotations and supertypes work for dataclasses only."""
    if kind in DATACLASSES:
        made = _dataclass(name, kind, bases, fields)
    else:
        ordered = sorted(fields.items(), key=lambda field: field[1].default is not NO_DEFAULT)
        makers = {"struct": _struct, "attrs": _attrs}
        maker = makers.get(kind.rpartition(" ")[2], globals().get(f"_{kind}", _plain))
        made = maker(name, kind, dict(ordered))
    made.__module__ = __name__
    return made


def _space(name: str, fields: dict[str, Field]) -> dict[str, Any]:
    hints = {key: field.hint for key, field in fields.items()}
    return {"__module__": __name__, "__qualname__": name, "__annotations__": hints}


def _given(fields: dict[str, Field]) -> Iterator[tuple[str, Any, bool]]:
    """The defaults, and whether each is what makes one."""
    for key, field in fields.items():
        if field.default is not NO_DEFAULT:
            yield key, field.default, isinstance(field.default, type)


def _dataclass(name: str, kind: str, bases: tuple[type, ...], fields: dict[str, Field]) -> type:
    space = _space(name, fields)
    for key, default, is_factory in _given(fields):
        given = {"default_factory": default} if is_factory else {"default": default}
        own = kind == "own" and fields[key].hint in SCALARS
        space[key] = dataclasses.field(**given, init=not own)
    is_frozen = kind in ("frozen", "slots") or any(
        base.__dataclass_params__.frozen for base in bases
    )
    hashable = is_frozen and all(_is_hashable(field.hint) for field in fields.values())
    hashable = hashable and all(base.__dataclass_params__.eq for base in bases)
    return dataclasses.dataclass(  # type: ignore[call-overload,no-any-return]
        type(name, bases, space),
        frozen=is_frozen,
        eq=hashable,
        kw_only=kind != "places" or bool(bases) or any(True for _ in _given(fields)),
        slots=kind == "slots" and not bases,
    )


def _is_hashable(hint: Any, *, seen: tuple[type, ...] = ()) -> bool:
    """Whether the values of an annotation can be in a set; it is known of the classes seen."""
    if isinstance(hint, tuple):
        return False  # a class that is not made yet
    for part in alternatives(hint):
        inner = element(part)
        if part is Any or (inner is not None and inner[0] not in (tuple, frozenset)):
            return False
        if inner is not None and not _is_hashable(inner[1], seen=seen):
            return False
        if is_class(part) and part not in seen:
            held = attributes(part).values()
            if part.__hash__ is None or not all(_is_hashable(h, seen=(*seen, part)) for h in held):
                return False
    return True


def _struct(name: str, kind: str, fields: dict[str, Field]) -> type:
    lines: list[Any] = []
    for key, field in fields.items():
        if field.default is NO_DEFAULT:
            lines.append((key, field.hint))
        elif isinstance(field.default, type):
            lines.append((key, field.hint, msgspec.field(default_factory=field.default)))
        else:
            lines.append((key, field.hint, field.default))
    frozen = kind.startswith("frozen")
    return msgspec.defstruct(
        name, lines, kw_only=len(name) % 2 == 0, module=__name__, frozen=frozen, eq=False
    )


def _attrs(name: str, kind: str, fields: dict[str, Field]) -> type:
    space = _space(name, fields)
    for place, key in enumerate(fields):
        default = fields[key].default
        given: dict[str, Any] = {}
        if default is not NO_DEFAULT:
            given = {"factory": default} if isinstance(default, type) else {"default": default}
        space[key] = attrs.field(**given, alias=f"{key}_given" if place else None)
    define = attrs.define if kind.startswith("mutable") else attrs.frozen
    return typing.cast("type", define(type(name, (), space), eq=False))


def _pydantic(name: str, kind: str, fields: dict[str, Field]) -> type:
    lines = {}
    for place, (key, field) in enumerate(fields.items()):
        given: dict[str, Any] = {"alias": f"{key}-{kind}"} if place else {}
        if field.default is not NO_DEFAULT:
            word = "default_factory" if isinstance(field.default, type) else "default"
            given[word] = field.default
        lines[key] = (field.hint, pydantic.Field(**given))
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    made = pydantic.create_model(name, __module__=__name__, __config__=config, **lines)  # type: ignore[call-overload]
    return typing.cast("type", made)


def _namedtuple(name: str, kind: str, fields: dict[str, Field]) -> type:
    made: Any = NamedTuple(name, [(key, field.hint) for key, field in fields.items()])  # type: ignore[misc]
    return typing.cast("type", made)


def _plain(name: str, kind: str, fields: dict[str, Field]) -> type:
    space = _space(name, fields)
    if kind == "plain slots":
        space["__slots__"] = tuple(fields)
    else:
        space |= {key: default for key, default, is_factory in _given(fields) if not is_factory}
    if kind == "plain init":
        words = ", ".join(fields)
        lines = "".join(f"\n    self.{key} = {key}" for key in fields) or " pass"
        names: dict[str, Any] = {}
        exec(f"def __init__(self, {words}):{lines}", names)
        space["__init__"] = names["__init__"]
    elif kind == "plain odd init":
        space["__init__"] = _wants_something_else
    return type(name, (), space)


def _wants_something_else(self: Any, /, row: tuple[Any, ...]) -> None:
    raise AssertionError("nobody has a row to give")


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
    if dice.chance(35):
        return _of_scalar(dice)
    if later and dice.chance(25):
        return Field(("later", dice.pick(later), dice.pick(_LATE)), None)
    if not earlier:
        return _of_scalar(dice)
    diamonds = [earlier_type for earlier_type in earlier if len(earlier_type.__bases__) > 1]
    cls: Any = dice.pick([*earlier, *diamonds, *diamonds])
    other = dice.pick([*earlier, *SCALARS])
    shapes: list[Any] = [cls, cls, cls, cls | None, list[cls], tuple[cls, ...], dict[str, cls]]
    shapes += [cls | other, list[cls | None], dict[str, list[cls]], cls | other | None]
    shapes += [list[cls | None] | None, dict[str, tuple[cls | None, ...] | None], list[cls] | cls]
    if _is_hashable(cls):
        shapes += [frozenset[cls], set[cls]]
    hint = dice.pick(shapes)
    return Field(hint, default_of(hint) if dice.chance(30) else NO_DEFAULT)


def _of_scalar(dice: Dice) -> Field:
    cls: Any = dice.pick(SCALARS)
    shapes = [cls, cls, cls, cls | None, list[cls], frozenset[cls], tuple[cls, str], Any]
    hint = dice.pick([*shapes, int | str, dict[str, cls], list[list[cls]]])
    default = cls(7) if hint is cls else default_of(hint)
    return Field(hint, default if dice.chance(30) else NO_DEFAULT)


def default_of(hint: Any) -> Any:
    """A default for an annotation, if a simple one fits."""
    for part in alternatives(hint):
        if part is NONE:
            return None
        if typing.get_origin(part) in (list, dict):
            return typing.get_origin(part)
    return NO_DEFAULT


_LATE: dict[str, Callable[[Any], Any]] = {
    "optional": lambda cls: cls | None,
    "list": lambda cls: list[cls] | None,
    "dict": lambda cls: dict[str, cls] | None,
    "deep": lambda cls: dict[str, list[cls | None]] | None,
}


def _resolve(cls: type, by_name: dict[str, type]) -> None:
    """Put the classes that were made later into the annotations of an earlier one."""
    for key, hint in cls.__annotations__.items():
        if isinstance(hint, tuple):
            cls.__annotations__[key] = _LATE[hint[2]](by_name[hint[1]])


def root_types(dice: Dice) -> list[type]:
    """Some types that contain and extend each other."""
    kinds = dice.pick(
        [("frozen",), ("mutable",), ("frozen", "slots"), ("mutable", "own", "places")]
    )
    names = [f"R{number}" for number in range(dice.number(3, 6))]
    made: dict[str, type] = {}
    family: list[type] = []
    for position, name in enumerate(names):
        is_apart = dice.chance(25)
        kind = dice.pick([*OTHERS, *PLAIN] if is_apart else kinds)
        bases = () if is_apart else some_bases(dice, family)
        taken = {key for base in bases for key in attributes(base)}
        own = [f"{letter}{position}" for letter in "abc"]  # some names are shared, most are not
        free = [f"n{position}", *[dice.pick([key, *"xy"]) for key in own]]
        free = [key for key in dict.fromkeys(free) if key not in taken]
        # Pydantic looks into the classes it holds at once, when annotations may not be whole.
        earlier = [] if kind == "pydantic" else list(made.values())
        fields = {free[0]: Field(dice.pick(SCALARS))}
        for key in free[1 : 1 + dice.number(0, 3)]:
            fields[key] = _some_field(dice, earlier, [] if is_apart else names[position:])
        made[name] = make_class(name, kind, bases, fields)
        family += [] if is_apart else [made[name]]
    for cls in made.values():
        _resolve(cls, made)
    attributes.cache_clear()
    return [*made.values(), *(_diamond(dice, kinds[0]) if dice.chance(50) else [])]


def _diamond(dice: Dice, kind: str) -> list[type]:
    """A type of two others, and an event that holds it or what it extends."""
    kind = "frozen" if kind == "slots" else kind
    one = make_class("R6", kind, (), {"p6": Field(int)})
    two = make_class("R7", kind, (), {"p7": Field(dice.pick(SCALARS))})
    low = make_class("R8", kind, tuple(dice.shuffled([one, two])), {"p8": Field(str)})
    hint: Any = dice.pick([low, one, one | None, list[two], dict[str, one | two]])
    return [one, two, low, make_class("R9", kind, (), {"p9": Field(hint), "q9": Field(int)})]


def some_bases(dice: Dice, family: list[type]) -> tuple[type, ...]:
    """Classes that can be extended together."""
    count = dice.pick([0, 1, 2, 2, 3])
    bases: tuple[type, ...] = ()
    for base in dice.shuffled(family)[:count]:
        clash = any(set(attributes(base)) & set(attributes(other)) for other in bases)
        related = any(base in other.__mro__ or other in base.__mro__ for other in bases)
        bases = bases if clash and not related else (*bases, base)
    return possible(bases)


def possible(bases: tuple[type, ...]) -> tuple[type, ...]:
    """Those bases, or the first of them if Python does not allow them together."""
    try:
        type("Tried", bases, {})
    except TypeError:  # no linear order, or slots that clash
        return bases[:1]
    return bases


def local_types(dice: Dice, letter: str, roots: list[type]) -> dict[type, type]:
    """Partners of some root types: much the same, renamed, with small differences."""
    kinds = dice.pick([("mutable",), ("frozen",), ("mutable", "own"), ("frozen", "slots")])
    partners: dict[type, type] = {}
    for root in [open_root for open_root in roots if dice.chance(75)]:
        bases = possible(tuple(partners[b] for b in root.__bases__ if b in partners))
        bases = tuple(one for one in bases if dataclasses.is_dataclass(one))
        taken = {key for base in bases for key in attributes(base)}
        fields = {key: Field(hint) for key, hint in attributes(root).items() if key not in taken}
        for key in list(fields):
            if dice.chance(2):
                del fields[key]
            elif class_of(fields[key].hint) is tuple and dice.chance(20):
                others = [tuple[float, str], tuple[str, str], tuple[int | str | float, ...]]
                fields[key] = Field(dice.pick(others))
            elif dice.chance(25):
                fields[key] = Field(fields[key].hint, default_of(fields[key].hint))
        if dice.chance(25):
            fields["extra"] = Field(int, 5 if dice.chance(97) else NO_DEFAULT)
        is_apart = not bases and dice.chance(20) and not is_recursive(root)
        kind = dice.pick([*APART, *PLAIN] if is_apart else kinds)
        partners[root] = make_class(f"{letter}{root.__name__[1:]}", kind, bases, fields)

    def partner(cls: type) -> type:
        return partners[cls] if cls in partners and dice.chance(75) else cls

    for cls in partners.values():
        for key, hint in cls.__annotations__.items():
            cls.__annotations__[key] = mirrored(hint, partner)
    attributes.cache_clear()
    return partners


def is_recursive(cls: type) -> bool:
    """Whether an annotation names a class that is made later."""
    return any(isinstance(hint, tuple) for hint in vars(cls).get("__annotations__", {}).values())
