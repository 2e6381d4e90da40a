"""The life of a subscription: attached, paused, leased, over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.delivery.lease import NO_LEASE, Lease, NoLease
from polycast.errors import CutOffError, LeaseExpiredError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.config import Settings
    from polycast.delivery.bounded_queue import BoundedQueue
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.queue import Attempt
    from polycast.delivery.settlement import Settlement
    from polycast.errors import SubscriptionEndedError
    from polycast.stores import Entry


class SubscriptionState:
    """What a subscription is doing, and how it begins, changes and ends."""

    __slots__ = (
        *("_mailbox", "_queue", "_settlement", "lease", "left_at", "succeeds", "winding_down"),
    )

    def __init__(self, mailbox: Mailbox, queue: BoundedQueue, settlement: Settlement) -> None:
        self._mailbox, self._queue, self._settlement = mailbox, queue, settlement
        self.lease: Lease | NoLease = NO_LEASE
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
            if not isinstance(self.lease, Lease):
                self.lease = Lease(self._mailbox.services, self._lapse)
            self.lease.renew(seconds)
        self.refresh()

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
