"""The values of a batch in order, and where the constants of filters lie among them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

Threshold = tuple[Any, bool]  # before, or after, all values that equal it
LAST_INTEGER = 2**63 - 1


class Ordered:
    """The events of a batch in the order of one term, without those that have no such value."""

    def __init__(self, events: Integers, values: Any, *, kind: str) -> None:
        self.events = events  # in the order of their values
        self._values, self._kind = values, kind
        self._starts: Integers | None = None  # of each distinct value, where events share one

    @classmethod
    def of_ranks(cls, ranks: Integers, events: Integers, distinct: list[Any]) -> Ordered:
        """From the rank of each event's value among the distinct ones."""
        import numpy as np

        order = _sorted(ranks, 0, len(distinct))
        made = cls(events[order], distinct, kind="values")
        made._starts = np.searchsorted(ranks[order], np.arange(len(distinct) + 1))
        return made

    def among(self, events: Integers) -> Ordered:
        """The same for these events of a batch, if it was made of their values alone."""
        self.events = events[self.events]
        return self

    def positions(self, thresholds: list[Threshold], prepared: dict[str, Any]) -> Integers:
        """How many events come before each threshold; `prepared` keeps what can be kept."""
        import numpy as np

        if self._kind == "values":
            assert self._starts is not None
            ranks = [
                (bisect_right if after else bisect_left)(self._values, value)
                for value, after in thresholds
            ]
            found: Integers = self._starts[np.array(ranks, dtype=np.int64)]
            return found
        if self._kind not in prepared:
            convert = float_threshold if self._kind == "floats" else integer_threshold
            exact = np.float64 if self._kind == "floats" else np.int64
            least = [convert(threshold) for threshold in thresholds]
            beyond = np.array([value is None for value in least], dtype=bool)
            plain = np.array([0 if value is None else value for value in least], dtype=exact)
            prepared[self._kind] = plain, beyond
        plain, beyond = prepared[self._kind]
        places: Integers = np.searchsorted(self._values, plain)
        places[beyond] = len(self._values)
        return places


def float_threshold(threshold: Threshold) -> float | None:
    """The least double that is not before the threshold; None if there is none."""
    value, after = threshold
    try:
        nearest = float(value)
    except OverflowError:
        return None if value > 0 else -math.inf
    if nearest < value or (after and nearest == value):
        return None if nearest == math.inf else math.nextafter(nearest, math.inf)
    return nearest


def integer_threshold(threshold: Threshold) -> int | None:
    """The least 64-bit integer that is not before the threshold; None if there is none."""
    value, after = threshold
    if value == math.inf:
        return None
    if value == -math.inf:
        return -LAST_INTEGER - 1
    least = math.floor(value) + 1 if after else math.ceil(value)
    return None if least > LAST_INTEGER else max(least, -LAST_INTEGER - 1)


def order_floats(values: Any) -> Ordered:
    """From an array of doubles."""
    import numpy as np

    order = np.argsort(values)
    ordered = values[order]
    usable = len(ordered) - int(np.isnan(ordered).sum())  # NaN is last
    return Ordered(order[:usable], ordered[:usable], kind="floats")


def order_integers(values: Any) -> Ordered:
    """From an array of 64-bit integers."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    order = _sorted(values, least, most)
    return Ordered(order, values[order], kind="integers")


def _sorted(values: Integers, least: int, most: int) -> Integers:
    """The order of integers; there is a faster way for those of 16 bits."""
    import numpy as np

    if most - least < 2**16:
        return np.argsort((values - least).astype(np.uint16), kind="stable")
    return np.argsort(values)


def order_values(values: Iterable[Any], events: Iterable[int]) -> Ordered:
    """From any values that are ordered, of these events."""
    import numpy as np

    values = list(values)
    distinct = sorted(set(values))
    rank = {value: number for number, value in enumerate(distinct)}
    ranks = np.array(list(map(rank.__getitem__, values)), dtype=np.int64)
    return Ordered.of_ranks(ranks, np.fromiter(events, dtype=np.int64), distinct)
