"""Who is called back, and in which thread or loop."""

from __future__ import annotations

import asyncio
import functools
import itertools
from typing import TYPE_CHECKING, Any, Protocol

from polycast.delivery.awaitables import AWAITED, Awaiter
from polycast.delivery.callback_context import inside
from polycast.delivery.callbacks import Callback
from polycast.delivery.delivery import Delivery
from polycast.errors.failures import FAILURES, check_has_run, is_to_be_awaited

if TYPE_CHECKING:
    from polycast.delivery.executor import Pool
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.queue import Parcel
    from polycast.delivery.timers import Timer
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest

__all__ = [
    "EXPIRED",
    "PENDING",
    "SKIPPED",
    "AsyncConsumer",
    "Consumer",
    "InlineConsumer",
    "PoolConsumer",
    "Puller",
]

QUANTUM = 64  # callbacks in a row before another subscription gets the thread
PENDING = object()  # the callback returned, and the acknowledgement is still to come
EXPIRED = object()  # it was too late to call back
SKIPPED = object()  # it was taken away before the callback could begin
Outcome = object  # None: handled; one of the above; or the exception
_turns = itertools.count()


class Registry(Protocol):
    """Who knows what subscribe() has returned."""

    def handle(self, consumer: Consumer) -> Any:
        """The subscription of a consumer."""


