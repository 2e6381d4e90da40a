"""Stored subscriptions, compiled from their definitions and from descriptions of types alone."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from polycast.errors import BadOptionError
from polycast.filters import Filter
from polycast.matching import Definition
from polycast.routing.context_versions import ContextHistory
from polycast.routing.described_types import DescribedTypes, class_named
from polycast.routing.filter_cache import EvaluableFilter, FilterCache
from polycast.routing.route_index import PlannedRoute, RouteIndex
from polycast.stores.values import PushedFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from polycast.stores import StoredRoute, View
    from polycast.typesystem import Description, Registry

__all__ = [
    "Budget",
    "RouteTable",
    "none_named",
]

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
        within = not self._can_evaluate(entry.definition.context)
        return PushedFilter(where, entry.sure, within, self.is_suspended(entry.owner))

    def _can_evaluate(self, context: str | None) -> bool:
        """Whether filters are asked about what comes into a context from elsewhere."""
        if context is None:
            return True
        kept = self.contexts.kept(context, sys.maxsize)
        return kept is not None and kept.is_whole and kept.is_pure

    def is_suspended(self, owner: str | None) -> bool:
        """Whether no filter of an owner is asked for a while."""
        return self.budget is not None and owner is not None and not self.budget.allowance(owner)
