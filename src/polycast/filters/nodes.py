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
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from polycast.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "And",
    "Applied",
    "Arithmetic",
    "Attribute",
    "Call",
    "Compare",
    "Constant",
    "Display",
    "Event",
    "Function",
    "InstanceOf",
    "Item",
    "Node",
    "Not",
    "Opaque",
    "Or",
    "Quantified",
    "Reach",
    "Sign",
    "Variable",
    "depth",
    "typed_key",
    "walk",
]


class Node:
    """An expression over one event."""

    __slots__ = ()

    def children(self) -> tuple[Node, ...]:
        """The expressions right below."""
        found: list[Node] = []
        names: tuple[str, ...] = self.__slots__  # of a dataclass: its fields
        for name in names:
            _collect(getattr(self, name), found)
        return tuple(found)


def _collect(value: object, found: list[Node]) -> None:
    if isinstance(value, Node):
        found.append(value)
    elif type(value) is tuple:
        for each in value:
            _collect(each, found)


def walk(node: Node) -> Iterator[Node]:
    """A tree and everything below it."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(node.children()))


def depth(node: Node) -> int:
    """How many expressions stand in each other."""
    deepest, left = 0, [(node, 1)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        left += [(child, level + 1) for child in node.children()]
    return deepest


def _check_name(name: str) -> None:
    """Names stand in generated code, so they must be names."""
    usual = name.isascii() or unicodedata.normalize("NFKC", name) == name
    if not usual or not name.isidentifier() or iskeyword(name):
        raise FilterError(f"{name!r} is not the name of an attribute or method")


def typed_key(value: object) -> object:
    """What two constants have in common if and only if they are the same constant."""
    kind = type(value)
    if kind in _SAME_IF_EQUAL:
        return (kind, value)
    if isinstance(value, (tuple, list)):
        return (kind, tuple(typed_key(each) for each in value))
    if isinstance(value, (set, frozenset)):
        return (kind, frozenset(typed_key(each) for each in value))
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


_SAME_IF_EQUAL = frozenset({int, str, bool, bytes, type(None), datetime.date, datetime.timedelta})


@dataclass(frozen=True, slots=True)
class Event(Node):
    """The event itself."""


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """The element of an enclosing `any` or `all`; 0 is the innermost."""

    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """A value that was known when the filter was made."""

    value: Any

    def children(self) -> tuple[Node, ...]:
        """None: a constant tuple is a value."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and typed_key(self.value) == typed_key(other.value)

    def __hash__(self) -> int:
        try:
            return hash(typed_key(self.value))
        except TypeError:
            return hash(type(self.value))


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`of.name`."""

    of: Node
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name)


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
    """A function of another filter language, by its name in `vocabularies`: `etcl.less(a, b)`."""

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
        """The same for events of one topic."""
        if not self.topical:
            return self
        return Opaque(partial(_asked, self.function, topic), self.why, (self._identity(), topic))

    def children(self) -> tuple[Node, ...]:
        """None: its key is its own affair."""
        return ()

    def _identity(self) -> object:
        return self.key if self.key is not None else id(self.function)


def _asked(function: Callable[..., object], topic: str | None, event: Any) -> object:
    return function(event, topic)
