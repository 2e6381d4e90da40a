"""Which objects may be shared: those that nobody can change, which a slow walk finds by trying."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import gc
import uuid
import weakref
from dataclasses import dataclass, make_dataclass
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polycast.errors import NotSerialisableError
from polycast.events import MSGPACK
from polycast.events.isolation import Copies, copied, copier, is_fixed, snapshot
from polycast.typesystem import Registry


class Color(enum.Enum):
    RED = 1


@dataclass
class Open:
    x: Any
    y: Any = None


@dataclass(slots=True)
class OpenSlots:
    x: Any
    y: Any = None


@dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any = None


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    x: Any
    y: Any = None


@dataclass(frozen=True)
class FrozenBelow(Frozen):
    z: Any = ()


class Inherits(Frozen):
    """Not decorated itself: its objects take attributes that the class above does not know."""


@attrs.define
class Attrs:
    x: Any
    y: Any = None


@attrs.frozen
class AttrsFrozen:
    x: Any
    y: Any = None


@attrs.frozen(slots=False)
class AttrsFrozenDict:
    x: Any
    y: Any = None


class Struct(msgspec.Struct):
    x: Any
    y: Any = None


class StructFrozen(msgspec.Struct, frozen=True):
    x: Any
    y: Any = None


class StructFrozenBelow(StructFrozen, frozen=True):
    z: Any = ()


class Model(pydantic.BaseModel):
    x: Any
    y: Any = None


class ModelFrozen(pydantic.BaseModel, frozen=True):
    x: Any
    y: Any = None


class Pair(NamedTuple):
    x: Any
    y: Any = None


class PairBelow(Pair):
    """It has a `__dict__`."""


class PairSlots(Pair):
    __slots__ = ()


class Plain:
    def __init__(self, x: Any, y: Any = None) -> None:
        self.x, self.y = x, y


CLASSES: list[Any] = [
    *(Open, OpenSlots, Frozen, FrozenSlots, FrozenBelow, Inherits, Attrs, AttrsFrozen),
    *(AttrsFrozenDict, Struct, StructFrozen, StructFrozenBelow, Model, ModelFrozen),
    *(Pair, PairBelow, PairSlots, Plain),
]
FROZEN: list[Any] = [
    *(Frozen, FrozenSlots, FrozenBelow, AttrsFrozen, AttrsFrozenDict, StructFrozen),
    *(StructFrozenBelow, ModelFrozen, Pair, PairSlots),
]


def can_be_changed(value: Any) -> bool:
    """Whether anything in a value can be set: slow, and by trying."""
    if isinstance(value, list | dict | set | bytearray | collections.deque):
        return True
    if isinstance(value, enum.Enum):
        return False
    names = [each for each in ("x", "y", "z") if hasattr(value, each)]
    if any(_can_be_set(value, name) for name in (*names, "never_heard_of")):
        return True
    held = list(value) if isinstance(value, tuple | frozenset) else []
    return any(map(can_be_changed, [*held, *(getattr(value, name) for name in names)]))


def _can_be_set(value: Any, name: str) -> bool:
    is_new = not hasattr(value, name)
    try:
        setattr(value, name, getattr(value, name, None))
    except (AttributeError, TypeError, ValueError):
        return False
    if is_new:
        delattr(value, name)
    return True


scalars = st.sampled_from(
    [
        *(None, 1, 1.5, "x", b"x", True, 1j, range(3), decimal.Decimal(1), uuid.UUID(int=1)),
        *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        *(datetime.timedelta(1), Color.RED, frozenset({1, "x"}), ()),
    ]
)
open_containers = st.builds(lambda make: make(), st.sampled_from([list, dict, set, bytearray]))


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.builds(lambda cls, x, y: cls(x=x, y=y), st.sampled_from(CLASSES), inner, inner)
    # Most classes are mutable, and one of those is enough: else little would be found fixed.
    frozen = st.builds(lambda cls, x, y: cls(x=x, y=y), st.sampled_from(FROZEN), inner, inner)
    tuples = st.lists(inner, max_size=3).map(tuple)
    return frozen | frozen | tuples | tuples | objects


values = st.recursive(scalars | scalars | scalars | open_containers, _grown, max_leaves=12)


@settings(max_examples=400)
@given(values)
def test_a_value_is_fixed_exactly_if_nothing_in_it_can_be_set(value: Any) -> None:
    assert is_fixed(value) == (not can_be_changed(value))


@given(values)
def test_a_copy_is_equal_and_shares_only_what_is_fixed(value: Any) -> None:
    copy = copied(value)
    assert (copy is value) == is_fixed(value)
    make = copier(value)
    assert (make is None) == is_fixed(value)


@pytest.mark.parametrize("cls", FROZEN, ids=lambda cls: cls.__name__)
def test_a_frozen_class_is_as_fixed_as_what_it_holds(cls: Any) -> None:
    assert is_fixed(cls(x=1, y=("a", Frozen(2))))
    assert not is_fixed(cls(x=1, y=[]))
    assert not is_fixed(cls(x=1, y=("a", Frozen([]))))
    assert not is_fixed(cls(x=Inherits(1)))


# -- what looks frozen -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Computing:
    x: int

    @functools.cached_property
    def later(self) -> list[int]:
        return [self.x]


@attrs.frozen
class AttrsComputing:
    x: int

    @functools.cached_property
    def later(self) -> list[int]:
        return [self.x]


class Private(pydantic.BaseModel, frozen=True):
    x: int
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)


class Extra(pydantic.BaseModel, frozen=True, extra="allow"):
    x: int


@dataclass(frozen=True)
class Hidden:
    x: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache", {})


@dataclass(frozen=True)
class Failure(Exception):
    x: int


@dataclass(frozen=True)
class Numbers(list[int]):
    x: int


@dataclass(frozen=True)
class Slotted:
    __slots__ = ("hidden", "x")
    x: int


class Text(str):
    """A string with attributes."""


LOOKS_FROZEN: list[Any] = [
    Computing(1),
    AttrsComputing(1),
    Private(x=1),
    Extra(x=1),
    Hidden(1),
    Failure(1),
    Numbers(1),
    Slotted(1),
    Text("x"),
    StructFrozen(Text("x")),
]


@pytest.mark.parametrize("value", LOOKS_FROZEN, ids=lambda value: type(value).__name__)
def test_what_has_more_than_its_fields_is_not_fixed(value: Any) -> None:
    assert not is_fixed(value)


def test_a_value_in_itself_is_not_fixed() -> None:
    value = Frozen(1)
    object.__setattr__(value, "x", (value,))
    assert not is_fixed(value)


def test_what_is_known_of_a_class_does_not_keep_it() -> None:
    cls = make_dataclass("Passing", [("x", int)], frozen=True)
    assert is_fixed(cls(x=1))
    known = weakref.ref(cls)
    del cls
    gc.collect()
    assert known() is None


# -- copies ----------------------------------------------------------------------------------------


def test_a_snapshot_is_of_when_it_was_taken() -> None:
    event = Open([1], {"a": 2})
    make = snapshot(event, registry=Registry())
    event.x.append(2)
    assert make is not None
    one, other = make(), make()
    assert one == other == Open([1], {"a": 2})
    assert one is not other


def test_a_snapshot_of_what_nobody_can_change_is_not_needed() -> None:
    assert snapshot(Frozen(1), registry=Registry()) is None


def test_a_snapshot_of_what_does_not_go_over_a_wire_is_refused() -> None:
    with pytest.raises(NotSerialisableError, match=r"Open\.x"):
        snapshot(Open(object()), registry=Registry())


def test_all_who_take_get_objects_of_their_own() -> None:
    registry, first = Registry(), Open([0])
    take = Copies([first], MSGPACK.decode, MSGPACK.encode(first, registry=registry), registry)
    taken = [take() for _ in range(3)]
    assert taken[0] is first
    assert taken == [Open([0])] * 3
    assert len({id(each.x) for each in taken}) == 3
