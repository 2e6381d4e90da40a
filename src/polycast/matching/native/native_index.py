"""Many filters at once, matched by the kernel; those that it cannot take, by the index in Python.

New filters become a small segment of their own, before the next event. A filter that is removed
loses its key at once, and its place when segments are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors.failures import FAILURES
from polycast.filters.backends.python import generate
from polycast.filters.normal_form.disjunction import conjunctions
from polycast.matching.index import Index, Matches
from polycast.matching.index.filter_index import Known, with_key, without_key
from polycast.matching.native.arrow_columns import ALONE, match_columns
from polycast.matching.native.kernel_form import Columns
from polycast.matching.native.residuals import NOTHING, Residuals
from polycast.matching.native.segments import QUICK, Segments

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Hashable, Iterable

    from polycast.filters.tree import nodes
    from polycast.matching.index import Rows
    from polycast.matching.native.arrow_columns import Sharing
    from polycast.matching.native.kernel_form import Row

__all__ = ["Limits", "NativeIndex"]

FEW = 48
FEW_GONE = 256  # filters that are gone before that is looked at
GONE = object()
MUCH = 4_096  # conjunctions that make a segment before there is an event
ELSEWHERE = -1  # the number of a filter that the kernel does not take


class Limits(NamedTuple):
    """What tests make smaller, so that few filters do all that many do."""

    few: int  # conjunctions that are asked one after the other
    cuts: int  # of the values of one column
    codes: int  # of them
    quick: int = QUICK  # conjunctions that are merged while others wait


class NativeIndex:
    """Filters by their keys. Safe to ask while it is changed."""

    def __init__(self, lock: threading.RLock, module: Any, *, limits: Limits | None = None) -> None:
        self._lock = lock
        limits = limits or Limits(FEW, module.MOST_CUTS, module.MOST_CODES)
        self.kernel = module.Kernel(self._match_odd, *limits[:3])  # asked itself, if `direct`
        self._columns = Columns(self.kernel, module.MOST_COLUMNS)
        self._segments = Segments(self.kernel, lock, limits.quick)
        self._residuals = Residuals(self.kernel.residuals)
        self._numbers: dict[Known, int] = {}
        self._trees: list[nodes.Node | None] = []  # by number
        self._keys: list[Any] = []  # a key; several, if the number is one of these:
        self._several: set[int] = set()
        self._strange = 0  # keys that are no numbers of 64 bits
        self._asked: dict[int, list[int]] = {}  # residuals of filters that have any
        self._free: list[int] = []
        self._dead: list[int] = []  # numbers that segments may still have
        self._functions: dict[int, Callable[[Any], object]] = {}  # of filters, for odd events
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
        with self._lock:
            known = Known(tree)
            self._count(key, 1)
            rows = None if known in self._numbers else self._rows(tree)
            number = self._numbers.get(known)  # a finaliser may have added it meanwhile
            if number is None:
                self._numbers[known] = self._place(known, key, rows)
            elif number == ELSEWHERE:
                self._elsewhere[known] = with_key(self._elsewhere[known], key)
                self._rest.add(tree, key)
            else:
                keys = self._keys[number]
                self._set(number, with_key(keys if number in self._several else (keys,), key))

    def _count(self, key: Hashable, by: int) -> None:
        """Arrays of keys are made of numbers, if all of them are."""
        if type(key) is not int or abs(key) >= 2**63:
            self._strange += by
        self.kernel.whole = not self._strange

    def _place(self, known: Known, key: Hashable, rows: list[Row] | None) -> int:
        if rows is not None:
            return self._take(known.tree, key, rows)
        self._rest.add(known.tree, key)
        self._elsewhere[known] = (key,)
        self.kernel.direct = False
        return ELSEWHERE

    def _rows(self, tree: nodes.Node) -> list[Row] | None:
        rows = [self._columns.row(each) for each in conjunctions(tree)]
        found = [row for row in rows if row is not None]
        return found if len(found) == len(rows) else None

    def _take(self, tree: nodes.Node, key: Hashable, rows: list[Row]) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._trees)
            self._trees.append(None)
            self._keys.append(GONE)
        self._trees[number], self._keys[number] = tree, key
        self.kernel.set_key(number, key, 0)
        for asked, rest in rows:
            residual = self._residuals.number(rest) if rest else NOTHING
            if rest:
                self._asked.setdefault(number, []).append(residual)
            self.kernel.put(number, residual, asked)
        return number

    def _set(self, number: int, keys: Any) -> None:
        """Several keys of one filter."""
        self._several.add(number)
        self._keys[number] = keys
        self.kernel.set_key(number, keys, 1)

    def remove(self, tree: nodes.Node, key: Hashable) -> None:
        """Let events that pass a filter not be for a key any more."""
        with self._lock:
            known = Known(tree)
            number = self._numbers[known]
            self._count(key, -1)
            if number == ELSEWHERE:
                self._rest.remove(tree, key)
                keys = self._elsewhere[known] = without_key(self._elsewhere[known], key)
            else:
                keys = without_key(self._keys[number], key) if number in self._several else ()
            if keys:
                if number != ELSEWHERE:
                    self._set(number, keys)
                return
            del self._numbers[known]
            if number == ELSEWHERE:
                del self._elsewhere[known]
            else:
                self._forget(number)

    def _forget(self, number: int) -> None:
        self.kernel.set_key(number, None, -1)
        self._trees[number], self._keys[number] = None, GONE
        self._several.discard(number)
        self._functions.pop(number, None)
        for each in self._asked.pop(number, ()):
            self._residuals.leave(each)
        self._dead.append(number)
        if self._are_many_gone():
            self._merge()

    def _merge(self) -> None:
        """One segment of all; then numbers that were gone before it can be given again."""
        if self._segments.are_merging:
            self._again = True
            return
        self._segments.settle()
        dead, self._dead = self._dead, []
        residuals = self._residuals.take_dead()

        def finish(free: bool) -> None:  # noqa: FBT001
            again = self._again or self._are_many_gone()  # meanwhile
            self._again = False
            (self._free if free else self._dead).extend(dead)
            self._residuals.give_back(residuals, free=free)
            if len(self._numbers) < len(self._trees) // 2:
                self._numbers = dict(self._numbers)  # it does not become smaller by itself
            if again:
                self._merge()

        self._segments.merge(finish)

    def _are_many_gone(self) -> bool:
        return len(self._dead) > FEW_GONE + len(self._numbers) // 4

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
            number = self._numbers[known] = self._take(known.tree, keys[0], rows)
            if len(keys) > 1:
                self._set(number, keys)
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

    def match_rows(self, batch: Rows, *, sharing: Sharing = ALONE) -> Matches:
        """The keys that each event of a batch is for."""
        with self._lock:
            self._tend()
            trees = list(self._elsewhere)
        found = match_columns(self.kernel, self._columns.all, batch, sharing, self._tend)
        if not trees:
            return found
        return Matches.together([found, self._rest.match_rows(batch)], len(batch))

    def _match_odd(self, event: Any, sure: list[int], unsure: Iterable[int]) -> list[Any]:
        """Of some filters it depends on a value that only they can judge."""
        numbers = set(sure)
        for number in set(unsure) - numbers:
            if self._passes(number, event):
                numbers.add(number)
        found: list[Any] = []
        for number in numbers:
            keys = self._keys[number]
            if number in self._several:
                found += keys
            elif keys is not GONE:
                found.append(keys)
        return found

    def _passes(self, number: int, event: Any) -> bool:
        tree = self._trees[number]
        if tree is None:
            return False
        function = self._functions.get(number)
        if function is None:
            function = self._functions[number] = generate(tree).function
        try:
            return bool(function(event))
        except FAILURES:
            return False
