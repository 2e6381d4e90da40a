"""Who is called back, and in which thread or loop."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from polycast.delivery.delivery import Delivery
from polycast.delivery.inside import inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery.backlog import Parcel
    from polycast.delivery.callbacks import Callback
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.pool import Pool
    from polycast.errors import SubscriptionEnded

__all__ = ["EXPIRED", "PENDING", "AsyncConsumer", "Consumer", "InlineConsumer", "PoolConsumer"]

QUANTUM = 64  # callbacks in a row before another subscription gets the thread
PENDING = object()  # the callback returned, and the acknowledgement is still to come
EXPIRED = object()  # it was too late to call back
Outcome = object  # None: handled; PENDING; EXPIRED; or the exception
_turns = itertools.count()


class Consumer:
    """A callback attached to a mailbox; it handles one parcel at a time."""

    inline = False

    def __init__(self, mailbox: Mailbox, callback: Callback, *, handle: Any) -> None:
        self.mailbox, self.callback, self.handle = mailbox, callback, handle
        self.busy = False
        self.paused = False
        self.in_flight = 0
        self.idle_since = next(_turns)
        self.ended: SubscriptionEnded | None = None

    @property
    def title(self) -> str:
        """What it is subscribed to, in words."""
        return self.mailbox.title

    def rest(self) -> None:
        """It has returned; from now on it is idle."""
        self.busy, self.idle_since = False, next(_turns)

    def arguments(self, parcel: Parcel) -> tuple[Any, ...]:
        """What the callback is called with."""
        if self.callback.wants_delivery:
            return (parcel.entry.event, Delivery(self, parcel))
        return (parcel.entry.event,)

    def returned(self) -> Outcome:
        """What it means that the callback returned."""
        return PENDING if self.mailbox.settings.manual_ack else None

    def call(self, parcel: Parcel) -> Outcome:
        """Call back in this thread."""
        if self.mailbox.is_expired(parcel):
            return EXPIRED
        mark = inside.set(self.mailbox)
        try:
            self.callback.function(*self.arguments(parcel))
        except Exception as error:
            return error
        finally:
            inside.reset(mark)
        return self.returned()

    def start(self, parcel: Parcel) -> Outcome:
        """See to it that the parcel is handled; PENDING if that happens elsewhere."""
        return self.call(parcel)


class InlineConsumer(Consumer):
    """Called in the thread that brings the event."""

    inline = True


class PoolConsumer(Consumer):
    """Called in a thread of the pool."""

    def __init__(self, mailbox: Mailbox, callback: Callback, *, handle: Any, pool: Pool) -> None:
        super().__init__(mailbox, callback, handle=handle)
        self._pool = pool
        self._next: Parcel | None = None

    def start(self, parcel: Parcel) -> Outcome:
        """Ask the pool for a thread."""
        self._next = parcel
        self._pool.submit(self)
        return PENDING

    def run(self, beat: Callable[[], None]) -> None:
        """In a thread of the pool: handle parcels while there are any, but let others in."""
        parcel, self._next = self._next, None
        for _ in range(QUANTUM):
            if parcel is None:
                return
            beat()
            outcome = self.call(parcel)
            parcel = self.mailbox.finish(self, parcel, outcome)
        if parcel is not None:
            self.start(parcel)


class AsyncConsumer(Consumer):
    """A coroutine function, called in an event loop."""

    def __init__(
        self, mailbox: Mailbox, callback: Callback, *, handle: Any, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(mailbox, callback, handle=handle)
        self.loop = loop
        self._task: asyncio.Task[None] | None = None

    def start(self, parcel: Parcel) -> Outcome:
        """Ask the loop for a task; a loop that is closed is a failure like any other."""
        try:
            self.loop.call_soon_threadsafe(self._begin, parcel)
        except RuntimeError as error:
            return error
        return PENDING

    def _begin(self, parcel: Parcel) -> None:
        self._task = self.loop.create_task(self._run(parcel))

    async def _run(self, first: Parcel) -> None:
        parcel: Parcel | None = first
        for number in itertools.count(1):
            if parcel is None:
                return
            outcome = await self._call(parcel)
            parcel = self.mailbox.finish(self, parcel, outcome)
            if number % QUANTUM == 0:
                await asyncio.sleep(0)

    async def _call(self, parcel: Parcel) -> Outcome:
        if self.mailbox.is_expired(parcel):
            return EXPIRED
        mark = inside.set(self.mailbox)
        try:
            await self.callback.function(*self.arguments(parcel))
        except Exception as error:
            return error
        except asyncio.CancelledError as error:
            following = self.mailbox.finish(self, parcel, error)
            if following is not None:
                self.mailbox.start([(self, following)])
            raise
        finally:
            inside.reset(mark)
        return self.returned()
