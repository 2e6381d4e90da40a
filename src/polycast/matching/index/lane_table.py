"""Many events against many filters: each lane is sorted once, each conjunction takes a slice.

A predicate on a lane is a few intervals of positions in the order of that lane's values. Each
conjunction takes the events of its smallest predicate; its others are checked by position. What
is no interval is asked of the events that are left.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.filters.backends.python import generate, passes
from polycast.filters.normal_form.ordered_domains import Interval, Points
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from polycast.filters.normal_form.disjunction import Predicate
    from polycast.matching.index.index_codegen import Row
    from polycast.matching.index.lanes import Lane
    from polycast.matching.index.layout import Layout

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


PAIRS_AT_ONCE = 1_000_000
MOST_PREDICATES = 6  # of one conjunction that are checked by position
NONE = 0  # the number of the predicate that every event satisfies, to fill the table up
FAR = 2**40


class Found(NamedTuple):
    """Pairs: an event of the batch, and a filter that it passes."""

    events: Integers
    filters: Integers

    @classmethod
    def of(cls, pairs: list[tuple[int, int]]) -> Found:
        """From pairs."""
        import numpy as np

        events, filters = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2).T
        return cls(events, filters)

    @classmethod
    def together(cls, several: list[Found]) -> Found:
        """All pairs of several, each once."""
        import numpy as np

        if len(several) == 1:
            return several[0]
        pairs = np.concatenate([np.stack(found) for found in several], axis=1)
        return cls(*np.unique(pairs, axis=1))

    def without(self, events: set[int]) -> Found:
        """The pairs of other events."""
        import numpy as np

        if not events:
            return self
        keep = ~np.isin(self.events, list(events))
        return Found(self.events[keep], self.filters[keep])

    def grouped(self, size: int) -> tuple[Integers, Integers]:
        """Where the filters of each of so many events begin, and the filters, in order."""
        import numpy as np

        order = np.lexsort((self.filters, self.events))
        counts = np.bincount(self.events, minlength=size)
        return np.concatenate([[0], np.cumsum(counts)]), self.filters[order]


class LaneTable:
    """The thresholds of one lane. The first two stand for no lower and no upper bound."""

    def __init__(self, lane: Lane, number: int) -> None:
        self.lane, self.number = lane, number
        self._thresholds: dict[Threshold, int] = {}
        self._prepared: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._thresholds) + 2

    def intervals(self, form: object) -> Iterator[tuple[int, int]]:
        """What a predicate means, as pairs of thresholds."""
        if isinstance(form, Points):
            for value in form.values:
                yield self._threshold(value, after=False), self._threshold(value, after=True)
        elif isinstance(form, Interval):
            low = high = None
            if form.low is not None:
                low = self._threshold(form.low, after=not form.low_closed)
            if form.high is not None:
                high = self._threshold(form.high, after=form.high_closed)
            yield (0 if low is None else low), (1 if high is None else high)

    def _threshold(self, value: Any, *, after: bool) -> int:
        key = (self.lane.domain.place(value), after)
        return self._thresholds.setdefault(key, len(self._thresholds) + 2)

    def positions(self, values: Ordered) -> Integers:
        """Where the thresholds lie among the values of a batch."""
        import numpy as np

        found = values.positions(list(self._thresholds), self._prepared)
        return np.concatenate([[0, len(values.events)], found])


class Table:
    """The conjunctions of a layout as arrays: rows of predicates, predicates of intervals."""

    def __init__(self, layout: Layout, rows: list[Row], lock: threading.RLock) -> None:
        import numpy as np

        self.lanes = [LaneTable(lane, number) for number, lane in enumerate(layout.lanes)]
        self.always: list[Row] = []  # what has no predicate on any lane
        self._tests: dict[int, Callable[[Any], object]] = {}  # what is no interval, by row
        filters: list[int] = []
        table: list[list[int]] = []
        intervals: list[tuple[int, int, int]] = [(0, 0, 1)]  # lane, and thresholds in it
        firsts = [0]  # the first interval of each predicate
        of_lane = {known.lane: known for known in self.lanes}
        for number, conjunction in rows:
            chosen: list[int] = []
            rest: list[Predicate] = []
            for predicate in conjunction:
                lane = layout.terms.lane(predicate)
                if lane is None or len(chosen) == MOST_PREDICATES:
                    rest.append(predicate)
                    continue
                chosen.append(len(firsts))
                firsts.append(len(intervals))
                known = of_lane[lane]
                intervals += [(known.number, *ends) for ends in known.intervals(predicate.form)]
            if not chosen:
                self.always.append((number, conjunction))
                continue
            if rest:
                self._tests[len(table)] = generate(together(rest)).function
            filters.append(number)
            table.append(chosen)
        width = max(map(len, table), default=1)
        padded = [row + [NONE] * (width - len(row)) for row in table]
        self._filters = np.array(filters, dtype=np.int64)
        self._table = np.array(padded, dtype=np.int64).reshape(len(table), width)
        lanes, low, high = np.array(intervals, dtype=np.int64).T
        starts = np.cumsum([0, *map(len, self.lanes)])  # of each lane, among all thresholds
        self._low, self._high = starts[lanes] + low, starts[lanes] + high
        self._first = np.array(firsts, dtype=np.int64)
        self._count = np.diff([*firsts, len(intervals)])
        self._lane = lanes[self._first]
        self._asked = np.zeros(len(table), dtype=bool)
        self._asked[list(self._tests)] = True
        self.always_numbers = type(layout)(self.always, lock, layout.keys).numbers

    def match(self, columns: list[Ordered], size: int, event: Callable[[int], Any]) -> Found:
        """The pairs of a batch, given the values of each lane; `event` gives one event to ask."""
        import numpy as np

        if not len(self._table) or not size:
            return Found(np.zeros(0, np.int64), np.zeros(0, np.int64))
        batch = _Batch(self, columns, size)
        found = [self._checked(batch, *candidates) for candidates in batch.candidates()]
        rows = np.concatenate([pairs[0] for pairs in found])
        events = np.concatenate([pairs[1] for pairs in found])
        if self._tests:
            keep = np.ones(len(rows), dtype=bool)
            asked = np.flatnonzero(self._asked[rows])
            pairs = zip(rows[asked].tolist(), events[asked].tolist(), strict=True)
            keep[asked] = [passes(self._tests[row], event(number)) for row, number in pairs]
            rows, events = rows[keep], events[keep]
        return Found(events, self._filters[rows])

    def _checked(
        self, batch: _Batch, rows: Integers, events: Integers
    ) -> tuple[Integers, Integers]:
        """The candidates that satisfy the other predicates of their row, too."""
        import numpy as np

        for number in range(1, batch.table.shape[1]):
            predicates = batch.table[rows, number]
            where = batch.place[self._lane[predicates] * batch.size + events]
            keep = (where >= batch.lowest[predicates]) & (where < batch.highest[predicates])
            several = np.flatnonzero(keep & (self._count[predicates] > 1))
            if len(several):
                keep[several] = self._within_any(batch, predicates[several], where[several])
            rows, events = rows[keep], events[keep]
        return rows, events

    def _within_any(self, batch: _Batch, predicates: Integers, where: Integers) -> Any:
        """Whether places lie in one of several intervals."""
        import numpy as np

        first, count = self._first[predicates], self._count[predicates]
        found = np.zeros(len(predicates), dtype=bool)
        for number in range(int(count.max())):
            interval = first + np.minimum(number, count - 1)
            found |= (where >= batch.low[interval]) & (where < batch.high[interval])
        return found


class _Batch:
    """What depends on the events: where everything lies, and which predicate selects least."""

    def __init__(self, table: Table, columns: list[Ordered], size: int) -> None:
        import numpy as np

        self._of, self.size = table, size
        places = [lane.positions(values) for lane, values in zip(table.lanes, columns, strict=True)]
        positions = np.concatenate(places)
        self.low, self.high = positions[table._low], positions[table._high]
        order = np.zeros((len(columns), size), dtype=np.int64)
        place = np.full((len(columns), size), -1, dtype=np.int64)
        for number, values in enumerate(columns):
            order[number, : len(values.events)] = values.events
            place[number, values.events] = np.arange(len(values.events))
        self.place, self.order = place.ravel(), order.ravel()
        self.lengths = np.maximum(self.high - self.low, 0)
        sizes = np.add.reduceat(self.lengths, table._first)
        sizes[NONE] = FAR
        least = np.argsort(sizes[table._table], axis=1, kind="stable")
        self.table = np.take_along_axis(table._table, least, axis=1)
        self.sizes = sizes[self.table[:, 0]]
        # The first and the last place of each predicate; of several intervals, around them all.
        self.lowest = np.minimum.reduceat(self.low, table._first)
        self.highest = np.maximum.reduceat(self.high, table._first)
        self.lowest[NONE], self.highest[NONE] = -FAR, FAR

    def candidates(self) -> Iterator[tuple[Integers, Integers]]:
        """Rows, and the events that their smallest predicate selects: not too many at once."""
        import numpy as np

        ends = np.cumsum(self.sizes)
        begin = 0
        while begin < len(ends):
            before = ends[begin - 1] if begin else 0
            end = int(np.searchsorted(ends, before + PAIRS_AT_ONCE, side="right"))
            end = max(end, begin + 1)
            yield self._selected(begin, end)
            begin = end

    def _selected(self, begin: int, end: int) -> tuple[Integers, Integers]:
        import numpy as np

        anchors = self.table[begin:end, 0]
        count = self._of._count[anchors]
        intervals = _ranges(self._of._first[anchors], count)
        lengths = self.lengths[intervals]
        rows = np.repeat(np.repeat(np.arange(begin, end), count), lengths)
        start = self.low[intervals] + np.repeat(self._of._lane[anchors], count) * self.size
        return rows, self.order[_ranges(start, lengths)]


def _ranges(starts: Integers, lengths: Integers) -> Integers:
    """`start, start + 1, …` of each length, one after the other."""
    import numpy as np

    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)


def together(predicates: list[Predicate]) -> nodes.Node:
    """All of them as one expression."""
    if len(predicates) == 1:
        return predicates[0].node
    return nodes.And(tuple(predicate.node for predicate in predicates))
