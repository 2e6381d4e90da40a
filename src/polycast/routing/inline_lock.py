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
from weakref import WeakSet

from polycast.errors import WouldDeadlockError
from polycast.routing.publish_codegen import NESTING_MARK
from polycast.runtime import interrupted, is_awaited, is_mine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CellType, FrameType

    from polycast.routing.dispatcher import Dispatcher


DISPATCHERS: WeakSet[Dispatcher] = WeakSet()
"""Those of all buses of this process."""
OWNERS: dict[object, int] = {}
"""The threads that took a turn on the slow side, by its mark."""
_in_line: set[int] = set()  # the threads that wait for a turn
_awaited: dict[int, InlineLock] = {}  # for which turn a thread waits that has another


def frames_with_a_turn(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames, of those below one, of calls that took a turn on the fast side."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(NESTING_MARK) and frame.f_locals.get("mine") is True:
            yield frame
        frame = frame.f_back


@contextmanager
def waiting(turn: InlineLock) -> Iterator[None]:
    """While a thread waits for a turn; refused if who has it waits for this very thread."""
    me = threading.get_ident()
    changing = (lock for dispatcher in list(DISPATCHERS) for lock in dispatcher.locks())
    # It would wait behind what it has interrupted, or for who waits for that.
    if me in _in_line or is_awaited() or any(map(is_mine, changing)):
        raise interrupted("publishing")
    _in_line.add(me)
    try:
        # Nobody waits for a thread that has no turn.
        if me in list(OWNERS.values()) or any(frames_with_a_turn(sys._getframe(1))):
            _awaited[me] = turn  # before the look: of two that cross, the later sees the other
            if _leads_to(me, turn):
                raise WouldDeadlockError(
                    "publishing on another bus in a callback in line",
                    why="that bus is busy with a callback in another thread, which waits for the "
                    "bus of this one. Nobody got the event. Subscribe on one of the two buses with "
                    'dispatch="pool"',
                )
        yield
    finally:
        _awaited.pop(me, None)
        _in_line.discard(me)


def _leads_to(me: int, turn: InlineLock | None) -> bool:
    """Whether who has a turn waits for one whose owner waits, and so on, for a thread."""
    seen: set[int] = set()
    while turn is not None:
        owner = OWNERS.get(turn.mark) or _running(turn)
        if owner is None or owner in seen:
            return False
        if owner == me:
            return True
        seen.add(owner)
        turn = _awaited.get(owner)
    return False


def _running(turn: InlineLock) -> int | None:
    """The thread in which a call runs that took a turn on the fast side."""
    for thread, frame in sys._current_frames().items():
        if any(map(turn.runs, frames_with_a_turn(frame))):
            return thread
    return None


def forget_other_threads() -> None:
    """In a process that was forked there are none."""
    OWNERS.clear()
    _awaited.clear()
    _in_line.clear()


class InlineLock:
    """The right to run callbacks in this thread; what comes meanwhile waits in `pending`.

    The generated code gives the turn back itself if nothing is pending. No other thread runs
    between that look and the release, so who comes later finds the turn free, and who came
    before is seen.
    """

    def __init__(self, lock: Callable[[], threading.Lock] = threading.Lock) -> None:  # noqa: C901 - functions that share cells
        busy, position, latest = False, 0, 0.0
        owners, mark = OWNERS, object()
        # Calls that the thread with the turn has put off, and a knock for each thread that waits.
        pending: deque[Callable[[], None] | None] = deque()

        # A signal handler or a finaliser may interrupt this thread, but not here, where nothing
        # is called: so it always finds that the turn is free, or whose it is.

        def take(thread: int) -> bool:
            nonlocal busy
            if busy:
                return False
            busy = True
            owners[mark] = thread
            return True

        def give_if_quiet() -> bool:
            nonlocal busy
            if pending:
                return False
            busy = False
            del owners[mark]
            return True

        def disown(thread: int) -> None:
            try:
                if owners[mark] == thread:  # else who has it now has said so
                    del owners[mark]
            except KeyError:
                pass

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

        self.pending, self.mark = pending, mark
        self._take, self._give_if_quiet, self._disown = take, give_if_quiet, disown
        self.advance, self.newest, self.moment = advance, newest, moment
        self.cells: dict[str, CellType] = {}
        for function in (take, advance, moment):
            cells = function.__closure__ or ()
            self.cells.update(zip(function.__code__.co_freevars, cells, strict=True))
        self._lock = lock
        self._tickets: deque[threading.Lock] = deque()  # of the threads that wait, in their order

    def is_mine(self) -> bool:
        """Whether this thread is inside a callback that was called with the turn."""
        if OWNERS.get(self.mark) == threading.get_ident():
            return True
        return any(map(self.runs, frames_with_a_turn(sys._getframe(1))))

    def runs(self, frame: FrameType) -> bool:
        """Whether a frame with a turn has this one: its globals tell whose route it is."""
        return bool(frame.f_globals["give_turn"] == self.give)

    def take(self) -> bool:
        """Wait for the turn and take it; False, at once, if this thread has it already."""
        me = threading.get_ident()
        if self._take(me):
            return True
        if self.is_mine():
            return False
        with waiting(self):
            self._wait(me)
        return True

    def own(self) -> None:
        """Note that this thread has the turn and will give it back by `give`."""
        OWNERS[self.mark] = threading.get_ident()

    def _wait(self, me: int) -> None:
        ticket = self._lock()
        ticket.acquire()
        self._tickets.append(ticket)
        self.pending.append(None)
        if self._take(me):  # it was given back before the knock could be heard
            self._tickets.remove(ticket)
            return
        try:
            ticket.acquire()
        except BaseException:  # Ctrl-C
            try:
                self._tickets.remove(ticket)
            except ValueError:  # the turn was handed to this thread meanwhile
                self.give()
            raise
        self.own()

    def give(self) -> None:
        """Give the turn back, or to who waits for it, after doing what was put off."""
        interrupts: list[BaseException] = []
        while True:
            self.own()
            while self.pending:
                self._do(self.pending.popleft(), interrupts)
            if self._hand_over():
                break
            if self._give_if_quiet():
                break
        if interrupts:
            raise interrupts[0]

    def _do(self, work: Callable[[], None] | None, interrupts: list[BaseException]) -> None:
        try:
            if work is not None:
                work()
        except BaseException as interrupt:  # the others do not suffer for it
            interrupts.append(interrupt)

    def _hand_over(self) -> bool:
        """Give the turn to the first who waits, if anybody does."""
        try:
            ticket = self._tickets.popleft()
        except IndexError:
            return False
        if self._tickets:
            self.pending.append(None)  # the knocks of those who go on waiting were heard
        ticket.release()
        self._disown(threading.get_ident())
        return True

    def leave(self) -> None:
        """In a process that was forked: what was put off is done by its parent."""
        self.pending.clear()
        self._tickets.clear()

    def put_off(self, work: Callable[[], None]) -> None:
        """Do something when the current event has gone to all; this thread has the turn."""
        self.pending.append(work)

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
                self.put_off(work)
            else:
                work()


PATIENCE = 1.0  # seconds that a change waits at most: what it waits for may wait for it


class StarvationGuard:
    """A publisher that has asked everybody asks again only those who came meanwhile.

    If somebody always comes meanwhile, it says so, and changes wait until it is through.
    """

    def __init__(
        self,
        in_turn: Callable[[], bool],
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._in_turn = in_turn
        self._over = condition()
        self._overtaken: set[int] = set()  # threads

    @contextmanager
    def hold_changes(self) -> Iterator[None]:
        """Let nobody change the plan, for a while."""
        me = threading.get_ident()
        if me in self._overtaken:  # a filter that publishes
            yield
            return
        with self._over:
            self._overtaken.add(me)
        try:
            yield
        finally:
            with self._over:
                self._overtaken.discard(me)
                self._over.notify_all()

    def wait(self) -> None:
        """Let those go first who asked for it; nobody waits for himself, or with the turn."""
        if not self._overtaken or threading.get_ident() in self._overtaken or self._in_turn():
            return
        with self._over:
            self._over.wait_for(lambda: not self._overtaken, PATIENCE)
