"""The routes of one party in one context: whom events may be for, and what filters look at."""

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
    party: str | None = None
    """Whose it is, where filters of one party must not take the time of others."""
    effort: Effort = NO_EFFORT
    """What asking it takes."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What the filters of some routes look at in an event."""

    filtered: bool
    """Whether anybody has a filter."""
    names: frozenset[str] | None
    """The attributes that are asked for; None if all of the event may be."""
    effort: Effort = NO_EFFORT
    """What asking all of them takes."""


@dataclass(slots=True)
class _Looks:
    """What the filters behind one selector look at, as counts, so that they can come and go."""

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
        self._looks: dict[Selector[Any], _Looks] = {}
        self._selectors = Selectors()  # the same

    def __len__(self) -> int:
        return len(self.matcher)

    def add(self, entry: PlannedRoute) -> None:
        """Let a route be one of them."""
        self.matcher.add(entry.route.number, entry.selector, entry.where)
        self.matcher.prepare(entry.selector)
        if entry.selector not in self._looks:
            self._looks[entry.selector] = _Looks()
            self._selectors.add(entry.selector)
        self._looks[entry.selector].change(entry, 1)

    def strain(self, before: PlannedRoute, now: PlannedRoute) -> None:
        """Asking a route takes more or less than before."""
        looks = self._looks[now.selector]
        looks.effort = looks.effort.plus(before.effort, -1).plus(now.effort)

    def remove(self, entry: PlannedRoute) -> None:
        """Let a route be none of them any more."""
        self.matcher.remove(entry.route.number)
        looks = self._looks[entry.selector]
        looks.change(entry, -1)
        if not looks.routes:
            del self._looks[entry.selector]
            self._selectors.remove(entry.selector)

    def attention(self, cls: type, topic: str | None) -> Projection | None:
        """What those look at who cover a class on a topic; None if nobody does."""
        looks = [self._looks[each] for each in self._selectors.covering(cls, topic)]
        if not looks:
            return None
        whole = any(each.whole for each in looks)
        names = None if whole else frozenset().union(*(each.names for each in looks))
        effort = NO_EFFORT
        for each in looks:
            effort = effort.plus(each.effort)
        return Projection(any(each.filters for each in looks), names, effort)
