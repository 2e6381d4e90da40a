"""Many filters at once: which of them an event passes. Safe to ask while it is changed.

Filters that are equal are one. New ones wait in a short list that is asked one by one, and go
into the layout together; when there are twice as many as it was made for, or many are gone, a new
layout is made aside and swapped in.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

from polycast.filters.backends.python import generate
from polycast.matching.index.batches import Found, Table
from polycast.matching.index.columns import columns_of
from polycast.matching.index.layout import Layout
from polycast.matching.index.predicates import conjunctions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from polycast.filters import nodes
    from polycast.matching.index.generated import Row
    from polycast.matching.index.layout import Sample
    from polycast.matching.index.predicates import Conjunction

__all__ = ["Index"]

WAITING = 64  # filters that are asked one by one, at least
WAITING_SHARE = 256  # or one in so many
SAMPLE = 256  # events to learn from
TRIED = 2_000  # rows for which better anchors are looked for
WORTH = 1.3  # how much fewer rows have to be asked for a new layout
FEW_KEYS = 8
SMALL_BATCH = 64  # events that are matched one by one

Waiting = list[tuple[int, "Callable[[Any], object]"]]


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
        self.functions: dict[int, Callable[[Any], object]] = {}  # where each has to be asked
        self.waiting: Waiting = []
        self.made_for = len(trees)
        self.learning = False
        self._table: Table | None = None

    def rows(self) -> list[Row]:
        """All numbered conjunctions."""
        return [(number, each) for number, several in self.normal.items() for each in several]

    def numbers(self, event: Any) -> list[int]:
        """The filters in the layout that an event passes."""
        try:
            return self.layout.run(event)
        except Exception:
            return one_by_one(self, event)

    def table(self, lock: threading.RLock) -> Table:
        """The layout as arrays, made when a batch first needs it."""
        with lock:
            if self._table is None:
                self._table = Table(self.layout, self.rows(), lock)
            return self._table

    def grouped(self, found: Found, size: int) -> list[list[Any]]:
        """The keys for each event of a batch."""
        starts, filters = found.grouped(size)
        offsets = starts.tolist()
        several = [self.keys[number] for number in filters.tolist()]
        counts = list(map(len, several))
        if sum(counts) != len(counts):  # equal filters, or filters that are gone
            ends = [0, *accumulate(counts)]
            offsets = [ends[offset] for offset in offsets]
        keys = list(chain.from_iterable(several))
        return [keys[begin:end] for begin, end in pairwise(offsets)]


class Index:
    """Filters by their keys."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers: dict[nodes.Node, int] = {}
        self._gone = 0
        self._seen: list[Any] = []  # values of events, while there is something to learn
        self._state = State(Layout([], self._lock), [], [], {})

    def __len__(self) -> int:
        return len(self._numbers)

    # -- changing ----------------------------------------------------------------------------------

    def add(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter be for a key, too."""
        with self._lock:
            state = self._state
            number = self._numbers.get(tree)
            if number is not None:
                state.keys[number] = _with(state.keys[number], key)
                return
            number = self._numbers[tree] = len(state.trees)
            state.keys.append((key,))
            state.trees.append(tree)
            state.waiting.append((number, _lazy(tree)))

    def remove(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter not be for a key any more."""
        with self._lock:
            state = self._state
            number = self._numbers[tree]
            keys = state.keys[number] = _without(state.keys[number], key)
            if not keys:
                state.keys[number] = ()
                state.trees[number] = None
                state.normal.pop(number, None)
                del self._numbers[tree]
                self._gone += 1
                if self._gone > WAITING + len(self._numbers) // 2:
                    self._rebuild(None)

    def settle(self) -> None:
        """Put those that wait into the layout."""
        with self._lock:
            state = self._state
            if len(state.trees) > 2 * state.made_for:
                self._rebuild(None)
                return
            for number, _ in state.waiting:
                tree = state.trees[number]
                if tree is not None:
                    state.normal[number] = conjunctions(tree)
                    for conjunction in state.normal[number]:
                        state.layout.add((number, conjunction))
            fresh = State(state.layout, state.trees, state.keys, state.normal)
            fresh.made_for, fresh.learning = state.made_for, state.learning
            self._state = fresh

    def _rebuild(self, sample: Sample | None) -> None:
        """Make a new layout aside, without what is gone, and swap it in."""
        old = self._state
        trees: list[nodes.Node | None] = list(self._numbers)
        keys = [old.keys[number] for number in self._numbers.values()]
        normal = {
            number: old.normal.get(known) or conjunctions(tree)
            for number, (tree, known) in enumerate(self._numbers.items())
        }
        rows = [(number, each) for number, several in normal.items() for each in several]
        fresh = State(Layout(rows, self._lock, sample), trees, keys, normal)
        fresh.learning = sample is None and fresh.layout.is_anchored()
        self._numbers = {tree: number for number, tree in enumerate(self._numbers)}
        self._gone, self._seen = 0, []
        self._state = fresh

    # -- asking ------------------------------------------------------------------------------------

    def state(self) -> State:
        """What to match against now."""
        state = self._state
        if len(state.waiting) > WAITING + len(state.trees) // WAITING_SHARE:
            self.settle()
            return self._state
        return state

    def match(self, event: Any) -> list[Any]:
        """The keys that an event is for."""
        state = self._state
        waiting = state.waiting
        if waiting:
            state = self.state()
            waiting = state.waiting
        found = state.numbers(event)
        if waiting:
            found = _with_waiting(found, waiting, event)
        if state.learning:
            self.learn([event])
        found.sort()
        keys: list[Any] = []
        for number in found:
            keys.extend(state.keys[number])  # in one step, whoever changes it meanwhile
        return keys

    def match_batch(self, events: list[Any]) -> list[list[Any]]:
        """The keys that each of many events is for."""
        if len(events) < SMALL_BATCH or not _has_numpy():
            return [self.match(event) for event in events]
        state = self.state()
        if state.learning:
            self.learn(events[:: max(1, len(events) // SAMPLE)])
            state = self.state()
        return state.grouped(self._pairs(state, events), len(events))

    def _pairs(self, state: State, events: list[Any]) -> Found:
        """Each event with each filter that it passes."""
        table = state.table(self._lock)
        columns, odd = columns_of(state.layout, events)
        found = [table.match(columns, len(events), events.__getitem__).without(odd)]
        if odd:
            found.append(_asked(odd, events, state.numbers))
        if table.always:
            usual = [number for number in range(len(events)) if number not in odd]
            found.append(_asked(usual, events, table.always_run))
        if state.waiting:
            waiting = list(state.waiting)
            found.append(
                _asked(range(len(events)), events, lambda event: _with_waiting([], waiting, event))
            )
        return Found.together(found)

    def learn(self, events: Iterable[Any]) -> None:
        """See what values events have; with enough of them, find better anchors."""
        with self._lock:
            state = self._state
            if not state.learning:
                return
            self._seen += [state.layout.plain_values(event) for event in events]
            if len(self._seen) < SAMPLE:
                return
            state.learning = False
            sample = state.layout.sample(self._seen)
            self._seen = []
            if self._worth(state, sample):
                self._rebuild(sample)

    def _worth(self, state: State, sample: Sample) -> bool:
        """Whether other anchors would spare much work, tried with some of the rows."""
        rows = state.rows()
        rows = random.Random(0).sample(rows, min(TRIED, len(rows)))
        trial = Layout(rows, self._lock, sample)
        now = better = 0.0
        for _, conjunction in rows:
            chosen, best = state.layout.best(conjunction), trial.best(conjunction)
            if chosen is not None and best is not None:
                now += trial.share(chosen.predicate)
                better += trial.share(best.predicate)
        return now > WORTH * better


def _has_numpy() -> bool:
    return importlib.util.find_spec("numpy") is not None


def _asked(which: Iterable[int], events: list[Any], ask: Callable[[Any], list[int]]) -> Found:
    """Events of a batch that are asked one by one."""
    pairs = [(number, each) for number in which for each in ask(events[number])]
    return Found.of(pairs)


def _with_waiting(found: list[int], waiting: Waiting, event: Any) -> list[int]:
    """Those too that are not in the layout yet; some may just have been put there."""
    numbers = set(found)
    for number, function in waiting:
        try:
            if function(event):
                numbers.add(number)
        except Exception:
            continue
    return list(numbers)


def one_by_one(state: State, event: Any) -> list[int]:
    """The slow way, where looking up cannot tell: ask every filter."""
    found = []
    for number, tree in enumerate(state.trees):
        if tree is not None:
            function = state.functions.get(number)
            if function is None:
                function = state.functions[number] = generate(tree).function
            try:
                if function(event):
                    found.append(number)
            except Exception:
                continue
    return found


def _lazy(tree: nodes.Node) -> Callable[[Any], object]:
    """A filter's function, made when it is first asked."""
    function: Callable[[Any], object] | None = None

    def ask(event: Any) -> object:
        nonlocal function
        if function is None:
            function = generate(tree).function
        return function(event)

    return ask


def _with(keys: Any, key: Hashable) -> Any:
    """Few keys are a tuple, many a dictionary that is changed in place."""
    if isinstance(keys, dict):
        keys[key] = None
        return keys
    return (*keys, key) if len(keys) < FEW_KEYS else dict.fromkeys((*keys, key))


def _without(keys: Any, key: Hashable) -> Any:
    if isinstance(keys, dict):
        del keys[key]
        return keys
    return tuple(each for each in keys if each != key)
