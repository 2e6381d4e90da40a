"""Many filters at once, matched by the kernel; those that it cannot take, by the index in Python.

New filters become a small segment of their own, before the next event. A filter that is removed
loses its key at once, and its place when segments are merged: there are few of them, and most are
made once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.filters.normal_form.disjunction import conjunctions
from polycast.matching.index import ArrowRows, Index, Matches
from polycast.matching.index.filter_index import Known, with_key, without_key
from polycast.matching.native.arrow_columns import ALONE, Sharing, match_columns
from polycast.matching.native.kernel_form import Columns, KernelRow, NumberedFilters

if TYPE_CHECKING:
    from polycast.filters.tree import nodes


GROWTH = 4  # a segment is at least so many times as large as the next
SMALL = 64  # conjunctions that are merged again and again
QUICK = 20_000  # conjunctions that are merged while others wait
MOST = 6  # segments
UNANCHORED = 48  # conjunctions that have no anchors, so that nothing can be learnt for them
WORSE = 1.25  # times the expected work; what is above it is wasted
SLACK = 8  # blocks
REBUILDING = 32  # blocks that could be asked in the time that other anchors for a filter take

Finish = Callable[[bool], None]


class Segments:
    """Those of one kernel. Everything here is done with the lock held, except merging aside."""

    def __init__(self, kernel: Any, lock: threading.RLock, quick: int) -> None:
        self._kernel, self._lock, self._quick = kernel, lock, quick
        self._aside = 0  # the first so many are being merged
        self._wasted = 0.0  # blocks that good anchors would not have led to

    def settle(self) -> None:
        """Let all that waits be matched; it joins segments that are not much larger."""
        kernel = self._kernel
        size: int = kernel.pending
        if not size:
            return
        joined = 0
        for last in kernel.segments[: self._aside - 1 if self._aside else None : -1]:
            if not self._joins(len(last), size):
                break
            size += len(last)
            joined += 1
        kernel.settle(joined, self._aside)

    @property
    def are_scattered(self) -> bool:
        """Whether there are too many."""
        sizes = [len(segment) for segment in self._kernel.segments]
        return len(sizes) > MOST or (len(sizes) > 1 and sum(sizes[1:]) * GROWTH > sizes[0])

    def are_poor(self) -> bool:
        """Whether the events are other than those that the anchors were chosen for."""
        kernel = self._kernel
        sampled, events, blocks = kernel.watched
        large = [segment for segment in kernel.segments if len(segment) > UNANCHORED]
        if any(2 * segment.facts["sampled"] < sampled for segment in large):
            return True
        expected = sum(sum(segment.loads) for segment in kernel.segments)
        self._wasted += max(0.0, blocks - events * (WORSE * expected + SLACK))
        return self._wasted > REBUILDING * sum(map(len, large))

    @property
    def are_merging(self) -> bool:
        """Whether that is being done."""
        return self._aside > 0

    def merge(self, finish: Finish) -> None:
        """All as one, without what is gone. `finish` is told whether no reader has an old one."""
        sizes = [len(segment) for segment in self._kernel.segments]
        self._aside = len(sizes)
        self._wasted = 0.0
        if sum(sizes) <= self._quick or not self._merge_aside(finish):
            self._merge(finish)

    def _merge_aside(self, finish: Finish) -> bool:
        thread = threading.Thread(target=self._merge, args=(finish,), name="polycast-matching")
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending
            return False
        return True

    def _merge(self, finish: Finish) -> None:
        fresh, count = None, self._aside
        try:
            fresh = self._kernel.merged(count)
        finally:
            with self._lock:
                if fresh is not None:
                    self._kernel.swap(count, fresh)
                self._aside = 0
                finish(fresh is not None and self._kernel.readers == 0)

    def _joins(self, last: int, size: int) -> bool:
        return last <= SMALL or (last < GROWTH * size and last + size <= self._quick)


FEW = 48
FEW_GONE = 256  # filters that are gone before that is looked at
MUCH = 4_096  # conjunctions that make a segment before there is an event
ELSEWHERE = -1  # the number of a filter that the kernel does not take


class KernelLimits(NamedTuple):
    """What tests make smaller, so that few filters do all that many do."""

    few: int  # conjunctions that are asked one after the other
    cuts: int  # of the values of one column
    codes: int  # of them
    quick: int = QUICK  # conjunctions that are merged while others wait


class NativeIndex:
    """Filters by their keys. Safe to ask while it is changed."""

    def __init__(
        self, lock: threading.RLock, module: Any, *, limits: KernelLimits | None = None
    ) -> None:
        self._lock = lock
        limits = limits or KernelLimits(FEW, module.MOST_CUTS, module.MOST_CODES)
        self._filters = NumberedFilters(module, limits[:3])
        self.kernel = self._filters.kernel  # asked itself, if `direct`
        self._columns = Columns(self.kernel, module.MOST_COLUMNS)
        self._segments = Segments(self.kernel, lock, limits.quick)
        self._numbers: dict[Known, int] = {}
        self._rest = Index(lock)
        self._elsewhere: dict[Known, Any] = {}  # the keys of those in the rest
        self._again = False  # what is being merged has to be, once more
        self._tried = 0  # columns there were when the rest was last looked at
        self._moves = 0  # odd while filters move from the rest to the kernel

    def __len__(self) -> int:
        return len(self._numbers)

    # -- changing ----------------------------------------------------------------------------------

    def add(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter be for a key, too."""
        self.add_all([(key, tree)])

    def add_all(self, wanted: Iterable[tuple[Hashable, nodes.Node]]) -> None:
        """Add many keys, each with its filter."""
        filters = self._filters
        with self._lock:
            for key, tree in wanted:
                filters.count(key, 1)
                known = Known(tree, filters.hash_tree(tree))
                if known in self._numbers or not self._took(known, key):
                    self._add(known, key)

    def _took(self, known: Known, key: Hashable) -> bool:
        """Whether the kernel has read the filter from its tree, as it does most."""
        number = self._filters.take(known.tree, key)
        if number is None:
            return False
        if self._numbers.setdefault(known, number) == number:
            return True
        self._filters.forget(number)  # a finaliser has added it meanwhile
        return False

    def _add(self, known: Known, key: Hashable) -> None:
        rows = None if known in self._numbers else self._rows(known.tree)
        number = self._numbers.get(known)  # a finaliser may have added it meanwhile
        if number is None and rows is not None:
            self._numbers[known] = self._filters.put(known.tree, key, rows)
        elif number is None or number == ELSEWHERE:
            self._numbers[known] = ELSEWHERE
            self._elsewhere[known] = with_key(self._elsewhere.get(known, ()), key)
            self._rest.add(known.tree, key)
            self.kernel.direct = False
        else:
            self._filters.add_key(number, key)

    def _rows(self, tree: nodes.Node) -> list[KernelRow] | None:
        rows = [self._columns.row(conjunction) for conjunction in conjunctions(tree)]
        taken = [row for row in rows if row is not None]
        return taken if len(taken) == len(rows) else None

    def remove(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter not be for a key any more."""
        with self._lock:
            known = Known(tree, self._filters.hash_tree(tree))
            number = self._numbers[known]
            self._filters.count(key, -1)
            if number == ELSEWHERE:
                self._rest.remove(tree, key)
                keys = self._elsewhere[known] = without_key(self._elsewhere[known], key)
                if not keys:
                    del self._numbers[known], self._elsewhere[known]
            elif not self._filters.remove_key(number, key):
                del self._numbers[known]
                self._filters.forget(number)
                if self._are_many_gone():
                    self._merge()

    def _merge(self) -> None:
        """One segment of all; then numbers that were gone before it can be given again."""
        if self._segments.are_merging:
            self._again = True
            return
        self._segments.settle()
        give_back = self._filters.take_gone()

        def finish(free: bool) -> None:  # noqa: FBT001
            again = self._again or self._are_many_gone()  # meanwhile
            self._again = False
            give_back(free)
            if len(self._numbers) < len(self._filters) // 2:
                self._numbers = dict(self._numbers)  # it does not become smaller by itself
            if again:
                self._merge()

        self._segments.merge(finish)

    def _are_many_gone(self) -> bool:
        return self._filters.gone > FEW_GONE + len(self._numbers) // 4

    # -- keeping it in order -----------------------------------------------------------------------

    def prepare(self) -> None:
        """Do what the next event would otherwise wait for."""
        if self.kernel.pending >= MUCH:
            self._tend()
        self._rest.prepare()

    def _tend(self) -> None:
        """Do what has to be done before the next event, and what has become worth it."""
        with self._lock:
            kernel = self.kernel
            self._segments.settle()
            if self._elsewhere and kernel.columns > self._tried:
                self._move()
            poor = kernel.attention and self._segments.are_poor()
            kernel.attention = False
            if poor or self._segments.are_scattered:
                self._merge()
            kernel.direct = not self._elsewhere

    def _move(self) -> None:
        """Let the kernel have those of the rest that it can take with the columns there are now."""
        self._tried = self.kernel.columns
        found = [(known, self._rows(known.tree)) for known in self._elsewhere]
        moving = [(known, rows) for known, rows in found if rows is not None]
        if not moving:
            return
        self._moves += 1
        for known, rows in moving:
            keys = tuple(self._elsewhere.pop(known))
            number = self._numbers[known] = self._filters.put(known.tree, keys[0], rows)
            for key in keys[1:]:
                self._filters.add_key(number, key)
            for key in keys:
                self._rest.remove(known.tree, key)
        self._segments.settle()
        self._moves += 1

    # -- asking ------------------------------------------------------------------------------------

    def match(self, event: Any) -> list[Any]:
        """The keys that an event is for."""
        kernel = self.kernel
        if kernel.pending or kernel.attention:
            self._tend()
        moves = self._moves
        found: list[Any] = kernel.match(event)
        if not self._elsewhere and moves == self._moves:
            return found
        found += self._rest.match(event)
        if moves == self._moves and moves % 2 == 0:
            return found
        with self._lock:
            again: list[Any] = kernel.match(event)
            return again + self._rest.match(event)

    def match_batch(self, events: list[Any]) -> list[list[Any]]:
        """The keys that each of many events is for."""
        kernel = self.kernel
        if kernel.pending or kernel.attention:
            self._tend()
        if self._elsewhere or self._moves % 2:
            return [self.match(event) for event in events]
        found: list[list[Any]] = kernel.match_many(events)
        return found

    def match_rows(self, batch: ArrowRows, *, sharing: Sharing = ALONE) -> Matches:
        """The keys that each event of a batch is for."""
        with self._lock:
            self._tend()
            trees = list(self._elsewhere)
        found = match_columns(self.kernel, self._columns.all, batch, sharing, self._tend)
        if not trees:
            return found
        return Matches.together([found, self._rest.match_rows(batch)], len(batch))
