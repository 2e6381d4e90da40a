"""What became of each attempt: handled, redelivered, or a dead letter."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from polycast.delivery.consumer import EXPIRED, Consumer
from polycast.delivery.dead_letters import DeadLetter
from polycast.delivery.delivery import Nack, Reject
from polycast.delivery.queue import Attempt, BoundedQueue
from polycast.errors import SubscriptionEndedError
from polycast.plain_text import words_of
from polycast.stores import Entry, Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.delivery.cursors import Cursor
    from polycast.delivery.groups import GroupMembers
    from polycast.delivery.mailbox import Services
    from polycast.delivery.worker import SoleConsumer
    from polycast.metrics import Counts

STORE_RETRY = 1.0  # seconds after which what could not be begun is tried again
_tokens = itertools.count(1)


class Settlement:
    """The attempts in flight, and the outcome of each. The lock of the queue guards it."""

    __slots__ = (*("_counts", "_members", "_name", "_queue", "_services", "cursor", "in_flight"),)

    def __init__(
        self,
        name: str,
        queue: BoundedQueue,
        cursor: Cursor,
        counts: Counts,
        members: SoleConsumer | GroupMembers,
        services: Services,
    ) -> None:
        self._name, self._queue, self.cursor = name, queue, cursor
        self._counts, self._services = counts, services
        self._members = members
        self.in_flight: dict[int, Attempt] = {}  # by token

    # -- into flight -------------------------------------------------------------------------------

    def admit(self, entry: Entry, verdict: object) -> None:
        """Queue an entry; one that cannot be decoded is a dead letter."""
        if self._queue.candidates is not None:
            self._queue.candidates.append((entry, verdict))
            return
        attempt = Attempt(entry, verdict if isinstance(verdict, tuple) else ())
        if not self.is_hopeless(attempt, is_last=False):
            self._queue.append(attempt)

    def launch(self, consumer: Consumer, attempt: Attempt) -> None:
        """Put an attempt in flight."""
        attempt.count += 1
        attempt.begun = False
        attempt.token = token = self.cursor.fence(attempt) + next(_tokens)
        attempt.consumer = consumer
        self.in_flight[token] = attempt
        consumer.in_flight += 1
        limit = self._queue.settings.ack_timeout
        if limit is not None:
            attempt.timer = self._services.timers.after(limit, lambda: self._overdue(token))

    def land(self, token: int) -> Attempt | None:
        """Take an attempt out of flight; None if it is not in flight any more."""
        attempt = self.in_flight.pop(token, None)
        if attempt is not None:
            attempt.consumer.in_flight -= 1
            if attempt.timer is not None:
                attempt.timer.cancel()
        return attempt

    def requeue(self, token: int) -> None:
        """Let somebody else have what was handed out, and not begun or not answered."""
        attempt = self.land(token)
        if attempt is not None:
            self._queue.backlog.put_back(attempt.following())

    def requeue_of(self, consumer: Consumer | None) -> None:
        """Let somebody else have all that one consumer, or anyone, has in flight."""
        held = [
            token
            for token, attempt in self.in_flight.items()
            if consumer is None or attempt.consumer is consumer
        ]
        for token in sorted(held, reverse=True):
            self.requeue(token)

    def close_fast_path(self) -> None:
        """Keep account of each attempt from now on; what its consumer is busy with is in flight."""
        fast = self._queue.fast
        if fast is None:
            return
        consumer, fast.consumer = fast.consumer, None
        if consumer is not None and consumer.entry is not None:
            attempt = consumer.launched = Attempt(consumer.entry)
            consumer.entry = None
            self.launch(consumer, attempt)
            attempt.begun = True
        # What a publisher adds just after it was closed is found here later.
        while fast.arrivals:
            self._queue.append(Attempt(fast.arrivals.popleft()))

    # -- outcomes ----------------------------------------------------------------------------------

    def apply(self, attempt: Attempt, outcome: object) -> None:
        """Count the outcome of an attempt, and try again or bury it. The lock is held."""
        if outcome is None:
            self._counts.delivered += 1
            self.cursor.done(attempt)
        elif outcome is EXPIRED:
            self._counts.expired += 1
            self.cursor.done(attempt)
        elif self._queue.ended is None:
            assert isinstance(outcome, BaseException)
            self._counts.failed += 1
            self._fail(attempt, outcome)

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        settings = self._queue.settings
        if not settings.level.reliable:
            self.drop(attempt)
        elif isinstance(error, Reject) or attempt.count >= settings.attempts:
            self.bury(attempt, error)
        else:
            self._counts.retried += 1
            following = attempt.following()
            asked = error.delay if isinstance(error, Nack) else None
            usual = settings.retry_delay(following.count) if asked is None else asked
            delay = self._members.retry_delay(following, error, usual)
            if delay is not None:
                self.redeliver(following, delay)

    def drop(self, attempt: Attempt) -> None:
        """Count it as lost."""
        self._counts.dropped += 1
        self.cursor.done(attempt)

    def begin(self, attempt: Attempt) -> bool:
        """Tell the cursor that an attempt begins; False if it has to wait for the store."""
        if self.cursor.begin(attempt):
            return True
        with self._queue.locked():
            if self.land(attempt.token) is not None:
                attempt.begun = False
                self.postpone(attempt.following(), STORE_RETRY)
        return False

    def redeliver(self, attempt: Attempt, delay: float) -> None:
        """Queue an attempt after a delay, and keep account of that."""
        self.cursor.redelivers(attempt, delay)
        self.postpone(attempt, delay)

    def postpone(self, attempt: Attempt, delay: float) -> None:
        """Queue an attempt after a delay."""
        self._queue.delayed = self._queue.delayed or {}
        self._queue.delayed[attempt] = None
        self._services.timers.after(delay, lambda: self._due(attempt))

    def _due(self, attempt: Attempt) -> None:
        queue = self._queue
        with queue.locked():
            if attempt not in queue.delayed:
                return
            del queue.delayed[attempt]
            queue.backlog.put_back(attempt)
        self._members.resume()

    def _overdue(self, token: int) -> None:
        limit = self._queue.settings.ack_timeout
        with self._queue.locked():
            attempt = self.land(token)
            if attempt is None:
                return
            self.apply(attempt, TimeoutError(f"not acknowledged within {limit:g} s"))
        self._members.resume()

    def take_over(self, flights: Iterable[tuple[Entry, int, float]]) -> None:
        """Go on with what was in flight elsewhere: entry, attempts so far, delay."""
        with self._queue.locked():
            ready = []
            for entry, attempts, delay in flights:
                attempt = Attempt(entry, count=attempts, prior=True, begun=True)
                self._queue.note_publisher(attempt)
                self.cursor.enqueued(attempt)
                if self.is_hopeless(attempt, is_last=attempts >= self._queue.settings.attempts):
                    continue
                if delay > 0:
                    self.redeliver(attempt, delay)
                else:
                    ready.append(attempt)
            self._queue.backlog.merge(ready)

    # -- dead letters ------------------------------------------------------------------------------

    def is_hopeless(self, attempt: Attempt, *, is_last: bool) -> bool:
        """Bury an attempt that cannot be decoded, or has killed whoever had it; whether it was."""
        event = attempt.entry.event
        if isinstance(event, Undecodable):
            self.bury(attempt, event.error)
        elif is_last:
            self.bury(attempt, ProcessLookupError("whoever had it died each time"))
        else:
            return False
        return True

    def bury(self, attempt: Attempt, error: BaseException) -> None:
        """Make a dead letter of an attempt. The lock is held."""
        self._counts.dead += 1
        letter = self.letter(attempt.entry, error, attempt.count)
        self.cursor.buried(letter, self._services.dead_letters)

    def letter(self, entry: Entry, error: BaseException, attempts: int) -> DeadLetter:
        """Return the dead letter of an entry."""
        said, kind = words_of(error), type(error).__name__
        is_plain = isinstance(error, Reject | Nack | SubscriptionEndedError)
        reason = said or kind if is_plain else f"{kind}: {said}"
        now = self._services.clock.time()
        return DeadLetter(entry, self._name, reason, error, attempts, now)

    def clear(self) -> list[Attempt]:
        """Take out all that is in flight or waits, as it stands in the log. The lock is held."""
        self.close_fast_path()
        flying = [self.land(token) for token in list(self.in_flight)]
        left = [attempt for attempt in flying if attempt is not None]
        left += [*self._queue.delayed, *self._queue.backlog.clear()]
        self._queue.delayed.clear()
        return sorted(left, key=lambda attempt: attempt.entry.position)
