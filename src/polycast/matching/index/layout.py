"""Where the conjunctions of many filters stand: each on the list of its most selective predicate.

An event is read once. Each term has a dictionary from a value to the bucket of those anchored on
that value, and ranges of values with the buckets of those anchored on an interval. Only these
buckets are asked. A bucket's function is generated when an event first needs it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors.failures import failures_here
from polycast.filters.normal_form.ordered_domains import ABSENT, Domain, Interval, Points
from polycast.matching.index import index_codegen as codegen
from polycast.matching.index.lanes import Bucket, Estimate, Lane, TermColumns

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from polycast.filters.normal_form.disjunction import Conjunction, Predicate
    from polycast.filters.tree import nodes
    from polycast.matching.index.index_codegen import Row

FEW = 48  # conjunctions that are asked one after the other


class ValueSample(NamedTuple):
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
        sample: ValueSample | None = None,
    ) -> None:
        self.lock, self.keys = lock, keys  # by the number of a filter; none if it is gone
        self.slots: dict[nodes.Node, int] = {}
        self._memo_functions: dict[nodes.Node, Callable[..., int]] = {}
        self.always = Bucket(self)
        self.watcher: Callable[[tuple[Any, ...]], None] | None = None
        self.terms = TermColumns(self, rows)
        self.columns, self.lanes = self.terms.columns, self.terms.lanes
        self._choose_slots(rows)
        self._learn(rows, sample)
        self._anchor(rows)
        self.run = codegen.running_function(self)

    def _choose_slots(self, rows: list[Row]) -> None:
        """What is evaluated for several conjunctions gets a place to be remembered in."""
        uses: Counter[nodes.Node] = Counter(
            codegen.bare(predicate.node)[0]
            for _, conjunction in rows
            for predicate in conjunction
            if predicate.term is None or predicate.term not in self.terms
        )
        for node, count in uses.items():
            if count > 1:
                self.slots[node] = len(self.slots)

    def memo_function(self, node: nodes.Node) -> Callable[..., int]:
        """The function that evaluates an expression and remembers its verdict."""
        if node not in self._memo_functions:
            self._memo_functions[node] = codegen.memo_function(node, self.slots[node])
        return self._memo_functions[node]

    def numbers(self, event: Any) -> list[int]:
        """The filters that an event passes."""
        try:
            return self.run(event)
        except failures_here():  # one of its values is odd
            return self._evaluate(event)

    def _evaluate(self, event: Any) -> list[int]:
        """The same where values cannot be looked up, and the filters themselves are asked."""
        found: list[int] = []
        arguments = (found.append, event, [0] * len(self.slots))
        for column in self.columns:
            raw = codegen.read_or_absent(codegen.term_function(column.term), event)
            for lane in column.lanes.values():
                try:
                    value = lane.domain.coerce(raw)
                except failures_here():
                    lane.everything.evaluate(*arguments)
                    continue
                if value == value:
                    lane.evaluate(value, *arguments)
        self.always.evaluate(*arguments)
        return found

    # -- anchors -----------------------------------------------------------------------------------

    def _learn(self, rows: list[Row], sample: ValueSample | None) -> None:
        """Estimate how often predicates are true."""
        forms: dict[Lane, list[Points | Interval]] = {lane: [] for lane in self.lanes}
        for _, conjunction in rows:
            for predicate in conjunction:
                if (lane := self.terms.lane(predicate)) is not None:
                    forms[lane].append(predicate.form)  # type: ignore[arg-type]
        for column in self.columns:
            for lane in column.lanes.values():
                known = [] if sample is None else sample.values.get((column.term, lane.domain), [])
                size = 0 if sample is None else sample.size
                lane.estimate = Estimate(forms[lane], known, size)

    def read_all(self, events: list[Any]) -> tuple[list[Any], ...]:
        """The values of each term for many events; ABSENT where it cannot be read."""
        try:
            return codegen.columns_function(self)(events)
        except failures_here():
            return tuple(codegen.read_term(column.term, events) for column in self.columns)

    def watch(self, watcher: Callable[[tuple[Any, ...]], None] | None) -> None:
        """Show a watcher what is read of each event; None ends that."""
        self.watcher = watcher
        self.run = codegen.running_function(self)

    def plain(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """What can be learnt from an event without keeping anything of a user's alive."""
        return tuple(
            value if lane.teaches(value) else ABSENT
            for lane, value in zip(self.lanes, values, strict=True)
        )

    def sample(self, rows: list[tuple[Any, ...]]) -> ValueSample:
        """What can be learnt from what was read of events: their values, if they are plain."""
        names = [(column.term, domain) for column in self.columns for domain in column.lanes]
        values = {
            (term, domain): [v for v in column if type(v) in domain.exact and v == v]
            for (term, domain), column in zip(names, zip(*rows, strict=True), strict=False)
        }
        return ValueSample(len(rows), values)

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
            lane = self.terms.lane(predicate)
            if lane is None or (there and not lane.takes(predicate.form)):
                continue
            share = lane.estimate.share(predicate.form)  # type: ignore[arg-type]
            if share < least:
                best, least = Anchor(predicate, lane), share
        return best

    def share(self, predicate: Predicate) -> float:
        """Which part of the events satisfies a predicate, as far as is known."""
        lane = self.terms.lane(predicate)
        return 1.0 if lane is None else lane.estimate.share(predicate.form)  # type: ignore[arg-type]

    def is_anchored(self) -> bool:
        """Whether anything is looked up."""
        return any(lane.rows for lane in self.lanes)

    def add(self, row: Row) -> None:
        """One more row; what is read of events stays as it is."""
        first = not self.always.rows
        self._place(row, self.best(row[1], there=True))
        if first and self.always.rows:
            self.run = codegen.running_function(self)

    def _place(self, row: Row, anchor: Anchor | None) -> None:
        if anchor is None:
            self.always.append(row)
        else:
            anchor.lane.place(row, anchor.predicate)
