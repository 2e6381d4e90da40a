"""Threads that wait for turns, and whether they would wait for each other for ever.

A callback in line that publishes on another bus waits for the turn of that bus while its thread
has the turn of its own. Two threads that cross in this way would wait for ever: the later is
refused.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from polycast.errors import WouldDeadlockError
from polycast.locks import interrupted, is_awaited, is_mine
from polycast.routing.publish_codegen import NESTING_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["BUSES", "OWNERS", "Ownable", "forget_other_threads", "frames_with_a_turn", "waiting"]


class Ownable(Protocol):
    """A turn, as far as it matters who has it."""

    mark: object  # what stands for it

    def runs(self, frame: FrameType) -> bool:
        """Whether a frame is of a call that has this turn."""


class Changeable(Protocol):
    """A bus, as far as it matters who changes it."""

    def locks(self) -> list[Any]:
        """What is held for that."""


BUSES: WeakSet[Changeable] = WeakSet()
"""All of this process."""
OWNERS: dict[object, int] = {}
"""The threads that took a turn on the slow side, by its mark."""
_in_line: set[int] = set()  # the threads that wait for a turn
_awaited: dict[int, Ownable] = {}  # for which turn a thread waits that has another


def frames_with_a_turn(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames, of those below one, of calls that took a turn on the fast side."""
    while frame is not None:
        if frame.f_code.co_filename == NESTING_MARK and frame.f_locals.get("mine") is True:
            yield frame
        frame = frame.f_back


@contextmanager
def waiting(turn: Ownable) -> Iterator[None]:
    """While a thread waits for a turn; refused if who has it waits for this very thread."""
    me = threading.get_ident()
    # It would wait behind what it has interrupted, or for who waits for that.
    if me in _in_line or is_awaited() or _is_changing():
        raise interrupted("publishing")
    _in_line.add(me)
    try:
        if _has_a_turn(me):  # nobody waits for a thread that has none
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


def _is_changing() -> bool:
    """Whether this thread is in the midst of changing a bus, or its log."""
    return any(is_mine(lock) for bus in list(BUSES) for lock in bus.locks())


def _has_a_turn(me: int) -> bool:
    if me in list(OWNERS.values()):
        return True
    return next(frames_with_a_turn(sys._getframe(1)), None) is not None


def _leads_to(me: int, turn: Ownable | None) -> bool:
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


def _running(turn: Ownable) -> int | None:
    """The thread in which a call runs that took a turn on the fast side."""
    for thread, frame in sys._current_frames().items():
        if any(turn.runs(each) for each in frames_with_a_turn(frame)):
            return thread
    return None


def forget_other_threads() -> None:
    """In a process that was forked there are none."""
    OWNERS.clear()
    _awaited.clear()
    _in_line.clear()
