"""Things to do later, by a clock that was passed in."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections import deque
from typing import TYPE_CHECKING

from polycast.config import SystemClock
from polycast.errors.failures import FAILURES
from polycast.plain_text import log_of
from polycast.runtime import SYSTEM, Runtime, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock

LOOK = 0.01  # how often a clock that somebody else turns is looked at, in real seconds
LONGEST = 3_600.0  # a wait may not be as long as a timer
_log = log_of("polycast")


class Timer:
    """One thing to do at a time."""

    __slots__ = ("_timers", "action", "number", "when")

    def __init__(
        self, when: float, number: int, action: Callable[[], None], timers: Timers
    ) -> None:
        self.when, self.number, self._timers = when, number, timers
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """Do not do it."""
        if self.action is not None:
            self.action = None
            self._timers.one_less()


class Timers:
    """A thread, started when first needed, that does what is due. No user code runs in it."""

    def __init__(self, clock: Clock, *, threaded: bool = True, runtime: Runtime = SYSTEM) -> None:
        self.clock, self._runtime = clock, runtime
        self._threaded = threaded
        self._heap: list[Timer] = []
        # Who comes may interrupt who looks at the heap, in the same thread.
        self._new: deque[Timer] = deque()
        self._numbers = itertools.count()
        self._changed = runtime.condition()  # over an RLock
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cancelled = 0  # how many in the heap
        self._wakes_at = -math.inf  # while the thread sleeps, when it wakes by itself

    def after(self, delay: float, action: Callable[[], None]) -> Timer:
        """Do something after so many seconds."""
        timer = Timer(self.clock.monotonic() + delay, next(self._numbers), action, self)
        note(self._changed)
        with self._changed:
            self._new.append(timer)
            if self._threaded and self._thread is None and not self._closed:
                self._start()
            if timer.when < self._wakes_at:
                self._changed.notify()
        return timer

    def one_less(self) -> None:
        """One was cancelled; when most have been, the thread is to let them leave the heap."""
        note(self._changed)
        with self._changed:
            self._cancelled += 1
            if self._cancelled % 128 == 0:
                self._changed.notify()

    def next_due(self) -> float | None:
        """When the next thing is to be done."""
        with self._changed:
            self._gather()
            return min((t.when for t in self._heap if t.action is not None), default=None)

    def _gather(self) -> None:
        """Put what is new into the heap. The lock is held."""
        while self._new:
            heapq.heappush(self._heap, self._new.popleft())
        if self._cancelled > 100 and self._cancelled > len(self._heap) // 2:
            self._heap = [timer for timer in self._heap if timer.action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _start(self) -> None:
        thread = self._runtime.thread(self._run, name="polycast-timers")
        thread.start()  # which Python refuses while the program ends
        self._thread = thread

    def run_due(self) -> int:
        """Do all that is due now; how many."""
        done = 0
        while self._run_one():
            done += 1
        return done

    def _run_one(self) -> bool:
        action = self._pop_due()
        if action is None:
            return False
        try:
            action()
        except FAILURES:
            _log.exception("a timer failed")
        return True

    def _pop_due(self) -> Callable[[], None] | None:
        with self._changed:
            self._gather()
            while self._heap:
                if self._heap[0].action is None:
                    heapq.heappop(self._heap)
                    self._cancelled -= 1
                elif self._heap[0].when <= self.clock.monotonic():
                    return heapq.heappop(self._heap).action
                else:
                    break
        return None

    def _run(self) -> None:
        while not self._closed:
            self.run_due()
            with self._changed:
                if not self._closed:
                    left = self._until_next()
                    self._wakes_at = self._heap[0].when if self._heap else math.inf
                    self._changed.wait(left)
                    self._wakes_at = -math.inf

    def _until_next(self) -> float | None:
        self._gather()
        if not self._heap:
            return None
        left = min(max(0.0, self._heap[0].when - self.clock.monotonic()), LONGEST)
        # The clock of a broker goes by the monotonic clock of its client.
        is_real = self.clock.monotonic in (SystemClock.monotonic, self._runtime.monotonic)
        return left if is_real else min(left, LOOK)

    def close(self) -> None:
        """Do nothing more."""
        with self._changed:
            self._closed = True
            self._heap.clear()
            self._new.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)
