"""Stored subscriptions, compiled from their definitions and from descriptions of types alone."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from polycast.errors import BadOptionError
from polycast.filters import Filter
from polycast.filters.tree.projection import attributes_read
from polycast.filters.tree.relaxation import EVERYTHING
from polycast.matching import Definition, Matcher, Selectors
from polycast.routing.context_versions import ContextHistory
from polycast.routing.described_types import DescribedTypes, class_named
from polycast.routing.filter_cache import NO_EFFORT, EvaluableFilter, FilterCache
from polycast.stores.values import PushedFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from polycast.matching import Selector
    from polycast.routing.evaluable import Effort
    from polycast.stores import StoredRoute, View
    from polycast.typesystem import Description, Registry


@dataclass(frozen=True, slots=True)
class PlannedRoute:
    """A route, compiled."""

    route: StoredRoute
    definition: Definition
    selector: Selector[Any]
    where: Filter[Any] | None
    """What of its filter can be asked here."""
    sure: bool
    """Whether that is all of it."""
    owner: str | None = None
    """Whose it is, where the filters of one owner must not take the time of others."""
    effort: Effort = NO_EFFORT
    """What asking it takes."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What the filters of some routes read of an event."""

    filtered: bool
    """Whether any of them has a filter."""
    names: frozenset[str] | None
    """The attributes that are asked for; None if all of the event may be."""
    effort: Effort = NO_EFFORT
    """What asking all of them takes."""


@dataclass(slots=True)
class _FilterUsage:
    """What the filters behind one selector read, as counts, so that they can come and go."""

    routes: int = 0
    filters: int = 0
    whole: int = 0
    names: Counter[str] = field(default_factory=Counter)
    effort: Effort = NO_EFFORT

    def change(self, entry: PlannedRoute, by: int) -> None:
        where = entry.where
        self.routes += by
        self.effort = self.effort.plus(entry.effort, by)
        if where is None or where == EVERYTHING:
            return
        self.filters += by
        names = attributes_read(where.tree)
        if names is None:
            self.whole += by
            return
        for name in names:
            self.names[name] += by
            if not self.names[name]:
                del self.names[name]


class RouteIndex:
    """Changed route by route, at a cost that does not depend on how many there are."""

    def __init__(self) -> None:
        self.matcher: Matcher[int] = Matcher()
        self._usage: dict[Selector[Any], _FilterUsage] = {}
        self._selectors = Selectors()  # the same

    def __len__(self) -> int:
        return len(self.matcher)

    def add(self, entry: PlannedRoute) -> None:
        """Add a route."""
        self.matcher.add(entry.route.number, entry.selector, entry.where)
        self.matcher.prepare(entry.selector)
        if entry.selector not in self._usage:
            self._usage[entry.selector] = _FilterUsage()
            self._selectors.add(entry.selector)
        self._usage[entry.selector].change(entry, 1)

    def reweigh(self, before: PlannedRoute, now: PlannedRoute) -> None:
        """Asking a route takes more or less than before."""
        usage = self._usage[now.selector]
        usage.effort = usage.effort.plus(before.effort, -1).plus(now.effort)

    def remove(self, entry: PlannedRoute) -> None:
        """Remove a route."""
        self.matcher.remove(entry.route.number)
        usage = self._usage[entry.selector]
        usage.change(entry, -1)
        if not usage.routes:
            del self._usage[entry.selector]
            self._selectors.remove(entry.selector)

    def projection(self, cls: type, topic: str | None) -> Projection | None:
        """What the filters of routes that cover a class on a topic read; None if no route does."""
        usages = [self._usage[selector] for selector in self._selectors.covering(cls, topic)]
        if not usages:
            return None
        whole = any(usage.whole for usage in usages)
        names = None if whole else frozenset().union(*(usage.names for usage in usages))
        effort = NO_EFFORT
        for usage in usages:
            effort = effort.plus(usage.effort)
        return Projection(any(usage.filters for usage in usages), names, effort)


