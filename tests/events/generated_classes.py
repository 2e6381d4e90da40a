"""Strategies for event classes of every kind, and for objects of them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from typing import Any

import attrs
import msgspec
import pydantic
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

slow_to_make = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

KINDS = ("dataclass", "slotted", "attrs", "struct", "pydantic", "class")


class Color(enum.Enum):
    RED = 1
    MIXED = (1, 2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Text(str):
    """A string that is not just a string."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Field:
    """An annotation and what values a field with it gets."""

    hint: Any
    values: st.SearchStrategy[Any]


@dataclasses.dataclass(frozen=True)
class Made:
    """A generated class, and a strategy for its objects."""

    cls: Any
    fields: dict[str, Field]
    objects: st.SearchStrategy[Any]


_offsets = st.integers(-86_399, 86_399).map(
    lambda seconds: datetime.timezone(datetime.timedelta(seconds=seconds))
)
_text = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = [
    Field(type(None), st.none()),
    Field(bool, st.booleans()),
    Field(int, st.integers() | st.integers(-(2**70), 2**70)),
    Field(float, st.floats()),
    Field(str, _text | st.sampled_from(["$", "", "null"])),
    Field(bytes, st.binary(max_size=8)),
    Field(datetime.datetime, st.datetimes() | st.datetimes(timezones=_offsets)),
    Field(datetime.date, st.dates()),
    Field(datetime.time, st.times()),
    Field(datetime.timedelta, st.timedeltas()),
    Field(decimal.Decimal, st.decimals(allow_nan=False)),
    Field(uuid.UUID, st.uuids()),
    Field(Color, st.sampled_from(Color)),
    Field(Level, st.sampled_from(Level)),
    Field(Right, st.sampled_from([Right.READ, Right.READ | Right.WRITE, Right(0)])),
    Field(Text, _text.map(Text)),
]
_hashable = [field for field in SCALARS if field.hint in (int, str, uuid.UUID, Color)]


def _containers(inner: Field, key: Field) -> list[Field]:
    some = st.lists(inner.values, max_size=3)
    keys = st.lists(key.values, max_size=3)
    return [
        Field(list[inner.hint], some),
        Field(tuple[inner.hint, ...], some.map(tuple)),
        Field(tuple[inner.hint, key.hint], st.tuples(inner.values, key.values)),
        Field(set[key.hint], keys.map(set)),
        Field(frozenset[key.hint], keys.map(frozenset)),
        Field(dict[key.hint, inner.hint], st.dictionaries(key.values, inner.values, max_size=3)),
        Field(dict[str, inner.hint], st.dictionaries(_text, inner.values, max_size=3)),
        Field(inner.hint | None, inner.values | st.none()),
        Field(inner.hint | key.hint, inner.values | key.values),
        Field(list, some),
        Field(Any, inner.values | some),
    ]


@st.composite
def fields(draw: st.DrawFn, earlier: list[Made]) -> Field:
    """A field: a built-in type, a container, an earlier class, or a value of the wrong type."""
    field = draw(st.sampled_from(SCALARS))
    if earlier and draw(st.integers(0, 2)) == 0:
        declared, held = draw(st.sampled_from(earlier)), draw(st.sampled_from(earlier))
        # What is held may be of a class derived from the declared one, or of another.
        field = Field(declared.cls, declared.objects | held.objects)
    if draw(st.booleans()):
        field = draw(st.sampled_from(_containers(field, draw(st.sampled_from(_hashable)))))
    if draw(st.integers(0, 5)) == 0:
        field = Field(field.hint, draw(st.sampled_from(SCALARS)).values)
    return field


@st.composite
def classes(draw: st.DrawFn, *, most: int = 3) -> list[Made]:
    """Some classes, each of which may derive from and mention earlier ones."""
    found: list[Made] = []
    for number in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(KINDS))
        parents = [made for made in found if made.cls.kind == kind]
        parent = draw(st.sampled_from([None, *parents]))
        own = {f"f{number}_{at}": draw(fields(found)) for at in range(draw(st.integers(0, 4)))}
        found.append(_made(kind, f"C{number}", own, parent))
    return found


@st.composite
def events(draw: st.DrawFn) -> Any:
    """An object of the last of some generated classes."""
    return draw(draw(classes())[-1].objects)


