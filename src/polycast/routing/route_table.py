"""Stored subscriptions, compiled from their definitions and from descriptions of types alone."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from polycast.errors import BadOptionError, FilterError, NotDecodableError
from polycast.filters import Filter
from polycast.filters.tree.nodes import Attribute, Call, Node, Reach, Variable, walk
from polycast.filters.tree.relaxation import EVERYTHING, relaxed
from polycast.matching import Definition, Selector, TopicPattern
from polycast.routing.context_versions import ContextHistory
from polycast.routing.evaluable import NO_EFFORT, VARIABLE, Effort, NameMeanings, is_ambiguous
from polycast.routing.match import IndexKey, PlannedRoute, RouteIndex
from polycast.stores.values import PushedFilter
from polycast.typesystem import (
    Registry,
    describe,
    described_conforms,
    described_conforms_exactly,
    is_made,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from polycast.events import Record
    from polycast.matching.interest import SelectedType
    from polycast.stores import EventType, StoredRoute, View
    from polycast.typesystem import Description


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


class DescribedTypes:
    """The types of records and of stored subscriptions."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._learnt = 0  # descriptions of the store
        self._classes: dict[str, type] = {}
        self._ambiguous: dict[str, bool] = {}

    def learn(self, view: View) -> list[Description]:
        """Learn the descriptions that have come into the store; those that are new here."""
        new = view.descriptions(after=self._learnt)
        self._learnt += len(new)
        unknown = [
            description for description in new if self.registry.described(description.hash) is None
        ]
        for description in unknown:
            self.registry.add(description)
        if unknown:
            self._ambiguous = {}
        return unknown

    def class_of(self, record: Record | EventType) -> type:
        """The class of a record, or of a type, here; `object` if nobody has described it."""
        known = self._classes.get(record.hash)
        if known is None:
            try:
                known = self.registry.class_for(record.name, record.version, record.hash)
            except NotDecodableError:
                return object
            self._classes[record.hash] = known
        return known

    def is_ambiguous(self, digest: str, versions: Counter[str]) -> bool:
        """Whether events of a description may be read otherwise where their class is."""
        known = self._ambiguous.get(digest)
        if known is None:
            known = self._ambiguous[digest] = is_ambiguous(digest, self.registry, versions)
        return known

    def selector(
        self, definition: Definition, private: Mapping[str, Description]
    ) -> DescribedSelector:
        """What a definition selects; `NotDecodableError` if its types were not learnt before."""
        types = tuple(self._selected(wanted, private) for wanted in definition.types)
        pattern = None if definition.topic is None else TopicPattern(definition.topic)
        about = (definition.every, definition.exact, pattern)
        return DescribedSelector(types, *about, registry=self.registry)

    def _selected(self, wanted: SelectedType, private: Mapping[str, Description]) -> type:
        if self.is_private(wanted) and wanted.hash in private:
            return self.registry.made_apart(private[wanted.hash])
        return self.registry.class_for(wanted.name, wanted.version, wanted.hash)

    def is_private(self, wanted: SelectedType) -> bool:
        """Whether a subscription means by a type what nobody else knows."""
        unknown = self.registry.described(wanted.hash) is None
        return unknown and self.registry.resolve(wanted.name, version=wanted.version) is None


def class_named(registry: Registry, name: str) -> type | None:
    """The class of a name: the real one if it is here, else one made from its description."""
    known = registry.resolve(name)
    described = registry.describe(name) if known is None else None
    return known if described is None else registry.made(described)


class EvaluableFilter(NamedTuple):
    """What can be asked of a filter."""

    where: Filter[Any] | None
    is_whole: bool
    """Whether that is all of it."""
    effort: Effort = NO_EFFORT


@dataclass(slots=True)
class _Text:
    """One text, however many have it."""

    data: object
    where: Filter[Any] | None = None  # None: it could not be parsed
    outcome: EvaluableFilter | None = None  # None: it has to be looked at again
    classes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_parsed: bool = False
    routes: dict[int, None] = field(default_factory=dict)


