"""Sizes and steps as sums over what a filter looks at: the event, and elements of quantifiers.

A source is a number: 0 is the event, 1 the element of the outermost `any` or `all`, and so on. The
elements of a list are together no larger than the list. So what is done once for each byte of an
element is done once for each byte of the list; what is done to the whole event for each element is
not, and that is where a filter becomes more than linear.
"""

from __future__ import annotations

import datetime
import decimal
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polycast.typesystem.type_expressions import TypeExpression

EVENT = 0
Terms = dict[int, float]


class TooMuch(Exception):
    """It grows faster than what can be bounded."""


@dataclass(frozen=True, slots=True)
class Amount:
    """`constant + sum(linear * source) + sum(square * source ** 2)`."""

    constant: float = 0.0
    linear: Mapping[int, float] = field(default_factory=dict)
    square: Mapping[int, float] = field(default_factory=dict)

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.constant + other.constant,
            _sum(self.linear, other.linear),
            _sum(self.square, other.square),
        )

    def times(self, factor: float) -> Amount:
        """So many times as much."""
        return Amount(
            self.constant * factor,
            {source: amount * factor for source, amount in self.linear.items()},
            {source: amount * factor for source, amount in self.square.items()},
        )

    def squared(self) -> Amount:
        """Its square, or a little more; it must be linear itself."""
        terms = len(self.linear) + 1
        return Amount(
            terms * self.constant**2,
            {},
            {source: terms * amount**2 for source, amount in self.linear.items()},
        )

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on the event."""
        return not self.linear and not self.square

    @property
    def innermost(self) -> int:
        """The innermost quantifier on whose element it depends."""
        return max((*self.linear, *self.square, EVENT))

    def at(self, size: int) -> float:
        """What it is for an event of so many bytes; no quantifier is around it."""
        linear, square = self.linear.get(EVENT, 0.0), self.square.get(EVENT, 0.0)
        return self.constant + linear * size + square * size * size

    def over(self, elements: Amount, source: int) -> Amount:
        """The sum of it for all elements of something of a size; `TooMuch` if that is not linear.

        Whoever looks at something else than the element does so once for each element.
        """
        if elements.is_constant:
            return self._with(source, elements.constant).times(elements.constant)
        outer = [key for key in (*self.linear, *self.square) if key != source]
        if outer:
            raise TooMuch
        total = elements.times(self.constant + self.linear.get(source, 0.0))
        square = self.square.get(source, 0.0)
        return total + elements.squared().times(square) if square else total

    def _with(self, source: int, size: float) -> Amount:
        """The same where it is known how large a source is."""
        linear, square = dict(self.linear), dict(self.square)
        known = linear.pop(source, 0.0) * size + square.pop(source, 0.0) * size * size
        return Amount(self.constant + known, linear, square)


def _sum(one: Mapping[int, float], other: Mapping[int, float]) -> Terms:
    return {source: one.get(source, 0.0) + other.get(source, 0.0) for source in {**one, **other}}


NOTHING = Amount()


def steps(number: float) -> Amount:
    """So many, whatever the event."""
    return Amount(number)


def one_of(one: Amount, other: Amount) -> Amount:
    """The lesser, of which it is known that it is enough; else what belongs to an inner element."""
    if one.is_constant and other.is_constant:
        return min(one, other, key=lambda amount: amount.constant)
    if one.is_constant or other.is_constant:
        return one if one.is_constant else other
    return max(one, other, key=lambda amount: amount.innermost)


# -- kinds of values -------------------------------------------------------------------------------


class ValueKind(enum.IntFlag):
    """Some of these."""

    INT = 1  # of any size
    REAL = 2  # float and timedelta: what neither is repeated nor repeats
    DECIMAL = 4
    TEXT = 8  # str and bytes
    LIST = 16  # list and tuple
    OTHER = 32
    UNKNOWN = 64  # no type was given: whoever runs the filter knows the class, and judges again


INT, REAL, DECIMAL, TEXT, LIST = (
    ValueKind.INT,
    ValueKind.REAL,
    ValueKind.DECIMAL,
    ValueKind.TEXT,
    ValueKind.LIST,
)
OTHER, UNKNOWN = ValueKind.OTHER, ValueKind.UNKNOWN
ALL = INT | REAL | DECIMAL | TEXT | LIST | OTHER

_CLASSES: dict[str, ValueKind] = {
    "builtins.int": INT,
    "builtins.bool": INT,
    "builtins.float": REAL | INT,  # an int is as good as a float
    "builtins.str": TEXT,
    "builtins.bytes": TEXT,
    "builtins.list": LIST,
    "builtins.tuple": LIST,
    "builtins.dict": OTHER,
    "builtins.set": OTHER,
    "builtins.frozenset": OTHER,
    "decimal.Decimal": DECIMAL,
    "datetime.timedelta": REAL,
    "datetime.datetime": OTHER,
    "datetime.date": OTHER,
    "datetime.time": OTHER,
    "uuid.UUID": OTHER,
}
_SMALL = frozenset(
    {
        *("builtins.bool", "datetime.timedelta", "datetime.datetime", "datetime.date"),
        *("datetime.time", "uuid.UUID"),
    }
)
_VALUES: dict[type, ValueKind] = {
    bool: INT,
    int: INT,
    float: REAL,
    datetime.timedelta: REAL,
    decimal.Decimal: DECIMAL,
    str: TEXT,
    bytes: TEXT,
    list: LIST,
    tuple: LIST,
}


def kind_of_value(value: object) -> ValueKind:
    """Of a constant; a member of an enumeration may be anything besides."""
    return _VALUES.get(type(value), ALL if isinstance(value, enum.Enum) else OTHER)


def kind_of_type(declared: TypeExpression | None) -> ValueKind:
    """Of a field that was declared so; decoding has seen to it that it is so."""
    if declared is None:
        return ALL
    if declared.form == "none":
        return OTHER
    if declared.form == "union":
        found = ValueKind(0)
        for argument in declared.arguments:
            found |= kind_of_type(argument)
        return found or ALL
    return _CLASSES.get(declared.name, ALL) if declared.form == "class" else ALL


def is_small(declared: TypeExpression | None) -> bool:
    """Whether a value of it is of a few bytes, whatever the event."""
    return declared is not None and declared.form == "class" and declared.name in _SMALL


def element_of(declared: TypeExpression | None) -> TypeExpression | None:
    """What iterating over a list, or a subscript of it, gives."""
    listed = declared is not None and declared.name in ("builtins.list", "builtins.set")
    if declared is None or not listed or len(declared.arguments) != 1:
        return None
    return declared.arguments[0]
