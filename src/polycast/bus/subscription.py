"""What subscribe returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.bus.explanation import Explanation, explain_event, explain_subscription
from polycast.config import seconds
from polycast.errors import BadOption, Cancelled, CutOff, LeaseExpired, SubscriptionEnded, TakenOver

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from polycast.bus.roster import Roster
    from polycast.delivery import Consumer, Mailbox
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

    def __init__(self, roster: Roster, consumer: Consumer) -> None:
        self._roster, self._consumer = roster, consumer
        self._bus = roster.owner()  # who has a subscription has the bus

    @property
    def mailbox(self) -> Mailbox:
        """Where its events wait."""
        return self._consumer.mailbox

    @property
    def interest(self) -> Interest:
        """What it wants, as data."""
        return self._consumer.interest

    @property
    def consumer(self) -> Consumer:
        """Who is called back."""
        return self._consumer

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
        return self._consumer.ended or self.mailbox.ended

    @property
    def state(self) -> str:
        """One of active, paused, detached, cancelled, expired, taken over, cut off, closed, forked.

        It is forked in a process that was forked from that of its bus.
        """
        if self._is_elsewhere:
            return "forked"
        if self.ended is not None:
            return _ENDS[type(self.ended)]
        if self._consumer.detached:
            return "detached"
        return "paused" if self.mailbox.paused or self._consumer.paused else "active"

    def explain(self, event: Any = _NOTHING, *, topic: str | None = None) -> Explanation:
        """What it means; with an event, why it gets it or not."""
        self.check_home("explain()")
        crossing = self._roster.dispatcher.crossing
        if event is _NOTHING:
            kept = self.mailbox.services.source is not None
            routed = self._routed() if self.mailbox.route is not None else None
            return explain_subscription(
                self.interest,
                self.mailbox.settings,
                self.state,
                kept=kept,
                routed=routed,
                asked=self._roster.asked_elsewhere(self._consumer),
                is_gone=crossing.is_gone(self.interest.context),
            )
        return explain_event(self.interest, event, topic, self.state, crossing)

    def _routed(self) -> str:
        """How far the pipeline has come, in words."""
        pipeline = self._roster.pipeline()
        return "how far it has come is not known" if pipeline is None else str(pipeline)

    def check_home(self, operation: str) -> None:
        """Refuse an operation in a process that was forked from that of its bus."""
        self._roster.dispatcher.home.check(operation)

    def cancel(self) -> None:
        """It is over, and so is its durable name; what waits is let go. Twice is once."""
        self._check_free("cancel()")
        if self.ended is None:
            self._roster.cancel(self._consumer, Cancelled(self.mailbox.title))

    def detach(self) -> None:
        """Go away and let the durable subscription collect events until somebody attaches."""
        self.check("detach()")
        if not self.durable:
            accepted = "detach() is for durable subscriptions; cancel() ends this one"
            raise BadOption("durable", None, accepted=accepted)
        self._roster.detach(self._consumer)

    def renew(self, lease: float | timedelta) -> None:
        """Prolong its lease: it ends so many seconds from now."""
        self.check("renew()")
        self._roster.set_lease(self._consumer, seconds("lease", lease))

    def pause(self) -> None:
        """Be called back no more until resume(); what comes meanwhile waits in its queue."""
        self.check("pause()")
        self._roster.pause(self._consumer)

    def resume(self) -> None:
        """Be called back again."""
        self.check("resume()")
        self._consumer.paused = False
        self.mailbox.resume()

    def check(self, operation: str) -> None:
        """Refuse an operation on a subscription that is over."""
        ended = self.ended
        if ended is not None:
            raise type(ended)(self.mailbox.title, detail=f"{operation} came too late")
        self._check_free(operation)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether it is of the process that this one was forked from."""
        return self._roster.dispatcher.home.is_elsewhere()

    def _check_free(self, operation: str) -> None:
        self._roster.check_free(operation, self.mailbox)

    def __enter__(self) -> Subscription[T_co]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_elsewhere:
            self.cancel()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subscription) and self._consumer is other._consumer

    def __hash__(self) -> int:
        return hash(self._consumer)

    def __repr__(self) -> str:
        return f"<Subscription to {self.mailbox.title}: {self.state}>"
