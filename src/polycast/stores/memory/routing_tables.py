# ruff: noqa: D102 - the contract says what each method does
"""What the pipeline routes by in a store in memory: routes, contexts, and what it found out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.stores.memory.tables import MemoryTables
from polycast.stores.range_checks import following
from polycast.stores.values import ContextVersion, Effect, Routed, StoredRoute, Stretch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RoutingTables"]


class RoutingTables(MemoryTables):
    """Routes, versions of contexts, and stretches."""

    def routed(self) -> Routed:
        return self._routed

    def route(self, name: str) -> StoredRoute | None:
        return self._routes.lasting(name)

    def routes(self, *, at: int | None = None) -> list[StoredRoute]:
        return self._routes.all(at=at)

    def context(self, name: str) -> ContextVersion | None:
        return self._contexts.lasting(name)

    def contexts(self, *, at: int | None = None) -> list[ContextVersion]:
        return self._contexts.all(at=at)

    def in_effect(self, position: int) -> Effect:
        routes, contexts = self.routes(at=position), self.contexts(at=position)
        numbers = [route.number for route in routes] + [version.number for version in contexts]
        return Effect(len(routes), max(numbers, default=0), len(contexts))

    def last_turn(self, position: int) -> int:
        return max(self.turns(0, position + 1), default=0)

    def turns(self, low: int, high: int) -> list[int]:
        rows: list[StoredRoute | ContextVersion]
        rows = [*self._routes.values(), *self._contexts.values()]
        turns = {turn for row in rows for turn in (row.start, row.until)}
        return sorted(turn for turn in turns if turn is not None and low < turn < high)

    def stretches(self, start: int, *, limit: int) -> list[Stretch]:
        later = [high for high in sorted(self._stretches) if high > start]
        return [self._stretches[high] for high in later[: max(limit, 0)]]

    def _next_version(self) -> int:
        self._last_version += 1
        return self._last_version

    def begin_route(self, name: str, definition: bytes) -> StoredRoute:
        self.end_route(name)
        route = StoredRoute(self._next_version(), name, definition, self.newest() + 1)
        self._routes[route.number] = route
        return route

    def end_route(self, name: str) -> None:
        self._routes.end(name, self.newest() + 1)

    def forget_routes(self, before: int) -> None:
        self._routes.forget(before)

    def put_context(self, name: str, body: bytes) -> ContextVersion:
        now, end = self.context(name), self.newest() + 1
        if now is not None and now.body == body:
            return now
        self._contexts.end(name, end)
        version = ContextVersion(self._next_version(), name, body, end)
        self._contexts[version.number] = version
        self._revision += 1
        return version

    def end_context(self, name: str) -> None:
        if self._contexts.end(name, self.newest() + 1):
            self._revision += 1

    def forget_contexts(self, before: int) -> None:
        self._contexts.forget(before)

    def take_routing(self) -> Routed:
        self._routed = replace(self._routed, token=self._routed.token + 1)
        return self._routed

    def advance(self, stretches: Sequence[Stretch], *, token: int) -> bool:
        if token != self._routed.token:
            return False
        new = following(stretches, self._routed.high, self.newest() + 1)
        self._stretches.update({stretch.high: stretch for stretch in new})
        if new:
            self._routed = replace(self._routed, high=new[-1].high)
        return True

    def drop_stretches(self, before: int) -> int:
        gone = [high for high in self._stretches if high <= before]
        for high in gone:
            del self._stretches[high]
        return len(gone)
