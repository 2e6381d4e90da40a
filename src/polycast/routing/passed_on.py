"""What callbacks have published: who closes or flushes a bus over a store waits for that, too."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future
    from threading import Condition

__all__ = ["PassedOn"]


class PassedOn:
    """The newest position of it; of some that is not known yet."""

    def __init__(self, lock: Condition) -> None:
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
