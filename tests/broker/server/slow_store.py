"""A store that answers nothing before it is told to."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from polycast.stores.memory_store import MemoryStore

__all__ = ["SlowStore"]


class SlowStore(MemoryStore):
    """Appends when it is told to, or always from some moment on."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.RLock()
        self._is_fast = False
        self.waiting: list[Any] = []

    def submit(self, drafts: Any, *, astray: Any = ()) -> Future[list[int]]:
        with self._guard:
            if self._is_fast:
                return super().submit(drafts, astray=astray)
            future: Future[list[int]] = Future()
            self.waiting.append((drafts, future))
            return future

    def answer_always(self) -> None:
        """From now on it is a store like others."""
        with self._guard:
            waiting, self.waiting = self.waiting, []
            for drafts, future in waiting:
                future.set_result(super().submit(drafts).result())
            self._is_fast = True
