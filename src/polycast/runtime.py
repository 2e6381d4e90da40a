"""The process that polycast runs in: its forks, its threads and locks, and what they are made of.

After `os.fork()` a child has copies of its parent's objects. Their threads, connections and locks
belong to the parent: they do not work in the child, and releasing them there must not affect the
parent.

Signal handlers and finalisers run at any point, in any thread, even while it holds a lock; waiting
for that lock would be a deadlock. An `RLock` knows its owner, so this can be detected.

The clock that is passed to a bus, a store or a broker may be a whole `Runtime`. Then nothing inside
starts a thread, waits, or reaches others but through it. The simulation in `tests/simulation` runs
stores, brokers and clients on one seed that way.
"""

from __future__ import annotations

import asyncio
import os
import random as _random
import secrets
import socket
import threading
import time as _time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import WeakSet

from polycast.errors import ForkedError, WouldDeadlockError
from polycast.errors.failures import run_as_ours


class Forks:
    """How often this process was forked from another that had loaded this module."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        """Count one more."""
        self.count += 1


FORKS = Forks()


class Home:
    """The process that something was opened in."""

    __slots__ = ("_forks", "_what")

    def __init__(self, what: str = "this bus") -> None:
        self._what, self._forks = what, FORKS.count

    def is_elsewhere(self) -> bool:
        """Whether this process is a child of that one."""
        return self._forks != FORKS.count

    def check(self, operation: str) -> None:
        """Raise `ForkedError` in a child."""
        if self._forks != FORKS.count:
            raise ForkedError(operation, self._what)


def in_child(function: Callable[[], None]) -> None:
    """Call a function first thing in every process forked from this one."""
    if hasattr(os, "register_at_fork"):  # not on Windows, where nobody forks
        os.register_at_fork(after_in_child=function)


_locks: WeakSet[Any] = WeakSet()


def shared_lock() -> threading.RLock:
    """Return a lock that a child may continue to use: it is free there."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_locks() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # its owner is a thread of the parent
            lock._at_fork_reinit()


in_child(FORKS.note)
in_child(_free_locks)


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


def _thread(
    target: Callable[..., None], *, name: str, args: tuple[Any, ...] = ()
) -> threading.Thread:
    args = (target, *args)
    return threading.Thread(target=run_as_ours, args=args, name=name, daemon=True)


def _executor(workers: int, name: str) -> Executor:
    return ThreadPoolExecutor(workers, thread_name_prefix=name)


def _datagrams() -> socket.socket | None:
    with suppress(AttributeError, OSError):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        return made
    return None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runtime:
    """A clock, and the makers of all that a thread may wait for; by default, this machine's."""

    time: Callable[[], float] = _time.time
    monotonic: Callable[[], float] = _time.monotonic
    thread_time: Callable[[], float] = _time.thread_time
    sleep: Callable[[float], None] = _time.sleep
    random: Callable[[], float] = _random.random
    token: Callable[[int], str] = secrets.token_hex
    lock: Callable[[], threading.Lock] = threading.Lock
    rlock: Callable[[], threading.RLock] = threading.RLock
    condition: Callable[..., threading.Condition] = threading.Condition
    event: Callable[[], InterruptibleEvent] = InterruptibleEvent
    queue: Callable[[], SimpleQueue[Any]] = SimpleQueue
    future: Callable[[], InterruptibleFuture[Any]] = InterruptibleFuture
    thread: Callable[..., threading.Thread] = _thread
    executor: Callable[[int, str], Executor] = _executor
    event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    datagrams: Callable[[], socket.socket | None] = _datagrams
    """Sockets that processes of one host wake each other with; without one, they poll."""
    dial: Callable[..., Any] | None = None
    """Opens a connection to a broker; None: a WebSocket."""
    vfs: str | None = None
    """The file layer of SQLite; None: its own."""


SYSTEM = Runtime()


def runtime_of(clock: object) -> Runtime:
    """The runtime that a clock is; that of this machine if it is no more than a clock."""
    return clock if isinstance(clock, Runtime) else SYSTEM
