"""Callbacks in the thread of an event loop: from any thread, later, or at the end of a turn."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from polycast.broker.server.log_rate_limit import server_log

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_log = server_log()


class LoopCallbacks:
    """The callbacks that wait for one event loop; those before it begins wait for that."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._deferred: list[Callable[[], None]] | None = None  # None outside of a turn

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call back in this loop, in whose thread this is called."""
        self._loop = loop
        self._call_waiting()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn; from any thread."""
        with self._lock:
            self._waiting.append(callback)
            if len(self._waiting) > 1 or self._loop is None:
                return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._call_waiting)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after some seconds."""
        asyncio.get_running_loop().call_later(seconds, callback)

    def defer(self, callback: Callable[[], None]) -> None:
        """Call back at the end of the turn that is under way."""
        if self._deferred is None:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._deferred.append(callback)

    def in_one_turn(self, work: Callable[[], T]) -> T:
        """Do some work, and then what it has deferred: the next turn of a loop comes late."""
        deferred: list[Callable[[], None]] = []
        self._deferred = deferred
        try:
            return work()
        finally:
            self._deferred = None
            self._call(deferred)

    def _call_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        self.in_one_turn(lambda: self._call(waiting))

    def _call(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception:  # of one client; others wait behind it
                _log.exception("an answer could not be given")
