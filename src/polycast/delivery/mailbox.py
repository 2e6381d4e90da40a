"""One subscription at work: who is called back with what, and when."""

from __future__ import annotations

import itertools
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from polycast.delivery.consumer import EXPIRED, PENDING, SKIPPED, Consumer
from polycast.delivery.queue import Parcel
from polycast.delivery.settlement import Ledger
from polycast.errors import (
    CutOffError,
    LeaseExpiredError,
    NotAwaitedError,
    SubscriptionEndedError,
    TakenOverError,
    WouldDeadlockError,
)
from polycast.locks import LATEST, check_free
from polycast.metrics import Trials
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.config import Settings
    from polycast.delivery.inbox import Services
    from polycast.delivery.timers import Timer
    from polycast.matching import Interest
    from polycast.stores import Entry

__all__ = ["Handed", "Mailbox"]

Handed = tuple[Consumer, Parcel]
PUT_OFF = 1.0  # seconds after which what could not be begun is tried again
_log = log_of("polycast")
_tokens = itertools.count(1)


class Mailbox(Ledger):
    """The mailbox of one subscription: it hands parcels to its consumer, one at a time."""

    __slots__ = (
        *("_lease", "_told", "consumer", "direct", "lease_until", "place", "succeeds", "trials"),
        "winding_down",
    )

    def __init__(
        self, name: str, interest: Interest, settings: Settings, services: Services
    ) -> None:
        super().__init__(name, interest, settings, services)
        self.consumer: Consumer | None = None
        self.direct: Callable[[Any], object] | None = None
        self.winding_down = False  # its bus is about to be closed
        self.succeeds: Mailbox | None = None  # whose durable name and place it takes over
        self._told = False  # that its filter gives what nobody awaits
        self.trials: Trials | None = None  # of its filter, once that has failed
        self.place = 0  # where it was detached: nothing from there on has been looked at
        self.lease_until: float | None = None
        self._lease: Timer | None = None

    # -- what the dispatcher needs to know -------------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether it is called in the publisher's thread."""
        return self.consumer is not None and self.consumer.inline

    def interests(self) -> tuple[Interest, ...]:
        """What it wants."""
        return (self.interest,)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Its filter, which is the same for all classes."""
        del cls
        if self.interest.where is None:
            return None
        function = self.interest.where.on(topic).function
        return self.counting(function) if self.watched else function

    @property
    def watched(self) -> bool:
        """Whether its filter has failed, so that each answer of it is counted."""
        return self.trials is not None

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """The same filter, so that each answer is counted."""
        return partial(self._try, test)

    def _try(self, test: Callable[[Any], object], event: Any) -> object:
        """Ask a filter that has failed before."""
        said = bool(test(event))
        self._worked()
        return said

    def vain(self) -> list[tuple[str, Trials]]:
        """Its filter, by the name of the subscription, if that fails each time of late."""
        trials = self.trials
        return [] if trials is None or not trials.are_vain else [(self.name, trials)]

    def _worked(self) -> None:
        """Its filter has answered."""
        if self.trials is not None:
            with self.locked():
                self.trials.work()

    def unfit(self, error: BaseException) -> None:
        """A filter that fails does not match; it is counted, and named once if it is async."""
        with self.locked():
            self.counts.filter_failures += 1
            told, self._told = self._told, self._told or isinstance(error, NotAwaitedError)
            is_first, self.trials = self.trials is None, self.trials or Trials()
            self.trials.fail(error)
        if self._told and not told:
            _log.warning("the filter of %s fails, so it does not match: %s", self.name, error)
        if is_first and self.direct is not None:
            self.services.rewrite(self)

    def failed(self, entry: Entry, error: BaseException) -> None:
        """Called directly, it raised: the same as any failed attempt."""
        with self.locked():
            self._apply(Parcel(entry, count=1, begun=True), error)
        self.refresh()

    def expired(self) -> None:
        """An event came too late to be called back with directly."""
        with self.locked():
            self.counts.expired += 1

    def wake(self) -> None:
        """Go on with what was put."""
        if self.let_go:
            self.let_go.clear()
        if isinstance(self.ended, CutOffError):
            self.bury_all(self.ended)
            self.services.ended(self)
        elif self._may_hand_out():
            noted = LATEST.lock
            try:
                self.pump()
            finally:  # this may have interrupted who has noted that lock, and is about to take it
                LATEST.lock = noted
        elif self.consumer is None or self.consumer.may_lose:
            self.recover()

    def recover(self) -> None:
        """An event loop that was closed has taken a parcel with it."""
        for consumer in self.consumers():
            parcel = consumer.lost()
            if parcel is not None:
                following = self.finish(consumer, parcel, RuntimeError("its event loop is closed"))
                if following is not None:
                    self.start([(consumer, following)])

    def _may_hand_out(self) -> bool:
        """Whether handing out is worth a lock; who is busy looks again when it has finished."""
        consumer = self.consumer
        return consumer is not None and not consumer.busy and not self.paused

    # -- handing out -----------------------------------------------------------------------------

    def pump(self) -> None:
        """Hand out what can be handed out."""
        if not self.inline:
            self._pump()
            return
        try:
            self.services.in_turn(self._pump)
        except WouldDeadlockError:  # another thread may wait for the turn
            self.pump_later()

    def _pump(self) -> None:
        with self.locked():
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
            try:
                outcome = consumer.start(parcel)
            except BaseException as error:  # in line, it is for the publisher to handle
                if self.services.home.is_elsewhere():
                    raise
                todo.extend(self._finish(consumer, parcel, error))
                self._hand_back(todo)
                raise
            self.services.home.check("going on after a callback that has forked")
            if outcome is not PENDING or consumer.inline:
                todo.extend(self._finish(consumer, parcel, outcome))

    def _hand_back(self, handed: Iterable[Handed]) -> None:
        """Nothing was begun of these; they are handed out again by somebody else."""
        with self.locked():
            for consumer, parcel in handed:
                consumer.busy = False
                self._return_to_backlog(parcel.token)
        self.pump_later()

    def finish(self, consumer: Consumer, parcel: Parcel, outcome: object) -> Parcel | None:
        """A consumer has returned; what it should do next, if anything."""
        following: Parcel | None = None
        others = []
        handed = self._finish(consumer, parcel, outcome)
        if len(handed) == 1 and handed[0][0] is consumer:  # nearly always, while there is more
            return handed[0][1]
        for other, each in handed:
            if other is consumer:
                following = each
            else:
                others.append((other, each))
        # Whoever is called in line needs the turn, which this thread may not have.
        self.start([each for each in others if not each[0].inline])
        if any(other.inline for other, _ in others):
            self._hand_back([each for each in others if each[0].inline])
        if following is None:
            self.refresh()
        return following

    def _finish(self, consumer: Consumer, parcel: Parcel, outcome: object) -> list[Handed]:
        with self.locked():
            consumer.rest()
            if outcome is PENDING or outcome is SKIPPED:
                return self._hand_out()
            if self.in_flight.get(parcel.token) is parcel:
                self._take_back(parcel.token)
                self._apply(parcel, outcome)
            return self._hand_out()

    def _hand_out(self) -> list[Handed]:
        """Which consumer gets which parcel now. The lock is held."""
        consumer = self.consumer
        if consumer is None or consumer.busy or consumer.pulls or consumer.is_away():
            return []
        if self.lease_until is not None and self.lease_is_over():
            return []
        parcel = self._take()
        return [] if parcel is None else [self._hand(consumer, parcel)]

    def _hand(self, consumer: Consumer, parcel: Parcel) -> Handed:
        consumer.busy = True
        self._launch(consumer, parcel)
        return consumer, parcel

    def _launch(self, consumer: Consumer, parcel: Parcel) -> None:
        """It is in flight from now on."""
        parcel.count += 1
        parcel.begun = False
        parcel.token = token = self.keeper.fence(parcel) + next(_tokens)
        parcel.holder = consumer
        self.in_flight[token] = parcel
        consumer.in_flight += 1
        if self.settings.ack_timeout is not None:
            parcel.timer = self.services.timers.after(
                self.settings.ack_timeout, lambda: self._overdue(token)
            )

    def may_begin(self, consumer: Consumer, parcel: Parcel) -> bool:
        """Whether a parcel may still be handled, now that its consumer has got a thread."""
        disturbed = self.ended is not None or self.paused or self.lease_until is not None
        if (
            not disturbed
            and not consumer.is_away()
            and parcel.entry.expires is None
            and parcel.token in self.in_flight
        ):
            parcel.begun = True
            return True
        with self.locked():
            return self._may_begin(consumer, parcel)

    def _may_begin(self, consumer: Consumer, parcel: Parcel) -> bool:
        if self.in_flight.get(parcel.token) is not parcel:
            return False
        if self.ended is not None or self.lease_is_over():
            self._take_back(parcel.token)
            return False
        if self.is_expired(parcel):
            self._take_back(parcel.token)
            self._apply(parcel, EXPIRED)
            return False
        if self.paused or consumer.is_away():
            self._return_to_backlog(parcel.token)
            return False
        parcel.begun = True
        return True

    def put_off(self, parcel: Parcel) -> Literal[False]:
        """It must not be begun before the store can be told: try that again."""
        with self.locked():
            if self._take_back(parcel.token) is not None:
                parcel.begun = False
                again = parcel.anew()
                self.delayed[again] = None
                self.services.timers.after(PUT_OFF, lambda: self._ready_again(again))
        return False

    def abandon(self) -> None:
        """What is in the hands of a callback is left to whoever attaches next, too."""
        with self.locked():
            for parcel in self.in_flight.values():
                if parcel.begun:
                    self.keeper.abandon(parcel)

    # -- its life --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Go between being called directly and through the queue; tell who waits for quiet."""
        with self.locked():
            direct = self._direct_call()
            changed = direct != self.direct
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
        plain = not consumer.manual and self.settings.ack_timeout is None and not self.waits_for
        waiting = self.backlog or self.in_flight or self.delayed or self.held or self.paused
        if not plain or waiting or self.ended is not None or self.lease_until is not None:
            return None
        if self.services.source is not None:  # what is read may be kept account of
            return None
        return consumer.callback.function

    def is_idle(self) -> bool:
        """Whether nothing is left that could be handled now or by trying again."""
        if self.ended is not None:
            return True
        if self.winding_down:
            return not self._begun()
        waits = self.paused or self.consumer is None or self.consumer.pulls
        answered = not self.in_flight or (self.consumer is not None and self.consumer.pulls)
        nothing = not self.backlog and self.behind is None
        return answered and not self.delayed and (waits or nothing)

    def consumers(self) -> tuple[Consumer, ...]:
        """Who is called back."""
        return () if self.consumer is None else (self.consumer,)

    def is_detached(self) -> bool:
        """Whether nobody is there to be called back, or to pull."""
        return self.consumer is None

    def attach(self, consumer: Consumer, settings: Settings) -> bool:
        """Let a consumer have what comes, and what another had in flight; False if it is over."""
        with self.locked():
            if self.ended is not None:
                return False
            if self.consumer is not None:
                self.consumer.ended = TakenOverError(self.title)
            for token in sorted(self.in_flight, reverse=True):
                self._return_to_backlog(token)
            self.consumer, self.settings = consumer, settings
            return True

    def detach(self, consumer: Consumer) -> None:
        """Go on without a consumer; what it is busy with right now is still its own."""
        with self.locked():
            consumer.detached = True
            if self.consumer is consumer:
                self.consumer = None
            self._give_up(consumer)

    def _give_up(self, consumer: Consumer) -> None:
        if consumer.started is None:
            held = [token for token, p in self.in_flight.items() if p.holder is consumer]
            for token in sorted(held, reverse=True):
                self._return_to_backlog(token)

    def pause(self) -> None:
        """Hand out nothing until resume()."""
        with self.locked():
            self.paused = True
        self.refresh()

    def wind_down(self) -> None:
        """Begin nothing more; what is in the hands of a callback may still be finished."""
        with self.locked():
            self.winding_down = self.paused = True
        self.refresh()

    def _begun(self) -> bool:
        """Whether some callback is under way."""
        return any(consumer.started is not None for consumer in self.consumers())

    def resume(self) -> None:
        """Go on."""
        with self.locked():
            self.paused = False
        self.pump()

    def set_lease(self, seconds: float) -> None:
        """It ends after so many seconds from now."""
        with self.locked():
            self.lease_until = self.services.clock.monotonic() + seconds
            if self._lease is not None:
                self._lease.cancel()
            self._lease = self.services.timers.after(seconds, self._lease_over)
        self.refresh()

    def lease_is_over(self) -> bool:
        """Whether it had a lease, and that has run out."""
        until = self.lease_until
        return until is not None and self.services.clock.monotonic() >= until

    def _lease_over(self) -> None:
        if self.lease_is_over():
            self.end(LeaseExpiredError(self.title))

    def end(self, why: SubscriptionEndedError) -> None:
        """It is over; what waits is let go."""
        with self.locked():
            if self.ended is not None:
                return
            self._stop()
            self.abandon()
            self.ended = why
            self._surrender()
            if self._lease is not None:
                self._lease.cancel()
            self.has_moved()
        self.services.ended(self)
        self.refresh()

    # -- pulling ---------------------------------------------------------------------------------

    def pull(self, consumer: Consumer, timeout: float | None, *, keep: bool) -> Parcel | None:
        """Take the next parcel, waiting for one if asked to; `keep` it in flight or settle it."""
        self.services.home.check("get()")
        check_free("get()", self.lock)
        found: list[Parcel] = []

        def take() -> bool:
            parcel = None if self.lease_is_over() else self._take()
            if parcel is not None:
                found.append(parcel)
            return bool(found) or self.ended is not None

        with self.locked():
            self.moved().wait_for(take, timeout if timeout and self.services.threaded else 0.0)
            if not found:
                return None
            parcel = found[0]
            if not keep:
                self.counts.delivered += 1
                self.keeper.done(parcel)
                return parcel
            self._launch(consumer, parcel)
            parcel.begun = True
        return parcel if self.keeper.begin(parcel) or self.put_off(parcel) else None

    def purge(self) -> None:
        """Throw away what waits."""
        with self.locked():
            for parcel in self.backlog:
                self.keeper.done(parcel)
            self.let_go.extend(self.backlog.clear())
            if self.behind is not None:
                self._read_on()
            self.has_moved()
        self.let_go.clear()


class _Pumping:
    """A job for the pool: go on with a mailbox that is called in whatever thread comes by."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.started = mailbox.services.clock.monotonic()

    def run(self) -> None:
        """Pump."""
        self._mailbox.pump()
