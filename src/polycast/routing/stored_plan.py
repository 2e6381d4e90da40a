"""The plan of what a store keeps: who takes which events, from descriptions and routes alone."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from time import thread_time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from polycast.errors import BadOptionError, NotDecodableError
from polycast.filters import Filter
from polycast.matching import Definition, Selector, TopicPattern
from polycast.routing.context_matcher import PlannedRoute, Projection, RouteIndex
from polycast.routing.context_versions import ContextHistory
from polycast.routing.evaluable import is_ambiguous
from polycast.routing.filter_cache import EvaluableFilter, FilterCache
from polycast.routing.record_matching import ContextMatch, MatchBatch, MatchFailure, MatchResult
from polycast.stores.values import PushedFilter
from polycast.typesystem import (
    Registry,
    describe,
    described_conforms,
    described_conforms_exactly,
    is_made,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from polycast.events import Record
    from polycast.matching.definitions import SelectedType
    from polycast.stores import Stored, StoredRoute, View
    from polycast.typesystem import Description

__all__ = [
    "Budget",
    "DescribedSelector",
    "MatchFailure",
    "MatchResult",
    "RecordForm",
    "RoutingPlan",
    "class_named",
    "load",
]

# The hash of a class, a topic, a codec, the publisher's context, the hash of the root form, and
# between which turns of contexts it is.
MOST_SIGHTS = 4_096  # that are remembered
IndexKey = tuple[str | None, str | None]  # a context, and a party
Key = tuple[str, str | None, str, str | None, str | None, int]


def _none(path: str) -> None:
    """No function is there."""


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


@dataclass(frozen=True, slots=True)
class RecordForm:
    """What records are in a context."""

    record: Record
    """The record, or its root form."""
    cls: type | None
    """None: that cannot be made out here."""
    rooted: bool
    translate: Callable[[Any], Any] | None = None
    """What makes of the root form what the context sees."""
    sure: bool = True
    """Whether filters can be asked here."""


class Budget(Protocol):
    """What the filters of each party may take of everybody's time."""

    longest: int
    """Bytes of a filter that is read; one that is longer is for its subscriber to ask."""
    steps: float
    """That the filters of a party may take for one event: they are not asked about others."""

    def allowance(self, party: str) -> float:
        """Seconds for which its filters may be asked now."""

    def spend(self, party: str, seconds: float) -> None:
        """They were asked for so long."""


