"""Hands out what waits to consumers, and takes back what became of it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from polycast.delivery.consumer import EXPIRED, PENDING, SKIPPED
from polycast.delivery.queue import ARRIVALS, Attempt, FastPath
from polycast.errors import NotSettledError, WouldDeadlockError
from polycast.locks import check_free

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.delivery.bounded_queue import BoundedQueue
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.settlement import Settlement

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
        disturbed = (
            queue.ended is not None or queue.paused or self._mailbox.state.lease.until is not None
        )
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
        if queue.ended is not None or self._mailbox.state.lease.is_over():
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
            fast.open(consumer, queue.settings.queue)

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
        is_over = queue.ended is not None or self._mailbox.state.lease.until is not None
        return not (waiting or held or is_over)


class _PumpJob:
    """A job for the pool: go on with a mailbox that is called in whatever thread comes by."""

    def __init__(self, worker: DeliveryWorker, mailbox: Mailbox) -> None:
        self._worker = worker
        self.started = mailbox.services.clock.monotonic()

    def run(self) -> None:
        """Pump."""
        self._worker.pump()
