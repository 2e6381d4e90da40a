"""Why a subscription gets an event or not, and what it means: the same words for bus and shell.

All of it goes by what events are routed by: a definition, a selector, a filter as far as it can be
asked here, what an event is in a context, and what a broker asks of the filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from polycast.config import Settings, level_named
from polycast.errors import EventTooDeepError, NotDecodableError
from polycast.errors.failures import failures_here
from polycast.events import codec_for
from polycast.filters.tree.relaxation import EVERYTHING
from polycast.plain_text import plain_lines
from polycast.routing.plan import Plan
from polycast.stores import Stored, StoredRoute, View
from polycast.stores.values import NOT_KNOWN, PushedFilter
from polycast.typesystem import Registry, wire_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.filters import Filter
    from polycast.matching import Definition, Interest, Selector
    from polycast.routing.match import PlannedRoute
    from polycast.routing.translation import ContextTranslation

BROKER, PIPELINE = "the broker", "the pipeline"
_GONE = "that was taken out of the federation, so no event gets there until it is added again"

Verdict = bool | None
"""Whether something passes; None: only the subscriber can say."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reasons, one a line; `delivered` is the verdict, if it is about an event.

    It is None, too, where only the subscriber or its group can say.
    """

    delivered: bool | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(map(plain_lines, self.reasons))


# -- what a subscription means ---------------------------------------------------------------------


def meaning_of(
    definition: Definition,
    *,
    place: str,
    durable: str | None = None,
    is_gone: bool = False,
    wants: Iterable[str] = (),
    asked: str | None = None,
    called: str | None = None,
) -> list[str]:
    """What a subscription means, in words."""
    level = level_named(definition.level)
    below = "without subtypes" if definition.exact else "and everything that conforms to it"
    context, gone = definition.context, f"; {_GONE}" if is_gone else ""
    reasons = [
        f"subscribed to {definition.selector}, {below}",
        None if context is None else f"sees events as context {context!r} does{gone}",
        f"wants {'; '.join([_wanted(definition), *wants])}",
        asked,
        f"promised {level.promise} ({level.name})",
        called,
        place,
    ]
    if level.order != "none":
        reasons.append("the priority of an event is ignored: the order of the log is kept")
    if definition.group is not None:
        reasons.append(f"one of the group {definition.group!r}: an event goes to one member")
    reasons.append(durable)
    return [reason for reason in reasons if reason is not None]


def _wanted(definition: Definition) -> str:
    if definition.where is None:
        return "every event of these types"
    return f"those for which `{definition.where}` is true; a failure counts as no match"


def opaque_in_words(where: Filter[Any] | None) -> list[str]:
    """Which parts of a filter cannot be looked into, and what that costs."""
    parts = () if where is None else where.opaque_parts()
    cost = "a part is opaque, so it is called for each event in this process"
    return [f"{cost}: {part.why}" for part in parts]


def called_in_words(settings: Settings) -> str:
    """How a subscription of this process is called back."""
    how = "in a thread of the pool, or in an event loop if it is async, one event at a time"
    if settings.pull is not None:
        how = f"by get(), {settings.pull}"
    elif settings.dispatch == "inline":
        how = "in the publisher's thread, which it can delay"
    return f"called {how}; at most {settings.queue} wait, then {settings.overflow}"


def asked_by_descriptions(view: View, name: str, body: bytes) -> PushedFilter:
    """What whoever has no class and no function of a subscription asks of its filter."""
    plan = Plan(Registry(classes=()))
    try:
        plan.routes.move_to([StoredRoute(1, name, body, 1)], view)
    except NotDecodableError:
        return NOT_KNOWN
    return plan.routes.asked(1)


def asked_in_words(asked: PushedFilter, definition: Definition, *, who: str = BROKER) -> str:
    """What somebody who sends events on asks of a filter, and what is left to the subscriber."""
    function = definition.function
    if who == PIPELINE and function is not None:
        rest = asked_in_words(asked, replace(definition, function=None), who=who)
        return f"{rest}; if it imports {function}, it asks all of it"
    if not asked.is_known:
        return f"what {who} asks of its filter is not known now"
    # What is registered with an abstract class, only its process knows.
    is_open = definition.open and who == BROKER
    all_of_it = "every event, whatever its type" if is_open else "every event of these types"
    if definition.where is None:
        return f"{who} sends {all_of_it}"
    if asked.is_suspended:
        why = "the filters of its owner have taken too long"
        return f"for a while {who} sends {all_of_it}, and asks no filter: {why}"
    if asked.where in (None, "True"):
        return f"{who} sends {all_of_it}; the subscriber asks the filter"
    part = f"{who} asks `{asked.where}`"
    if asked.is_within:
        there = f"of what is published in context {definition.context!r}"
        rest = f"of what comes into it, it sends {all_of_it}"
        return f"{part} {there}; {rest}; the subscriber asks the whole filter"
    if asked.is_all:
        return f"{part}, which is all of the filter"
    return f"{part}; the subscriber asks the whole filter"


# -- what it makes of an event ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventView:
    """An event as it is in the context of a subscription."""

    cls: type | None
    """Its class there; None if that is not known here."""
    name: str
    read: Callable[[], Any]
    """Gives the event; `NotDecodableError` if it cannot be read."""
    how: tuple[str, ...] = ()
    """How it came to be that."""
    is_sure: bool = True
    """Whether filters can be asked here about what is read."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a subscription asks of an event, as far as it is known here."""

    selector: Selector[Any] | None
    """None: nobody here knows its types."""
    types: str
    where: Filter[Any] | None
    """What of its filter can be asked here."""
    text: str | None = None
    """All of the filter."""
    is_whole: bool = True
    """Whether what can be asked here is all of it."""
    is_open: bool = False
    """Whether classes may be registered with its types, of which descriptions tell nothing."""


