"""The lanes of an index: the values of one term in one domain, and the rows that stand there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from polycast.filters.normal_form.ordered_domains import (
    Differs,
    Interval,
    IsNone,
    Others,
    Points,
    Truth,
)
from polycast.matching.index.index_codegen import Row, bucket_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.filters.normal_form.disjunction import Conjunction, Predicate
    from polycast.filters.normal_form.ordered_domains import Domain
    from polycast.filters.tree import nodes
    from polycast.matching.index.layout import Layout


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


MOST_COLUMNS = 32
MOST_LANES = 8  # of one term
MOST_POINTS = 256  # of a predicate that is an anchor
LONGEST = 100  # characters of a value to learn from
MOST_RANGES = 256  # of one lane
WIDE = 8  # an interval over more ranges goes to the coarse level
COARSE = 8  # ranges of the fine level in one of the coarse one


class Bucket:
    """Rows that are asked together. Callable itself until its function is needed and made."""

    __slots__ = ("_evaluated", "_key", "_layout", "_place", "_whole", "live", "rows")

    def __init__(self, layout: Layout, place: Any = None, key: Any = None) -> None:
        self._layout, self._place, self._key = layout, place, key
        self.rows: list[Row] = []
        self.live: Callable[..., None] = self
        self._evaluated: Callable[..., None] | None = None
        self._whole: list[Callable[..., None]] = []  # parts of the function that stay

    def append(self, row: Row) -> None:
        """One more row; the function is made anew when it is next needed."""
        self.rows.append(row)
        self._evaluated = None
        self._set(self)

    def evaluate(self, add: Callable[[int], None], event: Any, memo: list[int]) -> None:
        """Ask the expressions themselves, for an event whose values cannot be looked up."""
        with self._layout.lock:
            if self._evaluated is None:
                self._evaluated = bucket_function(self._layout, self.rows, [], evaluate=True)
            evaluated = self._evaluated
        evaluated(add, event, memo)

    def _set(self, live: Callable[..., None]) -> None:
        self.live = live
        if self._place is not None:
            self._place[self._key] = live

    def __call__(self, *arguments: Any) -> None:
        """Make the function, and be it."""
        with self._layout.lock:
            if self.live is self:
                self._set(bucket_function(self._layout, self.rows, self._whole))
            live = self.live
        live(*arguments)


class RangeLevel:
    """Ranges of ordered values, with a bucket for each that a row asks for."""

    def __init__(self, bounds: list[Any]) -> None:
        self.bounds = bounds
        self.buckets: dict[int, Bucket] = {}
        self.live: list[Callable[..., None] | None] = [None] * (len(bounds) + 1)

    def span(self, form: Interval) -> tuple[int, int]:
        """The first and the last range that an interval touches."""
        first = 0 if form.low is None else bisect_right(self.bounds, form.low)
        last = len(self.bounds) if form.high is None else bisect_right(self.bounds, form.high)
        return first, last


class Lane:
    """The values of one term in one domain, and the rows that are anchored on it."""

    def __init__(self, layout: Layout, name: str, domain: Domain) -> None:
        self._layout = layout
        self.name, self.domain = name, domain
        self.points: dict[Any, Bucket] = {}
        self.live: dict[Any, Callable[..., None]] = {}
        self.levels: list[RangeLevel] = []
        self.rows = 0
        self.everything = Bucket(layout)  # all rows with all they ask, for odd values
        self.estimate = Estimate((), [], 0)

    def teaches(self, value: Any) -> bool:
        """Whether something can be learnt from a value, and nothing big is kept."""
        if isinstance(value, (str, bytes)) and len(value) > LONGEST:
            return False
        return self.domain.ordered and type(value) in self.domain.exact

    def cut(self, forms: list[Interval]) -> None:
        """Make ranges in which about as many of these intervals begin or end."""
        bounds = cuts(forms, max(1, min(MOST_RANGES, len(forms) // 4)))
        self.levels.append(RangeLevel(bounds))
        if len(bounds) > COARSE:
            self.levels.append(RangeLevel(bounds[COARSE // 2 :: COARSE]))

    def place(self, row: Row, anchor: Predicate) -> None:
        """Put a row where the values of its anchor lead to."""
        number, conjunction = row
        rest = tuple(predicate for predicate in conjunction if predicate is not anchor)
        self.everything.append(row)
        self.rows += 1
        if isinstance(anchor.form, Points):
            for value in anchor.form.values:
                if value not in self.points:
                    self.points[value] = Bucket(self._layout, self.live, value)
                self.points[value].append((number, rest))
        elif isinstance(anchor.form, Interval):
            self._place_interval(number, rest, anchor, anchor.form)

    def _place_interval(
        self, number: int, rest: Conjunction, anchor: Predicate, form: Interval
    ) -> None:
        """Between the first and the last range the anchor is certain, and not asked any more."""
        level = self.levels[-1]
        for finer in self.levels[:-1]:
            first, last = finer.span(form)
            if last - first < WIDE:
                level = finer
        first, last = level.span(form)
        for part in range(first, last + 1):
            if part not in level.buckets:
                level.buckets[part] = Bucket(self._layout, level.live, part)
            above = part > first or form.low is None
            below = part < last or form.high is None
            level.buckets[part].append((number, rest if above and below else (*rest, anchor)))

    def evaluate(self, value: Any, *arguments: Any) -> None:
        """Ask the rows that a value leads to."""
        buckets = [self.points.get(value)]
        buckets += [level.buckets.get(bisect_right(level.bounds, value)) for level in self.levels]
        for bucket in buckets:
            if bucket is not None:
                bucket.evaluate(*arguments)

    def takes(self, form: object) -> bool:
        """Whether a predicate can be an anchor, as the layout is now."""
        return bool(self.points) if isinstance(form, Points) else bool(self.levels)


class TermColumn:
    """One term of the events: its value, and what has to be known of it."""

    def __init__(self, name: str, term: nodes.Node) -> None:
        self.name, self.term = name, term
        self.lanes: dict[Domain, Lane] = {}
        self.loose = False


class TermColumns:
    """What is read of an event: the terms that several predicates ask, in their domains."""

    def __init__(self, layout: Layout, rows: list[Row]) -> None:
        self._layout = layout
        self.columns: list[TermColumn] = []
        self._by_term: dict[nodes.Node, TermColumn] = {}
        self._choose(rows)
        self.lanes = [lane for column in self.columns for lane in column.lanes.values()]
        self.parameters = self._parameters()

    def __contains__(self, term: object) -> bool:
        return term in self._by_term

    def _choose(self, rows: list[Row]) -> None:
        uses: Counter[nodes.Node] = Counter(
            predicate.term
            for _, conjunction in rows
            for predicate in conjunction
            if predicate.term is not None
        )
        for number, (term, count) in enumerate(uses.most_common(MOST_COLUMNS)):
            if count > 1:
                column = self._by_term[term] = TermColumn(f"c{number}", term)
                self.columns.append(column)
        for _, conjunction in rows:
            for predicate in conjunction:
                if (known := self._column(predicate)) is not None:
                    self._prepare(known, predicate.form)

    def _prepare(self, column: TermColumn, form: object) -> None:
        """See that what is read of the events is enough to ask this."""
        if isinstance(form, (Points, Interval, Others)):
            if form.domain not in column.lanes and len(column.lanes) < MOST_LANES:
                name = f"{column.name}_{len(column.lanes)}"
                column.lanes[form.domain] = Lane(self._layout, name, form.domain)
        elif isinstance(form, (Differs, Truth)):
            column.loose = True

    def _column(self, predicate: Predicate) -> TermColumn | None:
        return None if predicate.term is None else self._by_term.get(predicate.term)

    def _parameters(self) -> list[str]:
        names = ["add", "event", "memo"]
        for column in self.columns:
            names.append(column.name)
            names += [lane.name for lane in column.lanes.values()]
            names += [f"{column.name}_loose"] if column.loose else []
        return names

    def variable(self, predicate: Predicate) -> str | None:
        """The name of the variable to ask; None if nothing suitable is read."""
        column, form = self._column(predicate), predicate.form
        if column is None:
            return None
        if isinstance(form, (Points, Interval, Others)):
            lane = column.lanes.get(form.domain)
            return None if lane is None else lane.name
        if isinstance(form, IsNone):
            return column.name
        return f"{column.name}_loose" if column.loose else None

    def lane(self, predicate: Predicate) -> Lane | None:
        """Where a predicate could be an anchor."""
        form = predicate.form
        if not isinstance(form, (Points, Interval)):
            return None
        if isinstance(form, Interval) and form.unordered_too:
            return None
        if isinstance(form, Points) and len(form.values) > MOST_POINTS:
            return None
        column = self._column(predicate)
        return None if column is None else column.lanes.get(form.domain)
