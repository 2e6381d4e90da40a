"""Those who change the plan let a publisher go first that was overtaken by changes too often."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Calm"]

PATIENCE = 1.0  # seconds that a change waits at most: what it waits for may wait for it


class Calm:
    """A publisher that has asked everybody asks again only those who came meanwhile.

    If somebody always comes meanwhile, it says so, and changes wait until it is through.
    """

    def __init__(self, in_turn: Callable[[], bool]) -> None:
        self._in_turn = in_turn
        self._over = threading.Condition()
        self._overtaken: set[int] = set()  # threads

    @contextmanager
    def asked_for(self) -> Iterator[None]:
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
