"""The predicates that an index can look up by the value of a term."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from polycast.filters.normal_form.ordered_domains import Domain

__all__ = ["Differs", "Form", "Interval", "IsNone", "Others", "Points", "Truth"]


class Points(NamedTuple):
    """The term equals one of these values."""

    domain: Domain
    values: tuple[Any, ...]


class Interval(NamedTuple):
    """The term lies between two bounds; None is no bound."""

    domain: Domain
    low: Any = None
    high: Any = None
    low_closed: bool = True
    high_closed: bool = True
    unordered_too: bool = False  # `not x < 3` is also true of NaN


class Differs(NamedTuple):
    """The term is there and equals none of these values."""

    values: tuple[Any, ...]


class IsNone(NamedTuple):
    """The term is None, or is something else."""

    wanted: bool


class Truth(NamedTuple):
    """The term is true, or is there and not true."""

    wanted: bool


class Others(NamedTuple):
    """The term is of the domain, and equals none of these values: what does not compare fails."""

    domain: Domain
    values: tuple[Any, ...]


Form = Points | Interval | Differs | Others | IsNone | Truth
