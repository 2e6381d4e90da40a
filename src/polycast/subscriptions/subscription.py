"""What subscribe returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.config import seconds
from polycast.errors import (
    BadOptionError,
    CutOffError,
    LeaseExpiredError,
    SubscriptionCancelledError,
    SubscriptionEndedError,
    TakenOverError,
)
from polycast.routing.explanation import Explanation
from polycast.subscriptions.subscription_explanation import explained, meaning

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from polycast.delivery import Consumer, Mailbox
    from polycast.matching import Interest
    from polycast.subscriptions.subscription_registry import SubscriptionRegistry

T_co = TypeVar("T_co", covariant=True)
_NOTHING: Any = object()
_ENDS = {
    SubscriptionCancelledError: "cancelled",
    LeaseExpiredError: "expired",
    TakenOverError: "taken over",
    CutOffError: "cut off",
    SubscriptionEndedError: "closed",
}


class Subscription(Generic[T_co]):
    """One subscription of this process; usable as a context manager that cancels it."""

    __slots__ = ("__weakref__", "_bus", "_consumer", "_registry")

    def __init__(self, registry: SubscriptionRegistry, consumer: Consumer) -> None:
        self._registry, self._consumer = registry, consumer
        self._bus = registry.owner()  # who has a subscription has the bus

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
    def ended(self) -> SubscriptionEndedError | None:
        """Why it is over, or None."""
        return self._consumer.ended or self.mailbox.ended

    @property
    def state(self) -> str:
        """One of active, paused, detached, cancelled, expired, taken over, cut off, closed, forked.

        It is forked in a process that was forked from that of its bus.
        """
        if self._registry.dispatcher.home.is_elsewhere():
            return "forked"
        if self.ended is not None:
            return _ENDS[type(self.ended)]
        if self._consumer.detached:
            return "detached"
        return "paused" if self.mailbox.queue.paused or self._consumer.paused else "active"

    def explain(self, event: Any = _NOTHING, *, topic: str | None = None) -> Explanation:
        """What it means; with an event, why it gets it or not."""
        self._registry.dispatcher.home.check("explain()")
        if event is _NOTHING:
            return Explanation(None, tuple(meaning(self, self._registry)))
        return explained(self, self._registry, event, topic)

    def cancel(self) -> None:
        """It is over, and so is its durable name; what waits is let go. Twice is once."""
        self._registry.check_free("cancel()", self.mailbox)
        if self.ended is None:
            self._registry.cancel(self._consumer, SubscriptionCancelledError(self.mailbox.title))

    def detach(self) -> None:
        """Go away and let the durable subscription collect events until somebody attaches."""
        self.check("detach()")
        if not self.durable:
            accepted = "detach() is for durable subscriptions; cancel() ends this one"
            raise BadOptionError("durable", None, accepted=accepted)
        self._registry.detach(self._consumer)

    def renew(self, lease: float | timedelta) -> None:
        """Prolong its lease: it ends so many seconds from now."""
        self.check("renew()")
        self._registry.set_lease(self._consumer, seconds("lease", lease))

    def pause(self) -> None:
        """Be called back no more until resume(); what comes meanwhile waits in its queue."""
        self.check("pause()")
        self._registry.pause(self._consumer)

    def resume(self) -> None:
        """Be called back again."""
        self.check("resume()")
        self._consumer.paused = False
        self.mailbox.state.resume()

    def check(self, operation: str) -> None:
        """Refuse an operation on a subscription that is over."""
        ended = self.ended
        if ended is not None:
            raise type(ended)(self.mailbox.title, detail=f"{operation} came too late")
        self._registry.check_free(operation, self.mailbox)

    def __enter__(self) -> Subscription[T_co]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._registry.dispatcher.home.is_elsewhere():
            self.cancel()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subscription) and self._consumer is other._consumer

    def __hash__(self) -> int:
        return hash(self._consumer)

    def __repr__(self) -> str:
        return f"<Subscription to {self.mailbox.title}: {self.state}>"