class RoutingPlan:
    """The routes in effect at some position, compiled; they come and go one by one or all at once.

    `function` gives the functions that filters may name: those of the modules that are there. It is
    for one thread at a time.
    """

    def __init__(
        self,
        registry: Registry,
        function: Callable[[str], Callable[..., object] | None] = _none,
        *,
        budget: Budget | None = None,
    ) -> None:
        self.registry = registry
        self._function, self._budget = function, budget
        self._audiences: dict[IndexKey, RouteIndex] = {}  # one for each context and party
        self._entries: dict[int, PlannedRoute] = {}
        self.contexts = ContextHistory(registry, function)
        self._unsure: dict[int, None] = {}
        self._unsure_told: frozenset[int] | None = None
        longest = sys.maxsize if budget is None else budget.longest
        named, weighs = partial(class_named, registry), budget is not None
        self._askable = FilterCache(registry, named, longest=longest, weighs=weighs)
        self._learnt = 0  # descriptions of the store
        self._waiting = Counter[str | None]()  # filters of each party that are looked at again
        self._classes: dict[str, type] = {}
        self._ambiguous: dict[str, bool] = {}
        self._sights: dict[Key, list[ContextMatch]] = {}

    def __len__(self) -> int:
        """How many routes are in effect."""
        return len(self._entries)

    @property
    def entries(self) -> Mapping[int, PlannedRoute]:
        """The routes in effect, compiled, by their numbers."""
        return MappingProxyType(self._entries)

    @property
    def audiences(self) -> Mapping[IndexKey, RouteIndex]:
        """Those who listen, by their contexts and parties."""
        return MappingProxyType(self._audiences)

    @property
    def unsure(self) -> frozenset[int]:
        """The routes of whose filters only a part can be asked here."""
        if self._unsure_told is None:
            self._unsure_told = frozenset(self._unsure)
        return self._unsure_told

    # -- its routes --------------------------------------------------------------------------------

    def move_to(self, routes: Iterable[StoredRoute], view: View) -> None:
        """Have these routes in effect, and no others; `view` tells what their types are."""
        wanted = {route.number: route for route in routes}
        self._askable.refresh()  # classes may have been imported meanwhile
        self._count_waiting()
        self.learn(view)
        self.reconsider()
        self.contexts.learn(view.contexts(), revision=view.revision())
        for number in self._entries.keys() - wanted.keys():
            self.remove(number)
        for number, route in wanted.items():
            if number not in self._entries:
                self.add(route)
        self._sights = {}

    def learn(self, view: View, *, later: bool = False) -> None:
        """Learn the descriptions that have come into the store.

        What that changes of filters is done at once, or `later`, by calling `reconsider`: until it
        has nothing left to do for a party, no filter of that is asked, and all who may want an
        event are said to.
        """
        new = view.descriptions(after=self._learnt)
        if not new:
            return
        self._learnt += len(new)
        unknown = [each for each in new if self.registry.described(each.hash) is None]
        for description in unknown:
            self.registry.add(description)
        if unknown:
            self._ambiguous, self._sights = {}, {}
            self._askable.learn(unknown)
            self._count_waiting()
        if not later:
            self.reconsider()

    def learn_contexts(self, view: View) -> None:
        """Learn what contexts are and were."""
        self.contexts.learn(view.contexts(), revision=view.revision())
        self._sights = {}

    def add(
        self,
        route: StoredRoute,
        *,
        private: Mapping[str, Description] = MappingProxyType({}),
        party: str | None = None,
    ) -> None:
        """Have one more route in effect; `NotDecodableError` if its types were not learnt before.

        What that costs does not depend on how many there are. Descriptions that are `private`, by
        their hashes, say what this route means by its types, and nothing else.
        """
        if route.number in self._entries:
            accepted = "the number of a route that is not in effect"
            raise BadOptionError("route", route.number, accepted=accepted)
        definition = Definition.decoded(route.definition)
        selector = self._selector(definition, private)
        try:
            where, sure, effort = self._filter(route.number, definition)
            about = (route, definition, selector, where, sure)
            self._enter(PlannedRoute(*about, party=party, effort=effort))
        except BaseException:
            self._askable.remove(route.number)
            raise

    def remove(self, number: int) -> None:
        """Have one route less in effect, at the same cost."""
        if number not in self._entries:
            raise BadOptionError("number", number, accepted="that of a route that is in effect")
        if number in self._askable.waiting:
            self._waiting[self._party_of(number)] -= 1
        self._leave(number)
        self._askable.remove(number)

    def _party_of(self, number: int) -> str | None:
        return self._entries[number].party

    def _count_waiting(self) -> None:
        self._waiting = Counter(map(self._party_of, self._askable.waiting))

    def _leave(self, number: int) -> None:
        entry = self._entries.pop(number)
        seat = entry.definition.context, entry.party
        self._audiences[seat].remove(entry)
        if not len(self._audiences[seat]):
            del self._audiences[seat]
        self._unsure.pop(number, None)
        self._changed()

    def _enter(self, entry: PlannedRoute) -> None:
        number = entry.route.number
        seat = entry.definition.context, entry.party
        self._audiences.setdefault(seat, RouteIndex()).add(entry)
        self._entries[number] = entry
        if not entry.sure:
            self._unsure[number] = None
        self._changed()

    def _changed(self) -> None:
        self._unsure_told = None
        if self._sights:
            self._sights = {}

    def reconsider(self, limit: int = sys.maxsize) -> bool:
        """Types have come: what could be asked of a filter may mean something else for them.

        That many are looked at again; whether there are more.
        """
        for number, outcome in self._askable.again(limit):
            entry = self._entries[number]
            self._waiting[entry.party] -= 1
            where, sure, effort = self._asked_of(entry.definition, outcome)
            if (where, sure) != (entry.where, entry.sure):
                self._leave(number)
                self._enter(replace(entry, where=where, sure=sure, effort=effort))
            elif effort != entry.effort:
                now = self._entries[number] = replace(entry, effort=effort)
                self._audiences[entry.definition.context, entry.party].strain(entry, now)
                self._sights = {}
        return bool(self._askable.waiting)

    @property
    def is_settled(self) -> bool:
        """Whether all filters are asked as what is known of types has it."""
        return not self._askable.waiting

    @property
    def parsed(self) -> int:
        """How many filters were parsed so far."""
        return self._askable.parsed

    def _selector(
        self, definition: Definition, private: Mapping[str, Description]
    ) -> Selector[Any]:
        types = tuple(self._selected(each, private) for each in definition.types)
        pattern = None if definition.topic is None else TopicPattern(definition.topic)
        about = (definition.every, definition.exact, pattern)
        return DescribedSelector(types, *about, registry=self.registry)

    def _selected(self, wanted: SelectedType, private: Mapping[str, Description]) -> type:
        if self._is_private(wanted) and wanted.hash in private:
            return self.registry.made_apart(private[wanted.hash])
        return self.registry.class_for(wanted.name, wanted.version, wanted.hash)

    def _is_private(self, wanted: SelectedType) -> bool:
        """Whether a route means by a type what nobody else knows."""
        unknown = self.registry.described(wanted.hash) is None
        return unknown and self.registry.resolve(wanted.name, version=wanted.version) is None

    def _filter(self, number: int, definition: Definition) -> EvaluableFilter:
        """What can be asked here, and whether that is all."""
        if any(map(self._is_private, definition.types)):
            return EvaluableFilter(
                None, is_whole=False
            )  # its fields mean what only the subscriber knows
        if definition.filter is None and definition.function is None:
            return EvaluableFilter(None, is_whole=definition.where is None)
        function = self._function(definition.function) if definition.function else None
        if function is not None:
            return EvaluableFilter(Filter(function), is_whole=True)
        return self._asked_of(definition, self._askable.add(number, definition.filter))

    def _asked_of(self, definition: Definition, outcome: EvaluableFilter) -> EvaluableFilter:
        """The same, for a definition that may have more to ask."""
        return outcome._replace(is_whole=outcome.is_whole and not definition.partial)

    def asked(self, number: int) -> PushedFilter:
        """What is asked here of the filter of a route, as things are now."""
        entry = self._entries[number]
        where = None if entry.where is None else str(entry.where)
        within = not self._can_look_into(entry.definition.context)
        return PushedFilter(where, entry.sure, within, self._is_suspended(entry.party))

    def _can_look_into(self, context: str | None) -> bool:
        """Whether filters are asked about what comes into a context from elsewhere."""
        if context is None:
            return True
        kept = self.contexts.kept(context, sys.maxsize)
        return kept is not None and kept.is_whole and kept.is_pure

    def _is_suspended(self, party: str | None) -> bool:
        """Whether no filter of a party is asked for a while."""
        return self._budget is not None and party is not None and not self._budget.allowance(party)

    # -- asking ------------------------------------------------------------------------------------

    def find(self, records: Sequence[Stored], *, party: str | None = None) -> MatchResult:
        """Who takes each of some records, which are in log order; with a party, who of that.

        A record that cannot be decoded goes to all whose types cover it. Of a class that is not
        here, only what filters look at is decoded: if something else in it is broken, the filters
        decide all the same, and the subscriber finds out. If nobody has a filter, nothing is.
        """
        asking = MatchBatch(records)
        turn = self.contexts.turn
        keys = [_key(stored.record, turn(stored.position)) for stored in records]
        groups: dict[Key, list[int]] = {key: [] for key in keys}
        if len(groups) == 1:
            groups[keys[0]] = list(range(len(records)))
        else:
            for place, key in enumerate(keys):
                groups[key].append(place)
        for key, places in groups.items():
            for sight in self._seen(key, records[places[0]]):
                if party is None or sight.party == party:
                    self._ask(sight, asking, places)
        return asking.finished()

    def _ask(self, sight: ContextMatch, asking: MatchBatch, places: list[int]) -> None:
        if self._waiting[sight.party]:
            sight.give_all(asking, places)
            return
        if self._budget is None or sight.party is None:
            sight.ask(asking, places)
            return
        began = thread_time()
        allowance = self._budget.allowance(sight.party)
        sight.ask_within(asking, places, allowance, steps=self._budget.steps)
        self._budget.spend(sight.party, thread_time() - began)

    def _seen(self, key: Key, first: Stored) -> list[ContextMatch]:
        """From where such records are seen by anybody who can want them."""
        known = self._sights.get(key)
        if known is None:
            sights = (self._sight(seat, first) for seat in self._audiences)
            seen = [each for each in sights if each is not None]
            if len(self._sights) >= MOST_SIGHTS:  # each topic has its own, and topics never end
                self._sights = {}
            known = self._sights[key] = seen
        return known

    def form(self, context: str | None, stored: Stored) -> RecordForm | None:
        """What a record, and each that is like it, is in a context; None if it is not there."""
        record: Record | None = stored.record
        rooted = stored.record.context != context
        if rooted:
            record = stored.record.rooted()
        if record is None:
            return None
        cls: type | None = self.class_of(record)
        translate, sure = None, not self._is_ambiguous(record.hash)
        if rooted and context is not None:
            kept = self.contexts.kept(context, stored.position)
            if kept is None and self.contexts.is_there(context, stored.position):
                return RecordForm(record, None, rooted, sure=False)
            if kept is None or cls is None:
                return None
            incoming, sure = kept.member.incoming, sure and kept.is_whole and kept.is_pure
            # What is the same in the context would only be copied, and filters look, no more.
            translate = None if incoming.mapping(cls) is None else incoming.translate
            cls = incoming.becomes(cls)
            if cls is None:
                return None
        return RecordForm(record, cls, rooted, translate, sure)

    def _sight(self, seat: IndexKey, first: Stored) -> ContextMatch | None:
        context, party = seat
        form = self.form(context, first)
        if form is None:
            return None
        if form.cls is None:
            return self._blind(context or "", party, form.record)
        audience, topic = self._audiences[seat], form.record.topic
        attention = audience.attention(form.cls, topic)
        if attention is None:
            return None
        about = (audience, attention, context, form.rooted, form.cls, topic)
        how = (form.translate, form.sure)
        return ContextMatch(self.registry, self._entries, *about, *how, party=party)

    def _blind(self, context: str, party: str | None, record: Record) -> ContextMatch | None:
        """How a context sees records that cannot be made out here: all there may want them."""
        there = [
            number
            for number, each in self._entries.items()
            if (each.definition.context, each.party) == (context, party)
            and each.selector.covers_topic(record.topic)
        ]
        audience = self._audiences[context, party]
        attention = Projection(filtered=False, names=None)
        about = (audience, attention, context, True, object, record.topic)
        return ContextMatch(
            self.registry, self._entries, *about, sure=False, all_of=there, party=party
        )

    def class_of(self, record: Record) -> type:
        """The class of a record here; `object` if nobody has described it."""
        known = self._classes.get(record.hash)
        if known is None:
            try:
                known = self.registry.class_for(record.name, record.version, record.hash)
            except NotDecodableError:
                return object
            self._classes[record.hash] = known
        return known

    def _is_ambiguous(self, digest: str) -> bool:
        known = self._ambiguous.get(digest)
        if known is None:
            known = self._ambiguous[digest] = is_ambiguous(
                digest, self.registry, self._askable.names.versions
            )
        return known


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
    plan = RoutingPlan(registry or Registry(classes=()), function)
    plan.move_to(view.routes(at=view.newest() + 1 if at is None else at), view)
    return plan
