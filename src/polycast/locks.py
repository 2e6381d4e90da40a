"""Locks for code that may be interrupted, in its own thread, by code that wants the same locks.

A signal handler and a finaliser run in the midst of anything, also where a lock is held; waiting
for it there would be waiting for oneself. An `RLock` knows who has it, so that can be told.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.errors import WouldDeadlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "LATEST",
    "InterruptibleEvent",
    "InterruptibleFuture",
    "check_free",
    "interrupted",
    "is_awaited",
    "is_inside",
    "is_mine",
    "note",
    "others_wait",
    "owner_test",
]

T = TypeVar("T")


def owner_test(lock: Any) -> Callable[[], bool]:
    """What tells whether this thread has an `RLock`; it costs about as much as a lock."""
    test: Callable[[], bool] = lock._is_owned
    return test


def is_mine(lock: Any) -> bool:
    """Whether this thread has an `RLock`."""
    return bool(lock._is_owned())


def check_free(operation: str, *locks: Any) -> None:
    """Refuse what was called in the midst of something that has one of these locks."""
    if is_inside():
        raise interrupted(operation)
    for lock in locks:
        if lock._is_owned():
            raise interrupted(operation)


class _Latest(threading.local):
    """The lock that a thread was about to take last, of those that are not within others.

    It is not taken back: whether the thread has the lock is asked of the lock.
    """

    lock: Any = None


LATEST = _Latest()


def is_inside() -> bool:
    """Whether this thread has the lock that it noted last."""
    lock = LATEST.lock
    return lock is not None and bool(lock._is_owned())


def note(lock: Any) -> None:
    """Note a lock that is about to be taken, perhaps within another one."""
    if not is_inside():
        LATEST.lock = lock


_awaited: set[int] = set()  # threads


@contextmanager
def others_wait() -> Iterator[None]:
    """While this thread does what other threads wait for: it must not wait for any of them."""
    me = threading.get_ident()
    _awaited.add(me)
    try:
        yield
    finally:
        _awaited.discard(me)


def is_awaited() -> bool:
    """Whether others wait for what this thread does."""
    return threading.get_ident() in _awaited


class InterruptibleFuture(Future[T]):
    """A future that may be waited for by what interrupts who waits for another one.

    Who waits has no lock meanwhile that whoever settles it would need.
    """

    def __init__(self) -> None:
        super().__init__()
        self._gate = threading.Lock()
        self._gate.acquire()

    def _invoke_callbacks(self) -> None:
        self._gate.release()  # it is settled, and those who are called now may ask how
        super()._invoke_callbacks()  # type: ignore[misc]

    def result(self, timeout: float | None = None) -> T:
        """Wait for it."""
        if not self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError
        self._gate.release()
        return super().result(0)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have something called when it has come."""
        note(self._condition)
        super().add_done_callback(fn)


def interrupted(operation: str) -> WouldDeadlockError:
    """The error for what interrupts the bus in its own thread."""
    return WouldDeadlockError(
        operation,
        why="it was called by a signal handler or a finaliser that has interrupted the bus in this "
        "very thread, and nothing was done. Only note there what is to be done, as in a "
        "queue.SimpleQueue, and do it elsewhere",
    )


class InterruptibleEvent:
    """Like a `threading.Event`, but who rings it may be interrupted by who rings it, too."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._rung = False

    def set(self) -> None:
        """Ring it."""
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def clear(self) -> None:
        """It has been heard."""
        self._rung = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is rung."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rung, timeout)
