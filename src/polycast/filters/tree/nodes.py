"""The expression tree of a filter: immutable, comparable, the same for every way of writing it.

A tree means what the Python expression means. Equal trees are equal and hash alike; a constant
carries its type, so `1`, `True` and `1.0` are three constants. What the elements of `any(...)` and
`all(...)` are called is not part of a tree: variables count the quantifiers around them.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import unicodedata
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from keyword import iskeyword
from operator import attrgetter
from typing import Any

from polycast.errors import FilterError

SCALARS = (
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    datetime.date,
    datetime.time,
    datetime.datetime,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


ZONED = (datetime.datetime, datetime.time)
ZONES = (type(None), datetime.timezone, zoneinfo.ZoneInfo)


def constant_value(value: object) -> object:
    """The value as a constant, containers copied; TypeError if it is no plain data."""
    kind = type(value)
    if kind in ZONED and type(value.tzinfo) not in ZONES:  # type: ignore[attr-defined]
        raise TypeError(f"the zone {value.tzinfo!r} is no constant")  # type: ignore[attr-defined]
    if kind in SCALARS or isinstance(value, enum.Enum):
        return value
    if kind in (tuple, list, set, frozenset):
        elements: list[Any] = [constant_value(element) for element in value]  # type: ignore[attr-defined]
        if any(type(element) is float and element != element for element in elements):
            raise TypeError("a NaN in a container is found by its identity")
        return kind(elements)
    raise TypeError(f"a {kind.__name__} is no constant")


# -- trees -----------------------------------------------------------------------------------------


NAMES_KEPT = 4_096


class Node:
    """An expression over one event."""

    __slots__ = ()

    def children(self) -> tuple[Node, ...]:
        """The expressions right below."""
        return _CHILDREN[type(self)](self)


def walk(node: Node) -> Iterator[Node]:
    """A tree and everything below it."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(node.children()))


def everything(tree: Node) -> list[Node]:
    """A tree and all below it, one level after the other."""
    found = [tree]
    for node in found:  # while it grows
        kind = type(node)
        if kind not in LEAVES:
            found += _CHILDREN[kind](node)
    return found


def depth(tree: Node) -> int:
    """How many expressions stand in each other."""
    deepest, level = 0, [tree]
    while level:
        deepest += 1
        level = [below for node in level for below in node.children()]
    return deepest


@lru_cache(NAMES_KEPT)
def _check_name(name: str) -> None:
    """Names stand in generated code, so they must be names."""
    usual = name.isascii() or unicodedata.normalize("NFKC", name) == name
    if not usual or not name.isidentifier() or iskeyword(name):
        raise FilterError(f"{name!r} is not the name of an attribute or method")


def typed_key(value: object) -> object:
    """A key that is equal for two constants if and only if they are the same constant."""
    kind = type(value)
    if kind in _SAME_IF_EQUAL:
        return (kind, value)
    if isinstance(value, (tuple, list)):
        return (kind, tuple(typed_key(element) for element in value))
    if isinstance(value, (set, frozenset)):
        return (kind, frozenset(typed_key(element) for element in value))
    if isinstance(value, enum.Enum):
        return (kind, id(value))  # members are singletons, and may say that they are equal
    if isinstance(value, float):
        return (kind, value.hex() if value == value else "nan")  # 0.0 is not -0.0
    if isinstance(value, decimal.Decimal):
        return (kind, value.as_tuple())  # 1.50 is not 1.5, and a NaN is itself
    if isinstance(value, datetime.datetime | datetime.time):
        zone = value.tzinfo
        fixed = zone.utcoffset(None) if isinstance(zone, datetime.timezone) else repr(zone)
        return (kind, value.replace(tzinfo=None), value.fold, fixed)
    return (kind, value)


def _hash_of(value: object) -> int:
    """A hash that senders of constants cannot foresee, so that they cannot choose collisions."""
    kind = type(value)
    if kind in _KEYED:
        return hash(value)
    if kind in _NUMBERS:
        return hash(f"{value:x}" if kind is int else repr(value))
    if isinstance(value, (tuple, list)):
        return hash(tuple(map(_hash_of, value)))
    if isinstance(value, (set, frozenset)):
        return hash(frozenset(map(_hash_of, value)))
    try:
        return hash(typed_key(value))
    except TypeError:
        return hash(kind)


_KEYED = frozenset({str, bytes, bool, type(None), datetime.date})  # by a secret of the process
_NUMBERS = frozenset({int, float, datetime.timedelta, decimal.Decimal, uuid.UUID})
_SAME_IF_EQUAL = frozenset({int, str, bool, bytes, type(None), datetime.date, datetime.timedelta})