class FilterCache:
    """The filters of some routes, by the numbers of these. For one thread."""

    def __init__(
        self,
        registry: Registry,
        class_named: Callable[[str], type | None],
        *,
        longest: int = sys.maxsize,
        weighs: bool = False,
    ) -> None:
        self._registry, self._class_named = registry, class_named
        self._longest = longest  # bytes of a filter; longer ones are not read
        self._weighs = weighs  # whether anybody wants to know what asking takes
        self._names: NameMeanings | None = None
        self._texts: dict[bytes, _Text] = {}
        self._keys: dict[int, bytes] = {}
        self._mentioning: dict[str, dict[bytes, _Text]] = {}
        self._stale: dict[int, None] = {}
        self.parsed = 0
        """How many texts were parsed so far."""

    @property
    def names(self) -> NameMeanings:
        """What names stand for by now."""
        if self._names is None:
            self._names = NameMeanings(self._registry)
        return self._names

    def add(self, number: int, data: object) -> EvaluableFilter:
        """What can be asked for a route with this filter."""
        key = msgspec.msgpack.encode(data)
        if len(key) > self._longest:
            return EvaluableFilter(None, is_whole=False)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _Text(data)
        text.routes[number] = None
        self._keys[number] = key
        return self._outcome(key, text)

    def remove(self, number: int) -> None:
        """The route is gone."""
        self._stale.pop(number, None)
        key = self._keys.pop(number, None)
        if key is None:
            return
        text = self._texts[key]
        del text.routes[number]
        if not text.routes:
            del self._texts[key]
            self._mention(key, text, frozenset())

    def learn(self, new: Iterable[Description]) -> None:
        """Types have come: some names may stand for something else."""
        if self._names is None:
            return
        if self._names.are_outdated():
            self.refresh()
        self._concern(frozenset().union(*map(self._names.add, new)))

    def refresh(self) -> None:
        """Classes may have come or gone meanwhile."""
        if self._names is not None:
            before, self._names = self._names, None
            self._concern(self.names.unlike(before))

    def _concern(self, changed: frozenset[str]) -> None:
        stale = self._stale
        for name in changed:
            for text in self._mentioning.get(name, {}).values():  # there may be very many
                text.outcome = None
                if name in text.classes:
                    text.is_parsed = False
                for number in text.routes:
                    stale[number] = None

    @property
    def waiting(self) -> Collection[int]:
        """The routes that have to be looked at again."""
        return self._stale.keys()

    def again(self, limit: int) -> list[tuple[int, EvaluableFilter]]:
        """Some routes whose filters may have to be asked in another way, and in which."""
        outcomes: list[tuple[int, EvaluableFilter]] = []
        while self._stale and len(outcomes) < limit:
            number, _ = self._stale.popitem()
            key = self._keys[number]
            outcomes.append((number, self._outcome(key, self._texts[key])))
        return outcomes

    # -- one text ----------------------------------------------------------------------------------

    def _outcome(self, key: bytes, text: _Text) -> EvaluableFilter:
        if text.outcome is None:
            if not text.is_parsed:
                self._parse(key, text)
            text.outcome = self._judged(text.where)
        return text.outcome

    def _judged(self, where: Filter[Any] | None) -> EvaluableFilter:
        if where is None:  # it names a class that nobody has described
            return EvaluableFilter(None, is_whole=False)
        can_ask = self.names.can_ask
        if can_ask(where.tree):
            return EvaluableFilter(where, is_whole=True, effort=self._effort(where.tree))
        less = relaxed(where.tree, can_ask)  # of parts that are cheap there may be very many
        if not self.names.is_affordable(less):
            return EvaluableFilter(EVERYTHING, is_whole=False)
        return EvaluableFilter(Filter(less), is_whole=False, effort=self._effort(less))

    def _effort(self, tree: Node) -> Effort:
        return self.names.effort(tree) if self._weighs else NO_EFFORT

    def _parse(self, key: bytes, text: _Text) -> None:
        classes: set[str] = set()

        def class_named(name: str) -> type | None:
            classes.add(name)
            return self._class_named(name)

        self.parsed += 1
        text.is_parsed = True
        try:
            text.where = Filter.from_json(text.data, class_named=class_named)
        except FilterError:
            text.where = None
        text.classes = frozenset(classes)
        names = text.classes
        if text.where is not None:
            names |= _mentioned(text.where.tree)
        self._mention(key, text, names)

    def _mention(self, key: bytes, text: _Text, names: frozenset[str]) -> None:
        for name in text.names - names:
            del self._mentioning[name][key]
            if not self._mentioning[name]:
                del self._mentioning[name]
        for name in names - text.names:
            self._mentioning.setdefault(name, {})[key] = text
        text.names = names


