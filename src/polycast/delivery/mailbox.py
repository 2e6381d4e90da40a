"""The mailbox of a subscription or a group: where the plan brings events, and what it is doing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from polycast.delivery.consumer import Consumer, callbacks_under_way
from polycast.delivery.cursors import NOTHING_KEPT, Cursor
from polycast.delivery.groups import GroupMembers
from polycast.delivery.queue import Attempt, BoundedQueue
from polycast.delivery.settlement import Settlement
from polycast.delivery.worker import DeliveryWorker, SoleConsumer
from polycast.errors import CutOffError, LeaseExpiredError, NotAwaitedError, QueueFullError
from polycast.metrics import Counts, Trials
from polycast.plain_text import log_of
from polycast.runtime import LATEST, SYSTEM, Home, Runtime

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from polycast.config import Clock, Settings
    from polycast.delivery.dead_letters import DeadLetters
    from polycast.delivery.distributed_group import GroupClaims
    from polycast.delivery.threads import LoopThread, Pool, Timer, Timers
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest
    from polycast.stores import Entry, StoredRoute


class Supplier(Protocol):
    """Who is asked for events."""

    @property
    def problem(self) -> str | None:
        """What is wrong with it."""


class LogSource(Protocol):
    """The log, from which what did not fit into a queue is read again."""

    def behind(self, mailbox: Mailbox) -> None:
        """There is room again in a queue that is behind the log."""

    def position_of(self, mailbox: Mailbox) -> int:
        """The position before which all has been looked at for a mailbox."""


@dataclass(slots=True, eq=False)
class Services:
    """Clock, threads, dead letters, and whom to tell of changes."""

    clock: Clock
    timers: Timers
    pool: Pool
    loop: LoopThread
    dead_letters: DeadLetters
    in_turn: Callable[[Callable[[], None]], None]
    changed: Callable[[Mailbox], None]  # it is called in another way now
    rewrite: Callable[[Mailbox], None]  # its filter has to be compiled anew
    ended: Callable[[Mailbox], None]
    quiet: threading.Condition  # notified when a mailbox has nothing left to do
    waiting: int = 0  # how many wait for that
    threaded: bool = True
    runtime: Runtime = SYSTEM
    home: Home = field(default_factory=Home)
    source: LogSource | None = None  # None: the bus is in memory
    supplies: set[Supplier] = field(default_factory=set)


_log = log_of("polycast")


class Mailbox:
    """Holds a queue, a settlement with its cursor, a worker, and those who are called back.

    To the plan it is a target; the rest of a subscription's life is in `state`.
    """

    __slots__ = (
        *("__weakref__", "_is_told", "claims", "counts", "cursor", "direct", "members", "name"),
        *("queue", "route", "services", "settlement", "state", "trials", "worker"),
    )

    def __init__(
        self,
        name: str,
        interest: Interest,
        settings: Settings,
        services: Services,
        *,
        cursor: Cursor = NOTHING_KEPT,
        claims: Callable[[Mailbox], GroupClaims] | None = None,
    ) -> None:
        self.name, self.services, self.cursor = name, services, cursor
        self.counts = Counts()
        self.route: StoredRoute | None = None  # by which the pipeline says what it takes
        self.direct: Callable[[Any], object] | None = None
        self.queue = BoundedQueue(settings, cursor, self.counts, services)
        kind = SoleConsumer if interest.group is None else GroupMembers
        self.members: SoleConsumer | GroupMembers = kind(self, interest)
        self.settlement = Settlement(name, self.queue, cursor, self.counts, self.members, services)
        self.worker = DeliveryWorker(self, self.queue, self.settlement)
        self.state = SubscriptionState(self, self.queue, self.settlement)
        self.claims = None if claims is None else claims(self)
        self.trials: Trials | None = None  # of its filter, once that has failed
        self._is_told = False  # that its filter gives what nobody awaits

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return self.members.title

    @property
    def interest(self) -> Interest:
        """What the subscription, or its group, wants."""
        return self.members.interest

    @interest.setter
    def interest(self, interest: Interest) -> None:
        self.members.interest = interest

    @property
    def ended(self) -> SubscriptionEndedError | None:
        """Why it is over, or None."""
        return self.queue.ended

    # -- a target of the plan ----------------------------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether somebody is called in the publisher's thread."""
        return self.members.inline

    @property
    def blocking(self) -> bool:
        """Whether a publisher waits for room."""
        return self.queue.settings.overflow == "block"

    @property
    def copies(self) -> bool:
        """Whether it has objects of its own also of what is published in its context, in memory."""
        return self.queue.settings.copy

    def interests(self) -> tuple[Interest, ...]:
        """What it wants, one for each member."""
        return self.members.interests()

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Return the filter for events of a class on a topic."""
        return self.members.test_for(cls, topic)

    @property
    def watched(self) -> bool:
        """Whether its filter has failed, so that each answer of it is counted."""
        return self.trials is not None

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return the same filter, so that each answer is counted."""
        return self.members.counting(test)

    def unfit(self, error: BaseException) -> None:
        """Count a filter that fails, so that the event does not match; log it once if async."""
        with self.queue.locked():
            self.counts.filter_failures += 1
            was_told, self._is_told = self._is_told, isinstance(error, NotAwaitedError)
            self._is_told = self._is_told or was_told
            is_first, self.trials = self.trials is None, self.trials or Trials()
            self.trials.fail(error)
        if self._is_told and not was_told:
            _log.warning("the filter of %s fails, so it does not match: %s", self.name, error)
        if is_first and self.direct is not None:
            self.services.rewrite(self)

    def put(self, entry: Entry, verdict: object) -> bool:
        """Take an entry; return True if its consumer needs no wake() to find it.

        The dispatcher's order lock is held, so this is log order.
        """
        fast = self.queue.fast
        if (
            fast is not None
            and (consumer := fast.consumer) is not None
            and entry.own is None
            and entry.expires is None
            and not entry.priority
            and len(fast.arrivals) < fast.bound
        ):
            fast.arrivals.append(entry)
            # Who is busy looks again when it has finished.
            return consumer.busy and (consumer.is_lost is None or not consumer.is_lost())
        with self.queue.lock:
            self.settlement.close_fast_path()
            if self.queue.takes(entry):
                self.state.admit(entry, verdict)
        return False

    def wake(self) -> None:
        """Go on with what was put."""
        if self.queue.discarded:
            self.queue.discarded = ()
        if isinstance(self.queue.ended, CutOffError):
            self.state.bury_all(self.queue.ended)
            self.services.ended(self)
        elif self.members.is_free() and not self.queue.paused:
            noted = LATEST.lock
            try:
                self.worker.pump()
            finally:  # this may have interrupted who has noted that lock, and is about to take it
                LATEST.lock = noted
        elif self.members.may_lose():
            self.worker.recover()
        if self.claims is not None:
            self.claims.claim_soon()

    def reserve(self, count: int, *, is_inside: Callable[[], bool]) -> None:
        """Wait for room for so many, at most as long as the subscription says."""
        settings, wait = self.queue.settings, 0.0
        if self.queue.reserve(count, wait):
            return
        if self.services.threaded and count <= settings.queue:
            wait = 0.0 if callbacks_under_way.get() or is_inside() else settings.block_for
        if not self.queue.reserve(count, wait):
            raise QueueFullError(self.title, queue=settings.queue, waited=wait)

    def release(self, count: int) -> None:
        """Give reserved room back."""
        self.queue.release(count)

    def expired(self) -> None:
        """Count an event that came too late to be called back with directly."""
        with self.queue.locked():
            self.counts.expired += 1

    def failed(self, entry: Entry, error: BaseException) -> None:
        """A callback that was called directly raised: the same as any failed attempt."""
        with self.queue.locked():
            self.settlement.apply(Attempt(entry, count=1, begun=True), error)
        self.state.refresh()


