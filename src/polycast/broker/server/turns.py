"""Whose turn it is in the event loop of a broker, and how much of what they said it holds."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["SLICE", "Holdings", "Turns"]

SLICE = 0.002  # seconds of the loop that a party has before the others have theirs


class Turns:
    """One slice for each party in each round of the loop; a party is an owner, or a connection.

    Who takes longer owes it, and is passed over until it is paid back. Who is alone waits for
    nothing but the loop itself.
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
        """A party has had so much of the loop."""
        self._owed[party] = self._owed.get(party, 0.0) + seconds
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """A new round: what came in meanwhile is seen to between two of them."""
        self._is_due = False
        self._owed = {who: owed - SLICE for who, owed in self._owed.items() if owed > SLICE}
        for party in [each for each in self._waiting if self._owed.get(each, 0.0) < SLICE]:
            self._let_on(party)
        if self._owed or self._waiting:
            self._begin_soon()

    def _let_on(self, party: Hashable) -> None:
        waiting = self._waiting[party]
        while waiting and (turn := waiting.popleft()).done():
            pass  # who waited is gone
        if not turn.done():
            turn.set_result(None)
        if not waiting:
            del self._waiting[party]


class Holdings:
    """Bytes that are held for all connections together; who finds no room is told when there is.

    Of what belongs to an owner, so much that others have room, too: `share` is the part of all.
    """

    def __init__(self, limit: int, *, share: float = 1.0) -> None:
        self.limit, self.held = limit, 0
        self._most_of_one = limit * share
        self._of: Counter[str] = Counter()
        self._waiting: dict[str | None, dict[Callable[[], None], None]] = {}

    def has_room(self, owner: str | None = None) -> bool:
        """Whether more may be taken, of an owner or of nobody."""
        is_free = owner is None or self._of[owner] < self._most_of_one
        return self.held < self.limit and is_free

    def change(self, by: int, owner: str | None = None) -> None:
        """So much more is held, or less."""
        was_full, was_at_most = self.held >= self.limit, not self.has_room(owner)
        self.held += by
        if owner is not None:
            self._of[owner] += by
            if not self._of[owner]:
                del self._of[owner]
        if was_full and self.has_room():
            for each in list(self._waiting):
                self._tell(each)
        elif was_at_most and self.has_room(owner):
            self._tell(owner)

    def _tell(self, owner: str | None) -> None:
        for each in self._waiting.pop(owner, {}):
            each()

    def await_room(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Have something called, once, when there is room."""
        self._waiting.setdefault(owner, {})[tell] = None

    def forget(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Do not call it."""
        waiting = self._waiting.get(owner, {})
        waiting.pop(tell, None)
        if not waiting:
            self._waiting.pop(owner, None)
