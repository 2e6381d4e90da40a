"""Whose turn it is to run callbacks in its own thread, and the newest position.

One event at a time goes through the callbacks that run in the publisher's thread, in log order.
Taking the turn must cost next to nothing, so it is a flag in a closure cell, which the generated
code reads and sets itself (see codegen). Everything here is the slow side: waiting for the turn,
handing it over, and doing what was published from inside a callback.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polycast.routing.codegen import CONTENDED_LINE, NESTING_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CellType, FrameType

__all__ = ["Turn"]


class Turn:
    """The right to run callbacks in this thread; what comes meanwhile waits in `pending`."""

    def __init__(self) -> None:
        busy, position, latest = False, 0, 0.0

        def take() -> bool:
            nonlocal busy
            if busy:
                return False
            busy = True
            return True

        def give() -> None:
            nonlocal busy
            busy = False

        def advance() -> int:
            nonlocal position
            position += 1
            return position

        def newest() -> int:
            return position

        def moment(now: float) -> float:
            nonlocal latest
            if now > latest:
                latest = now
            return latest

        self._take, self._give = take, give
        self.advance, self.newest, self.moment = advance, newest, moment
        self.cells: dict[str, CellType] = {}
        for function in (take, advance, moment):
            cells = function.__closure__ or ()
            self.cells.update(zip(function.__code__.co_freevars, cells, strict=True))
        # Work for whoever has the turn: a call to make, or a ticket of a thread that waits.
        self.pending: deque[Callable[[], None] | threading.Lock] = deque()
        self._owner: int | None = None  # the thread that took it on the slow side

    def is_mine(self) -> bool:
        """Whether this thread is inside a callback that was called with the turn."""
        if self._owner == threading.get_ident():
            return True
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            # The mark is shared by all buses; the shared cell tells whose route it is.
            if frame.f_code.co_filename == NESTING_MARK and self._runs(frame):
                return True
            frame = frame.f_back
        return False

    def _runs(self, frame: FrameType) -> bool:
        here = frame.f_lineno or 0
        return here > CONTENDED_LINE and bool(frame.f_globals["give_turn"] == self.give)

    def take(self) -> bool:
        """Wait for the turn and take it; False, at once, if this thread has it already."""
        if not self._take():
            if self.is_mine():
                return False
            self._wait()
        self.own()
        return True

    def own(self) -> None:
        """Note that this thread has the turn and will give it back by `give`."""
        self._owner = threading.get_ident()

    def _wait(self) -> None:
        ticket = threading.Lock()
        ticket.acquire()
        self.pending.append(ticket)
        if self._take():  # it was given back before the ticket could be seen
            self.pending.remove(ticket)
        else:
            ticket.acquire()

    def give(self) -> None:
        """Give the turn back, or to who waits for it, after doing what is pending."""
        self._owner = None
        self._give()
        if self.pending:
            self.resume()

    def resume(self) -> None:
        """Do what is pending. Called without the turn; who takes it first does the work."""
        while self.pending and self._take():
            self.own()
            try:
                if self._work_off():
                    return
            except BaseException:
                self.give()
                raise
            self._owner = None
            self._give()

    def _work_off(self) -> bool:
        """Do the pending calls; True if the turn went to a thread that waited for it."""
        while self.pending:
            work = self.pending.popleft()
            if callable(work):
                work()
            else:
                self._owner = None
                work.release()
                return True
        return False

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Have the turn for a while; True if this thread had it before, inside a callback."""
        if not self.take():
            yield True
            return
        try:
            yield False
        finally:
            self.give()

    def run(self, work: Callable[[], None]) -> None:
        """Do something with the turn: now, or when the current event has gone to all."""
        with self.hold() as nested:
            if nested:
                self.pending.append(work)
            else:
                work()
