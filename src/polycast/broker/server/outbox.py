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
SMALL = 10_000  # bytes that are not counted before the end of a turn of the event loop
LITTLE = 100_000  # bytes that may wait for one client while the shared budget is exhausted


def _never(frame: bytes) -> bool:
    """Write nothing at once."""
    del frame
    return False


class Outbox:
    """Sends what a turn of the event loop has put in as one frame; meanwhile, the next gathers.

    A small frame is written at once, if the network takes it. A task waits for the network.
    """

    def __init__(
        self,
        write: Callable[[bytes], Awaitable[None]],
        write_now: Callable[[bytes], bool] = _never,
        *,
        limit: int,
        frame: int,
        patience: float,
        of_all: ByteBudget,
    ) -> None:
        self._write, self._write_now = write, write_now
        self._limit, self._frame, self._patience = limit, frame, patience
        self._of_all = of_all
        self.held = 0  # bytes
        self._counted = 0  # of them, in the shared budget
        self.was_full = False  # until its reader resets it
        self._waiting: list[bytes] = []
        self._bell = asyncio.Event()
        self._is_due = False  # whether it is written before the next turn of the loop
        self._is_writing = False  # whether the task waits for the network
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
        self.held += len(data)
        if self._is_writing or self.held > SMALL:
            self._count()
        if self._is_writing:
            self._bell.set()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Write what waits at once, or leave it to the task."""
        self._is_due = False
        if not self._waiting or self._is_writing or self._is_closing:
            return
        # Nothing else is held while the task does not write.
        frame, *more = frames(self._waiting, self._frame) if self.held <= LITTLE else (b"",)
        if frame and not more and self._write_now(frame):
            self._waiting.clear()
            self._was_sent(self.held)
        else:
            self._count()
            self._bell.set()

    def end(self) -> None:
        """Send what waits and no more; it does not count against the shared budget any longer."""
        self._of_all.change(-self._counted)
        self._is_closing = True
        self.changed(0)
        self._bell.set()

    async def send_all(self) -> None:
        """Send messages until the outbox ends."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            waiting, self._waiting = self._waiting, []
            self._is_writing = True
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
            self._is_writing = False
            self._was_sent(sum(map(len, waiting)))
            if self._is_closing and not self._waiting:
                return

    def _was_sent(self, size: int) -> None:
        self.held -= size
        if self._counted:
            self._count()
        self.emptied()

    def _count(self) -> None:
        """Count what is held in the shared budget; little that is written at once never is."""
        change, self._counted = self.held - self._counted, self.held
        if not self._is_closing:
            self._of_all.change(change)
            self.changed(self.held)