def event_now(event: Any, context: str | None, translation: ContextTranslation) -> EventView | str:
    """An event, of the root or the context itself, as the context sees it; or why it does not."""
    cls = type(event)
    name = wire_name(cls)
    if context is None:
        return EventView(cls, name, lambda: event)
    member = translation.member(context, None)
    if member is None or translation.is_gone(context):
        return f"it would be seen as in context {context!r}; {_GONE}"
    if translation.becomes(cls, None, context) is None:
        return EventView(cls, name, lambda: event, (f"{name} is a type of context {context!r}",))
    try:
        there = member.incoming.translate(event)  # which counts nothing
    except failures_here() as error:
        said = (
            str(error) if isinstance(error, EventTooDeepError) else f"a function raised {error!r}"
        )
        why = f"context {context!r} cannot see it: {said}"
        return f"{why}; it is kept as a dead letter"
    now = wire_name(type(there))
    return EventView(type(there), now, lambda: there, (_becomes(context, name, now),))


def event_in_log(plan: Plan, context: str | None, stored: Stored) -> EventView | str:
    """An event of a log as a context saw it, as far as descriptions tell; or why it did not."""
    record, form = stored.record, plan.records.form(context, stored)
    if form is None:
        return _absent(plan, context, stored)
    how: list[str] = []
    name = form.record.name
    if form.rooted and record.context is not None:
        how.append(_becomes("the root", f"{record.name} of context {record.context!r}", name))
    if form.rooted and context is not None and form.cls is not None:
        before, name = name, wire_name(form.cls)
        how.append(_becomes(context, before, name))

    def read() -> Any:
        event = codec_for(form.record.codec).decode(form.record, registry=plan.routes.registry)
        return event if form.translate is None else form.translate(event)

    cls = None if form.cls is object else form.cls  # nobody has described it
    return EventView(cls, name, read, tuple(how), form.sure)


def _absent(plan: Plan, context: str | None, stored: Stored) -> str:
    """Why an event of a log was never in a context."""
    record = stored.record
    if record.rooted() is None:
        return f"{record.name} of context {record.context!r} does not leave that context"
    if context is not None and not plan.routes.contexts.is_there(context, stored.position):
        return f"there was no context {context!r} at position {stored.position:,}"
    return f"context {context!r} sees nothing of {record.name}"


