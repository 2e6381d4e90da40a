"""Back-pressure: a client is not read from while too much of what it sent is unanswered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.byte_budget import ByteBudget
    from polycast.broker.server.outbox import Outbox
    from polycast.broker.wire.messages import Limits

__all__ = ["Backpressure"]


class Backpressure:
    """Counts the unanswered requests of one client and the bytes that are held for them."""

    def __init__(
        self,
        budget: ByteBudget,
        owner: str | None,
        *,
        limits: Limits,
        inbound: int,
        outbox: Outbox,
        tell: Callable[[], None],
    ) -> None:
        self._budget, self._owner = budget, owner
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
        if not self._budget.has_room(self._owner):
            self._budget.await_room(self.update, self._owner)
            self._pause()
        elif (
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
        self._budget.forget(self.update, self._owner)
