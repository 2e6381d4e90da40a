"""How often a predicate is true: from the constants of all, and from a sample of events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from polycast.filters.normal_form.ordered_domains import Interval, Points

if TYPE_CHECKING:
    from collections.abc import Iterable

PRIOR_WEIGHT = 16  # the constants count as much as so many events


class Estimate:
    """The distribution of one term's values in one domain, as far as it is known.

    Without a sample, values are taken to lie where the constants of the filters lie.
    """

    def __init__(self, forms: Iterable[Points | Interval], sample: list[Any], size: int) -> None:
        marks: list[Any] = []
        points: set[Any] = set()
        for form in forms:
            if isinstance(form, Points):
                points.update(form.values)
            else:
                marks += [end for end in (form.low, form.high) if end is not None]
        marks.sort()
        self._marks = marks
        self._distinct = max(2, len(points))
        self._sample = sorted(sample) if marks else []
        self._often = Counter(sample)
        self._size = size  # of the sample, with the events that have no such value

    def share(self, form: Points | Interval) -> float:
        """Which part of the events satisfies a predicate."""
        if isinstance(form, Points):
            prior = min(1.0, len(form.values) / self._distinct)
            seen = sum(self._often[value] for value in form.values) if self._size else 0
        else:
            prior = (_within(self._marks, form) + 1) / (len(self._marks) + 2)
            seen = _within(self._sample, form)
        return (seen + PRIOR_WEIGHT * prior) / (self._size + PRIOR_WEIGHT)


def cuts(forms: list[Interval], count: int) -> list[Any]:
    """Places that cut the values into so many ranges, with as many ends of intervals in each."""
    marks = sorted(end for form in forms for end in (form.low, form.high) if end is not None)
    step = len(marks) / count
    return sorted({marks[int(number * step)] for number in range(1, count)})


def _within(values: list[Any], form: Interval) -> int:
    first = 0 if form.low is None else bisect_left(values, form.low)
    last = len(values) if form.high is None else bisect_right(values, form.high)
    return max(0, last - first)