IndexKey = tuple[str | None, str | None]  # a context, and an owner


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
        self._indexes: dict[IndexKey, RouteIndex] = {}  # one for each context and owner
        self._entries: dict[int, PlannedRoute] = {}
        self.contexts = ContextHistory(registry, function)
        self._unsure: dict[int, None] = {}
        self._unsure_told: frozenset[int] | None = None
        longest = sys.maxsize if budget is None else budget.longest
        named, weighs = partial(class_named, registry), budget is not None
        self.filters = FilterCache(registry, named, longest=longest, weighs=weighs)
        self.waiting = Counter[str | None]()  # filters of each owner that are looked at again
        self.revision = 0  # of all that says who wants what

    def __len__(self) -> int:
        """How many routes are in effect."""
        return len(self._entries)

    @property
    def entries(self) -> Mapping[int, PlannedRoute]:
        """The routes in effect, compiled, by their numbers."""
        return MappingProxyType(self._entries)

    @property
    def indexes(self) -> Mapping[IndexKey, RouteIndex]:
        """Those who listen, by their contexts and owners."""
        return MappingProxyType(self._indexes)

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
        self.filters.refresh()  # classes may have been imported meanwhile
        self._count_waiting()
        self.learn(view)
        self.reconsider()
        self.contexts.learn(view.contexts(), revision=view.revision())
        for number in self._entries.keys() - wanted.keys():
            self.remove(number)
        for number, route in wanted.items():
            if number not in self._entries:
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
        if route.number in self._entries:
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
        if number not in self._entries:
            raise BadOptionError("number", number, accepted="that of a route that is in effect")
        if number in self.filters.waiting:
            self.waiting[self._entries[number].owner] -= 1
        self._take_out(number)
        self.filters.remove(number)

    def _count_waiting(self) -> None:
        self.waiting = Counter(self._entries[number].owner for number in self.filters.waiting)

    def _take_out(self, number: int) -> None:
        entry = self._entries.pop(number)
        key = entry.definition.context, entry.owner
        self._indexes[key].remove(entry)
        if not len(self._indexes[key]):
            del self._indexes[key]
        self._unsure.pop(number, None)
        self._changed()

    def _put_in(self, entry: PlannedRoute) -> None:
        number = entry.route.number
        key = entry.definition.context, entry.owner
        self._indexes.setdefault(key, RouteIndex()).add(entry)
        self._entries[number] = entry
        if not entry.sure:
            self._unsure[number] = None
        self._changed()

    def _changed(self) -> None:
        self._unsure_told = None
        self.revision += 1

    def reconsider(self, limit: int = sys.maxsize) -> bool:
        """Types have come: what could be asked of a filter may mean something else for them.

        That many are looked at again; whether there are more.
        """
        for number, outcome in self.filters.again(limit):
            entry = self._entries[number]
            self.waiting[entry.owner] -= 1
            where, sure, effort = self._asked_of(entry.definition, outcome)
            if (where, sure) != (entry.where, entry.sure):
                self._take_out(number)
                self._put_in(replace(entry, where=where, sure=sure, effort=effort))
            elif effort != entry.effort:
                now = self._entries[number] = replace(entry, effort=effort)
                self._indexes[entry.definition.context, entry.owner].reweigh(entry, now)
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
        entry = self._entries[number]
        where = None if entry.where is None else str(entry.where)
        context, owner, budget = entry.definition.context, entry.owner, self.budget
        # Whether filters are asked about what comes into the context from elsewhere.
        known = None if context is None else self.contexts.kept(context, sys.maxsize)
        can_look = context is None or (known is not None and known.is_whole and known.is_pure)
        is_suspended = budget is not None and owner is not None and not budget.allowance(owner)
        return PushedFilter(where, entry.sure, not can_look, is_suspended)
