"""Awaits what a plain callback gave: a lambda over an async function has only made a coroutine."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from polycast.delivery.consumer import Consumer, Outcome
    from polycast.delivery.queue import Parcel

__all__ = ["AWAITED", "Awaiter"]

AWAITED = object()  # the callback has given an awaitable, and an event loop goes on with it


class Awaiter:
    """Awaits in an event loop for one consumer, and tells its mailbox what became of it."""

    def __init__(
        self, consumer: Consumer, loop: asyncio.AbstractEventLoop, *, owns_loop: bool
    ) -> None:
        self._consumer, self.loop, self._owns_loop = consumer, loop, owns_loop
        self._current: Parcel | None = None
        self._task: asyncio.Task[Outcome] | None = None

    def begin(self, parcel: Parcel, awaitable: Awaitable[object]) -> Outcome:
        """Ask the loop for a task; a loop that is closed is a failure like any other."""
        self._current = parcel
        try:
            self.loop.call_soon_threadsafe(self._start, parcel, awaitable)
        except RuntimeError as error:
            self._current = None
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            return error
        return AWAITED

    def lost(self) -> Parcel | None:
        """The parcel that went down with the loop, if that is closed."""
        if not self.loop.is_closed():
            return None
        parcel, self._current = self._current, None
        return parcel

    def _start(self, parcel: Parcel, awaitable: Awaitable[object]) -> None:
        self._task = self.loop.create_task(self._run(awaitable))
        self._task.add_done_callback(partial(self._over, parcel))

    async def _run(self, awaitable: Awaitable[object]) -> Outcome:
        try:
            await awaitable
        except (Exception, SystemExit) as error:
            return error
        except KeyboardInterrupt as error:
            if not self._owns_loop:
                raise
            return error  # the loop is ours, so it stays
        return self._consumer.returned()

    def _over(self, parcel: Parcel, task: asyncio.Task[Outcome]) -> None:
        """It has ended; if somebody cancelled it, its parcel is not handled."""
        self._current = self._task = None
        outcome: Outcome
        if task.cancelled():
            outcome = asyncio.CancelledError()
        else:
            outcome = task.exception() or task.result()
        mailbox = self._consumer.mailbox
        following = mailbox.finish(self._consumer, parcel, outcome)
        if following is not None:
            mailbox.start([(self._consumer, following)])
