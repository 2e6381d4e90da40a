"""One subscription at work: what waits for it, what is in flight, what is tried again."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.delivery.backlog import Backlog, Parcel
from polycast.delivery.consumer import EXPIRED, PENDING, Consumer
from polycast.delivery.dead_letters import DeadLetter, DeadLetters
from polycast.delivery.delivery import Nack, Reject
from polycast.delivery.inside import inside
from polycast.errors import CutOff, LeaseExpired, NotSettled, QueueFull, SubscriptionEnded
from polycast.metrics import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.config import Clock, Settings
    from polycast.delivery.loop import LoopThread
    from polycast.delivery.pool import Pool
    from polycast.delivery.timers import Timer, Timers
    from polycast.matching import Interest
    from polycast.stores import Entry

__all__ = ["Mailbox", "Services"]

Handed = tuple[Consumer, Parcel]
_tokens = itertools.count(1)


@dataclass(slots=True)
class Services:
    """What all mailboxes of a bus share."""

    clock: Clock
    timers: Timers
    pool: Pool
    loop: LoopThread
    dead_letters: DeadLetters
    in_turn: Callable[[Callable[[], None]], None]
    changed: Callable[[Mailbox], None]  # it is called in another way now
    ended: Callable[[Mailbox], None]
    quiet: threading.Condition  # notified when a mailbox has nothing left to do
    waiting: int = 0  # how many wait for that
    threaded: bool = True


class Mailbox:
    """The queue of one subscription and everything that happens to what is in it.

    Its lock is taken after the dispatcher's and is never held while user code runs.
    """

    def __init__(
        self, name: str, interest: Interest, settings: Settings, services: Services
    ) -> None:
        self.name, self.interest = name, interest
        self.settings, self.services = settings, services
        self.counts = Counts()
        self.lock = threading.Lock()
        self.moved = threading.Condition(self.lock)  # something came, went, or the end came
        self.backlog = self._new_backlog()
        self.in_flight: dict[int, Parcel] = {}
        self.delayed: set[Parcel] = set()  # waiting for another attempt
        self.held = False  # nothing is handed out: history comes first, or the head failed
        self.paused = False
        self.ended: SubscriptionEnded | None = None
        self.consumer: Consumer | None = None
        self.direct: Callable[[Any], object] | None = None
        self.reserved = 0
        self.lease_until: float | None = None
        self._lease: Timer | None = None

    def _new_backlog(self) -> Backlog:
        ordered = self.settings.level.order != "none"
        return Backlog(ordered=ordered, lifo=self.settings.pull == "lifo")

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return str(self.interest.selector)

    # -- what the dispatcher needs to know -----------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether it is called in the publisher's thread."""
        return self.consumer is not None and self.consumer.inline

    @property
    def blocking(self) -> bool:
        """Whether a publisher waits for room."""
        return self.settings.overflow == "block"

    def interests(self) -> tuple[Interest, ...]:
        """What it wants."""
        return (self.interest,)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Its filter."""
        return None if self.interest.where is None else self.interest.where.function

    def unfit(self, error: Exception) -> None:
        """A filter that fails does not match; it is counted."""
        with self.lock:
            self.counts.filter_failures += 1

    def failed(self, entry: Entry, error: Exception) -> None:
        """Called directly, it raised: the same as any failed attempt."""
        parcel = Parcel(entry, count=1)
        with self.lock:
            self._apply(parcel, error)
        self.refresh()

    def put(self, entry: Entry, verdict: object) -> None:
        """Take an entry. The dispatcher's order lock is held, so this is log order."""
        with self.lock:
            if self.ended is None and self._has_room():
                self.backlog.append(self._parcel(entry, verdict))
                if self.settings.pull:
                    self.moved.notify_all()

    def prefill(self, entries: Iterable[tuple[Entry, object]]) -> None:
        """Put entries before all others, whatever the bound, and begin."""
        with self.lock:
            for parcel in reversed([self._parcel(entry, verdict) for entry, verdict in entries]):
                self.backlog.push_back(parcel)
            self.held = bool(self.delayed) and self.settings.level.order != "none"
            self.moved.notify_all()
        self.pump()

    def withdraw(self, parcels: Iterable[Parcel]) -> None:
        """Take back what still waits."""
        with self.lock:
            for parcel in parcels:
                if parcel in self.backlog:
                    self.backlog.remove(parcel)

    def _parcel(self, entry: Entry, verdict: object) -> Parcel:
        return Parcel(entry)

    def _has_room(self) -> bool:
        """Apply the overflow policy; False if the new entry is not to be kept."""
        policy = self.settings.overflow
        if len(self.backlog) < self.settings.queue or policy in ("spill", "block"):
            return True
        if policy == "drop_oldest":
            self.backlog.drop_oldest()
        if policy == "cut_off":
            self.ended = CutOff(self.title, detail=f"queue={self.settings.queue}")
            return True  # it goes to the dead letters with the others
        self.counts.dropped += 1
        return policy == "drop_oldest"

    def wake(self) -> None:
        """Go on with what was put."""
        if isinstance(self.ended, CutOff):
            self._bury_all(self.ended)
            self.services.ended(self)
        elif self._may_hand_out():
            self.pump()

    def _may_hand_out(self) -> bool:
        """Whether handing out is worth a lock; who is busy looks again when it has finished."""
        consumer = self.consumer
        return consumer is not None and not consumer.busy and not self.paused

    def reserve(self, *, inside: bool) -> None:
        """Wait for room, at most as long as the subscription says."""
        wait = 0.0 if inside or _in_callback() else self.settings.block_for
        with self.moved:
            free = self.moved.wait_for(self._is_free, wait if self.services.threaded else 0.0)
            if not free:
                raise QueueFull(self.title, queue=self.settings.queue, waited=wait)
            self.reserved += 1

    def _is_free(self) -> bool:
        full = len(self.backlog) + self.reserved >= self.settings.queue
        return self.ended is not None or not full

    def release(self) -> None:
        """Give reserved room back."""
        with self.moved:
            self.reserved -= 1

    # -- handing out ---------------------------------------------------------------------------

    def pump(self) -> None:
        """Hand out what can be handed out."""
        if self.inline:
            self.services.in_turn(self._pump)
        else:
            self._pump()

    def _pump(self) -> None:
        with self.lock:
            handed = self._hand_out()
        self.start(handed)
        if self.inline:
            self.refresh()

    def pump_later(self) -> None:
        """The same from a thread that must not run callbacks."""
        if self.inline:
            self.services.pool.submit(_Pumping(self))
        else:
            self.pump()

    def start(self, handed: Iterable[Handed]) -> None:
        """Let consumers begin; those that finish at once make room for the next."""
        todo = deque(handed)
        while todo:
            consumer, parcel = todo.popleft()
            outcome = consumer.start(parcel)
            if outcome is not PENDING or consumer.inline:
                todo.extend(self._finish(consumer, parcel, outcome))

    def finish(self, consumer: Consumer, parcel: Parcel, outcome: object) -> Parcel | None:
        """A consumer has returned; what it should do next, if anything."""
        following: Parcel | None = None
        others = []
        for other, each in self._finish(consumer, parcel, outcome):
            if other is consumer:
                following = each
            else:
                others.append((other, each))
        self.start(others)
        if following is None:
            self.refresh()
        return following

    def _finish(self, consumer: Consumer, parcel: Parcel, outcome: object) -> list[Handed]:
        with self.lock:
            consumer.rest()
            if outcome is not PENDING and self.in_flight.pop(parcel.token, None) is parcel:
                consumer.in_flight -= 1
                self._apply(parcel, outcome)
            return self._hand_out()

    def _hand_out(self) -> list[Handed]:
        """Which consumer gets which parcel now. The lock is held."""
        consumer = self.consumer
        if consumer is None or consumer.busy or self._is_held():
            return []
        parcel = self._take()
        return [] if parcel is None else [self._hand(consumer, parcel)]

    def _is_held(self) -> bool:
        if self.held or self.paused or self.ended is not None:
            return True
        ordered = self.settings.level.order != "none"
        return len(self.in_flight) >= (1 if ordered else self.settings.queue)

    def _take(self) -> Parcel | None:
        """The next parcel that has not expired; a lease that has run out ends it all."""
        if self.lease_until is not None and self.services.clock.monotonic() >= self.lease_until:
            return None
        while self.backlog:
            parcel = self.backlog.pop()
            if self.blocking:
                self.moved.notify_all()
            if not self.is_expired(parcel):
                return parcel
            self.counts.expired += 1
        return None

    def is_expired(self, parcel: Parcel) -> bool:
        """Whether it is too late for it."""
        expires = parcel.entry.expires
        return expires is not None and self.services.clock.time() >= expires

    def _hand(self, consumer: Consumer, parcel: Parcel) -> Handed:
        parcel.count += 1
        parcel.token = token = next(_tokens)
        parcel.holder = consumer
        self.in_flight[token] = parcel
        consumer.busy = True
        consumer.in_flight += 1
        if self.settings.ack_within is not None:
            self.services.timers.after(self.settings.ack_within, lambda: self._overdue(token))
        return consumer, parcel

    # -- what became of it ---------------------------------------------------------------------

    def settle(self, action: str, token: int, outcome: Exception | None) -> None:
        """An explicit answer to a delivery."""
        with self.lock:
            parcel = self.in_flight.pop(token, None)
            if parcel is None:
                why = "the delivery is settled already, was taken away, or its subscription ended"
                raise NotSettled(action, why=why)
            parcel.holder.in_flight -= 1
            self._apply(parcel, outcome)
        self.pump()

    def _overdue(self, token: int) -> None:
        limit = self.settings.ack_within
        with self.lock:
            parcel = self.in_flight.pop(token, None)
            if parcel is None:
                return
            parcel.holder.in_flight -= 1
            self._apply(parcel, TimeoutError(f"not acknowledged within {limit:g} s"))
        self.pump_later()

    def _apply(self, parcel: Parcel, outcome: object) -> None:
        """Count, try again, or bury. The lock is held."""
        if outcome is None:
            self.counts.delivered += 1
        elif outcome is EXPIRED:
            self.counts.expired += 1
        elif self.ended is None:
            assert isinstance(outcome, BaseException)
            self.counts.failed += 1
            self._after_failure(parcel, outcome)

    def _after_failure(self, parcel: Parcel, error: BaseException) -> None:
        if not self.settings.level.reliable:
            self.counts.dropped += 1
        elif isinstance(error, Reject) or parcel.count >= self.settings.attempts:
            self.bury(parcel, error)
        else:
            self.counts.retried += 1
            self._try_again(parcel, self._delay(parcel, error))

    def _delay(self, parcel: Parcel, error: BaseException) -> float:
        if isinstance(error, Nack) and error.delay is not None:
            return error.delay
        return self.settings.retry_delay(parcel.count)

    def _try_again(self, parcel: Parcel, delay: float) -> None:
        self.delayed.add(parcel)
        if self.settings.level.order != "none":
            self.held = True  # later events wait behind the one that failed
        self.services.timers.after(delay, lambda: self._ready_again(parcel))

    def _ready_again(self, parcel: Parcel) -> None:
        with self.lock:
            if parcel not in self.delayed:
                return
            self.delayed.remove(parcel)
            self.backlog.push_back(parcel)
            self.held = False
        self.pump_later()

    def bury(self, parcel: Parcel, error: BaseException) -> None:
        """To the dead letters. The lock is held."""
        self.counts.dead += 1
        reason = str(error) or type(error).__name__
        if not isinstance(error, Reject | Nack | SubscriptionEnded):
            reason = f"{type(error).__name__}: {error}"
        now = self.services.clock.time()
        letter = DeadLetter(parcel.entry, self.name, reason, error, parcel.count, now)
        self.services.dead_letters.add(letter)

    def _bury_all(self, error: BaseException) -> None:
        with self.lock:
            for parcel in self._clear():
                self.bury(parcel, error)

    def _clear(self) -> list[Parcel]:
        left = [*self.in_flight.values(), *self.delayed, *self.backlog.clear()]
        self.in_flight.clear()
        self.delayed.clear()
        return sorted(left, key=lambda parcel: parcel.entry.position)

    # -- its life ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Go between being called directly and through the queue; tell who waits for quiet."""
        with self.lock:
            direct = self._direct_call()
            changed = (direct is None) != (self.direct is None)
            self.direct = direct
            idle = self.is_idle()
        if changed:
            self.services.changed(self)
        if idle and self.services.waiting:
            with self.services.quiet:
                self.services.quiet.notify_all()

    def _direct_call(self) -> Callable[[Any], object] | None:
        consumer = self.consumer
        if consumer is None or not consumer.inline or consumer.callback.wants_delivery:
            return None
        plain = not self.settings.manual_ack and self.settings.ack_within is None
        waiting = self.backlog or self.in_flight or self.delayed or self.held or self.paused
        if not plain or waiting or self.ended is not None or self.lease_until is not None:
            return None
        return consumer.callback.function

    def is_idle(self) -> bool:
        """Whether nothing is left that could be handled now or by trying again."""
        if self.ended is not None:
            return True
        waits = self.paused or self.consumer is None
        return not self.in_flight and not self.delayed and (waits or not self.backlog)

    def consumers(self) -> tuple[Consumer, ...]:
        """Who is called back."""
        return () if self.consumer is None else (self.consumer,)

    def is_detached(self) -> bool:
        """Whether nobody is there to be called back, or to pull."""
        return self.consumer is None and not self.settings.pull

    def attach(self, consumer: Consumer | None) -> None:
        """Let a consumer have what comes; what another had in flight is handed out again."""
        with self.lock:
            for token in sorted(self.in_flight, reverse=True):
                self.backlog.push_back(self.in_flight.pop(token))
            self.consumer = consumer

    def pause(self) -> None:
        """Hand out nothing until resume()."""
        with self.lock:
            self.paused = True
        self.refresh()

    def resume(self) -> None:
        """Go on."""
        with self.lock:
            self.paused = False
        self.pump()

    def set_lease(self, seconds: float) -> None:
        """It ends after so many seconds from now."""
        with self.lock:
            self.lease_until = self.services.clock.monotonic() + seconds
            if self._lease is not None:
                self._lease.cancel()
            self._lease = self.services.timers.after(seconds, self._lease_over)
        self.refresh()

    def _lease_over(self) -> None:
        until = self.lease_until
        if until is not None and self.services.clock.monotonic() >= until:
            self.end(LeaseExpired(self.title))

    def end(self, why: SubscriptionEnded) -> None:
        """It is over; what waits is let go."""
        with self.moved:
            if self.ended is not None:
                return
            self.ended = why
            self._clear()
            if self._lease is not None:
                self._lease.cancel()
            self.moved.notify_all()
        self.services.ended(self)
        self.refresh()

    # -- pulling -------------------------------------------------------------------------------

    def pull(self, timeout: float | None, *, keep: bool) -> Parcel | None:
        """Take the next parcel, waiting for one if asked to; `keep` it in flight or settle it."""
        with self.moved:
            parcel = self._take_unheld()
            if parcel is None and timeout and self.services.threaded:
                self.moved.wait_for(self._may_pull, timeout)
                parcel = self._take_unheld()
            if parcel is None:
                return None
            parcel.count += 1
            if keep:
                parcel.token, parcel.holder = next(_tokens), _Puller()
                self.in_flight[parcel.token] = parcel
            else:
                self.counts.delivered += 1
            return parcel

    def _may_pull(self) -> bool:
        return self.ended is not None or (len(self.backlog) > 0 and not self._is_held())

    def _take_unheld(self) -> Parcel | None:
        return None if self._is_held() else self._take()


class _Puller:
    """Who holds a parcel that was pulled."""

    in_flight = 1


class _Pumping:
    """A job for the pool: go on with a mailbox that is called in whatever thread comes by."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.title = mailbox.title

    def run(self, beat: Callable[[], None]) -> None:
        """Pump."""
        beat()
        self._mailbox.pump()


def _in_callback() -> bool:
    return inside.get() is not None
