"""What subscribe returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.bus.explanation import Explanation, explain_event, explain_subscription
from polycast.config import seconds
from polycast.delivery import Consumer, Group, Mailbox
from polycast.errors import BadOption, Cancelled, CutOff, LeaseExpired, SubscriptionEnded, TakenOver

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from polycast.bus.roster import Roster
    from polycast.delivery import Timer
    from polycast.matching import Interest

__all__ = ["Subscription"]

T_co = TypeVar("T_co", covariant=True)
_NOTHING: Any = object()
_ENDS = {
    Cancelled: "cancelled",
    LeaseExpired: "expired",
    TakenOver: "taken over",
    CutOff: "cut off",
    SubscriptionEnded: "closed",
}


class Subscription(Generic[T_co]):
    """One subscription of this process; usable as a context manager that cancels it."""

    def __init__(self, roster: Roster, mailbox: Mailbox, interest: Interest) -> None:
        self._roster, self.mailbox, self.interest = roster, mailbox, interest
        self.consumer: Consumer | None = None
        self._over: SubscriptionEnded | None = None  # its own end, where the mailbox lives on
        self._detached = False
        self._lease: Timer | None = None  # as a member of a group; else the mailbox has it

    @property
    def name(self) -> str:
        """Its durable name, or one that tells it from others on this bus."""
        return self.mailbox.name

    @property
    def durable(self) -> bool:
        """Whether it has a durable name."""
        return self.interest.durable is not None

    @property
    def ended(self) -> SubscriptionEnded | None:
        """Why it is over, or None."""
        return self._over or self.mailbox.ended

    @property
    def state(self) -> str:
        """One of active, paused, detached, cancelled, expired, taken over, cut off, closed."""
        if self.ended is not None:
            return _ENDS[type(self.ended)]
        if self._detached:
            return "detached"
        paused = self.mailbox.paused or (self.consumer is not None and self.consumer.paused)
        return "paused" if paused else "active"

    def explain(self, event: Any = _NOTHING, *, topic: str | None = None) -> Explanation:
        """What it means; with an event, why it gets it or not."""
        if event is _NOTHING:
            return explain_subscription(self.interest, self.mailbox.settings, self.state)
        return explain_event(self.interest, event, topic, self.state)

    def cancel(self) -> None:
        """It is over, and so is its durable name; what waits is let go. Twice is once."""
        if self.ended is not None:
            return
        if isinstance(self.mailbox, Group) and self.consumer is not None:
            self._leave(Cancelled(self.mailbox.title))
        else:
            self.mailbox.end(Cancelled(self.mailbox.title))

    def _leave(self, why: SubscriptionEnded) -> None:
        assert isinstance(self.mailbox, Group)
        if self.ended is None and self.consumer is not None:
            self._over = why
            if self._lease is not None:
                self._lease.cancel()
            self._roster.leave(self.mailbox, self.consumer, forget=True)

    def detach(self) -> None:
        """Go away and let the durable subscription collect events until somebody attaches."""
        self.check("detach()")
        if self.interest.durable is None:
            accepted = "detach() is for durable subscriptions; cancel() ends this one"
            raise BadOption("durable", None, accepted=accepted)
        self._detached = True
        if isinstance(self.mailbox, Group) and self.consumer is not None:
            self._roster.leave(self.mailbox, self.consumer, forget=False)
        else:
            self.mailbox.attach(None)
            self._roster.changed(self.mailbox)

    def renew(self, lease: float | timedelta) -> None:
        """Prolong its lease: it ends so many seconds from now."""
        self.check("renew()")
        wait = seconds("lease", lease)
        if isinstance(self.mailbox, Group):
            if self._lease is not None:
                self._lease.cancel()
            self._lease = self._roster.services.timers.after(wait, self._expire)
        else:
            self.mailbox.set_lease(wait)

    def _expire(self) -> None:
        """The lease of a member of a group is over."""
        self._leave(LeaseExpired(self.mailbox.title))

    def pause(self) -> None:
        """Be called back no more until resume(); what comes meanwhile waits in its queue."""
        self.check("pause()")
        if isinstance(self.mailbox, Group) and self.consumer is not None:
            self.consumer.paused = True
        else:
            self.mailbox.pause()

    def resume(self) -> None:
        """Be called back again."""
        self.check("resume()")
        if self.consumer is not None:
            self.consumer.paused = False
        self.mailbox.resume()

    def take_over(self, why: SubscriptionEnded) -> None:
        """Another attachment has its durable name now."""
        self._over = why

    def check(self, operation: str) -> None:
        """Refuse an operation on a subscription that is over."""
        ended = self.ended
        if ended is not None:
            raise type(ended)(self.mailbox.title, detail=f"{operation} came too late")

    def __enter__(self) -> Subscription[T_co]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    def __repr__(self) -> str:
        return f"<Subscription to {self.mailbox.title}: {self.state}>"
