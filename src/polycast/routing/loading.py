"""The plan of what a store keeps: who takes which events, from descriptions and routes alone."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.errors import FilterError, NotDecodable
from polycast.events import codec_for
from polycast.filters import Filter
from polycast.filters.weakening import weakened
from polycast.matching import Definition, Matcher, Selector, TopicPattern
from polycast.routing.crossing import letter_name
from polycast.routing.runnable import is_ambiguous, runnable_by
from polycast.routing.versions import ContextHistory
from polycast.typesystem import (
    Registry,
    describe,
    described_conforms,
    described_conforms_exactly,
    is_made,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polycast.events import Record
    from polycast.stores import Route, Stored, View

__all__ = ["DescribedSelector", "Failure", "Found", "RoutingPlan", "class_named", "load"]

# The hash of a class, a topic, a codec, the publisher's context, the hash of the root form, and
# between which turns of contexts it is.
Key = tuple[str, str | None, str, str | None, str | None, int]


def _none(path: str) -> None:
    """No function is there."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An event that a route could not be asked about."""

    name: str  # of the subscription
    position: int
    record: Record
    reason: str


@dataclass(slots=True)
class Found:
    """Who takes some events: those that somebody takes, in order."""

    positions: list[int] = field(default_factory=list)
    takers: list[Sequence[int]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    decoded: int = 0
    unsure: set[int] = field(default_factory=set)  # besides those of the plan


@dataclass(frozen=True, slots=True)
class Sight:
    """How some records are seen from a context."""

    context: str | None
    rooted: bool
    """Whether it is the root form that is looked at."""
    cls: type
    covering: list[int]
    """The routes there whose types cover them."""
    translate: Callable[[Any], Any] | None = None
    """What makes of the root form what the context sees."""
    sure: bool = True
    """Whether filters can be asked: a worker may not have the functions of the context."""


@dataclass(frozen=True, slots=True)
class DescribedSelector(Selector[Any]):
    """A selector where some classes are made from descriptions: then these decide."""

    registry: Registry = field(kw_only=True, compare=False, repr=False)

    def _covers_class(self, cls: type) -> bool:
        if not any(map(is_made, (cls, *self.types))):
            return Selector._covers_class(self, cls)
        described, lookup = describe(cls), self.registry.describe
        targets = [describe(target) for target in self.types]
        if self.every and self.exact:
            return described_conforms_exactly(described, *targets, lookup=lookup)
        decide = described_conforms_exactly if self.exact else described_conforms
        verdicts = (decide(described, target, lookup=lookup) for target in targets)
        return all(verdicts) if self.every else any(verdicts)


class RoutingPlan:
    """The routes in effect at some position, compiled; it is moved from one set to another.

    `function` gives the functions that filters may name: those of the modules that are there.
    """

    def __init__(
        self, registry: Registry, function: Callable[[str], Callable[..., object] | None] = _none
    ) -> None:
        self.registry = registry
        self._function = function
        self._matchers: dict[str | None, Matcher[int]] = {}  # one for each context
        self._where: dict[int, str | None] = {}  # the context of each route
        self.contexts = ContextHistory(registry, function)
        self._routes: dict[int, Route] = {}
        self._unsure: set[int] = set()
        self._asked: dict[int, tuple[Filter[Any] | None, bool]] = {}  # what, and whether it is all
        self._classes: dict[str, type] = {}
        self._ambiguous: dict[str, bool] = {}
        self._sights: dict[Key, list[Sight]] = {}

    def __len__(self) -> int:
        """How many routes are in effect."""
        return len(self._routes)

    @property
    def unsure(self) -> frozenset[int]:
        """The routes of whose filters only a part can be asked here."""
        return frozenset(self._unsure)

    # -- its routes --------------------------------------------------------------------------------

    def move_to(self, routes: Iterable[Route], view: View) -> None:
        """Have these routes in effect, and no others; `view` tells what their types are."""
        wanted = {route.number: route for route in routes}
        self.learn(view)
        self.contexts.learn(view.contexts())
        for number in self._routes.keys() - wanted.keys():
            self._remove(number)
        for number, route in wanted.items():
            if number not in self._routes:
                self._add(route)
        self._sights = {}

    def learn(self, view: View) -> None:
        """Learn the descriptions that the store has."""
        before = len(self.registry.descriptions())
        for description in view.descriptions():
            self.registry.add(description)
        if len(self.registry.descriptions()) > before:
            self._ambiguous, self._sights = {}, {}
            self._reconsider()

    def _reconsider(self) -> None:
        """Types have come: what could be asked of a filter may mean something else for them."""
        for route in list(self._routes.values()):
            if self._filter(Definition.decoded(route.definition)) != self._asked[route.number]:
                self._remove(route.number)
                self._add(route)

    def _remove(self, number: int) -> None:
        del self._routes[number]
        self._unsure.discard(number)
        del self._asked[number]
        context = self._where.pop(number)
        self._matchers[context].remove(number)
        if not len(self._matchers[context]):
            del self._matchers[context]

    def _add(self, route: Route) -> None:
        definition = Definition.decoded(route.definition)
        selector = self._selector(definition)
        where, sure = self._asked[route.number] = self._filter(definition)
        context = self._where[route.number] = definition.context
        self._matchers.setdefault(context, Matcher()).add(route.number, selector, where)
        if not sure:
            self._unsure.add(route.number)
        self._routes[route.number] = route

    def _selector(self, definition: Definition) -> Selector[Any]:
        types = tuple(
            self.registry.class_for(each.name, each.version, each.hash) for each in definition.types
        )
        pattern = None if definition.topic is None else TopicPattern(definition.topic)
        about = (definition.every, definition.exact, pattern)
        return DescribedSelector(types, *about, registry=self.registry)

    def _filter(self, definition: Definition) -> tuple[Filter[Any] | None, bool]:
        """What can be asked here, and whether that is all."""
        if definition.filter is None and definition.function is None:
            return None, definition.where is None
        function = self._function(definition.function or "")
        if function is not None:
            return Filter(function), True
        try:
            named = partial(class_named, self.registry)
            where = Filter.from_json(definition.filter, class_named=named)
        except FilterError:  # it names a class that nobody has described
            return None, False
        can_ask = runnable_by(self.registry)
        if can_ask(where.tree):
            return where, not definition.partial
        return Filter(weakened(where.tree, can_ask)), False

    # -- asking ------------------------------------------------------------------------------------

    def find(self, records: Sequence[Stored]) -> Found:
        """Who takes each of some records, which are in log order."""
        found = Found()
        turn = self.contexts.turn
        keys = [_key(stored.record, turn(stored.position)) for stored in records]
        groups: dict[Key, list[int]] = {key: [] for key in keys}
        if len(groups) == 1:
            groups[keys[0]] = list(range(len(records)))
        else:
            for place, key in enumerate(keys):
                groups[key].append(place)
        takers: list[Sequence[int]] = [()] * len(records)
        for key, places in groups.items():
            for sight in self._seen(key, records[places[0]]):
                self._ask(sight, records, places, takers, found)
        found.positions = [s.position for s, who in zip(records, takers, strict=True) if who]
        found.takers = list(filter(None, takers))
        return found

    def _seen(self, key: Key, first: Stored) -> list[Sight]:
        """From where such records are seen by anybody who can want them."""
        known = self._sights.get(key)
        if known is None:
            sights = (self._sight(context, first) for context in self._matchers)
            known = self._sights[key] = [each for each in sights if each is not None]
        return known

    def _sight(self, context: str | None, first: Stored) -> Sight | None:
        record: Record | None = first.record
        rooted = first.record.context != context
        if rooted:
            record = first.record.rooted()
        if record is None:
            return None
        cls: type | None = self.class_of(record)
        translate, sure = None, True
        if rooted and context is not None:
            kept = self.contexts.kept(context, first.position)
            if kept is None or cls is None:
                return None
            cls, incoming = kept.member.incoming.becomes(cls), kept.member.incoming
            translate, sure = incoming.translate, kept.is_whole and kept.is_pure
        if cls is None:
            return None
        covering = self._matchers[context].covering(cls, topic=record.topic)
        sure = sure and not self._is_ambiguous(record.hash)
        return Sight(context, rooted, cls, covering, translate, sure) if covering else None

    def class_of(self, record: Record) -> type:
        """The class of a record here; `object` if nobody has described it."""
        known = self._classes.get(record.hash)
        if known is None:
            try:
                known = self.registry.class_for(record.name, record.version, record.hash)
            except NotDecodable:
                return object
            self._classes[record.hash] = known
        return known

    def _ask(
        self,
        sight: Sight,
        records: Sequence[Stored],
        places: list[int],
        takers: list[Sequence[int]],
        found: Found,
    ) -> None:
        """Ask about records of one class on one topic, as a context sees them."""
        if not sight.sure:
            found.unsure.update(sight.covering)
            for place in places:
                takers[place] = _both(takers[place], sight.covering)
            return
        topic = records[places[0]].record.topic
        events, good = self._decoded(sight, records, places, takers)
        found.decoded += len(events)
        if sight.translate is not None:
            events, good = _translated(sight, events, good, records, found)
        matcher = self._matchers[sight.context]
        try:
            answers = matcher.match_batch(events, topic=topic)
        except BaseException as error:  # a function of a user may raise anything
            if isinstance(error, KeyboardInterrupt | MemoryError):
                raise
            answers = [
                self._ask_each(matcher, event, records[place], found)
                for place, event in zip(good, events, strict=True)
            ]
        for place, numbers in zip(good, answers, strict=True):
            takers[place] = _both(takers[place], numbers)

    def _is_ambiguous(self, digest: str) -> bool:
        known = self._ambiguous.get(digest)
        if known is None:
            known = self._ambiguous[digest] = is_ambiguous(digest, self.registry)
        return known

    def _decoded(
        self,
        sight: Sight,
        records: Sequence[Stored],
        places: list[int],
        takers: list[Sequence[int]],
    ) -> tuple[list[Any], list[int]]:
        """The events of some records of one class, and where they are."""
        registry, rooted = self.registry, sight.rooted
        decode = codec_for(records[places[0]].record.codec).decode
        those = [records[place].record for place in places]
        if rooted:
            those = [root for each in those if (root := each.rooted()) is not None]
        with suppress(NotDecodable):
            return [decode(each, registry=registry) for each in those], places
        events, good = [], []
        for place, record in zip(places, those, strict=True):
            try:
                events.append(decode(record, registry=registry))
                good.append(place)
            except NotDecodable:  # nobody can look into it: whoever may want it is told
                takers[place] = _both(takers[place], sight.covering)
        return events, good

    def _ask_each(
        self, matcher: Matcher[int], event: Any, stored: Stored, found: Found
    ) -> list[int]:
        """Ask about one event, route by route: one that breaks does not harm the others."""
        numbers = []
        for number in matcher.covering(type(event), topic=stored.record.topic):
            route, (where, _) = self._routes[number], self._asked[number]
            try:
                if where is None or where.matches(event, topic=stored.record.topic):
                    numbers.append(number)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | MemoryError):
                    raise
                reason = "".join(traceback.format_exception(error))
                found.failures.append(Failure(route.name, stored.position, stored.record, reason))
        return numbers


