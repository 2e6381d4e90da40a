"""The thread in which a client performs its transactions, one after the other."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any

from polycast.errors import StoreClosedError
from polycast.locks import others_wait
from polycast.runtime import SYSTEM, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from queue import SimpleQueue

    from polycast.stores import Transaction

    Perform = Callable[[Callable[[Transaction], Any]], Any]
    Item = tuple[Callable[[Transaction], Any], Future[Any]] | None  # None is the end

__all__ = ["RemoteWriter"]


class RemoteWriter:
    """A queue of transactions and the thread that performs them."""

    def __init__(self, perform: Perform, *, runtime: Runtime = SYSTEM) -> None:
        self._perform = perform
        self._queue: SimpleQueue[Item] = runtime.queue()
        self._lock = runtime.rlock()
        self._is_closed = False
        self._thread = runtime.thread(self._run, name="polycast-remote-store")
        self._thread.start()

    def submit(self, work: Callable[[Transaction], Any], future: Future[Any]) -> None:
        """Queue a transaction; the future is resolved when it has been performed."""
        with self._lock:
            if not self._is_closed:
                self._queue.put((work, future))
                return
        future.set_exception(StoreClosedError())

    def close(self) -> bool:
        """Accept no more transactions; whether it was open."""
        with self._lock:
            was_open, self._is_closed = not self._is_closed, True
        if was_open:
            self._queue.put(None)
        return was_open

    def join(self, timeout: float) -> None:
        """Wait for the queued transactions."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        waiting: deque[Item] = deque()
        with others_wait():
            while (item := self._next(waiting)) is not None:
                work, future = item
                try:
                    future.set_result(self._perform(work))
                except BaseException as error:
                    future.set_exception(error)
                del work, future, item  # nothing is kept alive while it waits

    def _next(self, waiting: deque[Item]) -> Item:
        """The next transaction; None is the end.

        Of those queued by now, the ones that can wait come last; but before any queued later.
        """
        if not waiting:
            queued = [self._queue.get()]
            with suppress(Empty):
                while True:
                    queued.append(self._queue.get_nowait())
            waiting.extend(sorted(queued, key=_priority))
        return waiting.popleft()


def _priority(item: Item) -> int:
    return 2 if item is None else int(getattr(item[0], "can_wait", False))
