"""Who is called back, and in which thread or loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from polycast.delivery.delivery import Callback, Delivery
from polycast.delivery.queue import ARRIVALS, Attempt
from polycast.errors.failures import check_has_run, failures_here, is_to_be_awaited
from polycast.runtime import FORKS, check_free

if TYPE_CHECKING:
    from polycast.delivery.mailbox import Lease, Mailbox
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest
    from polycast.stores import Entry


# Mailboxes, the innermost last: a callback may publish on another bus, which calls back in line.
callbacks_under_way: ContextVar[tuple[Any, ...]] = ContextVar("polycast_inside", default=())


def is_called_back(home: object) -> bool:
    """Whether this code runs in a callback of the bus that was opened in a home."""
    return any(box is not None and box.services.home is home for box in callbacks_under_way.get())


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


class SubscriptionHandles(Protocol):
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
        self.registry: SubscriptionHandles | None = None  # has what subscribe() returned
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

    def start(self, attempt: Attempt) -> Outcome:
        """Call back in this thread; others see to it elsewhere, and return PENDING."""
        if not self.begins(attempt):
            return SKIPPED
        mark = callbacks_under_way.set((*callbacks_under_way.get(), self.mailbox))
        try:
            said = self.callback.function(*self.arguments(attempt))
            if said is not None:
                check_has_run(f"the callback of {self.title}, in the publisher's thread,", said)
        except failures_here() as error:
            return error
        finally:
            callbacks_under_way.reset(mark)
        return self.returned()


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
            attempt = None if mailbox.state.has_lapsed() else mailbox.worker.take()
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


class Drain:
    """The events that come to one consumer on the fast path, until an attempt needs an account.

    Another thread may close the path at any call or backward jump, and nowhere else. It then puts
    `entry` of the consumer in flight, and takes it away.
    """

    def __init__(self, consumer: PoolConsumer | CoroutineConsumer) -> None:
        self._consumer = consumer
        self.attempt = ARRIVALS  # the one at which it ended
        self.outcome: Outcome = TIME_IS_UP

    def __iter__(self) -> Iterator[Any]:
        consumer, mailbox = self._consumer, self._consumer.mailbox
        fast, counts = mailbox.queue.fast, mailbox.counts
        assert fast is not None
        arrivals, take = fast.arrivals, fast.arrivals.popleft
        now, forks = mailbox.services.clock.monotonic, FORKS.count
        until = now() + SLICE
        for number in range(MOST_AT_ONCE):
            consumer.started = moment = now()
            if number >= QUANTUM and moment > until:
                return
            if not arrivals or fast.consumer is not consumer:
                self.outcome = SKIPPED
                return
            consumer.entry = entry = arrivals[0]
            take()
            if consumer.entry is not entry:
                self.end(UNBEGUN)
                return
            yield entry.event
            if consumer.entry is not entry or FORKS.count != forks:
                self.end(None)
                return
            consumer.entry = None
            counts.delivered += 1

    def end(self, outcome: Outcome) -> None:
        """Keep account of the attempt that is under way."""
        self.attempt = self._consumer.mailbox.worker.at_hand(self._consumer)
        self.outcome = outcome


class LoopTasks:
    """Handles the attempts of one consumer in an event loop, in one task at a time."""

    def __init__(self, consumer: Consumer, loop: asyncio.AbstractEventLoop | None) -> None:
        self._consumer, self.loop = consumer, loop or consumer.mailbox.services.loop.get()
        # Ctrl-C is for whoever runs the loop; that of the bus stays.
        interrupts = (KeyboardInterrupt,) if loop is None else ()
        self.failures: tuple[type[BaseException], ...] = (Exception, SystemExit, *interrupts)
        self._latest: LoopTask | None = None

    def start(self, attempt: Attempt, work: Work) -> None:
        """Ask the loop for a task; `RuntimeError` if it is closed."""
        task = self._latest = LoopTask(self._consumer, attempt)
        try:
            self.loop.call_soon_threadsafe(task.begin, self.loop, work)
        except RuntimeError:
            self._latest = None
            raise

    def lost(self) -> Attempt | None:
        """The attempt that went down with the loop, if that is closed."""
        task = self._latest
        if task is None or not self._consumer.busy or not self.loop.is_closed():
            return None
        attempt, task.attempt = task.attempt, None
        return attempt


class LoopTask:
    """A task that handles an attempt of a consumer, and perhaps those that follow."""

    def __init__(self, consumer: Consumer, attempt: Attempt) -> None:
        self._consumer = consumer
        self.attempt: Attempt | None = attempt  # None: nothing is left to be done
        self._task: asyncio.Task[Outcome] | None = None  # asyncio itself holds it weakly

    def begin(self, loop: asyncio.AbstractEventLoop, work: Work) -> None:
        """Begin with it. This runs in the loop."""
        self._task = loop.create_task(work(self))
        self._task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Outcome]) -> None:
        """It has ended; if somebody cancelled it, its attempt is not handled."""
        attempt, self.attempt, self._task = self.attempt, None, None
        if attempt is None:
            return
        consumer, worker = self._consumer, self._consumer.mailbox.worker
        outcome: Outcome = asyncio.CancelledError()
        if attempt is ARRIVALS and consumer.entry is None and consumer.launched is None:
            outcome = SKIPPED  # between two callbacks
        elif not task.cancelled():
            error = task.exception()
            outcome = task.result() if error is None else error
        following = worker.finish(consumer, attempt, outcome)
        if following is not None:
            worker.start([(consumer, following)])


Work = Callable[[LoopTask], Coroutine[Any, Any, Outcome]]
"""Returns the outcome of the attempt that its task still has."""


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
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(mailbox, callback, interest=interest, manual=manual)
        self._theirs = loop  # where what it gives is awaited; None: in the loop of the bus
        self._tasks: LoopTasks | None = None  # made when the callback first gives an awaitable
        self._next: Attempt | None = None

    def start(self, attempt: Attempt) -> Outcome:
        """Ask the pool for a thread."""
        self._next = attempt
        self.mailbox.services.pool.submit(self)
        return PENDING

    def lost(self) -> Attempt | None:
        """The attempt whose awaitable went down with its loop."""
        return None if self._tasks is None else self._tasks.lost()

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """Where what its callback gives is awaited, if it has given any."""
        return None if self._tasks is None else self._tasks.loop

    def run(self) -> None:
        """In a thread of the pool: handle attempts while there are any, but let others in."""
        attempt, self._next = self._next, None
        mark = callbacks_under_way.set((*callbacks_under_way.get(), self.mailbox))
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
            callbacks_under_way.reset(mark)
        if attempt is not None:
            self.start(attempt)

    def _drain(self) -> tuple[Attempt, Outcome]:
        """Call back with what comes on the fast path; return where that ended, and its outcome."""
        function, drain = self.callback.function, Drain(self)
        for event in drain:
            try:
                said = function(event)
                if said is None or not is_to_be_awaited(f"the callback of {self.title}", said):
                    continue
            except BaseException as error:  # SystemExit too: the thread is ours, so it stays
                drain.end(error)
                break
            drain.end(AWAITED)
            return drain.attempt, self._await(drain.attempt, said)
        return drain.attempt, drain.outcome

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

    def _await(self, attempt: Attempt, awaitable: Awaitable[object]) -> Outcome:
        """Await it where an async callback would run."""
        try:
            if self._tasks is None:
                self._tasks = LoopTasks(self, self._theirs)
                self.may_lose = True
            self._tasks.start(attempt, partial(self._awaited, awaitable, self._tasks.failures))
        except RuntimeError as error:  # the loop is closed, or there can be no more threads
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            return error
        return AWAITED

    async def _awaited(
        self, awaitable: Awaitable[object], failures: tuple[type[BaseException], ...], _: LoopTask
    ) -> Outcome:
        try:
            await awaitable
        except failures as error:
            return error
        return self.returned()


class CoroutineConsumer(Consumer):
    """A coroutine function, called in an event loop."""

    may_lose = drains = True

    def __init__(
        self,
        mailbox: Mailbox,
        callback: Callback,
        *,
        interest: Interest,
        manual: bool,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(mailbox, callback, interest=interest, manual=manual)
        self._tasks = LoopTasks(self, loop)
        self.is_lost = None if loop is None else loop.is_closed  # the bus closes its own last

    def start(self, attempt: Attempt) -> Outcome:
        """Ask the loop for a task; a loop that is closed is a failure like any other."""
        try:
            self._tasks.start(attempt, self._run)
        except RuntimeError as error:
            return error
        return PENDING

    def lost(self) -> Attempt | None:
        """The attempt that went down with its loop."""
        return self._tasks.lost()

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """Its loop."""
        return self._tasks.loop

    async def _run(self, task: LoopTask) -> Outcome:
        attempt = task.attempt
        for number in itertools.count(1):
            if attempt is None:
                break
            outcome: Outcome = UNBEGUN
            if attempt is ARRIVALS:
                attempt, outcome = await self._drain()
                task.attempt = attempt
            if outcome is TIME_IS_UP:
                await asyncio.sleep(0)
                continue
            if outcome is UNBEGUN:
                outcome = await self._call(attempt)
            attempt = task.attempt = self.mailbox.worker.finish(self, attempt, outcome)
            if attempt is not None and number % QUANTUM == 0:
                await asyncio.sleep(0)
        return None

    async def _drain(self) -> tuple[Attempt, Outcome]:
        """The same as that of a thread of the pool; a coroutine that does not suspend costs little.

        All run in one task, in the order in which they came. Who cancels it cancels one of them.
        """
        function, drain = self.callback.function, Drain(self)
        mark = callbacks_under_way.set((*callbacks_under_way.get(), self.mailbox))
        try:
            for event in drain:
                await function(event)
        except self._tasks.failures as error:
            drain.end(error)
        finally:
            callbacks_under_way.reset(mark)
        return drain.attempt, drain.outcome

    async def _call(self, attempt: Attempt) -> Outcome:
        if not self.begins(attempt):
            return SKIPPED
        mark = callbacks_under_way.set((*callbacks_under_way.get(), self.mailbox))
        try:
            await self.callback.function(*self.arguments(attempt))
        except self._tasks.failures as error:
            return error
        finally:
            callbacks_under_way.reset(mark)
        return self.returned()