def _translated(
    sight: Sight,
    events: list[Any],
    places: list[int],
    records: Sequence[Stored],
    found: Found,
) -> tuple[list[Any], list[int]]:
    """Events as a context sees them; one for which a function raises is a dead letter there."""
    seen, good = [], []
    assert sight.translate is not None
    for event, place in zip(events, places, strict=True):
        try:
            seen.append(sight.translate(event))
            good.append(place)
        except Exception as error:
            stored, name = records[place], letter_name(sight.context or "")
            reason = "".join(traceback.format_exception(error)).rstrip()
            found.failures.append(Failure(name, stored.position, stored.record, reason))
    return seen, good


def _both(some: Sequence[int], more: Sequence[int]) -> Sequence[int]:
    """Those who take an event in one context, and in another."""
    return sorted((*some, *more)) if some and more else some or more


def _key(record: Record, turn: int) -> Key:
    root = None if record.root is None else record.root.hash
    return record.hash, record.topic, record.codec, record.context, root, turn


def class_named(registry: Registry, name: str) -> type | None:
    """The class of a name: the real one if it is here, else one made from its description."""
    known = registry.resolve(name)
    described = registry.describe(name) if known is None else None
    return known if described is None else registry.made(described)


def load(
    view: View,
    *,
    at: int | None = None,
    registry: Registry | None = None,
    function: Callable[[str], Callable[..., object] | None] = _none,
) -> RoutingPlan:
    """The plan of the routes in effect at a position; without one, from now on."""
    plan = RoutingPlan(registry or Registry(), function)
    plan.move_to(view.routes(at=view.newest() + 1 if at is None else at), view)
    return plan
