"""Why a subscription gets, or does not get, an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.routing.borders.crossing import Astray, Sight
from polycast.text import plain_lines
from polycast.typesystem import wire_name

if TYPE_CHECKING:
    from polycast.config import Settings
    from polycast.matching import Interest
    from polycast.routing.borders.crossing import Crossing
    from polycast.stores.values import Asked

__all__ = ["Explanation", "explain_event", "explain_subscription"]

_GONE = "that was taken out of the federation, so no event gets there until it is added again"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reasons, one a line; `delivered` is the verdict, if it is about an event."""

    delivered: bool | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(map(plain_lines, self.reasons))


def explain_subscription(
    interest: Interest,
    settings: Settings,
    state: str,
    *,
    kept: bool,
    routed: str | None = None,
    asked: Asked | None = None,
    is_gone: bool = False,
) -> Explanation:
    """What a subscription means, in words."""
    level = settings.level
    where = "every event of these types"
    if interest.where is not None:
        where = f"those for which `{interest.where}` is true; a failure counts as no match"
        for part in interest.where.opaque_parts():
            where += (
                f"; a part is opaque, so it is called for each event in this process: {part.why}"
            )
    reasons = [
        f"subscribed to {interest.selector}, {_subtypes(interest)}",
        f"wants {where}",
        f"promised {level.promise} ({level.name})",
        f"called {_how(settings)}; at most {settings.queue} wait, then {settings.overflow}",
        f"in effect from position {interest.start}; {state}",
    ]
    if asked is not None:
        reasons.insert(2, _split(asked, filtered=interest.where is not None))
    if interest.context is not None:
        sight = f"sees events as context {interest.context!r} does"
        reasons.insert(1, f"{sight}; {_GONE}" if is_gone else sight)
    if level.order != "none":
        reasons.append("the priority of an event is ignored: the order of the log is kept")
    if interest.group is not None:
        reasons.append(f"one of the group {interest.group!r}: an event goes to one member")
    if interest.durable is not None:
        life = "kept in the store" if kept else "for the life of this process"
        reasons.append(f"durable as {interest.durable!r}, {life}")
    if routed is not None:
        reasons.append(f"routed by the pipeline: {routed}")
        if settings.overflow == "block":
            reasons.append("nobody who publishes waits for it: what does not fit waits in the log")
    return Explanation(None, tuple(reasons))


def explain_event(
    interest: Interest, event: Any, topic: str | None, state: str, crossing: Crossing
) -> Explanation:
    """Each test that an event has to pass, and how it does."""
    if crossing.is_gone(interest.context):
        why = f"it would be seen as in context {interest.context!r}; {_GONE}"
        return Explanation(False, (why, "it is not delivered"))
    try:
        event, reasons = _seen(event, interest.context, crossing)
    except Astray as astray:
        why = f"context {astray.context!r} cannot see it: a function raised {astray.error!r}"
        return Explanation(False, (why, "it is not delivered, and kept as a dead letter"))
    selector, cls = interest.selector, type(event)
    reasons.append(
        f"{wire_name(cls)} {_does(selector.covers_class(cls))} conform to {_types(selector)}"
    )
    passes = selector.covers_class(cls)
    if selector.topic is not None:
        on_topic = topic is not None and selector.topic.matches(topic)
        reasons.append(f"topic {topic!r} {_does(on_topic)} match {selector.topic.text}")
        passes = passes and on_topic
    if passes and interest.where is not None:
        found = interest.where.on(topic).verdicts(event)
        reasons += [str(each) for each in found]
        passes = found[0].passes is True
    if state != "active":
        reasons.append(f"the subscription is {state}")
        passes = passes and state in ("paused", "detached")  # it waits in the queue
    reasons.append("it is delivered" if passes else "it is not delivered")
    return Explanation(passes, tuple(reasons))


def _seen(event: Any, context: str | None, crossing: Crossing) -> tuple[Any, list[str]]:
    """An event of the root, or of the context itself, as the context sees it."""
    if context is None:
        return event, []
    name = wire_name(type(event))
    if crossing.becomes(type(event), None, context) is None:
        return event, [f"{name} is a type of context {context!r}"]
    there = Sight(event, None, crossing).seen(context)
    return there, [f"in context {context!r} a {name} is a {wire_name(type(there))}"]


def _split(asked: Asked, *, filtered: bool) -> str:
    """What the broker asks of a filter, and what is asked here."""
    if not filtered and asked.is_all:
        return "the broker sends every event of these types"
    if asked.where in (None, "True"):
        return "the broker sends every event of these types; the filter is asked here"
    if asked.is_all:
        return f"the broker asks `{asked.where}`, which is all of the filter"
    return f"the broker asks `{asked.where}`; the whole filter is asked here"


def _does(verdict: object) -> str:
    return "does" if verdict else "does not"


def _types(selector: Any) -> str:
    joint = " and " if selector.every else " or "
    exactly = "exactly " if selector.exact else ""
    return exactly + joint.join(wire_name(cls) for cls in selector.types)


def _subtypes(interest: Interest) -> str:
    return "without subtypes" if interest.selector.exact else "and everything that conforms to it"


def _how(settings: Settings) -> str:
    if settings.pull is not None:
        return f"by get(), {settings.pull}"
    if settings.dispatch == "inline":
        return "in the publisher's thread, which it can delay"
    return "in a thread of the pool, or in an event loop if it is async, one event at a time"