def _made(kind: str, name: str, own: dict[str, Field], parent: Made | None) -> Made:
    space = {"__module__": "generated", "kind": kind}
    bases = (parent.cls,) if parent else ()
    cls = _MAKERS[kind](name, {key: field.hint for key, field in own.items()}, bases, space)
    everything = (parent.fields if parent else {}) | own
    values = st.fixed_dictionaries({key: field.values for key, field in everything.items()})
    return Made(cls, everything, values.map(lambda held: construct(cls, held)))


def construct(cls: Any, values: dict[str, Any]) -> Any:
    """An object with these values, whatever a library would say of their types."""
    if cls.kind == "pydantic":
        return cls.model_construct(**values)
    if cls.kind != "class":
        return cls(**values)
    made = cls()
    made.__dict__.update(values)
    return made


def _as_dataclass(name: str, hints: Any, bases: Any, space: Any) -> Any:
    cls = dataclasses.make_dataclass(name, hints.items(), bases=bases, namespace=space)
    cls.__module__ = space["__module__"]  # since 3.12 it is the caller's, whatever the namespace
    return cls


def _as_slotted(name: str, hints: Any, bases: Any, space: Any) -> Any:
    cls = dataclasses.make_dataclass(
        name, hints.items(), bases=bases, namespace=space, slots=True, frozen=True
    )
    cls.__module__ = space["__module__"]
    return cls


def _as_attrs(name: str, hints: Any, bases: Any, space: Any) -> Any:
    parts = {key: attrs.field(type=hint) for key, hint in hints.items()}
    cls = attrs.make_class(name, parts, bases=bases or (object,), class_body=dict(space))
    cls.__module__ = space["__module__"]
    return cls


def _as_struct(name: str, hints: Any, bases: Any, space: Any) -> Any:
    body = {"kind": space["kind"]}
    return msgspec.defstruct(
        name, list(hints.items()), bases=bases or None, module="generated", namespace=body
    )


def _as_pydantic(name: str, hints: Any, bases: Any, space: Any) -> Any:
    root = pydantic.create_model("Root", __config__={"arbitrary_types_allowed": True})
    root.kind = "pydantic"  # type: ignore[attr-defined]
    root.__module__ = "generated"
    parts: dict[str, Any] = {key: (hint, ...) for key, hint in hints.items()}
    return pydantic.create_model(name, __base__=bases or root, __module__="generated", **parts)


def _as_class(name: str, hints: Any, bases: Any, space: Any) -> Any:
    return type(name, bases, {**space, "__annotations__": dict(hints)})


_MAKERS = {
    "dataclass": _as_dataclass,
    "slotted": _as_slotted,
    "attrs": _as_attrs,
    "struct": _as_struct,
    "pydantic": _as_pydantic,
    "class": _as_class,
}


def attributes(value: Any) -> dict[str, Any] | None:
    """The fields of an object of a generated class, or of one made from its description."""
    names = [name for name in dir(type(value)) if name.startswith("f")]
    names += [name for name in getattr(value, "__dict__", ()) if name.startswith("f")]
    if type(value).__module__ != "generated":
        return None
    pattern = {name for name in names if name[1:].replace("_", "").isdigit()}
    return {name: getattr(value, name) for name in sorted(pattern)}


def same(one: Any, other: Any, *, classes: bool = True) -> bool:
    """Whether two values are alike at any depth; without `classes`, generated ones may differ."""
    held, found = attributes(one), attributes(other)
    if held is not None and found is not None:
        if _title(one, classes=classes) != _title(other, classes=classes):
            return False
        return held.keys() == found.keys() and all(
            same(held[key], found[key], classes=classes) for key in held
        )
    if type(one) is not type(other):
        return False
    return _same_built_in(one, other, classes=classes)


def _title(value: Any, *, classes: bool) -> Any:
    return type(value) if classes else type(value).__name__


def _same_built_in(one: Any, other: Any, *, classes: bool) -> bool:
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or repr(one) == repr(other)
    if isinstance(one, list | tuple):
        pairs = list(zip(one, other, strict=False))
        return len(one) == len(other) and all(same(*pair, classes=classes) for pair in pairs)
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()), classes=classes)
    if isinstance(one, set | frozenset):
        return len(one) == len(other) and {str(item) for item in one} == {str(i) for i in other}
    if isinstance(one, datetime.datetime | datetime.time):
        return bool(one == other and one.utcoffset() == other.utcoffset())
    if isinstance(one, decimal.Decimal):
        return one.as_tuple() == other.as_tuple()
    return bool(one == other)
