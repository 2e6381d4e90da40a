"""Flow control: how much may be held for clients, and when one is not read from.

A budget says when there is room, a pool evicts whoever holds most, back-pressure pauses reading.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Holder(Protocol):
        """Something that holds memory, such as a connection."""

        group: str  # an owner or an address

        def evict(self) -> None:
            """End it, which frees its memory."""

    from polycast.broker.server.outbox import Outbox
    from polycast.broker.wire.protocol import Limits


class SharedBudget:
    """Counts what is held, in bytes or events, and calls back when there is room again.

    One owner may have no more than `of_one`, so that others have room, too.
    """

    def __init__(self, limit: float = math.inf, *, of_one: float = math.inf) -> None:
        self.limit, self.held = limit, 0
        self._most_of_one = of_one
        self._of: Counter[str] = Counter()
        self._waiting: dict[str | None, dict[Callable[[], None], None]] = {}

    def has_room(self, owner: str | None = None) -> bool:
        """Whether there is room for more, of an owner or of none."""
        is_free = owner is None or self._of[owner] < self._most_of_one
        return self.held < self.limit and is_free

    def change(self, by: int, owner: str | None = None) -> None:
        """Count so much as held, or as released."""
        was_full, was_at_most = self.held >= self.limit, not self.has_room(owner)
        self.held += by
        if owner is not None:
            self._of[owner] += by
            if not self._of[owner]:
                del self._of[owner]
        if was_full and self.has_room():
            for waiting in list(self._waiting):
                self._tell(waiting)
        elif was_at_most and self.has_room(owner):
            self._tell(owner)

    def _tell(self, owner: str | None) -> None:
        for tell in self._waiting.pop(owner, {}):
            tell()

    def await_room(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Call back once, when there is room."""
        self._waiting.setdefault(owner, {})[tell] = None

    def forget(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Cancel a callback."""
        waiting = self._waiting.get(owner, {})
        waiting.pop(tell, None)
        if not waiting:
            self._waiting.pop(owner, None)


class EvictingPool:
    """Counts bytes; above the limit, evicts the largest holder of the group with most of them.

    Waiting for a holder to finish would mean waiting for a client that has stopped halfway.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._sizes: dict[Holder, int] = {}
        self._groups: Counter[str] = Counter()

    def has_now(self, holder: Holder, size: int) -> None:
        """Set how many bytes a holder has."""
        change = size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
        self.held += change
        self._groups[holder.group] += change
        if not self._groups[holder.group]:
            del self._groups[holder.group]
        while self.held > self.limit and self._sizes:
            self._evict_largest()

    def _evict_largest(self) -> None:
        [(group, _)] = self._groups.most_common(1)
        holders = [holder for holder in self._sizes if holder.group == group]
        largest = max(holders, key=self._sizes.__getitem__)
        self.has_now(largest, 0)
        largest.evict()


class Backpressure:
    """Counts the unanswered requests of one client and the bytes that are held for them."""

    def __init__(
        self,
        budget: SharedBudget,
        unrouted: SharedBudget,
        owner: str | None,
        *,
        limits: Limits,
        inbound: int,
        outbox: Outbox,
        tell: Callable[[], None],
    ) -> None:
        self._budget, self._owner = budget, owner
        self._budgets = budget, unrouted
        self._limits, self._inbound, self._outbox, self._tell = limits, inbound, outbox, tell
        self._pending = 0  # unanswered requests
        self.held = 0  # their bytes
        self.keepalives = 0  # sent while the client was not read from
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def count(self, requests: int, size: int) -> None:
        """Count a request and its bytes as held; with negative numbers, as answered."""
        self._pending += requests
        self.held += size
        self._budget.change(size, self._owner)
        self.update()

    def update(self) -> None:
        """Pause or resume reading, by what is unanswered, or answered and not sent yet."""
        for budget in self._budgets:
            if not budget.has_room(self._owner):
                budget.await_room(self.update, self._owner)
                self._pause()
                return
        if (
            self._pending < self._limits.pending
            and self._outbox.has_room()
            and self.held < self._inbound
        ):
            self.may_read.set()
        else:
            self._pause()

    def _pause(self) -> None:
        self.may_read.clear()
        if self._timer is None and self._limits.heartbeat > 0 and not self._is_closed:
            soon = self._limits.heartbeat / 2
            self._timer = asyncio.get_running_loop().call_later(soon, self._send_keepalive)

    def _send_keepalive(self) -> None:
        """Send something: pings of a client that is not read from go unanswered."""
        self._timer = None
        if not self.may_read.is_set() and not self._is_closed and self._outbox.has_room():
            self.keepalives += 1
            self._tell()
            self.update()

    def close(self) -> None:
        """End it with the connection."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for budget in self._budgets:
            budget.forget(self.update, self._owner)