class Lease:
    """Until when something lives, if that is limited, and what is done then."""

    __slots__ = ("_lapse", "_services", "_timer", "until")

    def __init__(self, services: Services, lapse: Callable[[], None]) -> None:
        self._services, self._lapse = services, lapse
        self._timer: Timer | None = None
        self.until: float | None = None

    def renew(self, seconds: float) -> None:
        """Let it end after so many seconds from now."""
        self.cancel()
        self.until = self._services.clock.monotonic() + seconds
        self._timer = self._services.timers.after(seconds, self._end)

    def is_over(self) -> bool:
        """Whether there was a lease, and it has run out."""
        return self.until is not None and self._services.clock.monotonic() >= self.until

    def cancel(self) -> None:
        """Do nothing when it runs out."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if self.is_over():
            self._lapse()


class SubscriptionState:
    """What a subscription is doing, and how it begins, changes and ends."""

    __slots__ = (
        *("_mailbox", "_queue", "_settlement", "lease", "left_at", "succeeds", "winding_down"),
    )

    def __init__(self, mailbox: Mailbox, queue: BoundedQueue, settlement: Settlement) -> None:
        self._mailbox, self._queue, self._settlement = mailbox, queue, settlement
        self.lease: Lease | None = None
        self.winding_down = False  # its bus is about to be closed
        self.succeeds: Mailbox | None = None  # whose durable name and place it takes over
        self.left_at = 0  # where it was detached: nothing from there on has been looked at

    # -- taking in ---------------------------------------------------------------------------------

    def admit(self, entry: Entry, verdict: object) -> None:
        """Queue an entry, if there is room or the overflow policy makes some."""
        queue = self._queue
        if queue.room() <= 0:
            if queue.settings.overflow == "cut_off":  # it goes to the dead letters with the others
                detail = f"queue={queue.settings.queue}"
                queue.ended = CutOffError(self._mailbox.title, detail=detail)
            elif not queue.make_room(entry):
                return
        self._settlement.admit(entry, verdict)

    def catch_up(self, entries: Iterable[tuple[Entry, object]], upto: int, live: int) -> None:
        """Take what was read from the log; from `live` on it is brought by others again."""
        queue = self._queue
        with queue.locked():
            if queue.ended is not None or queue.behind is None or queue.stopped_at is not None:
                return
            for entry, verdict in entries:
                self._settlement.admit(entry, verdict)
            queue.caught_up(upto, live)

    def prefill(self, entries: Iterable[tuple[Entry, object]]) -> None:
        """Take history, or what is replayed."""
        with self._queue.locked():
            self._settlement.close_fast_path()
            self._queue.merge(self._mailbox.members.attempt(*entry) for entry in entries)

    def hold_until(self, position: int, *, history: bool) -> None:
        """Take nothing before a position, and hand out nothing until history has come, if any."""
        with self._queue.locked():
            self._settlement.close_fast_path()
            self._queue.held = self._queue.held or history
            self._queue.waits_for = position

    # -- how it is doing ---------------------------------------------------------------------------

    def under_way(self) -> int:
        """How many attempts are in flight, or wait for redelivery."""
        fast = self._queue.fast
        consumer = None if fast is None else fast.consumer
        at_hand = consumer is not None and consumer.entry is not None
        return len(self._settlement.in_flight) + len(self._queue.delayed) + at_hand

    def refresh(self) -> None:
        """Choose the shortest way to call back; tell whoever waits for quiet."""
        mailbox, services = self._mailbox, self._mailbox.services
        with self._queue.locked():
            mailbox.worker.choose_path()
            direct = self._direct_call()
            has_changed = direct != mailbox.direct
            mailbox.direct = direct
            idle = self.is_idle()
        if has_changed:
            services.changed(mailbox)
        if idle and services.waiting:
            with services.quiet:
                services.quiet.notify_all()

    def _direct_call(self) -> Callable[[Any], object] | None:
        """The bare callback, while nothing but calling it is needed."""
        consumer = self._mailbox.members.sole
        if consumer is None or not consumer.inline or consumer.callback.wants_delivery:
            return None
        if consumer.manual or self._queue.settings.ack_timeout is not None:
            return None
        # What is read from a store may be kept account of.
        is_kept = self._mailbox.services.source is not None
        return (
            None if is_kept or not self._mailbox.worker.is_quiet() else consumer.callback.function
        )

    def is_idle(self) -> bool:
        """Whether nothing is left that could be handled now or by trying again."""
        queue, members, claims = self._queue, self._mailbox.members, self._mailbox.claims
        if queue.ended is not None:
            return True
        if self.winding_down:
            return all(consumer.started is None for consumer in members.consumers())
        if queue.fast is not None and queue.fast.consumer is not None:
            return not (queue.fast.consumer.busy or queue.fast.arrivals)
        nothing = not len(queue) and (claims is not None or queue.behind is None)
        waits = queue.paused or members.waits()
        answered = members.pulls or not self._settlement.in_flight
        is_idle = answered and not queue.delayed and (waits or nothing)
        return is_idle and (claims is None or claims.is_idle())

    # -- coming and going --------------------------------------------------------------------------

    def attach(self, consumer: Consumer, settings: Settings) -> bool:
        """Let a consumer have what comes; False if the subscription is over."""
        with self._queue.locked():
            if self._queue.ended is not None:
                return False
            self._settlement.close_fast_path()
            self._queue.settings = self._mailbox.members.attach(consumer, settings)
            return True

    def detach(self, consumer: Consumer) -> None:
        """Go on without a consumer; what it is busy with right now is still its own."""
        with self._queue.locked():
            self._settlement.close_fast_path()
            consumer.detached = True
            self._mailbox.members.remove(consumer)
            if consumer.started is None:
                self._settlement.requeue_of(consumer)

    def pause(self, *, winding_down: bool = False) -> None:
        """Hand out nothing until resume(); what a callback has begun may still be finished."""
        with self._queue.locked():
            self._queue.paused = True
            self.winding_down = winding_down
        self.refresh()

    def resume(self) -> None:
        """Go on."""
        with self._queue.locked():
            self._queue.paused = False
        self._mailbox.worker.pump()

    def set_lease(self, seconds: float) -> None:
        """Let it end after so many seconds from now."""
        with self._queue.locked():
            if self.lease is None:
                self.lease = Lease(self._mailbox.services, self._lapse)
            self.lease.renew(seconds)
        self.refresh()

    def has_lapsed(self) -> bool:
        """Whether it had a lease, and that has run out."""
        return self.lease is not None and self.lease.is_over()

    def _lapse(self) -> None:
        self.end(LeaseExpiredError(self._mailbox.title))

    def stop(self) -> None:
        """Take nothing more; what has begun is left to whoever attaches next, too."""
        source, cursor = self._mailbox.services.source, self._settlement.cursor
        with self._queue.locked():
            if source is not None and self._queue.stopped_at is None:
                self._queue.stopped_at = source.position_of(self._mailbox)
            for attempt in self._settlement.in_flight.values():
                if attempt.begun:
                    cursor.leave_begun(attempt)

    def end(self, why: SubscriptionEndedError) -> None:
        """It is over; what waits is let go."""
        with self._queue.locked():
            if self._queue.ended is not None:
                return
            self.stop()
            self._queue.ended = why
            self._settlement.clear()
            if self.lease is not None:
                self.lease.cancel()
            self._queue.notify()
        self._mailbox.services.ended(self._mailbox)
        self.refresh()

    def bury_all(self, error: BaseException) -> None:
        """Make dead letters of all that is not handled."""
        with self._queue.locked():
            if self._mailbox.claims is not None:
                self._mailbox.claims.leave_letters(error)
            for attempt in self._settlement.clear():
                self._settlement.bury(attempt, error)

    def surrender(self, why: SubscriptionEndedError) -> list[Attempt]:
        """Give away all that is not handled, as it stands in the log, and take nothing more."""
        with self._queue.locked():
            self._queue.ended = why
            return [attempt.following() for attempt in self._settlement.clear()]
