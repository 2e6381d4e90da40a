"""`polycast explain`: why a stored subscription gets an event or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.broker.server.fair_scheduler import FilterBudget
from polycast.cli.command_line import add_command, whole
from polycast.cli.formatting import clip, count, moment
from polycast.cli.operands import place_of, time_at
from polycast.config import level_named
from polycast.errors import BadOptionError, NotDecodableError
from polycast.matching import Definition
from polycast.routing import Plan
from polycast.routing.explanation import (
    BROKER,
    PIPELINE,
    asked_in_words,
    criteria_in_plan,
    event_in_log,
    judged,
    meaning_of,
)
from polycast.routing.search import place_of as place_in_log
from polycast.routing.translation import letter_name
from polycast.stores import Store, Stored, StoredRoute, StoredSubscription, View
from polycast.stores.values import NOT_KNOWN
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    command = add_command(commands, "explain", run, what, "explain events.db billing --position 17")
    command.take_place()
    command.take("name SUBSCRIPTION", "the name, as `subs` shows it")
    command.take("--position N", "explain the event at this position", type=whole)


def run(given: Namespace, terminal: Terminal) -> int:
    """Say what a kept subscription wants and where that is asked; and what it makes of an event."""
    with place_of(given).looking() as store:
        with store.view() as view:
            explanation = StoredExplanation(view, kept_named(view, given.name))
        asked = explanation.asked()
        lines = explanation.lines(asked)
        data = explanation.data() | {"at_broker": asked, "means": lines}
        if given.position is not None:
            stored = stored_at(store, given.position)
            judgement = explanation.judge(store, stored, time_at(store, terminal))
            data |= judgement
            lines = [*lines, "", *judgement["reasons"]]
    terminal.show(data, lines)
    return 0


NUMBER = 1  # of its route in the plan


def kept_named(view: View, name: str) -> StoredSubscription:
    """The subscription of a name."""
    kept = view.subscription(name)
    if kept is None:
        names = [subscription.name for subscription in view.subscriptions()]
        raise BadOptionError.choice("subscription", name, names or ["none: the store keeps none"])
    return kept


def stored_at(store: Store, position: int) -> Stored:
    """The event at a position."""
    entries = store.read(position, limit=1, until=position + 1).entries
    if entries:
        return entries[0]
    oldest, newest = store.oldest(), store.newest()
    if oldest <= position <= newest:
        raise BadOptionError(
            "position", position, accepted="what this token has a right to receive"
        )
    there = f"{oldest} to {newest}" if oldest <= newest else "nothing: the log is empty"
    raise BadOptionError("position", position, accepted=there)


class StoredExplanation:
    """A subscription as the store keeps it, in the plan that a broker would make of it."""

    def __init__(self, view: View, kept: StoredSubscription) -> None:
        self.kept = kept
        route = view.route(kept.name)
        self._routed = route is not None
        body = kept.definition if route is None else route.definition
        self.definition = Definition.decoded(body)
        # What a broker does, which has none of the classes and reads no filter that is too long.
        self._plan = Plan(Registry(classes=()), budget=FilterBudget(lambda: 0.0))
        self._unknown = ""
        try:
            self._plan.routes.move_to([StoredRoute(NUMBER, kept.name, body, 1)], view)
        except NotDecodableError as error:
            self._unknown = str(error)
        self._place = place_in_log(view, kept)

    def asked(self) -> str:
        """What of its filter is asked before an event gets to it; in a file, by its broker."""
        who = PIPELINE if self._routed else BROKER
        asked = NOT_KNOWN if self._unknown else self._plan.routes.asked(NUMBER)
        words = asked_in_words(asked, self.definition, who=who)
        return f"{words}: {self._unknown}" if self._unknown else words

    def data(self) -> dict[str, Any]:
        """For a program."""
        definition, kept = self.definition, self.kept
        return {
            "subscription": kept.name,
            "what": definition.selector,
            "exact": definition.exact,
            "topic": definition.topic,
            "where": definition.where,
            "level": definition.level,
            "group": definition.group,
            "context": definition.context,
            "engine": "spark" if self._routed else "direct",
            "start": kept.start,
            "cursor": kept.cursor,
        }

    def lines(self, asked: str) -> list[str]:
        """What it means, in words."""
        kept = self.kept
        under_way = count(len(self._place.under_way), "event")
        lines = meaning_of(
            self.definition,
            place=f"in effect from position {kept.start:,}; all before {kept.cursor:,} is handled, "
            f"but for {under_way} under way",
            durable=f"durable as {kept.name!r}, kept in the store" if kept.durable else None,
            asked=asked,
        )
        return [*lines, "routed by the pipeline"] if self._routed else lines

    # -- one event ---------------------------------------------------------------------------------

    def judge(self, store: Store, stored: Stored, now: float) -> dict[str, Any]:
        """Each test that an event has to pass, and what became of it."""
        record = stored.record
        on = "" if record.topic is None else f" on {clip(record.topic)}"
        head = f"position {stored.position:,}: {record.name}{on}, {moment(record.time)}"
        wanted, reasons = self._wanted(stored)
        delivered, fate = self._fate(store, stored, now, wanted=wanted)
        return {
            "position": stored.position,
            "class": record.name,
            "wanted": wanted,
            "delivered": delivered,
            "fate": fate,
            "reasons": [head, *(f"  {reason}" for reason in reasons), f"  {fate}"],
        }

    def _wanted(self, stored: Stored) -> tuple[bool | None, list[str]]:
        seen = event_in_log(self._plan, self.definition.context, stored)
        if isinstance(seen, str):
            return False, [seen]
        criteria = criteria_in_plan(self.definition, self._plan.routes.entries.get(NUMBER))
        wanted, reasons = judged(criteria, seen, stored.record.topic)
        if self.kept.group and not self.kept.durable:  # this is what the last of them wants
            why = "the members of this group may want different things: only they can say"
            return None, [*reasons, why]
        return wanted, reasons

    def _fate(
        self, store: Store, stored: Stored, now: float, *, wanted: bool | None
    ) -> tuple[bool | None, str]:
        """What became of an event: whether it was or is delivered, if that is certain."""
        kept, position, expires = self.kept, stored.position, stored.record.expires
        names = [kept.name, *map(letter_name, _ways(self.definition.context, stored))]
        with store.view() as view:
            letters = [name for name in names if view.count_letters(subscription=name, at=position)]
        if letters:
            whose = "" if letters[0] == kept.name else f" of {letters[0]}"
            return False, f"it is a dead letter{whose}; `polycast dlq list` says why"
        if position < kept.start:
            return False, f"it is before position {kept.start:,}, where the subscription begins"
        if kept.until is not None and position >= kept.until:
            return False, f"the subscription ended at position {kept.until:,}"
        if wanted is False:
            return False, "it is not delivered"
        fate = self._place.fate(position)
        asked = "" if wanted else ", if the subscriber wants it"
        is_late = expires is not None and now >= expires
        if fate == "under way":
            return None if is_late else wanted, f"it is under way{asked}"
        if fate == "goes":
            level = level_named(self.definition.level)
            unless = [f"it had expired first, at {moment(expires)}"] if is_late else []
            unless += [] if level.reliable else [f"it was dropped: {level.name} may lose events"]
            exceptions = "".join(f", unless {exception}" for exception in unless)
            # What it wanted before it was replaced, no store knows.
            by_now = "" if asked else "; that goes by what the subscription wants now"
            return None if unless else wanted, f"it was delivered{asked}{exceptions}{by_now}"
        if is_late:
            return False, f"it has expired, at {moment(expires)}, so it is not delivered"
        return wanted, f"it is to be delivered{asked}"


def _ways(context: str | None, stored: Stored) -> list[str]:
    """The contexts of which a function may have kept an event from getting to another."""
    passed = [stored.record.context, context]
    return [name for name in passed if name is not None and stored.record.context != context]
