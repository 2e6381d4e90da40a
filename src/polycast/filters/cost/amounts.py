"""Sizes and steps as sums over what a filter looks at: the event, and elements of quantifiers.

A source is a number: 0 is the event, 1 the element of the outermost `any` or `all`, and so on. The
elements of a list are together no larger than the list. So what is done once for each byte of an
element is done once for each byte of the list; what is done to the whole event for each element is
not, and that is where a filter becomes more than linear.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    found = dict(one)
    for source, factor in other.items():
        found[source] = found.get(source, 0.0) + factor
    return found


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
