"""Locks for code that signal handlers and finalisers may interrupt in its own thread.

They run at any point, even while the thread holds a lock; waiting for that lock would be a
deadlock. An `RLock` knows its owner, so this can be detected.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.errors import WouldDeadlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")


def owner_test(lock: Any) -> Callable[[], bool]:
    """Return the test whether this thread owns an `RLock`; a call costs about as much as a lock."""
    test: Callable[[], bool] = lock._is_owned
    return test


def is_mine(lock: Any) -> bool:
    """Whether this thread owns an `RLock`."""
    return bool(lock._is_owned())


def check_free(operation: str, *locks: Any) -> None:
    """Raise `WouldDeadlockError` if this thread was interrupted while it owned one of the locks."""
    if is_inside():
        raise interrupted(operation)
    for lock in locks:
        if lock._is_owned():
            raise interrupted(operation)


class _Latest(threading.local):
    """The outermost lock that a thread noted last, before acquiring it.

    The note stays afterwards: the lock itself says whether the thread owns it.
    """

    lock: Any = None


LATEST = _Latest()


def is_inside() -> bool:
    """Whether this thread owns the lock that it noted last."""
    lock = LATEST.lock
    return lock is not None and bool(lock._is_owned())


def note(lock: Any) -> None:
    """Note a lock that is about to be acquired, unless within another one."""
    if not is_inside():
        LATEST.lock = lock


_awaited: set[int] = set()  # threads


@contextmanager
def others_wait() -> Iterator[None]:
    """Mark this thread as one that other threads wait for, which must not wait for them."""
    me = threading.get_ident()
    _awaited.add(me)
    try:
        yield
    finally:
        _awaited.discard(me)


def is_awaited() -> bool:
    """Whether other threads wait for this thread."""
    return threading.get_ident() in _awaited


class InterruptibleFuture(Future[T]):
    """A future that an interrupting signal handler may wait for, too.

    A waiting thread holds no lock that the thread which resolves the future needs.
    """

    def __init__(self, lock: Callable[[], threading.Lock] = threading.Lock) -> None:
        super().__init__()
        self._gate = lock()
        self._gate.acquire()

    def _invoke_callbacks(self) -> None:
        self._gate.release()  # it is resolved, and callbacks may read the result
        super()._invoke_callbacks()  # type: ignore[misc]

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result."""
        if not self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError
        self._gate.release()
        return super().result(0)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call a function when the future is resolved."""
        note(self._condition)
        super().add_done_callback(fn)


def await_all(futures: Iterable[Future[Any]], timeout: float | None = None) -> None:
    """Wait until all futures are resolved, however they end, or one has taken too long."""
    for future in tuple(futures):
        try:
            future.result(timeout)
        except Exception:
            if not future.done():
                return


def interrupted(operation: str) -> WouldDeadlockError:
    """Return the error for calls that interrupt the bus in its own thread."""
    return WouldDeadlockError(
        operation,
        why="it was called by a signal handler or a finaliser that has interrupted the bus in this "
        "very thread, and nothing was done. Only note there what is to be done, as in a "
        "queue.SimpleQueue, and do it elsewhere",
    )


class InterruptibleEvent:
    """Like a `threading.Event`, but `set` may be interrupted anywhere, and holds no lock.

    Who interrupts it may wait for a thread that sets the same event.
    """

    def __init__(self, *, lock: Callable[[], threading.Lock] = threading.Lock) -> None:
        self._lock = lock
        self._gates: deque[threading.Lock] = deque()  # of the threads that wait
        self._rung = False

    def set(self) -> None:
        """Set the event."""
        self._rung = True
        with suppress(IndexError):
            while True:
                self._gates.popleft().release()

    def clear(self) -> None:
        """Reset the event."""
        self._rung = False

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._rung

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set."""
        if self._rung:
            return True
        gate = self._lock()
        gate.acquire()
        self._gates.append(gate)
        if not self._rung and gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return True
        with suppress(ValueError):  # it was set meanwhile
            self._gates.remove(gate)
        return self._rung