def _becomes(context: str, before: str, now: str) -> str:
    where = "in the root" if context == "the root" else f"in context {context!r}"
    return f"{where} a {before} is a {now}"


def criteria_of(interest: Interest) -> Criteria:
    """What a subscription of this process asks."""
    selector, where = interest.selector, interest.where
    names = [wire_name(cls) for cls in selector.types]
    types = _types_in_words(names, every=selector.every, exact=selector.exact)
    return Criteria(selector, types, where, None if where is None else str(where))


def criteria_in_plan(definition: Definition, entry: PlannedRoute | None) -> Criteria:
    """What a subscription of a store asks; without an entry in a plan, its types are not known."""
    names = [selected.name for selected in definition.types]
    types = _types_in_words(names, every=definition.every, exact=definition.exact)
    is_open = definition.open
    if entry is None:
        return Criteria(None, types, None, definition.where, definition.where is None, is_open)
    where = None if entry.where == EVERYTHING else entry.where
    about = (entry.selector, types, where, definition.where)
    return Criteria(*about, is_whole=entry.sure, is_open=is_open)


def _types_in_words(names: Iterable[str], *, every: bool, exact: bool) -> str:
    """The types that are subscribed to."""
    return ("exactly " if exact else "") + (" and " if every else " or ").join(names)


def judged(wish: Criteria, seen: EventView, topic: str | None) -> tuple[Verdict, list[str]]:
    """Each test that an event has to pass, and how it does."""
    passes, reason = _of_type(wish, seen)
    reasons = [*seen.how, reason]
    pattern = None if wish.selector is None else wish.selector.topic
    if pattern is not None:
        matches = topic is not None and pattern.matches(topic)
        reasons.append(f"topic {topic!r} {_does(matches)} match {pattern.text}")
        passes = _both(passes, matches)
    if passes is False or (wish.where is None and wish.is_whole):
        return passes, reasons
    said, verdicts = _of_filter(wish, seen, topic)
    return _both(passes, said), [*reasons, *verdicts]


def _of_type(wish: Criteria, seen: EventView) -> tuple[Verdict, str]:
    if wish.selector is None:
        return None, f"whether {seen.name} conforms to {wish.types}, only the subscriber can say"
    if seen.cls is None:
        return None, f"what {seen.name} is there, only the subscriber can say"
    covers = wish.selector.covers_class(seen.cls)
    if not covers and wish.is_open:
        why = "only the subscriber knows what was registered with it"
        return None, f"{seen.name} does not conform to {wish.types} by itself; {why}"
    return covers, f"{seen.name} {_does(covers)} conform to {wish.types}"


def _of_filter(wish: Criteria, seen: EventView, topic: str | None) -> tuple[Verdict, list[str]]:
    """What the filter says, as far as it can be asked here."""
    if wish.where is None:
        return None, [f"`{wish.text}`: only the subscriber can ask it"]
    if not seen.is_sure:
        why = "only the subscriber can ask it, who knows all of what the event is there"
        return None, [f"`{wish.text}`: {why}"]
    try:
        event = seen.read()
    except NotDecodableError as error:
        return None, [f"the event cannot be read here: {error}"]
    verdicts = wish.where.on(topic).verdicts(event)
    passes, reasons = verdicts[0].passes is True, [str(verdict) for verdict in verdicts]
    if passes and not wish.is_whole:
        return None, [*reasons, "the rest of the filter only the subscriber can ask"]
    return passes, reasons


def verdict_in_words(passes: Verdict) -> str:
    """The last of the reasons about an event that is published now."""
    if passes is None:
        return "whether it is delivered, only the subscriber can say"
    return "it is delivered" if passes else "it is not delivered"


def _both(one: Verdict, other: Verdict) -> Verdict:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _does(verdict: object) -> str:
    return "does" if verdict else "does not"
