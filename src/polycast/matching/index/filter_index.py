"""Many filters at once: which of them an event passes. Safe to ask while it is changed.

Filters that are equal are one. New ones wait in a short list that is asked one by one, and go
into the layout together; when there are twice as many as it was made for, or many are gone, a new
layout is made aside and swapped in.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from itertools import chain, pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors.failures import failures_here
from polycast.filters.backends.python import generate
from polycast.filters.normal_form.disjunction import Conjunction, conjunctions
from polycast.matching.index.batch import EventBatch, Objects
from polycast.matching.index.lane_table import Found, Table
from polycast.matching.index.layout import Layout, ValueSample

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from polycast.filters.tree import nodes
    from polycast.matching.index.index_codegen import Row
    from polycast.matching.index.lane_table import Integers

WAITING = 64  # filters that are asked one by one, at least
WAITING_SHARE = 256  # or one in so many
ASKED = 64  # events for which they are asked one by one
SAMPLE = 256  # events to learn from
TRIED = 2_000  # rows for which better anchors are looked for
WORTH = 1.3  # how much fewer rows have to be asked for a new layout
SMALL = 128  # filters for which a new layout costs little
FEW_KEYS = 8
SMALL_BATCH = 64  # events that are matched one by one
TRIAL = 512  # events that tell whether that is faster for more of them, too
WARM = 3  # such batches before that is found out: functions are made when they are first needed
CLEARLY = 0.7


class WaitingFilter:
    """A filter that is not in the layout yet; there may be very many."""

    __slots__ = ("_function", "_tree", "number")

    def __init__(self, number: int, tree: nodes.Node) -> None:
        self.number, self._tree = number, tree
        self._function: Callable[[Any], object] | None = None

    def passes(self, event: Any) -> bool:
        """Whether an event does; its function is made when it is first asked."""
        try:
            if self._function is None:
                self._function = generate(self._tree).function
            return bool(self._function(event))
        except failures_here():
            return False


class State:
    """All that an event is matched against; replaced as a whole."""

    def __init__(
        self,
        layout: Layout,
        trees: list[nodes.Node | None],
        keys: list[Any],
        normal: dict[int, tuple[Conjunction, ...]],
    ) -> None:
        self.layout = layout
        self.trees, self.keys, self.normal = trees, keys, normal  # by the number of a filter
        self.waiting: list[WaitingFilter] = []
        self.made_for, self.asked = len(trees), 0
        self.singly: bool | None = None  # whether one by one is faster than in batches
        self.batches = 0
        self._table: Table | None = None

    def rows(self) -> list[Row]:
        """All numbered conjunctions."""
        return [
            (number, conjunction)
            for number, several in self.normal.items()
            for conjunction in several
        ]

    def table(self, lock: threading.RLock) -> Table:
        """The layout as arrays, made when a batch first needs it."""
        with lock:
            if self._table is None:
                self._table = Table(self.layout, self.rows(), lock)
            return self._table

    def grouped(self, found: Found, size: int) -> Matches:
        """The keys for each event of a batch."""
        import numpy as np

        starts, filters = found.grouped(size)
        used, where = np.unique(filters, return_inverse=True)
        several = [tuple(self.keys[number]) for number in used.tolist()]  # read once: they change
        counts = np.fromiter(map(len, several), dtype=np.int64, count=len(several))[where]
        if (counts == 1).all():
            only = np.empty(len(several), dtype=object)
            only[:] = [keys[0] if keys else None for keys in several]
            return Matches(starts, only[where].tolist())
        ends = np.concatenate([[0], np.cumsum(counts)])  # equal filters, or some that are gone
        return Matches(ends[starts], list(chain.from_iterable([several[n] for n in where])))


class Matches(NamedTuple):
    """The keys for all events of a batch, one event after the other."""

    offsets: Integers
    keys: list[Any] | Integers

    @classmethod
    def of(cls, lists: list[list[Any]]) -> Matches:
        """From the keys for each event."""
        import numpy as np

        return cls(np.cumsum([0, *map(len, lists)]), list(chain.from_iterable(lists)))

    @classmethod
    def together(cls, several: list[Matches], size: int) -> Matches:
        """Those of several indexes for the same events."""
        if len(several) == 1:
            return several[0]
        lists: list[list[Any]] = [[] for _ in range(size)]
        for matches in several:
            for found, keys in zip(lists, matches.lists(), strict=True):
                found += keys
        return cls.of(lists)

    def lists(self) -> list[list[Any]]:
        """The keys for each event."""
        keys = self.keys if isinstance(self.keys, list) else self.keys.tolist()
        return [keys[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    def arrays(self) -> tuple[Integers, NDArray[Any]]:
        """Offsets and keys as arrays; keys that are all numbers are an array of numbers."""
        import numpy as np

        if not isinstance(self.keys, list):
            return self.offsets, self.keys
        whole = set(map(type, self.keys)) <= {int}
        try:
            ids = np.array(self.keys, dtype=np.int64) if whole else None
        except OverflowError:
            ids = None
        if ids is None:
            ids = np.empty(len(self.keys), dtype=object)
            ids[:] = self.keys
        return self.offsets, ids


class Known:
    """A tree with its hash, computed once."""

    __slots__ = ("_hash", "tree")

    def __init__(self, tree: nodes.Node, hashed: int | None = None) -> None:
        self.tree = tree
        self._hash = hash(tree) if hashed is None else hashed

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.tree == other.tree


class Index:
    """Filters by their keys."""

    def __init__(self, lock: threading.RLock | None = None) -> None:
        self._lock = threading.RLock() if lock is None else lock
        self._numbers: dict[Known, int] = {}
        self._gone = self._changes = 0
        self._seen: list[Any] = []  # values of events, while there is something to learn
        self._state = State(Layout([], self._lock, []), [], [], {})

    def __len__(self) -> int:
        return len(self._numbers)

    # -- changing ----------------------------------------------------------------------------------

    def add(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter be for a key, too."""
        with self._lock:
            self._changes += 1
            state = self._state
            known = Known(tree)
            number = self._numbers.get(known)
            if number is not None:
                state.keys[number] = with_key(state.keys[number], key)
                return
            number = self._numbers[known] = len(state.trees)
            state.keys.append((key,))
            state.trees.append(tree)
            state.waiting.append(WaitingFilter(number, tree))

    def add_all(self, filters: Iterable[tuple[Hashable, nodes.Node]]) -> None:
        """The same for many keys and their filters."""
        for key, tree in filters:
            self.add(tree, key)

    def remove(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter not be for a key any more."""
        with self._lock:
            self._changes += 1
            state = self._state
            known = Known(tree)
            number = self._numbers[known]
            keys = state.keys[number] = without_key(state.keys[number], key)
            if not keys:
                state.keys[number] = ()
                state.trees[number] = None
                state.normal.pop(number, None)
                del self._numbers[known]
                self._gone += 1
                if self._gone > len(self._numbers):  # half of all: a new layout takes long
                    self._rebuild(None)

    def prepare(self) -> None:
        """Put those that wait into the layout, if they are many: the next event would have to."""
        state = self._state
        if len(state.waiting) > _most_waiting(state):
            self.settle()

    def settle(self) -> None:
        """Put those that wait into the layout."""
        with self._lock:
            state = self._state
            if len(state.trees) > 2 * state.made_for or len(state.trees) < SMALL:
                self._rebuild(None)
                return
            for number in [waiting.number for waiting in state.waiting]:
                tree = state.trees[number]
                if tree is not None:
                    state.normal[number] = conjunctions(tree)
                    for conjunction in state.normal[number]:
                        state.layout.add((number, conjunction))
            if self._state is not state:  # a finaliser was here
                return
            fresh = State(state.layout, state.trees, state.keys, state.normal)
            fresh.made_for = state.made_for
            fresh.waiting = [
                waiting for waiting in state.waiting if waiting.number not in state.normal
            ]
            self._state = fresh

    def _rebuild(self, sample: ValueSample | None) -> None:
        """Make a new layout aside, without what is gone, and swap it in.

        A finaliser may run anywhere, and change the index in the midst of it: then once more.
        """
        while True:
            old, changes = self._state, self._changes
            known = list(self._numbers.items())
            trees: list[nodes.Node | None] = [one.tree for one, _ in known]
            keys = [old.keys[number] for _, number in known]
            normal = {
                number: old.normal.get(before) or conjunctions(one.tree)
                for number, (one, before) in enumerate(known)
            }
            rows = [(number, row) for number, several in normal.items() for row in several]
            fresh = State(Layout(rows, self._lock, keys, sample), trees, keys, normal)
            if self._changes == changes and self._state is old:
                break
        if sample is None and fresh.layout.is_anchored():
            fresh.layout.watch(self._watch)
        self._numbers = {one: number for number, (one, _) in enumerate(known)}
        self._gone, self._seen = 0, []
        self._state = fresh

    # -- asking ------------------------------------------------------------------------------------

    def state(self) -> State:
        """What to match against now."""
        state = self._state
        waiting = len(state.waiting)
        if waiting:
            state.asked += 1
            if waiting > _most_waiting(state) or state.asked > ASKED or not state.made_for:
                self.settle()
        return self._state

    def match(self, event: Any) -> list[Any]:
        """The keys that an event is for."""
        state = self._state
        waiting = state.waiting
        if waiting:
            state = self.state()
            waiting = state.waiting
        found = state.layout.numbers(event)
        if waiting:
            found = list({*found, *_passed(waiting, event)})  # some may just have been placed
        found.sort()
        # In one step, whoever changes them meanwhile: nothing of it runs in Python.
        return list(chain.from_iterable(map(state.keys.__getitem__, found)))

    def match_batch(self, events: list[Any]) -> list[list[Any]]:
        """The keys that each of many events is for."""
        state = self.state()
        if len(events) < SMALL_BATCH or state.singly or not _has_numpy():
            return [self.match(event) for event in events]
        if state.singly is None and len(events) >= TRIAL:
            state.batches += 1
            if state.batches > WARM:
                return self._tried(state, events)
        return self.match_rows(Objects(events)).lists()

    def _tried(self, state: State, events: list[Any]) -> list[list[Any]]:
        """Match a batch both ways, and find out which is faster: that depends on the filters."""
        some, rest = events[:SMALL_BATCH], events[SMALL_BATCH:]
        for event in some:
            self.match(event)  # makes what it needs; batches have made theirs before
        begun = perf_counter()
        found = [self.match(event) for event in some]
        between = perf_counter()
        found += self.match_rows(Objects(rest)).lists()
        share = (perf_counter() - between) / len(rest)
        if state.layout.watcher is None:
            state.singly = (between - begun) / len(some) < CLEARLY * share
        return found

    def match_rows(self, batch: EventBatch) -> Matches:
        """The keys that each event of a batch is for."""
        state = self.state()
        if state.layout.watcher is not None:
            for number in range(0, len(batch), max(1, len(batch) // SAMPLE)):
                state.layout.numbers(batch.event(number))
            state = self.state()
        return state.grouped(self._pairs(state, batch), len(batch))

    def _pairs(self, state: State, batch: EventBatch) -> Found:
        """Each event with each filter that it passes."""
        table = state.table(self._lock)
        columns, odd = batch.columns(state.layout)
        found = [table.match(columns, len(batch), batch.event).without(odd)]
        if odd:
            found.append(_asked(odd, batch, state.layout.numbers))
        if table.always:
            usual = [number for number in range(len(batch)) if number not in odd]
            found.append(_asked(usual, batch, table.always_numbers))
        if waiting := list(state.waiting):
            everything = range(len(batch))
            found.append(_asked(everything, batch, lambda event: _passed(waiting, event)))
        return Found.together(found)

    def _watch(self, values: tuple[Any, ...]) -> None:
        """See what values events have; with enough of them, find better anchors."""
        with self._lock:
            state = self._state
            if state.layout.watcher is None or len(values) != len(state.layout.lanes):
                return
            self._seen.append(state.layout.plain(values))
            if len(self._seen) < SAMPLE:
                return
            sample = state.layout.sample(self._seen)
            self._seen = []
            state.layout.watch(None)
            if self._worth(state, sample):
                self._rebuild(sample)

    def _worth(self, state: State, sample: ValueSample) -> bool:
        """Whether other anchors would spare much work, tried with some of the rows."""
        rows = state.rows()
        rows = random.Random(0).sample(rows, min(TRIED, len(rows)))  # noqa: S311  (no secret)
        trial = Layout(rows, self._lock, state.keys, sample)
        now = better = 0.0
        for _, conjunction in rows:
            chosen, best = state.layout.best(conjunction), trial.best(conjunction)
            if chosen is not None and best is not None:
                now += trial.share(chosen.predicate)
                better += trial.share(best.predicate)
        return now > WORTH * better


def _has_numpy() -> bool:
    return importlib.util.find_spec("numpy") is not None


def _asked(which: Iterable[int], batch: EventBatch, ask: Callable[[Any], list[int]]) -> Found:
    """Events of a batch that are asked one by one."""
    return Found.of([(number, passed) for number in which for passed in ask(batch.event(number))])


def _passed(waiting: list[WaitingFilter], event: Any) -> list[int]:
    """Those that an event passes of the filters that are not in the layout yet."""
    return [filter_.number for filter_ in waiting if filter_.passes(event)]


def _most_waiting(state: State) -> int:
    return WAITING + len(state.trees) // WAITING_SHARE


def with_key(keys: Any, key: Hashable) -> Any:
    """Few keys are a tuple, many a dictionary that is changed in place."""
    if isinstance(keys, dict):
        keys[key] = None
        return keys
    return (*keys, key) if len(keys) < FEW_KEYS else dict.fromkeys((*keys, key))


def without_key(keys: Any, key: Hashable) -> Any:
    """The same without one of them."""
    if isinstance(keys, dict):
        del keys[key]
        return keys
    return tuple(other for other in keys if other != key)
