"""Where the conjunctions of many filters stand: each on the list of its most selective predicate.

An event is read once. Each term has a dictionary from a value to the bucket of those anchored on
that value, and ranges of values with the buckets of those anchored on an interval. Only these
buckets are asked. A bucket's function is generated when an event first needs it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors.failures import FAILURES
from polycast.filters.normal_form.disjunction import (
    Differs,
    Interval,
    IsNone,
    Others,
    Points,
    Truth,
)
from polycast.filters.normal_form.ordered_domains import ABSENT
from polycast.matching.index.index_codegen import (
    bare,
    bucket_function,
    columns_function,
    memo_function,
    read_or_absent,
    read_term,
    reading_function,
    running_function,
    term_function,
)
from polycast.matching.index.selectivity import Estimate, cuts

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from polycast.filters.normal_form.disjunction import Conjunction, Predicate
    from polycast.filters.normal_form.ordered_domains import Domain
    from polycast.filters.tree import nodes
    from polycast.matching.index.index_codegen import Row

__all__ = ["Bucket", "Lane", "Layout", "Sample"]

FEW = 48  # conjunctions that are asked one after the other
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


class Level:
    """Ranges of ordered values, with a bucket for each that somebody is interested in."""

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
        self.levels: list[Level] = []
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
        self.levels.append(Level(bounds))
        if len(bounds) > COARSE:
            self.levels.append(Level(bounds[COARSE // 2 :: COARSE]))

    def place(self, row: Row, anchor: Predicate) -> None:
        """Put a row where the values of its anchor lead to."""
        number, conjunction = row
        rest = tuple(each for each in conjunction if each is not anchor)
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


class Column:
    """One term of the events: its value, and what has to be known of it."""

    def __init__(self, name: str, term: nodes.Node) -> None:
        self.name, self.term = name, term
        self.lanes: dict[Domain, Lane] = {}
        self.loose = False


class Sample(NamedTuple):
    """Values of some events, by term and domain."""

    size: int
    values: dict[tuple[nodes.Node, Domain], list[Any]]


class Anchor(NamedTuple):
    """Where a row stands."""

    predicate: Predicate
    lane: Lane


class Layout:
    """An index over numbered conjunctions."""

    def __init__(
        self,
        rows: list[Row],
        lock: threading.RLock,
        keys: list[Any],
        sample: Sample | None = None,
    ) -> None:
        self.lock, self.keys = lock, keys  # by the number of a filter; none if it is gone
        self.columns: list[Column] = []
        self._by_term: dict[nodes.Node, Column] = {}
        self.slots: dict[nodes.Node, int] = {}
        self._memo_functions: dict[nodes.Node, Callable[..., int]] = {}
        self.always = Bucket(self)
        self.watcher: Callable[[tuple[Any, ...]], None] | None = None
        self._choose_columns(rows)
        self._choose_slots(rows)
        self.lanes = [lane for column in self.columns for lane in column.lanes.values()]
        self.parameters = self._parameters()
        self.read = reading_function(self)
        self._learn(rows, sample)
        self._anchor(rows)
        self.run = running_function(self)

    # -- what is read of an event ------------------------------------------------------------------

    def _choose_columns(self, rows: list[Row]) -> None:
        uses: Counter[nodes.Node] = Counter(
            each.term for _, conjunction in rows for each in conjunction if each.term is not None
        )
        for number, (term, count) in enumerate(uses.most_common(MOST_COLUMNS)):
            if count > 1:
                column = self._by_term[term] = Column(f"c{number}", term)
                self.columns.append(column)
        for _, conjunction in rows:
            for predicate in conjunction:
                if (known := self._column(predicate)) is not None:
                    self._prepare(known, predicate.form)

    def _prepare(self, column: Column, form: object) -> None:
        """See that what is read of the events is enough to ask this."""
        if isinstance(form, (Points, Interval, Others)):
            if form.domain not in column.lanes and len(column.lanes) < MOST_LANES:
                name = f"{column.name}_{len(column.lanes)}"
                column.lanes[form.domain] = Lane(self, name, form.domain)
        elif isinstance(form, (Differs, Truth)):
            column.loose = True

    def _column(self, predicate: Predicate) -> Column | None:
        return None if predicate.term is None else self._by_term.get(predicate.term)

    def _choose_slots(self, rows: list[Row]) -> None:
        """What is evaluated for several conjunctions gets a place to be remembered in."""
        uses: Counter[nodes.Node] = Counter(
            bare(each.node)[0]
            for _, conjunction in rows
            for each in conjunction
            if each.term is None or each.term not in self._by_term
        )
        for node, count in uses.items():
            if count > 1:
                self.slots[node] = len(self.slots)

    def memo_function(self, node: nodes.Node) -> Callable[..., int]:
        """The function that evaluates an expression and remembers its verdict."""
        if node not in self._memo_functions:
            self._memo_functions[node] = memo_function(node, self.slots[node])
        return self._memo_functions[node]

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

    def numbers(self, event: Any) -> list[int]:
        """The filters that an event passes."""
        try:
            return self.run(event)
        except FAILURES:  # one of its values is odd
            return self._evaluate(event)

    def _evaluate(self, event: Any) -> list[int]:
        """The same where values cannot be looked up, and the filters themselves are asked."""
        found: list[int] = []
        arguments = (found.append, event, [0] * len(self.slots))
        for column in self.columns:
            raw = read_or_absent(term_function(column.term), event)
            for lane in column.lanes.values():
                try:
                    value = lane.domain.coerce(raw)
                except FAILURES:
                    lane.everything.evaluate(*arguments)
                    continue
                if value == value:
                    lane.evaluate(value, *arguments)
        self.always.evaluate(*arguments)
        return found

    # -- anchors -----------------------------------------------------------------------------------

    def _learn(self, rows: list[Row], sample: Sample | None) -> None:
        """Estimate how often predicates are true."""
        forms: dict[Lane, list[Points | Interval]] = {lane: [] for lane in self.lanes}
        for _, conjunction in rows:
            for predicate in conjunction:
                if (lane := self.lane(predicate)) is not None:
                    forms[lane].append(predicate.form)  # type: ignore[arg-type]
        for column in self.columns:
            for lane in column.lanes.values():
                known = [] if sample is None else sample.values.get((column.term, lane.domain), [])
                size = 0 if sample is None else sample.size
                lane.estimate = Estimate(forms[lane], known, size)

    def read_all(self, events: list[Any]) -> tuple[list[Any], ...]:
        """The values of each term for many events; ABSENT where it cannot be read."""
        try:
            return columns_function(self)(events)
        except FAILURES:
            return tuple(read_term(each.term, events) for each in self.columns)

    def watch(self, watcher: Callable[[tuple[Any, ...]], None] | None) -> None:
        """Let somebody see what is read of each event, or nobody."""
        self.watcher = watcher
        self.run = running_function(self)

    def plain(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """What can be learnt from an event without keeping anything of a user's alive."""
        return tuple(
            value if lane.teaches(value) else ABSENT
            for lane, value in zip(self.lanes, values, strict=True)
        )

    def sample(self, rows: list[tuple[Any, ...]]) -> Sample:
        """What can be learnt from what was read of events: their values, if they are plain."""
        names = [(column.term, each) for column in self.columns for each in column.lanes]
        values = {
            (term, domain): [v for v in column if type(v) in domain.exact and v == v]
            for (term, domain), column in zip(names, zip(*rows, strict=True), strict=False)
        }
        return Sample(len(rows), values)

    def _anchor(self, rows: list[Row]) -> None:
        if len(rows) <= FEW:
            for row in rows:
                self.always.append(row)
            return
        chosen = [(row, self.best(row[1])) for row in rows]
        intervals: dict[Lane, list[Interval]] = {}
        for _, anchor in chosen:
            if anchor is not None and isinstance(anchor.predicate.form, Interval):
                intervals.setdefault(anchor.lane, []).append(anchor.predicate.form)
        for lane, forms in intervals.items():
            lane.cut(forms)
        for row, anchor in chosen:
            self._place(row, anchor)

    def best(self, conjunction: Conjunction, *, there: bool = False) -> Anchor | None:
        """The predicate that the fewest events satisfy; `there`: among what is looked up now."""
        best, least = None, 2.0
        for predicate in conjunction:
            lane = self.lane(predicate)
            if lane is None or (there and not lane.takes(predicate.form)):
                continue
            share = lane.estimate.share(predicate.form)  # type: ignore[arg-type]
            if share < least:
                best, least = Anchor(predicate, lane), share
        return best

    def share(self, predicate: Predicate) -> float:
        """Which part of the events satisfies a predicate, as far as is known."""
        lane = self.lane(predicate)
        return 1.0 if lane is None else lane.estimate.share(predicate.form)  # type: ignore[arg-type]

    def is_anchored(self) -> bool:
        """Whether anything is looked up."""
        return any(lane.rows for lane in self.lanes)

    def add(self, row: Row) -> None:
        """One more row; what is read of events stays as it is."""
        first = not self.always.rows
        self._place(row, self.best(row[1], there=True))
        if first and self.always.rows:
            self.run = running_function(self)

    def _place(self, row: Row, anchor: Anchor | None) -> None:
        if anchor is None:
            self.always.append(row)
        else:
            anchor.lane.place(row, anchor.predicate)