def _mentioned(tree: Node) -> frozenset[str]:
    """All names that a tree goes by, but those of classes."""
    names = set()
    for node in walk(tree):
        if isinstance(node, Attribute | Reach):
            names.add(node.name)
        elif isinstance(node, Call):
            names.add(node.method)
        elif isinstance(node, Variable):
            names.add(VARIABLE)
    return frozenset(names)


def none_named(path: str) -> None:
    """No function is there."""


class Budget(Protocol):
    """What the filters of each owner may take of everybody's time."""

    longest: int
    """Bytes of a filter that is read; one that is longer is for its subscriber to ask."""
    steps: float
    """That the filters of an owner may take for one event: they are not asked about others."""

    def allowance(self, owner: str) -> float:
        """Seconds for which its filters may be asked now."""

    def spend(self, owner: str, seconds: float) -> None:
        """They were asked for so long."""


class RouteTable:
    """The routes in effect at some position, compiled; they come and go one by one or all at once.

    `function` gives the functions that filters may name: those of the modules that are there. It is
    for one thread at a time.
    """

    def __init__(
        self,
        registry: Registry,
        function: Callable[[str], Callable[..., object] | None] = none_named,
        *,
        budget: Budget | None = None,
    ) -> None:
        self.types, self.registry = DescribedTypes(registry), registry
        self._function, self.budget = function, budget
        self.indexes: dict[IndexKey, RouteIndex] = {}  # one for each context and owner
        self.entries: dict[int, PlannedRoute] = {}  # the routes in effect, by their numbers
        self.contexts = ContextHistory(registry, function)
        self.unsure: set[int] = set()  # the routes of whose filters only a part can be asked
        longest = sys.maxsize if budget is None else budget.longest
        named, weighs = partial(class_named, registry), budget is not None
        self.filters = FilterCache(registry, named, longest=longest, weighs=weighs)
        self.waiting = Counter[str | None]()  # filters of each owner that are looked at again
        self.revision = 0  # of all that says who wants what

    def __len__(self) -> int:
        """How many routes are in effect."""
        return len(self.entries)

    # -- its routes --------------------------------------------------------------------------------

    def move_to(self, routes: Iterable[StoredRoute], view: View) -> None:
        """Have these routes in effect, and no others; `view` tells what their types are."""
        wanted = {route.number: route for route in routes}
        self.filters.refresh()  # classes may have been imported meanwhile
        self._count_waiting()
        self.learn(view)
        self.reconsider()
        self.contexts.learn(view.contexts(), revision=view.revision())
        for number in self.entries.keys() - wanted.keys():
            self.remove(number)
        for number, route in wanted.items():
            if number not in self.entries:
                self.add(route)
        self.revision += 1

    def learn(self, view: View, *, later: bool = False) -> None:
        """Learn the descriptions that have come into the store.

        What that changes of filters is done at once, or `later`, by calling `reconsider`: until it
        has nothing left to do for an owner, no filter of that is asked, and all who may want an
        event are said to.
        """
        unknown = self.types.learn(view)
        if unknown:
            self.revision += 1
            self.filters.learn(unknown)
            self._count_waiting()
        if not later:
            self.reconsider()

    def learn_contexts(self, view: View) -> None:
        """Learn what contexts are and were."""
        self.contexts.learn(view.contexts(), revision=view.revision())
        self.revision += 1

    def add(
        self,
        route: StoredRoute,
        *,
        private: Mapping[str, Description] = MappingProxyType({}),
        owner: str | None = None,
    ) -> None:
        """Have one more route in effect; `NotDecodableError` if its types were not learnt before.

        What that costs does not depend on how many there are. Descriptions that are `private`, by
        their hashes, say what this route means by its types, and nothing else.
        """
        if route.number in self.entries:
            accepted = "the number of a route that is not in effect"
            raise BadOptionError("route", route.number, accepted=accepted)
        definition = Definition.decoded(route.definition)
        selector = self.types.selector(definition, private)
        try:
            where, sure, effort = self._filter(route.number, definition)
            about = (route, definition, selector, where, sure)
            self._put_in(PlannedRoute(*about, owner=owner, effort=effort))
        except BaseException:
            self.filters.remove(route.number)
            raise

    def remove(self, number: int) -> None:
        """Have one route less in effect, at the same cost."""
        if number not in self.entries:
            raise BadOptionError("number", number, accepted="that of a route that is in effect")
        if number in self.filters.waiting:
            self.waiting[self.entries[number].owner] -= 1
        self._take_out(number)
        self.filters.remove(number)

    def _count_waiting(self) -> None:
        self.waiting = Counter(self.entries[number].owner for number in self.filters.waiting)

    def _take_out(self, number: int) -> None:
        entry = self.entries.pop(number)
        key = entry.definition.context, entry.owner
        self.indexes[key].remove(entry)
        if not len(self.indexes[key]):
            del self.indexes[key]
        self.unsure.discard(number)
        self.revision += 1

    def _put_in(self, entry: PlannedRoute) -> None:
        number = entry.route.number
        key = entry.definition.context, entry.owner
        self.indexes.setdefault(key, RouteIndex()).add(entry)
        self.entries[number] = entry
        if not entry.sure:
            self.unsure.add(number)
        self.revision += 1

    def reconsider(self, limit: int = sys.maxsize) -> bool:
        """Types have come: what could be asked of a filter may mean something else for them.

        That many are looked at again; whether there are more.
        """
        for number, outcome in self.filters.again(limit):
            entry = self.entries[number]
            self.waiting[entry.owner] -= 1
            where, sure, effort = self._asked_of(entry.definition, outcome)
            if (where, sure) != (entry.where, entry.sure):
                self._take_out(number)
                self._put_in(replace(entry, where=where, sure=sure, effort=effort))
            elif effort != entry.effort:
                now = self.entries[number] = replace(entry, effort=effort)
                self.indexes[entry.definition.context, entry.owner].reweigh(entry, now)
                self.revision += 1
        return bool(self.filters.waiting)

    @property
    def is_settled(self) -> bool:
        """Whether all filters are asked as what is known of types has it."""
        return not self.filters.waiting

    def _filter(self, number: int, definition: Definition) -> EvaluableFilter:
        """What can be asked here, and whether that is all."""
        if any(map(self.types.is_private, definition.types)):
            # Its fields mean what only the subscriber knows.
            return EvaluableFilter(None, is_whole=False)
        if definition.filter is None and definition.function is None:
            return EvaluableFilter(None, is_whole=definition.where is None)
        function = self._function(definition.function) if definition.function else None
        if function is not None:
            return EvaluableFilter(Filter(function), is_whole=True)
        return self._asked_of(definition, self.filters.add(number, definition.filter))

    def _asked_of(self, definition: Definition, outcome: EvaluableFilter) -> EvaluableFilter:
        """The same, for a definition that may have more to ask."""
        return outcome._replace(is_whole=outcome.is_whole and not definition.partial)

    def asked(self, number: int) -> PushedFilter:
        """What is asked here of the filter of a route, as things are now."""
        entry = self.entries[number]
        where = None if entry.where is None else str(entry.where)
        context, owner, budget = entry.definition.context, entry.owner, self.budget
        # Whether filters are asked about what comes into the context from elsewhere.
        known = None if context is None else self.contexts.kept(context, sys.maxsize)
        can_look = context is None or (known is not None and known.is_whole and known.is_pure)
        is_suspended = budget is not None and owner is not None and not budget.allowance(owner)
        return PushedFilter(where, entry.sure, not can_look, is_suspended)