_EVENTS: dict[type[Event], Event] = {}


@dataclass(frozen=True, slots=True)
class Event(Node):
    """The event itself: a singleton, because there are very many trees."""

    def __new__(cls) -> Event:
        """The one."""
        return _EVENTS.get(cls) or _EVENTS.setdefault(cls, object.__new__(cls))


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """The element of an enclosing `any` or `all`; 0 is the innermost."""

    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """A value that was known when the filter was made."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and typed_key(self.value) == typed_key(other.value)

    def __hash__(self) -> int:
        return _hash_of(self.value)


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`of.name`."""

    of: Node
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Attribute or self.name != other.name:
            return False
        return self.of is other.of or self.of == other.of

    def __hash__(self) -> int:
        return hash(self.name)  # tells most apart, and is known already


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`of.method(*arguments)`: filters may call getters."""

    of: Node
    method: str
    arguments: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.method)


@dataclass(frozen=True, slots=True)
class Reach(Node):
    """`of.name`, called if it is a method: one step of an accessor (DAC 4.2.2)."""

    of: Node
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name)


@dataclass(frozen=True, slots=True)
class Function(Node):
    """A built-in function: len, abs, min, max."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Applied(Node):
    """A function of another filter language: `etcl.less(a, b)`."""

    language: str
    name: str
    arguments: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.language)
        _check_name(self.name)


@dataclass(frozen=True, slots=True)
class Item(Node):
    """`of[key]`."""

    of: Node
    key: Node


@dataclass(frozen=True, slots=True)
class Display(Node):
    """A tuple, list or set with parts that are not constant."""

    kind: type
    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`first < second <= third`: each part is evaluated once, and it stops early."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class And(Node):
    """The first part that is not true, else the last."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or(Node):
    """The first part that is true, else the last."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not(Node):
    """True if the operand is not true; what fails still fails."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`left + right` and the other binary operators."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Sign(Node):
    """`-x`, `+x`, `~x`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class InstanceOf(Node):
    """`isinstance(of, classes)`."""

    of: Node
    classes: tuple[type, ...]


@dataclass(frozen=True, slots=True)
class Quantified(Node):
    """`any(each for x in over if conditions)`, or `all`."""

    kind: str
    over: Node
    conditions: tuple[Node, ...]
    each: Node


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Node):
    """A part that could not be looked into: a callable of the event, and why."""

    function: Callable[..., object]
    why: str
    key: Any = None  # what makes it the same as another
    topical: bool = False  # it takes the topic, too

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self._identity() == other._identity()

    def __hash__(self) -> int:
        try:
            return hash(self._identity())
        except TypeError:
            return hash(self.why)

    def on(self, topic: str | None) -> Opaque:
        """The same part with the topic bound."""
        if not self.topical:
            return self
        return Opaque(partial(_asked, self.function, topic), self.why, (self._identity(), topic))

    def _identity(self) -> object:
        return self.key if self.key is not None else id(self.function)


def _asked(function: Callable[..., object], topic: str | None, event: Any) -> object:
    return function(event, topic)


# -- what is right below ---------------------------------------------------------------------------


def _none(_: Any) -> tuple[Node, ...]:
    return ()


def _compared(node: Compare) -> tuple[Node, ...]:
    rest = node.rest
    if len(rest) == 1:  # as most
        return node.first, rest[0][1]
    return (node.first, *[operand for _, operand in rest])


# In the order in which they are written. A constant tuple is a value, and so is the key of what is
# opaque.
_CHILDREN: dict[type[Node], Callable[[Any], tuple[Node, ...]]] = {
    Event: _none,
    Variable: _none,
    Constant: _none,
    Opaque: _none,
    Attribute: lambda node: (node.of,),
    Reach: lambda node: (node.of,),
    InstanceOf: lambda node: (node.of,),
    Not: lambda node: (node.operand,),
    Sign: lambda node: (node.operand,),
    Call: lambda node: (node.of, *node.arguments),
    Function: attrgetter("arguments"),
    Applied: attrgetter("arguments"),
    Item: attrgetter("of", "key"),
    Arithmetic: attrgetter("left", "right"),
    Display: attrgetter("elements"),
    Compare: _compared,
    And: attrgetter("parts"),
    Or: attrgetter("parts"),
    Quantified: lambda node: (node.over, *node.conditions, node.each),
}
LEAVES = frozenset(kind for kind, below in _CHILDREN.items() if below is _none)
