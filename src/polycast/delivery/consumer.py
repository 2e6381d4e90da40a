"""Who is called back, and in which thread or loop."""

from __future__ import annotations

import asyncio
import functools
import itertools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from polycast.delivery.callbacks import Callback
from polycast.delivery.delivery import Delivery
from polycast.delivery.queue import ARRIVALS
from polycast.errors.failures import FAILURES, check_has_run, is_to_be_awaited
from polycast.runtime import Forks, check_free

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from polycast.delivery.executor import Pool
    from polycast.delivery.mailbox import Lease, Mailbox
    from polycast.delivery.queue import Attempt
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest
    from polycast.stores import Entry


# Mailboxes, the innermost last: a callback may publish on another bus, which calls back in line.
inside: ContextVar[tuple[Any, ...]] = ContextVar("polycast_inside", default=())


def callbacks_under_way() -> tuple[Any, ...]:
    """Return the mailboxes in whose callbacks this code runs."""
    return inside.get()


def is_called_back(home: object) -> bool:
    """Whether this code runs in a callback of the bus that was opened in a home."""
    return any(box is not None and box.services.home is home for box in inside.get())


QUANTUM = 64  # callbacks in a row before another subscription gets the thread
SLICE = 0.001  # seconds in which callbacks that are fast may be more
MOST_AT_ONCE = 4_096  # of these, for a clock that stands still
AWAITED = object()  # the callback has given an awaitable, and an event loop goes on with it
PENDING = object()  # the callback returned, and the acknowledgement is still to come
EXPIRED = object()  # it was too late to call back
TIME_IS_UP = object()  # others want the thread
UNBEGUN = object()  # it needs an account before the callback can begin
SKIPPED = object()  # it was taken away before the callback could begin
Outcome = object  # None: handled; one of the above; or the exception
_turns = itertools.count()


class Registry(Protocol):
    """Who knows what subscribe() has returned."""

    def handle(self, consumer: Consumer) -> Any:
        """The subscription of a consumer."""


