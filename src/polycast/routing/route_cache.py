"""The routes of a bus that were made so far, by class, topic and the publisher's context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from polycast.events import Identity
    from polycast.routing.plan import Plan
    from polycast.routing.publish_codegen import Route
    from polycast.routing.target_table import Choice, Target
    from polycast.stores import Receipt


class PublishMetadata(msgspec.Struct, frozen=True, gc=False):
    """The same for all events of one publish; without options, only where they come from."""

    topic: str | None = None
    priority: int = 0
    expires: float | None = None  # by the wall clock
    headers: Mapping[str, str] | None = None
    given: Identity | None = None
    """The identity of one that may have been published before."""
    context: str | None = None  # the publisher's; None is the root


class RouteKey(NamedTuple):
    """How events come: on a topic, from a publisher in a context."""

    topic: str | None
    source: str | None = None

    def metadata(self) -> PublishMetadata:
        """What is said of events that come so."""
        return PublishMetadata(self.topic, context=self.source)


MOST_ROUTES = 4_096  # of one class: each topic has its own, and topics never end


class RouteCache:
    """Whoever changes it holds the lock of the plan."""

    def __init__(self) -> None:
        # What publish looks up. Its keys would keep classes alive, so a full collection empties
        # it; `_made` has everything again, weakly.
        self.plain: dict[type, Callable[[Any], Receipt]] = {}
        self.on_topic: dict[tuple[type, str], Callable[[Any], Receipt]] = {}
        self.in_context: dict[str, dict[type, Callable[[Any], Receipt]]] = {}
        self._made: WeakKeyDictionary[type, dict[RouteKey, Route]] = WeakKeyDictionary()
        self._dense: WeakKeyDictionary[type, set[RouteKey]] = WeakKeyDictionary()

    def all(self) -> list[tuple[type, RouteKey]]:
        """All that were made."""
        return [(cls, key) for cls, made in list(self._made.items()) for key in made]

    def of(self, cls: type) -> list[tuple[type, RouteKey]]:
        """Those of one class."""
        return [(cls, key) for key in self._made.get(cls, ())]

    def leading_to(self, plan: Plan, target: Target) -> list[tuple[type, RouteKey]]:
        """Those that a target can be reached by."""
        choices = plan.targets.choices(target)
        return [
            (cls, key)
            for cls, key in self.all()
            if any(_leads_to(choice, plan, cls, key) for choice in choices)
        ]

    def get(self, cls: type, key: RouteKey) -> Route | None:
        """The one that was made."""
        return self._made.get(cls, {}).get(key)

    def put(self, cls: type, key: RouteKey, route: Route) -> None:
        """Keep one that was made."""
        made = self._made.setdefault(cls, {})
        if len(made) > MOST_ROUTES:
            self.expire(self.of(cls))
        made[key] = route

    def use(self, cls: type, key: RouteKey) -> Callable[[Any], Receipt]:
        """Let publish find one that was made."""
        run = self._made[cls][key].run
        if key.source is not None:
            if key.topic is None:
                self.in_context.setdefault(key.source, {})[cls] = run
        elif key.topic is None:
            self.plain[cls] = run
        else:
            self.on_topic[cls, key.topic] = run
        return run

    def mark_dense(self, cls: type, key: RouteKey) -> None:
        """So many targets want most events that the next route asks each, and no index."""
        self._dense.setdefault(cls, set()).add(key)

    def is_dense(self, cls: type, key: RouteKey) -> bool:
        """Whether that was found since the plan has last changed."""
        return key in self._dense.get(cls, ())

    def expire(self, stale: Iterable[tuple[type, RouteKey]]) -> None:
        """Whoever calls one of these finds out, and publishes by the plan as it is now."""
        for cls, key in stale:
            self._dense.get(cls, set()).discard(key)
            route = self._made[cls].pop(key, None)
            if route is not None:
                route.stale.cell_contents = True
            self.plain.pop(cls, None)
            if key.source is not None:
                self.in_context.get(key.source, {}).pop(cls, None)
            elif key.topic is not None:
                self.on_topic.pop((cls, key.topic), None)

    def let_go(self) -> None:
        """Hold no class only because its events were published."""
        self.plain.clear()
        self.on_topic.clear()
        for routes in self.in_context.values():
            routes.clear()

    def leave(self) -> None:
        """In a process that was forked: let nobody go on by a route."""
        for made in list(self._made.values()):
            for route in made.values():
                route.stale.cell_contents = True


def _leads_to(choice: Choice, plan: Plan, cls: type, key: RouteKey) -> bool:
    """Whether events of a class can be what is chosen, in the context where it is."""
    context, selector = choice
    there = plan.translation.becomes(cls, key.source, context)
    return there is not None and selector.covers(there, key.topic)
