"""`polycast explain`: why a kept subscription gets an event or not, told from descriptions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.cli.places import place_of
from polycast.cli.words import clip, count, moment
from polycast.errors import BadOption, FilterError, NotDecodable
from polycast.events import codec_for
from polycast.filters import Filter
from polycast.filters.weakening import EVERYTHING, weakened
from polycast.matching import Definition, TopicPattern
from polycast.routing.history import known_types
from polycast.routing.history import place_of as place_in_log
from polycast.routing.loading import DescribedSelector, RoutingPlan, class_named
from polycast.routing.runnable import runnable_by
from polycast.stores import Route

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal
    from polycast.stores import Kept, Store, Stored, View
    from polycast.typesystem import Registry

__all__ = ["explain_subscription"]


def explain_subscription(given: Namespace, terminal: Terminal) -> int:
    """Say what a kept subscription wants and where that is asked; and what it makes of an event."""
    with place_of(given).looking() as store:
        with store.view() as view:
            kept = _kept(view, given.name)
            explained = _Explained(view, kept)
        data, lines = explained.data(), explained.lines()
        if given.position is not None:
            found = explained.judge(store, _stored(store, given.position))
            data |= found
            lines += ["", *found["reasons"]]
    terminal.show(data, lines)
    return 0


def _kept(view: View, name: str) -> Kept:
    kept = view.subscription(name)
    if kept is None:
        names = [each.name for each in view.subscriptions()]
        raise BadOption.choice("subscription", name, names or ["none: the store keeps none"])
    return kept


def _stored(store: Store, position: int) -> Stored:
    found = store.read(position, limit=1, until=position + 1).entries
    if found:
        return found[0]
    oldest, newest = store.oldest(), store.newest()
    if oldest <= position <= newest:
        raise BadOption("position", position, accepted="what this token has a right to receive")
    there = f"{oldest} to {newest}" if oldest <= newest else "nothing: the log is empty"
    raise BadOption("position", position, accepted=there)


class _Explained:
    """A subscription as the store keeps it, and what can be asked of its filter without it."""

    def __init__(self, view: View, kept: Kept) -> None:
        self.kept = kept
        route = view.route(kept.name)
        self._routed = route is not None
        body = kept.definition if route is None else route.definition
        self.definition = Definition.decoded(body)
        self.registry = known_types(view)
        self.where, self._unknown = _filter(self.definition, self.registry)
        self.broker, self.subscriber = self._parts()
        self._place = place_in_log(view, kept)

    def _parts(self) -> tuple[str, str]:
        """What of the filter is asked where it is sent from, and what where it arrives."""
        definition, where = self.definition, self.where
        if definition.where is None:
            return "no filter: all of its types", "nothing"
        if where is None:
            return "all of its types", f"`{definition.where}`: {self._unknown}"
        can_ask = runnable_by(self.registry)
        if can_ask(where.tree) and not definition.partial:
            return f"`{where}`, all of it", "nothing more"
        part: Filter[Any] = where if can_ask(where.tree) else Filter(weakened(where.tree, can_ask))
        asked = "all of its types" if part == EVERYTHING else f"`{part}`"
        why = "the rest needs its own functions or classes"
        return asked, f"`{definition.where}`: {why}"

    def data(self) -> dict[str, Any]:
        """For a program."""
        definition, kept = self.definition, self.kept
        return {
            "subscription": kept.name,
            "what": definition.selector,
            "exact": definition.exact,
            "topic": definition.topic,
            "where": definition.where,
            "at_broker": self.broker,
            "at_subscriber": self.subscriber,
            "level": definition.level,
            "group": definition.group,
            "context": definition.context,
            "engine": "spark" if self._routed else "direct",
            "start": kept.start,
            "cursor": kept.cursor,
        }

    def lines(self) -> list[str]:
        """For a person."""
        definition, kept = self.definition, self.kept
        lines = [
            f"subscription  {kept.name}",
            f"wants         {definition.selector}, "
            + ("without subtypes" if definition.exact else "and everything that conforms to it"),
            f"filter        {definition.where or '-'}",
            f"  at a broker       {self.broker}",
            f"  at the subscriber {self.subscriber}",
            f"promised      {definition.level}",
            f"in effect     from position {kept.start:,}; all before {kept.cursor:,} is handled, "
            f"but for {count(len(self._place.under_way), 'event')} under way",
        ]
        if definition.group is not None:
            lines.append(f"group         {definition.group}: an event goes to one member")
        if definition.context is not None:
            lines.append(f"context       sees events as {definition.context!r} does")
        if self._routed:
            lines.append("engine        the pipeline routes for it")
        return lines

    # -- one event ---------------------------------------------------------------------------------

    def judge(self, store: Store, stored: Stored) -> dict[str, Any]:
        """Each test that an event has to pass, and what became of it."""
        record = stored.record
        on = "" if record.topic is None else f" on {clip(record.topic)}"
        head = f"position {stored.position:,}: {record.name}{on}, {moment(record.time)}"
        wanted, reasons = self._wanted(store, stored)
        fate = self._fate(store, stored, wanted=wanted)
        return {
            "position": stored.position,
            "class": record.name,
            "wanted": wanted,
            "fate": fate,
            "reasons": [head, *(f"  {each}" for each in reasons), f"  {fate}"],
        }

    def _wanted(self, store: Store, stored: Stored) -> tuple[bool | None, list[str]]:
        if self.definition.context is not None or stored.record.context is not None:
            return self._wanted_in_context(store, stored)
        record, definition = stored.record, self.definition
        covers, reasons = self._covers(stored)
        if definition.topic is not None:
            matches = record.topic is not None and TopicPattern(definition.topic).matches(
                record.topic
            )
            reasons.append(f"topic {record.topic!r} {_does(matches)} match {definition.topic}")
            covers = covers and matches
        if not covers or definition.where is None:
            return covers, reasons
        passes, verdicts = self._passes(stored)
        return passes, [*reasons, *verdicts]

    def _covers(self, stored: Stored) -> tuple[bool, list[str]]:
        record, types = stored.record, self.definition.types
        try:
            cls = self.registry.class_for(record.name, record.version, record.hash)
            targets = tuple(self.registry.class_for(e.name, e.version, e.hash) for e in types)
        except NotDecodable as error:
            return False, [f"whether it conforms cannot be told: {error}"]
        every, exact = self.definition.every, self.definition.exact
        selector = DescribedSelector(targets, every, exact, registry=self.registry)
        covers = selector.covers_class(cls)
        names = (" and " if every else " or ").join(each.name for each in types)
        return covers, [f"{record.name} {_does(covers)} conform to {'exactly ' * exact}{names}"]

    def _passes(self, stored: Stored) -> tuple[bool | None, list[str]]:
        """What the filter says, as far as it can be asked here."""
        where = self.where
        if where is None:
            return None, [f"`{self.definition.where}`: {self._unknown}"]
        can_ask = runnable_by(self.registry)
        is_whole = can_ask(where.tree) and not self.definition.partial
        if not can_ask(where.tree):
            where = Filter(weakened(where.tree, can_ask))
        try:
            decode = codec_for(stored.record.codec).decode
            event = decode(stored.record, registry=self.registry)
        except NotDecodable as error:
            return None, [f"the event cannot be read here: {error}"]
        found = where.on(stored.record.topic).verdicts(event)
        passes = found[0].passes is True
        reasons = [str(each) for each in found]
        if passes and not is_whole:
            reasons.append("the rest of the filter only the subscriber can ask")
            return None, reasons
        return passes, reasons

    def _wanted_in_context(self, store: Store, stored: Stored) -> tuple[bool | None, list[str]]:
        """What the broker would say: it knows the contexts of that position."""
        plan = RoutingPlan(self.registry)
        with store.view() as view:
            plan.move_to([Route(1, self.kept.name, self.definition.encoded(), 1)], view)
        found = plan.find([stored])
        context = self.definition.context
        seen = "in the root" if context is None else f"in context {context!r}"
        wanted = bool(found.positions)
        unsure = bool(found.unsure or plan.unsure)
        reasons = [f"{seen}, its types and its filter {'do' if wanted else 'do not'} let it pass"]
        reasons += [f"it could not be asked: {each.reason}" for each in found.failures]
        if wanted and unsure:
            reasons.append("the rest of the filter only the subscriber can ask")
        return (None if wanted and unsure else wanted), reasons

    def _fate(self, store: Store, stored: Stored, *, wanted: bool | None) -> str:
        kept, position = self.kept, stored.position
        with store.view() as view:
            letters = view.count_letters(subscription=kept.name, at=position)
        if letters:
            return "it is a dead letter; `polycast dlq list` says why"
        if position < kept.start:
            return f"it is before position {kept.start:,}, where the subscription begins"
        if wanted is False:
            return "it is not delivered"
        fate = self._place.fate(position)
        asked = "" if wanted else ", if the subscriber wants it"
        if fate == "under way":
            return f"it is under way{asked}"
        return f"it was delivered{asked}" if fate == "goes" else f"it is to be delivered{asked}"


def _filter(definition: Definition, registry: Registry) -> tuple[Filter[Any] | None, str]:
    """The filter, or why it is not known here."""
    if definition.filter is None:
        return None, "it cannot be looked into, so only the subscriber's process can ask it"
    try:
        named = partial(class_named, registry)
        return Filter.from_json(definition.filter, class_named=named), ""
    except FilterError as error:
        return None, str(error)


def _does(verdict: object) -> str:
    return "does" if verdict else "does not"
