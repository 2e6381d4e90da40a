"""Stored subscriptions of one owner in one context: an index of filters, and what they read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polycast.filters.tree.projection import attributes_read
from polycast.filters.tree.relaxation import EVERYTHING
from polycast.matching import Matcher, Selectors
from polycast.routing.filter_cache import NO_EFFORT

if TYPE_CHECKING:
    from polycast.filters import Filter
    from polycast.matching import Definition, Selector
    from polycast.routing.evaluable import Effort
    from polycast.stores import StoredRoute

__all__ = ["PlannedRoute", "Projection", "RouteIndex"]


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
