"""What subscribe returns, and the explanation of why it gets an event or not."""

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
from polycast.matching import Interest, definition_of
from polycast.routing.explanation import (
    BROKER,
    PIPELINE,
    Explanation,
    asked_in_words,
    called_in_words,
    criteria_of,
    event_now,
    judged,
    meaning_of,
    opaque_in_words,
    verdict_in_words,
)

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from polycast.delivery import Consumer, Mailbox
    from polycast.routing.explanation import EventView
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


# -- explaining it ---------------------------------------------------------------------------------

_WAITS = {
    "paused": "the event waits until resume()",
    "detached": "the event waits for whoever attaches to its name",
}


def explained(
    subscription: Subscription[Any],
    registry: SubscriptionRegistry,
    event: object,
    topic: str | None,
) -> Explanation:
    """Explain why a subscription gets an event or not."""
    translation = registry.dispatcher.plan.translation
    seen = event_now(event, subscription.interest.context, translation)
    if isinstance(seen, str):
        return Explanation(False, (seen, verdict_in_words(False)))
    passes, reasons = judged(criteria_of(subscription.interest), seen, topic)
    if passes:
        passes, limits = _limits(subscription, registry, seen, topic)
        reasons += limits
    elif subscription.state != "active":
        reasons.append(f"the subscription is {subscription.state}")
    if passes is not None:
        reasons.append(verdict_in_words(passes))
    return Explanation(passes, tuple(reasons))


def meaning(subscription: Subscription[Any], registry: SubscriptionRegistry) -> list[str]:
    """Say what a subscription means."""
    interest, mailbox = subscription.interest, subscription.mailbox
    definition, durable = definition_of(interest), None
    asked = registry.progress.pushed_filter(subscription.consumer)
    who = BROKER if mailbox.route is None else PIPELINE
    if interest.durable is not None:
        is_kept = mailbox.services.source is not None
        life = "kept in the store" if is_kept else "for the life of this process"
        durable = f"durable as {interest.durable!r}, {life}"
    reasons = meaning_of(
        definition,
        place=f"in effect from position {interest.start}; {subscription.state}",
        durable=durable,
        is_gone=registry.dispatcher.plan.translation.is_gone(interest.context),
        wants=opaque_in_words(interest.where),
        asked=None if asked is None else asked_in_words(asked, definition, who=who),
        called=called_in_words(mailbox.queue.settings),
    )
    if mailbox.route is not None:
        reasons.append(f"routed by the pipeline: {_routed(registry)}")
        if mailbox.queue.settings.overflow == "block":
            why = "what does not fit waits in the log"
            reasons.append(f"nobody who publishes waits for it: {why}")
    return reasons


def _limits(
    subscription: Subscription[Any],
    registry: SubscriptionRegistry,
    seen: EventView,
    topic: str | None,
) -> tuple[bool | None, list[str]]:
    """What becomes of an event that it wants."""
    state, start = subscription.state, subscription.interest.start
    if state not in ("active", *_WAITS):
        return False, [f"the subscription is {state}"]
    if start > registry.progress.published() + 1:
        return False, [f"it begins at position {start}, which is still to come"]
    reasons = [] if state == "active" else [f"the subscription is {state}: {_WAITS[state]}"]
    if _has_rivals(subscription, registry, seen, topic):
        told = (
            f"one member of the group {subscription.interest.group!r} gets it, perhaps another one"
        )
        return None, [*reasons, told]
    return True, reasons


def _has_rivals(
    subscription: Subscription[Any],
    registry: SubscriptionRegistry,
    seen: EventView,
    topic: str | None,
) -> bool:
    """Whether another member of its group may get an event instead."""
    if subscription.interest.group is None:
        return False
    rivals = [
        rival
        for rival in subscription.mailbox.members.consumers()
        if rival is not subscription.consumer
    ]
    wants = (judged(criteria_of(rival.interest), seen, topic)[0] for rival in rivals)
    return any(wants) or registry.progress.has_members_elsewhere(subscription.mailbox)


def _routed(registry: SubscriptionRegistry) -> str:
    """How far the pipeline has come, in words."""
    pipeline = registry.progress.pipeline()
    return "how far it has come is not known" if pipeline is None else str(pipeline)
