"""How many items of a kind each owner has in the store, without counting them each time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.stores import Transaction

__all__ = ["OwnerCounts"]

AGAIN = 1.0  # seconds after which the items of an owner at its limit are recounted


class OwnerCounts:
    """The last count of each owner plus what was added since; recounts when a limit is reached.

    Any thread may ask; only the writer thread adds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}
        self._counted: dict[str, float] = {}  # when the items of an owner were last counted
        self._adding = 0  # in the current transaction

    def begin(self) -> None:
        """Begin a transaction."""
        self._adding = 0

    def add(self, tx: Transaction, owner: str, *, limit: int, count: Callable[[], int]) -> int:
        """Add one item unless the owner is at its limit; how many it had before."""
        with self._lock:
            known = self._known.get(owner)
            used = self._adding + (known or 0)
            if known is None or (used >= limit and self._may_count(owner)):
                used = count()
                self._known[owner] = used - self._adding
        if used < limit:
            self._adding += 1
            tx.after(lambda: self._added(owner))
        return used

    def _added(self, owner: str) -> None:
        with self._lock:
            self._known[owner] = self._known.get(owner, 0) + 1

    def _may_count(self, owner: str) -> bool:
        now = self._clock.monotonic()
        if now - self._counted.get(owner, -AGAIN) < AGAIN:
            return False
        self._counted[owner] = now
        return True

    def set_all(self, counted: Counter[str]) -> None:
        """Take over a full count."""
        with self._lock:
            self._known = {owner: counted[owner] for owner in {*self._known, *counted}}

    def of(self, owner: str) -> int:
        """How many items an owner has, as far as known."""
        with self._lock:
            return self._known.get(owner, 0)
