"""Fair time slices in the event loop of a broker."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["SLICE", "RoundRobin"]

SLICE = 0.002  # seconds of a party before the others have theirs


class RoundRobin:
    """Deficit round-robin: one slice for each party per round; a party is an owner or a session.

    A party that takes longer owes the rest, and is passed over until it is paid back. A party
    without competition waits for nothing but the loop itself.
    """

    def __init__(self) -> None:
        self._owed: dict[Hashable, float] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._is_due = False

    async def take(self, party: Hashable) -> None:
        """Wait for the turn of a party."""
        if party not in self._waiting and self._owed.get(party, 0.0) < SLICE:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(party, deque()).append(turn)
        self._begin_soon()
        await turn

    def spend(self, party: Hashable, seconds: float) -> None:
        """Charge a party for time in the loop."""
        self._owed[party] = self._owed.get(party, 0.0) + seconds
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a round; the loop serves its sockets between two rounds."""
        self._is_due = False
        self._owed = {party: owed - SLICE for party, owed in self._owed.items() if owed > SLICE}
        for party in list(self._waiting):
            if self._owed.get(party, 0.0) < SLICE:
                self._resume(party)
        if self._owed or self._waiting:
            self._begin_soon()

    def _resume(self, party: Hashable) -> None:
        waiting = self._waiting[party]
        while waiting and (turn := waiting.popleft()).done():
            pass  # the session that waited has ended
        if not turn.done():
            turn.set_result(None)
        if not waiting:
            del self._waiting[party]
