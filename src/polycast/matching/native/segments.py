"""When segments of the kernel are made and merged: there are few, and most are made once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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