class Consumer:
    """A callback attached to a mailbox; it handles one parcel at a time."""

    __slots__ = (
        *("__weakref__", "busy", "callback", "detached", "ended", "idle_since", "in_flight"),
        *("interest", "lease", "lease_until", "mailbox", "manual", "paused", "registry", "started"),
    )

    inline = False
    pulls = False
    may_lose = False  # it waits for an event loop, which may be closed before it has finished

    def __init__(
        self, mailbox: Mailbox, callback: Callback, *, interest: Interest, manual: bool
    ) -> None:
        self.mailbox, self.callback = mailbox, callback
        self.interest, self.manual = interest, manual
        self.registry: Registry | None = None  # has what subscribe() returned
        self.busy = False  # it has a parcel
        self.started: float | None = None  # since when it has been in its callback
        self.paused = self.detached = False
        self.ended: SubscriptionEndedError | None = None
        self.in_flight = 0
        self.idle_since = next(_turns)
        self.lease: Timer | None = None  # as a member of a group; else the mailbox has it
        self.lease_until: float | None = None

    @property
    def title(self) -> str:
        """What it is subscribed to, in words."""
        return self.mailbox.title

    def subscription(self) -> Any:
        """What subscribe() returned."""
        return None if self.registry is None else self.registry.handle(self)

    def is_away(self) -> bool:
        """Whether it must not be called back."""
        until = self.lease_until
        is_over = until is not None and self.mailbox.services.clock.monotonic() >= until
        return self.paused or self.detached or self.ended is not None or is_over

    def lost(self) -> Parcel | None:
        """The parcel it will never finish, if its event loop is closed."""
        return None

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which it does its work, if it needs one."""
        return None

    def begins(self, parcel: Parcel) -> bool:
        """Whether the parcel is still to be handled; from now on it is its own."""
        self.started = self.mailbox.services.clock.monotonic()
        if not self.mailbox.may_begin(self, parcel):
            return False
        return self.mailbox.keeper.begin(parcel) or self.mailbox.put_off(parcel)

    def rest(self) -> None:
        """It has returned; from now on it is idle."""
        self.busy, self.started, self.idle_since = False, None, next(_turns)

    def arguments(self, parcel: Parcel) -> tuple[Any, ...]:
        """What the callback is called with."""
        if self.callback.wants_delivery:
            return (parcel.event(), Delivery(self, parcel))
        return (parcel.event(),)

    def returned(self) -> Outcome:
        """What it means that the callback returned."""
        return PENDING if self.manual else None

    def call(self, parcel: Parcel) -> Outcome:
        """Call back in this thread."""
        if not self.begins(parcel):
            return SKIPPED
        mark = inside.set((*inside.get(), self.mailbox))
        try:
            said = self.callback.function(*self.arguments(parcel))
            if said is not None:
                check_has_run(f"the callback of {self.title}, in the publisher's thread,", said)
        except FAILURES as error:
            return error
        finally:
            inside.reset(mark)
        return self.returned()

    def start(self, parcel: Parcel) -> Outcome:
        """See to it that the parcel is handled; PENDING if that happens elsewhere."""
        return self.call(parcel)


class InlineConsumer(Consumer):
    """Called in the thread that brings the event."""

    __slots__ = ()
    inline = True


class Puller(Consumer):
    """Who takes events out of a buffer: never called."""

    pulls = True

    def __init__(self, mailbox: Mailbox, *, interest: Interest) -> None:
        nothing = Callback(lambda event: None, wants_delivery=False, is_async=False)
        super().__init__(mailbox, nothing, interest=interest, manual=False)


class PoolConsumer(Consumer):
    """Called in a thread of the pool."""

    def __init__(
        self,
        mailbox: Mailbox,
        callback: Callback,
        *,
        interest: Interest,
        manual: bool,
        pool: Pool,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(mailbox, callback, interest=interest, manual=manual)
        self._pool, self._theirs = pool, loop
        self._awaiter: Awaiter | None = None  # made when the callback first gives an awaitable
        self._next: Parcel | None = None

    def start(self, parcel: Parcel) -> Outcome:
        """Ask the pool for a thread."""
        self._next = parcel
        self._pool.submit(self)
        return PENDING

    def lost(self) -> Parcel | None:
        """The parcel whose awaitable went down with its loop."""
        return None if self._awaiter is None or not self.busy else self._awaiter.lost()

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """Where what its callback gives is awaited, if it has given any."""
        return None if self._awaiter is None else self._awaiter.loop

    def run(self) -> None:
        """In a thread of the pool: handle parcels while there are any, but let others in."""
        parcel, self._next = self._next, None
        mark = inside.set((*inside.get(), self.mailbox))
        try:
            for _ in range(QUANTUM):
                if parcel is None:
                    return
                outcome = self._handle(parcel)
                if outcome is AWAITED:
                    return  # it goes on in an event loop, perhaps by now
                if self.mailbox.services.home.is_elsewhere():
                    return  # the callback has forked, and this is the child
                parcel = self.mailbox.finish(self, parcel, outcome)
        finally:
            inside.reset(mark)
        if parcel is not None:
            self.start(parcel)

    def _handle(self, parcel: Parcel) -> Outcome:
        if not self.begins(parcel):
            return SKIPPED
        try:
            entry, own = parcel.entry, parcel.entry.own
            event = parcel.event() if parcel.used else entry.event if own is None else own()
            if self.callback.wants_delivery:
                said = self.callback.function(event, Delivery(self, parcel))
            else:
                said = self.callback.function(event)
            if said is not None and is_to_be_awaited(f"the callback of {self.title}", said):
                return self._await(parcel, said)
        except BaseException as error:  # SystemExit too: the thread is ours, so it stays
            return error
        return PENDING if self.manual else None

    def _await(self, parcel: Parcel, awaitable: Any) -> Outcome:
        """Await it where an async callback would run."""
        awaiter = self._awaiter
        if awaiter is None:
            theirs = self._theirs
            loop = theirs or self.mailbox.services.loop.get()
            awaiter = self._awaiter = Awaiter(self, loop, owns_loop=theirs is None)
            self.may_lose = True
        return awaiter.begin(parcel, awaitable)


class AsyncConsumer(Consumer):
    """A coroutine function, called in an event loop."""

    may_lose = True

    def __init__(
        self,
        mailbox: Mailbox,
        callback: Callback,
        *,
        interest: Interest,
        manual: bool,
        loop: asyncio.AbstractEventLoop,
        owns_loop: bool,
    ) -> None:
        super().__init__(mailbox, callback, interest=interest, manual=manual)
        self.loop, self._owns_loop = loop, owns_loop
        self._task: asyncio.Task[None] | None = None
        self._current: Parcel | None = None

    def start(self, parcel: Parcel) -> Outcome:
        """Ask the loop for a task; a loop that is closed is a failure like any other."""
        self._current = parcel
        try:
            self.loop.call_soon_threadsafe(self._begin, parcel)
        except RuntimeError as error:
            self._current = None
            return error
        return PENDING

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """Its loop."""
        return self.loop

    def _begin(self, parcel: Parcel) -> None:
        under_way: list[Parcel | None] = [parcel]
        self._task = self.loop.create_task(self._run(parcel, under_way))
        self._task.add_done_callback(functools.partial(self._over, under_way))

    def _over(self, under_way: list[Parcel | None], task: asyncio.Task[None]) -> None:
        """A task has ended; if somebody cancelled it, its parcel is not handled."""
        [parcel] = under_way
        if parcel is None:
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        following = self.mailbox.finish(self, parcel, error)
        if following is not None:
            self.mailbox.start([(self, following)])

    def lost(self) -> Parcel | None:
        """The parcel that went down with its loop."""
        if not self.busy or not self.loop.is_closed():
            return None
        parcel, self._current = self._current, None
        return parcel

    async def _run(self, parcel: Parcel, under_way: list[Parcel | None]) -> None:
        for number in itertools.count(1):
            outcome = await self._call(parcel)
            following = self.mailbox.finish(self, parcel, outcome)
            under_way[0] = following
            if following is None:
                return
            self._current = parcel = following
            if number % QUANTUM == 0:
                await asyncio.sleep(0)

    async def _call(self, parcel: Parcel) -> Outcome:
        if not self.begins(parcel):
            return SKIPPED
        mark = inside.set((*inside.get(), self.mailbox))
        try:
            await self.callback.function(*self.arguments(parcel))
        except (Exception, SystemExit) as error:
            return error
        except KeyboardInterrupt as error:
            if not self._owns_loop:
                raise
            return error  # the loop is ours, so it stays
        finally:
            inside.reset(mark)
        return self.returned()