class Consumer:
    """A callback attached to a mailbox; it handles one attempt at a time."""

    __slots__ = (
        *("__weakref__", "busy", "callback", "detached", "ended", "entry", "idle_since"),
        *("in_flight", "interest", "launched", "lease", "mailbox", "manual"),
        *("paused", "registry", "started"),
    )

    inline = False
    pulls = False
    may_lose = False  # it waits for an event loop, which may be closed before it has finished
    drains = False  # it may take what has arrived without an account of each attempt
    is_lost: Callable[[], bool] | None = None  # whether its event loop was closed

    def __init__(
        self, mailbox: Mailbox, callback: Callback, *, interest: Interest, manual: bool
    ) -> None:
        self.mailbox, self.callback = mailbox, callback
        self.interest, self.manual = interest, manual
        self.registry: Registry | None = None  # has what subscribe() returned
        self.busy = False  # it has an attempt
        self.entry: Entry | None = None  # what it has taken from the fast path
        self.launched: Attempt | None = None  # the same, once an account of it is kept
        self.started: float | None = None  # since when it has been in its callback
        self.paused = self.detached = False
        self.ended: SubscriptionEndedError | None = None
        self.in_flight = 0
        self.idle_since = next(_turns)
        self.lease: Lease | None = None  # as a member of a group; else the mailbox has it

    @property
    def title(self) -> str:
        """What it is subscribed to, in words."""
        return self.mailbox.title

    def subscription(self) -> Any:
        """What subscribe() returned."""
        return None if self.registry is None else self.registry.handle(self)

    def is_away(self) -> bool:
        """Whether it must not be called back."""
        is_over = self.lease is not None and self.lease.is_over()
        return self.paused or self.detached or self.ended is not None or is_over

    def lost(self) -> Attempt | None:
        """The attempt it will never finish, if its event loop is closed."""
        return None

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which it does its work, if it needs one."""
        return None

    def begins(self, attempt: Attempt) -> bool:
        """Whether the attempt is still to be handled; from now on it is its own."""
        self.started = self.mailbox.services.clock.monotonic()
        return self.mailbox.worker.may_begin(self, attempt)

    def rest(self) -> None:
        """It has returned; from now on it is idle."""
        self.busy, self.started, self.idle_since = False, None, next(_turns)

    def arguments(self, attempt: Attempt) -> tuple[Any, ...]:
        """What the callback is called with."""
        if self.callback.wants_delivery:
            return (attempt.event(), Delivery(self, attempt))
        return (attempt.event(),)

    def returned(self) -> Outcome:
        """What it means that the callback returned."""
        return PENDING if self.manual else None

    def call(self, attempt: Attempt) -> Outcome:
        """Call back in this thread."""
        if not self.begins(attempt):
            return SKIPPED
        mark = inside.set((*inside.get(), self.mailbox))
        try:
            said = self.callback.function(*self.arguments(attempt))
            if said is not None:
                check_has_run(f"the callback of {self.title}, in the publisher's thread,", said)
        except FAILURES as error:
            return error
        finally:
            inside.reset(mark)
        return self.returned()

    def start(self, attempt: Attempt) -> Outcome:
        """See to it that an attempt is handled; PENDING if that happens elsewhere."""
        return self.call(attempt)


class InlineConsumer(Consumer):
    """Called in the thread that brings the event."""

    __slots__ = ()
    inline = True


class Puller(Consumer):
    """Who takes events out of a buffer: never called."""

    __slots__ = ()
    pulls = True

    def __init__(self, mailbox: Mailbox, *, interest: Interest) -> None:
        nothing = Callback(lambda event: None, wants_delivery=False, is_async=False)
        super().__init__(mailbox, nothing, interest=interest, manual=False)

    def pull(self, timeout: float | None, *, keep: bool) -> Attempt | None:
        """Take the next attempt, waiting for it if asked to; `keep` it in flight or settle it."""
        mailbox, queue, settlement = self.mailbox, self.mailbox.queue, self.mailbox.settlement
        mailbox.services.home.check("get()")
        check_free("get()", queue.lock)
        attempt: Attempt | None = None

        def take() -> bool:
            nonlocal attempt
            attempt = None if mailbox.state.lease.is_over() else mailbox.worker.take()
            return attempt is not None or queue.ended is not None

        with queue.locked():
            wait = timeout if timeout and mailbox.services.threaded else 0.0
            queue.changed.wait_for(take, wait)
            if attempt is None:
                return None
            if not keep:
                settlement.apply(attempt, None)
                return attempt
            settlement.launch(self, attempt)
            attempt.begun = True
        return attempt if settlement.begin(attempt) else None

    def purge(self) -> None:
        """Throw away what waits."""
        mailbox, queue = self.mailbox, self.mailbox.queue
        with queue.locked():
            for attempt in queue.backlog:
                mailbox.cursor.done(attempt)
            discarded = queue.backlog.clear()  # freed when the lock is not held any more
            if queue.behind is not None:
                mailbox.worker.read_on()
            queue.notify()
        del discarded


class PoolConsumer(Consumer):
    """Called in a thread of the pool."""

    drains = True

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
        self._next: Attempt | None = None

    def start(self, attempt: Attempt) -> Outcome:
        """Ask the pool for a thread."""
        self._next = attempt
        self._pool.submit(self)
        return PENDING

    def lost(self) -> Attempt | None:
        """The attempt whose awaitable went down with its loop."""
        return None if self._awaiter is None or not self.busy else self._awaiter.lost()

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """Where what its callback gives is awaited, if it has given any."""
        return None if self._awaiter is None else self._awaiter.loop

    def run(self) -> None:
        """In a thread of the pool: handle attempts while there are any, but let others in."""
        attempt, self._next = self._next, None
        mark = inside.set((*inside.get(), self.mailbox))
        try:
            for _ in range(QUANTUM):
                if attempt is None:
                    return
                outcome: Outcome = UNBEGUN
                if attempt is ARRIVALS:
                    attempt, outcome = self._drain()
                if outcome is TIME_IS_UP:
                    break
                if outcome is UNBEGUN:
                    outcome = self._handle(attempt)
                if outcome is AWAITED:
                    return  # it goes on in an event loop, perhaps by now
                if self.mailbox.services.home.is_elsewhere():
                    return  # the callback has forked, and this is the child
                attempt = self.mailbox.worker.finish(self, attempt, outcome)
        finally:
            inside.reset(mark)
        if attempt is not None:
            self.start(attempt)

    def _drain(self) -> tuple[Attempt, Outcome]:
        """Call back with what comes on the fast path, until an attempt needs an account.

        Return that attempt and its outcome. Another thread may close the path at any call or
        backward jump, and nowhere else. It then puts `entry` in flight, and takes it away.
        """
        mailbox, worker, function = self.mailbox, self.mailbox.worker, self.callback.function
        fast, counts = mailbox.queue.fast, mailbox.counts
        assert fast is not None
        arrivals, take = fast.arrivals, fast.arrivals.popleft
        now, forks = mailbox.services.clock.monotonic, Forks.count
        until = now() + SLICE
        for number in range(MOST_AT_ONCE):
            self.started = moment = now()
            if number >= QUANTUM and moment > until:
                break
            if not arrivals or fast.consumer is not self:
                return ARRIVALS, SKIPPED
            self.entry = entry = arrivals[0]
            take()
            if self.entry is not entry:
                return worker.at_hand(self), UNBEGUN
            try:
                said = function(entry.event)
                if said is not None and is_to_be_awaited(f"the callback of {self.title}", said):
                    attempt = worker.at_hand(self)
                    return attempt, self._await(attempt, said)
            except BaseException as error:  # SystemExit too: the thread is ours, so it stays
                return worker.at_hand(self), error
            if self.entry is not entry or Forks.count != forks:
                return worker.at_hand(self), None
            self.entry = None
            counts.delivered += 1
        return ARRIVALS, TIME_IS_UP

    def _handle(self, attempt: Attempt) -> Outcome:
        if not self.begins(attempt):
            return SKIPPED
        try:
            said = self.callback.function(*self.arguments(attempt))
            if said is not None and is_to_be_awaited(f"the callback of {self.title}", said):
                return self._await(attempt, said)
        except BaseException as error:  # SystemExit too: the thread is ours, so it stays
            return error
        return self.returned()

    def _await(self, attempt: Attempt, awaitable: Any) -> Outcome:
        """Await it where an async callback would run."""
        awaiter = self._awaiter
        if awaiter is None:
            theirs = self._theirs
            loop = theirs or self.mailbox.services.loop.get()
            awaiter = self._awaiter = Awaiter(self, loop, owns_loop=theirs is None)
            self.may_lose = True
        return awaiter.begin(attempt, awaitable)


class Awaiter:
    """Awaits in an event loop for one consumer, and tells its mailbox what became of it."""

    def __init__(
        self, consumer: PoolConsumer, loop: asyncio.AbstractEventLoop, *, owns_loop: bool
    ) -> None:
        self._consumer, self.loop, self._owns_loop = consumer, loop, owns_loop
        self._current: Attempt | None = None
        self._task: asyncio.Task[Outcome] | None = None

    def begin(self, attempt: Attempt, awaitable: Awaitable[object]) -> Outcome:
        """Ask the loop for a task; a loop that is closed is a failure like any other."""
        self._current = attempt
        try:
            self.loop.call_soon_threadsafe(self._start, attempt, awaitable)
        except RuntimeError as error:
            self._current = None
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            return error
        return AWAITED

    def lost(self) -> Attempt | None:
        """The attempt that went down with the loop, if that is closed."""
        if not self.loop.is_closed():
            return None
        attempt, self._current = self._current, None
        return attempt

    def _start(self, attempt: Attempt, awaitable: Awaitable[object]) -> None:
        self._task = self.loop.create_task(self._run(awaitable))
        self._task.add_done_callback(functools.partial(self._over, attempt))

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

    def _over(self, attempt: Attempt, task: asyncio.Task[Outcome]) -> None:
        """It has ended; if somebody cancelled it, its attempt is not handled."""
        self._current = self._task = None
        outcome: Outcome
        if task.cancelled():
            outcome = asyncio.CancelledError()
        else:
            outcome = task.exception() or task.result()
        mailbox = self._consumer.mailbox
        following = mailbox.worker.finish(self._consumer, attempt, outcome)
        if following is not None:
            mailbox.worker.start([(self._consumer, following)])
