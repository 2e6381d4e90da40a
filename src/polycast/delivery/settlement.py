"""What became of what was handed out: handled, tried again, or dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.delivery.consumer import EXPIRED
from polycast.delivery.dead_letters import DeadLetter
from polycast.delivery.delivery import Nack, Reject
from polycast.delivery.inbox import Inbox
from polycast.errors import NotSettledError, SubscriptionEndedError
from polycast.locks import check_free
from polycast.stores import Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.delivery.queue import Parcel
    from polycast.stores import Entry

__all__ = ["Ledger"]


class Ledger(Inbox):
    """An inbox that keeps account of each attempt."""

    __slots__ = ()

    def pump(self) -> None:
        """Hand out what can be handed out."""

    def pump_later(self) -> None:
        """The same from a thread that must not run callbacks."""

    def settle(
        self, action: str, token: int, outcome: BaseException | None, *, confirm: bool = True
    ) -> None:
        """An explicit answer to a delivery; with `confirm`, wait until it is kept."""
        self.services.home.check(action)
        check_free(action, self.lock)
        with self.locked():
            parcel = self._take_back(token)
            if parcel is None:
                why = "the delivery is settled already, was taken away, or its subscription ended"
                raise NotSettledError(action, why=why)
            if confirm:
                self.keeper.postpone()
            try:
                self._apply(parcel, outcome)
            finally:
                if confirm:
                    self.keeper.resume()
        self.pump()
        if confirm:
            self.keeper.confirm(action, parcel)

    def _overdue(self, token: int) -> None:
        limit = self.settings.ack_timeout
        with self.locked():
            parcel = self._take_back(token)
            if parcel is None:
                return
            self._apply(parcel, TimeoutError(f"not acknowledged within {limit:g} s"))
        self.pump_later()

    def _take_back(self, token: int) -> Parcel | None:
        """It is in flight no more."""
        parcel = self.in_flight.pop(token, None)
        if parcel is not None:
            parcel.holder.in_flight -= 1
            if parcel.timer is not None:
                parcel.timer.cancel()
        return parcel

    def _return_to_backlog(self, token: int) -> None:
        """It was handed out and not begun, or not answered: somebody else may have it."""
        parcel = self._take_back(token)
        if parcel is not None:
            self.backlog.put_back(parcel.anew())

    def _apply(self, parcel: Parcel, outcome: object) -> None:
        """Count, try again, or bury. The lock is held."""
        if outcome is None:
            self.counts.delivered += 1
            self.keeper.done(parcel)
        elif outcome is EXPIRED:
            self.counts.expired += 1
            self.keeper.done(parcel)
        elif self.ended is None:
            assert isinstance(outcome, BaseException)
            self.counts.failed += 1
            self._after_failure(parcel, outcome)

    def _after_failure(self, parcel: Parcel, error: BaseException) -> None:
        if not self.settings.level.reliable:
            self.counts.dropped += 1
            self.keeper.done(parcel)
        elif isinstance(error, Reject) or parcel.count >= self.settings.attempts:
            self._bury(parcel, error)
        else:
            self.counts.retried += 1
            again = parcel.anew()
            self._try_again(again, self._delay(again, error))

    def _try_again(self, parcel: Parcel, delay: float) -> None:
        """Put it into the backlog after a while."""
        self.delayed[parcel] = None
        self.keeper.again(parcel, delay)
        self.services.timers.after(delay, lambda: self._ready_again(parcel))

    def _delay(self, parcel: Parcel, error: BaseException) -> float:
        if isinstance(error, Nack) and error.delay is not None:
            return error.delay
        return self.settings.retry_delay(parcel.count)

    def _ready_again(self, parcel: Parcel) -> None:
        with self.locked():
            if parcel not in self.delayed:
                return
            del self.delayed[parcel]
            self.backlog.put_back(parcel)
        self.pump_later()

    def take_up(self, flights: Iterable[tuple[Entry, object, int, float]]) -> None:
        """Go on with what was under way elsewhere: entry, verdict, attempts so far, delay."""
        with self.locked():
            ready = []
            for entry, verdict, attempts, delay in flights:
                parcel = self._parcel(entry, verdict)
                parcel.count, parcel.prior, parcel.begun = attempts, True, True
                self.publishers[parcel.publisher] = None
                self.keeper.took(parcel)
                if isinstance(entry.event, Undecodable):
                    self._bury(parcel, entry.event.error)
                elif attempts >= self.settings.attempts:
                    self._bury(parcel, ProcessLookupError("whoever had it died each time"))
                elif delay > 0:
                    self._try_again(parcel, delay)
                else:
                    ready.append(parcel)
            self.backlog.merge(ready)

    def _bury(self, parcel: Parcel, error: BaseException) -> None:
        self.counts.dead += 1
        letter = self._letter(parcel.entry, error, parcel.count)
        self.keeper.buried(letter, self.services.dead_letters)

    def _letter(self, entry: Entry, error: BaseException, attempts: int) -> DeadLetter:
        reason = str(error) or type(error).__name__
        if not isinstance(error, Reject | Nack | SubscriptionEndedError):
            reason = f"{type(error).__name__}: {error}"
        now = self.services.clock.time()
        return DeadLetter(entry, self.name, reason, error, attempts, now)

    def bury_all(self, error: BaseException) -> None:
        """All that is not handled goes to the dead letters."""
        with self.locked():
            for parcel in self._surrender():
                self._bury(parcel, error)

    def surrender(self, why: SubscriptionEndedError) -> list[Parcel]:
        """Give away all that is not handled, as it stands in the log, and take nothing more."""
        with self.locked():
            self.ended = why
            return [parcel.anew() for parcel in self._surrender()]

    def _surrender(self) -> list[Parcel]:
        flying = [self._take_back(token) for token in list(self.in_flight)]
        left = [parcel for parcel in flying if parcel is not None]
        left += [*self.delayed, *self.backlog.clear()]
        self.delayed.clear()
        return sorted(left, key=lambda parcel: parcel.entry.position)
