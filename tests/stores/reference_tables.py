"""The tables of the store that judges the others: plain dicts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from polycast.stores.values import (
    Advert,
    ContextVersion,
    Effect,
    Flight,
    GroupMember,
    Letter,
    OpenBus,
    Routed,
    Stored,
    StoredReply,
    StoredRoute,
    StoredSubscription,
    Stretch,
    following,
)
from polycast.typesystem import Description

__all__ = ["CatalogTables", "MemoryTables", "RoutingTables"]

V = TypeVar("V", StoredRoute, ContextVersion)


class VersionTable(dict[int, V]):
    """The versions by number, which is the order they were added in."""

    def lasting(self, name: str) -> V | None:
        """Return the version of a name that is in effect from now on."""
        named = (version for version in self.values() if version.name == name)
        return next((version for version in named if version.until is None), None)

    def all(self, *, at: int | None) -> list[V]:
        """List all versions, or those in effect at a position, by number."""
        versions = [self[number] for number in sorted(self)]
        if at is None:
            return versions
        return [row for row in versions if row.start <= at and not _has_ended(row, at)]

    def end(self, name: str, end: int) -> bool:
        """End the current version of a name at the end of the log; return whether there was one."""
        version = self.lasting(name)
        if version is None:
            return False
        if version.start < end:
            self[version.number] = replace(version, until=end)
        else:
            del self[version.number]  # it was never in effect
        return True

    def forget(self, before: int) -> None:
        """Remove versions that ended at a position or earlier."""
        for number in [n for n, version in self.items() if _has_ended(version, before)]:
            del self[number]


def _has_ended(version: StoredRoute | ContextVersion, at: int) -> bool:
    return version.until is not None and version.until <= at


class MemoryTables:
    """Rows are replaced, never changed in place, so a copy of the tables is a snapshot."""

    def __init__(self, log: list[Stored]) -> None:
        self._log = log
        self._identity = uuid.uuid4().hex
        self._revision = 0
        self._changes: dict[int, str] = {}  # the subscription of each revision
        self._epochs: dict[str, int] = {}
        self._last_number = 0  # of buses, letters and adverts
        self._descriptions: dict[str, Description] = {}
        self._buses: dict[int, OpenBus] = {}
        self._subscriptions: dict[str, StoredSubscription] = {}
        self._flights: dict[tuple[str, int], Flight] = {}
        self._members: dict[tuple[str, int], GroupMember] = {}
        self._letters: dict[int, Letter] = {}
        self._adverts: dict[int, Advert] = {}
        self._documents: dict[tuple[str, str], bytes] = {}
        self._replies: dict[str, StoredReply] = {}
        self._routed = Routed(1, 0)
        self._routes: VersionTable[StoredRoute] = VersionTable()
        self._contexts: VersionTable[ContextVersion] = VersionTable()
        self._last_version = 0  # the number of the newest route or context
        self._stretches: dict[int, Stretch] = {}

    def copy(self) -> dict[str, Any]:
        """Return all tables as they are now."""
        tables = vars(self).items()
        return {
            name: type(table)(table) if isinstance(table, dict) else table for name, table in tables
        }

    def identity(self) -> str:
        """Return the unique name of this store."""
        return self._identity

    def newest(self) -> int:
        """Return the newest position; 0 if nothing was ever appended."""
        return self._log[-1].position if self._log else 0

    def oldest(self) -> int:
        """Return the oldest position kept."""
        return self._log[0].position if self._log else 1

    def revision(self) -> int:
        """Return a number that grows whenever what routing depends on changes."""
        return self._revision

    def _number(self) -> int:
        self._last_number += 1
        return self._last_number


class CatalogTables(MemoryTables):
    """Descriptions, buses, advertisements, documents, and replies to clients."""

    def descriptions(self, *, after: int = 0) -> list[Description]:
        return list(self._descriptions.values())[after:]

    def buses(self) -> list[OpenBus]:
        return list(self._buses.values())

    def adverts(self) -> list[Advert]:
        return list(self._adverts.values())

    def document(self, kind: str, name: str) -> bytes | None:
        return self._documents.get((kind, name))

    def documents(self, kind: str) -> dict[str, bytes]:
        return {key[1]: self._documents[key] for key in sorted(self._documents) if key[0] == kind}

    def describe(self, description: Description) -> None:
        if description.hash not in self._descriptions:
            self._descriptions[description.hash] = description
            self._revision += 1

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        epoch = self._epochs[publisher] = self._epochs.get(publisher, 0) + 1
        opened = OpenBus(self._number(), publisher, epoch, until, address, process)
        self._buses[opened.id] = opened
        return opened

    def keep_bus(self, bus: int, *, until: float) -> bool:
        if bus not in self._buses:
            return False
        self._buses[bus] = replace(self._buses[bus], until=until)
        return True

    def advertise(self, advert: Advert) -> int:
        number = self._number()
        self._adverts[number] = replace(advert, number=number)
        return number

    def withdraw(self, number: int) -> None:
        self._adverts.pop(number, None)

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        self._documents[kind, name] = body
        self._revision += 1

    def remove_document(self, kind: str, name: str) -> None:
        if self._documents.pop((kind, name), None) is not None:
            self._revision += 1

    def answer(self, client: str) -> StoredReply | None:
        return self._replies.get(client)

    def put_answer(self, answer: StoredReply) -> None:
        self._replies[answer.client] = answer

    def drop_answers(self, before: float) -> int:
        old = [client for client, reply in self._replies.items() if reply.time < before]
        for client in old:
            del self._replies[client]
        return len(old)


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
