"""Hands out what waits to whoever is called back, and takes back what became of it."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.delivery.consumer import EXPIRED, PENDING, SKIPPED, Consumer
from polycast.delivery.queue import ARRIVALS, Attempt, BoundedQueue, FastPath
from polycast.errors import NotSettledError, TakenOverError, WouldDeadlockError
from polycast.runtime import check_free

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.config import Settings
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.settlement import Settlement
    from polycast.matching import Interest
    from polycast.metrics import Trials
    from polycast.stores import Entry


Handout = tuple["Consumer", Attempt]


class DeliveryWorker:
    """Gives each free consumer of a mailbox one attempt at a time.

    Without an account of each, a consumer gets all that comes on the fast path.
    """

    __slots__ = ("_mailbox", "_queue", "_settlement")

    def __init__(self, mailbox: Mailbox, queue: BoundedQueue, settlement: Settlement) -> None:
        self._mailbox, self._queue, self._settlement = mailbox, queue, settlement

    def pump(self) -> None:
        """Hand out what can be handed out."""
        if not self._mailbox.inline:
            self._pump()
            return
        try:
            self._mailbox.services.in_turn(self._pump)
        except WouldDeadlockError:  # another thread may wait for the turn
            self.pump_later()

    def _pump(self) -> None:
        with self._queue.locked():
            handouts = self._hand_out()
        self.start(handouts)
        if self._mailbox.inline:
            self._mailbox.state.refresh()

    def pump_later(self) -> None:
        """The same from a thread that must not run callbacks."""
        if self._mailbox.inline:
            self._mailbox.services.pool.submit(_PumpJob(self, self._mailbox))
        else:
            self.pump()

    def _hand_out(self) -> list[Handout]:
        """Who gets which attempt now. The lock is held."""
        fast = self._queue.fast
        if fast is None or fast.consumer is None:
            return self._mailbox.members.assign()
        consumer = fast.consumer
        if consumer.busy or not fast.arrivals:
            return []
        consumer.busy = True
        return [(consumer, ARRIVALS)]

    def take(self) -> Attempt | None:
        """Take the next attempt that has not expired. The lock is held."""
        queue, settlement = self._queue, self._settlement
        settlement.close_fast_path()
        while (attempt := queue.next(settlement.in_flight)) is not None:
            if self._mailbox.blocking:
                queue.notify()
            if queue.behind is not None:
                self.read_on()
            if not queue.is_expired(attempt):
                return attempt
            settlement.apply(attempt, EXPIRED)
        return None

    def read_on(self) -> None:
        """Ask for what has to be read from the log, once half of what fits has gone."""
        source = self._mailbox.services.source
        if source is not None and self._queue.room() * 2 >= self._queue.settings.queue:
            source.behind(self._mailbox)

    # -- around a callback -------------------------------------------------------------------------

    def start(self, handouts: Iterable[Handout]) -> None:
        """Let consumers begin; those that finish at once make room for the next."""
        todo = deque(handouts)
        home = self._mailbox.services.home
        while todo:
            consumer, attempt = todo.popleft()
            try:
                outcome = consumer.start(attempt)
            except BaseException as error:  # in line, it is for the publisher to handle
                if home.is_elsewhere():
                    raise
                todo.extend(self._finish(consumer, attempt, error))
                self._hand_back(todo)
                raise
            home.check("going on after a callback that has forked")
            if outcome is not PENDING or consumer.inline:
                todo.extend(self._finish(consumer, attempt, outcome))

    def _hand_back(self, handouts: Iterable[Handout]) -> None:
        """Nothing was begun of these; they are handed out again by somebody else."""
        with self._queue.locked():
            for consumer, attempt in handouts:
                consumer.busy = False
                self._settlement.requeue(attempt.token)
        self.pump_later()

    def finish(self, consumer: Consumer, attempt: Attempt, outcome: object) -> Attempt | None:
        """A consumer has returned; what it should do next, if anything."""
        claims = self._mailbox.claims
        if claims is not None:
            claims.measure(consumer)
        handouts = self._finish(consumer, attempt, outcome)
        if len(handouts) == 1 and handouts[0][0] is consumer:  # nearly always, if there is more
            following: Attempt | None = handouts[0][1]
        else:
            following = next((theirs for other, theirs in handouts if other is consumer), None)
            others = [handout for handout in handouts if handout[0] is not consumer]
            # Whoever is called in line needs the turn, which this thread may not have.
            self.start([handout for handout in others if not handout[0].inline])
            inline = [handout for handout in others if handout[0].inline]
            if inline:
                self._hand_back(inline)
            if following is None:
                self._mailbox.state.refresh()
        if claims is not None:
            claims.claim_for(following)
        return following

    def _finish(self, consumer: Consumer, attempt: Attempt, outcome: object) -> list[Handout]:
        with self._queue.locked():
            consumer.rest()
            if outcome is not PENDING and outcome is not SKIPPED:
                if attempt is ARRIVALS:  # not begun, or gone down with its event loop
                    attempt = self._first_arrival(consumer) or attempt
                if self._settlement.in_flight.get(attempt.token) is attempt:
                    self._settlement.land(attempt.token)
                    self._settlement.apply(attempt, outcome)
            return self._hand_out()

    def _first_arrival(self, consumer: Consumer) -> Attempt | None:
        """What a consumer has taken from the fast path, or would have."""
        self._settlement.close_fast_path()
        launched, consumer.launched = consumer.launched, None
        if launched is None and (launched := self.take()) is not None:
            self._settlement.launch(consumer, launched)
        return launched

    def at_hand(self, consumer: Consumer) -> Attempt:
        """What a consumer has taken from the fast path, as an attempt like others."""
        if self._mailbox.services.home.is_elsewhere():
            return ARRIVALS  # the callback has forked, and this is the child
        with self._queue.locked():
            self._settlement.close_fast_path()
            launched, consumer.launched = consumer.launched, None
        assert launched is not None
        return launched

    def recover(self) -> None:
        """Go on with what an event loop that was closed has taken with it."""
        for consumer in self._mailbox.members.consumers():
            attempt = consumer.lost()
            if attempt is not None:
                error = RuntimeError("its event loop is closed")
                following = self.finish(consumer, attempt, error)
                if following is not None:
                    self.start([(consumer, following)])

    def may_begin(self, consumer: Consumer, attempt: Attempt) -> bool:
        """Whether an attempt may still begin, now that its consumer has got a thread."""
        queue = self._queue
        attempt.begun = False  # what was taken from the fast path counted as begun
        disturbed = queue.ended is not None or queue.paused or self._mailbox.state.lease is not None
        if (
            not disturbed
            and not consumer.is_away()
            and attempt.entry.expires is None
            and attempt.token in self._settlement.in_flight
        ):
            attempt.begun = True
        else:
            with queue.locked():
                if not self._still_begins(consumer, attempt):
                    return False
        return self._settlement.begin(attempt)

    def _still_begins(self, consumer: Consumer, attempt: Attempt) -> bool:
        queue, settlement = self._queue, self._settlement
        if settlement.in_flight.get(attempt.token) is not attempt:
            return False
        if queue.ended is not None or self._mailbox.state.has_lapsed():
            settlement.land(attempt.token)
            return False
        if queue.is_expired(attempt):
            settlement.land(attempt.token)
            settlement.apply(attempt, EXPIRED)
            return False
        if queue.paused or consumer.is_away():
            settlement.requeue(attempt.token)
            return False
        attempt.begun = True
        return True

    def settle(
        self, action: str, token: int, outcome: BaseException | None, *, confirm: bool = True
    ) -> None:
        """Take an explicit answer to a delivery; with `confirm`, wait until it is kept."""
        self._mailbox.services.home.check(action)
        check_free(action, self._queue.lock)
        cursor = self._settlement.cursor
        with self._queue.locked():
            attempt = self._settlement.land(token)
            if attempt is None:
                why = "the delivery is settled already, was taken away, or its subscription ended"
                raise NotSettledError(action, why=why)
            if confirm:
                cursor.postpone()
            try:
                self._settlement.apply(attempt, outcome)
            finally:
                if confirm:
                    cursor.resume()
        self.pump()
        if confirm:
            cursor.confirm(action, attempt)

    # -- the fast path -----------------------------------------------------------------------------

    def choose_path(self) -> None:
        """Open the fast path while nothing unusual is going on, and close it otherwise."""
        queue, consumer = self._queue, self._mailbox.members.sole
        if consumer is None or not self._is_plain(consumer):
            self._settlement.close_fast_path()
            return
        fast = queue.fast = queue.fast or FastPath()
        if fast.consumer is None and not (fast.arrivals or consumer.busy):
            fast.consumer, fast.bound = consumer, queue.settings.queue

    def _is_plain(self, consumer: Consumer) -> bool:
        """Whether nobody needs an account of each attempt."""
        settings, services = self._queue.settings, self._mailbox.services
        return (
            consumer.drains
            and not (consumer.callback.wants_delivery or consumer.manual or consumer.is_away())
            and not (consumer.is_lost is not None and consumer.is_lost())
            and not (settings.ack_timeout is not None or self._mailbox.blocking)
            and services.source is None
            and self.is_quiet()
        )

    def is_quiet(self) -> bool:
        """Whether nothing waits in the backlog or is in flight, and nothing is held back."""
        queue = self._queue
        waiting = queue.backlog or self._settlement.in_flight or queue.delayed
        held = queue.held or queue.paused or queue.waits_for
        is_over = queue.ended is not None or self._mailbox.state.lease is not None
        return not (waiting or held or is_over)


class _PumpJob:
    """A job for the pool: go on with a mailbox that is called in whatever thread comes by."""

    def __init__(self, worker: DeliveryWorker, mailbox: Mailbox) -> None:
        self._worker = worker
        self.started = mailbox.services.clock.monotonic()

    def run(self) -> None:
        """Pump."""
        self._worker.pump()


class SoleConsumer:
    """Who is called back with all that a subscription wants; nobody, while it is detached."""

    __slots__ = ("_mailbox", "interest", "sole")

    def __init__(self, mailbox: Mailbox, interest: Interest) -> None:
        self._mailbox, self.interest = mailbox, interest
        self.sole: Consumer | None = None

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return str(self.interest.selector)

    # -- what it wants -----------------------------------------------------------------------------

    def interests(self) -> tuple[Interest, ...]:
        """What it wants."""
        return (self.interest,)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Return the filter, which is the same for all classes."""
        del cls
        if self.interest.where is None:
            return None
        function = self.interest.where.on(topic).function
        return self.counting(function) if self._mailbox.watched else function

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return the same filter, so that each answer is counted."""
        return partial(self._counted, test)

    def _counted(self, test: Callable[[Any], object], event: Any) -> object:
        verdict = bool(test(event))
        trials = self._mailbox.trials
        if trials is not None:
            with self._mailbox.queue.locked():
                trials.work()
        return verdict

    def vain(self) -> list[tuple[str, Trials]]:
        """Its filter, by the name of the subscription, if that fails each time of late."""
        trials = self._mailbox.trials
        return [] if trials is None or not trials.are_vain else [(self._mailbox.name, trials)]

    # -- who has it --------------------------------------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether it is called in the publisher's thread."""
        return self.sole is not None and self.sole.inline

    @property
    def pulls(self) -> bool:
        """Whether it takes events itself instead of being called."""
        return self.sole is not None and self.sole.pulls

    def consumers(self) -> tuple[Consumer, ...]:
        """All who are attached."""
        return () if self.sole is None else (self.sole,)

    def waits(self) -> bool:
        """Whether nothing is handed out until somebody comes or asks."""
        return self.sole is None or self.sole.pulls

    def is_free(self) -> bool:
        """Whether handing out is worth a lock; who is busy looks again when it has finished."""
        return self.sole is not None and not self.sole.busy

    def may_lose(self) -> bool:
        """Whether an event loop that is closed may have taken an attempt with it."""
        return self.sole is not None and self.sole.may_lose

    def attach(self, consumer: Consumer, settings: Settings) -> Settings:
        """Take over from whoever was attached, with what that had in flight."""
        if self.sole is not None:
            self.sole.ended = TakenOverError(self.title)
        self._mailbox.settlement.requeue_of(None)
        self.sole = consumer
        return settings

    def remove(self, consumer: Consumer) -> None:
        """Go on without a consumer."""
        if self.sole is consumer:
            self.sole = None

    # -- what it gets ------------------------------------------------------------------------------

    def attempt(self, entry: Entry, verdict: object) -> Attempt:
        """Return the first attempt to deliver an entry."""
        del verdict
        return Attempt(entry)

    def assign(self) -> list[Handout]:
        """Give it the next attempt, if it is free. The lock is held."""
        consumer = self.sole
        if consumer is None or consumer.busy or consumer.pulls or consumer.is_away():
            return []
        if self._mailbox.state.has_lapsed():
            return []
        attempt = self._mailbox.worker.take()
        if attempt is None:
            return []
        consumer.busy = True
        self._mailbox.settlement.launch(consumer, attempt)
        return [(consumer, attempt)]

    def resume(self) -> None:
        """Hand out what has become ready, from a thread that must not run callbacks."""
        self._mailbox.worker.pump_later()

    def retry_delay(self, attempt: Attempt, error: BaseException, usual: float) -> float:
        """In how many seconds to try again."""
        del attempt, error
        return usual
