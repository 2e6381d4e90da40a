"""The explanation of a subscription: what it means, and why it gets an event or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.matching import definition_of
from polycast.routing.explanation import (
    BROKER,
    PIPELINE,
    Explanation,
    asked_in_words,
    called_in_words,
    criteria_of,
    judged,
    meaning_of,
    opaque_in_words,
    seen_now,
    verdict_in_words,
)

if TYPE_CHECKING:
    from polycast.routing.explanation import Seen
    from polycast.subscriptions.subscription import Subscription
    from polycast.subscriptions.subscription_registry import SubscriptionRegistry

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
    seen = seen_now(event, subscription.interest.context, translation)
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
    subscription: Subscription[Any], registry: SubscriptionRegistry, seen: Seen, topic: str | None
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
    subscription: Subscription[Any], registry: SubscriptionRegistry, seen: Seen, topic: str | None
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
