"""Events on their way into the log: in the order of their sequence, and so many bytes at once."""

from __future__ import annotations

import sys
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.errors import BusClosedError, PublishBufferFullError
from polycast.runtime import SYSTEM, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import RLock

    from polycast.stores import Run, Stray


class CallbackPublications:
    """The newest position of it; of some that is not known yet."""

    def __init__(self, lock: RLock) -> None:
        self.newest = 0  # as long as some is not known, none is newer
        self._lock = lock
        self._known = self._under_way = 0

    def begin(self, positions: Future[list[int]]) -> None:
        """Something more is on its way into the log."""
        with self._lock:
            self._under_way += 1
            self.newest = sys.maxsize
        positions.add_done_callback(self._end)

    def _end(self, positions: Future[list[int]]) -> None:
        """It is in the log, or never will be."""
        with self._lock:
            self._under_way -= 1
            if not positions.cancelled() and positions.exception() is None:
                self._known = max([self._known, *positions.result()])
            if not self._under_way:
                self.newest = self._known


_OVERHEAD = 500  # bytes that an event takes besides its payload


@dataclass(eq=False, slots=True)
class Waiting:
    """Events that the store has not been given yet."""

    runs: list[Run]
    astray: Sequence[Stray]
    size: int
    since: float
    positions: Future[list[int]]
    handed_over: Future[None]


class SubmissionQueue:
    """Gives a store what is published, and to who does not wait for that no more than so much.

    A thread that waits for its receipt has one submission at a time, so only those of
    `publish_async` are counted; but while any wait, all others come after them.
    """

    LIMIT = 16_000_000

    def __init__(
        self,
        submit: Callable[[list[Run], Sequence[Stray]], Future[list[int]]],
        within: float,
        *,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._submit, self._within, self._runtime = submit, within, runtime
        self.limit, self.held = self.LIMIT, 0  # bytes that the store has and has not written
        self._waiting: deque[Waiting] = deque()
        self.lock = runtime.rlock()  # the store may be done before it returns
        self._is_handing_over = self._closed = False
        self._progress = self._runtime.monotonic()  # when the store was last done with something
        self._emptied = runtime.condition(self.lock)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(
        self, runs: list[Run], astray: Sequence[Stray], *, counted: bool
    ) -> tuple[Future[list[int]], Waiting | None]:
        """Submit events, now or when there is room; called in the order of their sequence."""
        if not counted and not self._waiting:
            return self._submit(runs, astray), None
        size, new = _size_of(runs) if counted else 0, self._runtime.future
        waiting = Waiting(runs, astray, size, self._runtime.monotonic(), new(), new())
        with self.lock:
            if self._closed:
                raise BusClosedError("publish")
            self._waiting.append(waiting)
        self._hand_over()
        return waiting.positions, None if waiting.handed_over.done() else waiting

    def _hand_over(self) -> None:
        """Give the store what it has room for."""
        with self.lock:
            if self._is_handing_over:
                return
            self._is_handing_over = True
            try:
                while self._waiting and self.held < self.limit:
                    self._hand_over_next(self._waiting.popleft())
            finally:
                self._is_handing_over = False
            if not self._waiting:
                self._emptied.notify_all()

    def _hand_over_next(self, waiting: Waiting) -> None:
        self.held += waiting.size
        try:
            positions = self._submit(waiting.runs, waiting.astray)
        except Exception as error:  # the store is closed, or has failed
            positions = Future()
            positions.set_exception(error)
        waiting.handed_over.set_result(None)
        positions.add_done_callback(lambda done: self._release(waiting, done))

    def _release(self, waiting: Waiting, done: Future[list[int]]) -> None:
        with self.lock:
            self.held -= waiting.size
            self._progress = self._runtime.monotonic()
        error = done.exception()
        if error is None:
            waiting.positions.set_result(done.result())
        else:
            waiting.positions.set_exception(error)
        self._hand_over()

    # -- waiting -----------------------------------------------------------------------------------

    def patience(self, waiting: Waiting) -> float:
        """For how many seconds more to wait for room, unless the store gets on meanwhile."""
        return max(waiting.since, self._progress) + self._within - self._runtime.monotonic()

    def await_turn(self, waiting: Waiting) -> None:
        """Wait until the store has been given this, as long as it gets on with what it has."""
        while not waiting.handed_over.done():
            left = self.patience(waiting)
            if left <= 0:
                self.withdraw(waiting)
            with suppress(TimeoutError):
                waiting.handed_over.result(max(left, 0.0))

    def withdraw(self, waiting: Waiting) -> None:
        """Raise `PublishBufferFullError` for what has waited too long, unless it has just gone."""
        with self.lock:
            if waiting not in self._waiting:
                return
            self._waiting.remove(waiting)
            held = self.held
        raise PublishBufferFullError(held, waited=self._within)

    def drain(self, timeout: float) -> None:
        """Wait for what is waiting to be given to the store."""
        with self._emptied:
            self._emptied.wait_for(lambda: not self._waiting, timeout)

    def close(self) -> None:
        """Let nobody wait any more."""
        with self.lock:
            self._closed = True
            left, self._waiting = self._waiting, deque()
        for waiting in left:
            waiting.positions.set_exception(BusClosedError("publish_async()"))
            waiting.handed_over.set_result(None)


def _size_of(runs: list[Run]) -> int:
    return sum(run.size(_OVERHEAD) for run in runs)
