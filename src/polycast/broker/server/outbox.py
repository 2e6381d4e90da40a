"""The messages that wait to be sent to one client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from polycast.broker.wire.frames import frames

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from polycast.broker.server.byte_budget import ByteBudget

__all__ = ["GONE", "Outbox"]

GONE = 1006  # the close code of a connection that the client has dropped
LITTLE = 100_000  # bytes that may wait for one client while the shared budget is exhausted


class Outbox:
    """Sends waiting messages as one frame; meanwhile, the next frame gathers."""

    def __init__(
        self,
        write: Callable[[bytes], Awaitable[None]],
        *,
        limit: int,
        frame: int,
        patience: float,
        of_all: ByteBudget,
    ) -> None:
        self._write, self._limit, self._frame, self._patience = write, limit, frame, patience
        self._of_all = of_all
        self.held = 0  # bytes
        self.was_full = False  # until its reader resets it
        self._waiting: list[bytes] = []
        self._bell = asyncio.Event()
        self._is_closing = False
        self.changed: Callable[[int], None] = lambda held: None
        self.emptied: Callable[[], None] = lambda: None  # some of it was sent
        self.failed: Callable[[int, str], None] = lambda code, why: None

    def has_room(self) -> bool:
        """Whether more may wait; only a little while the shared budget is exhausted."""
        most = self._limit if self._of_all.has_room() else min(self._limit, LITTLE)
        self.was_full = self.was_full or self.held >= most
        return self.held < most

    def put(self, data: bytes) -> None:
        """Queue a message."""
        if self._is_closing:  # it would not be sent
            return
        self._waiting.append(data)
        self._count(len(data))
        self._bell.set()

    def end(self) -> None:
        """Send what waits and no more; it does not count against the shared budget any longer."""
        self._of_all.change(-self.held)
        self._is_closing = True
        self.changed(0)
        self._bell.set()

    async def send_all(self) -> None:
        """Send messages until the outbox ends."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            waiting, self._waiting = self._waiting, []
            try:
                for frame in frames(waiting, self._frame):
                    await self._write(frame)
            except TimeoutError:
                self._waiting.clear()
                self.failed(1008, f"it took nothing for {self._patience:g} s")
                return
            except Exception:  # the other side is gone
                self.failed(GONE, "it is gone")
                return
            self._count(-sum(map(len, waiting)))
            self.emptied()
            if self._is_closing and not self._waiting:
                return

    def _count(self, change: int) -> None:
        self.held += change
        if not self._is_closing:
            self._of_all.change(change)
            self.changed(self.held)
