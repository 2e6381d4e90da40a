# ruff: noqa: D102 - the contract says what each method does
"""The state of a store in memory: who reads the log, what is in flight, dead letters, contexts."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from polycast.stores.contract import CHANGES
from polycast.stores.range_checks import following
from polycast.stores.values import (
    MARK,
    Advert,
    ContextVersion,
    Effect,
    Flight,
    GroupMember,
    Letter,
    OpenBus,
    Routed,
    Standing,
    Stored,
    StoredReply,
    StoredRoute,
    StoredSubscription,
    Stretch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from polycast.events import Record, Root
    from polycast.typesystem import Description

__all__ = ["MemoryState"]

V = TypeVar("V", StoredRoute, ContextVersion)


class MemoryState:
    """The tables. What it holds is never changed in place, so that a copy is a snapshot."""

    def __init__(self, log: list[Stored], name: Callable[[Record], None]) -> None:
        self._log, self._name = log, name
        self._revision = 0
        self._changes: dict[int, str] = {}
        self._epochs: dict[str, int] = {}
        self._numbers = 0
        self._descriptions: dict[str, Description] = {}
        self._buses: dict[int, OpenBus] = {}
        self._kept: dict[str, StoredSubscription] = {}
        self._flights: dict[tuple[str, int], Flight] = {}
        self._members: dict[tuple[str, int], GroupMember] = {}
        self._letters: dict[int, Letter] = {}
        self._adverts: dict[int, Advert] = {}
        self._documents: dict[tuple[str, str], bytes] = {}
        self._identity = uuid.uuid4().hex
        self._routed = Routed(1, 0)
        self._routes: dict[int, StoredRoute] = {}
        self._contexts: dict[int, ContextVersion] = {}
        self._last_number = 0  # that was given to a route or a context
        self._stretches: dict[int, Stretch] = {}
        self._answers: dict[str, StoredReply] = {}
        self._after: list[Callable[[], None]] = []
        self._amended: list[tuple[int, Stored]] = []  # by the work under way, as they were

    def copy(self) -> dict[str, Any]:
        tables = vars(self).items()
        return {name: dict(each) if isinstance(each, dict) else each for name, each in tables}

    # -- looking -----------------------------------------------------------------------------------

    def identity(self) -> str:
        return self._identity

    def newest(self) -> int:
        return self._log[-1].position if self._log else 0

    def oldest(self) -> int:
        return self._log[0].position if self._log else 1

    def revision(self) -> int:
        return self._revision

    def changed(self, since: int) -> set[str] | None:
        known = self._revision - since <= CHANGES
        return {name for at, name in self._changes.items() if at > since} if known else None

    def descriptions(self, *, after: int = 0) -> list[Description]:
        return list(self._descriptions.values())[after:]

    def buses(self) -> list[OpenBus]:
        return list(self._buses.values())

    def subscription(self, name: str) -> StoredSubscription | None:
        return self._kept.get(name)

    def subscriptions(self) -> list[StoredSubscription]:
        return [self._kept[name] for name in sorted(self._kept)]

    def lapsed(self, at: float) -> list[str]:
        leased = [each for each in self.subscriptions() if each.lease is not None]
        return [each.name for each in leased if each.lease is not None and each.lease <= at]

    def flights(self, name: str) -> list[Flight]:
        mine = [key for key in sorted(self._flights) if key[0] == name and key[1] != MARK]
        return [self._flights[key] for key in mine]

    def flight(self, name: str, position: int) -> Flight | None:
        return self._flights.get((name, position))

    def flights_at(self, name: str, positions: Collection[int]) -> list[Flight]:
        found = (self._flights.get((name, each)) for each in sorted(set(positions)))
        return [each for each in found if each is not None]

    def under_way(self, name: str) -> list[Flight]:
        return [each for each in self.flights(name) if not each.done]

    def held_back(self) -> dict[str, int]:
        names = {name for name, _ in self._flights}
        first = {name: self.under_way(name)[:1] for name in names}
        return {name: found[0].position for name, found in first.items() if found}

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        found = [each for each in self.under_way(name) if each.holder is None]
        return [each for each in found if each.due <= at][:limit]

    def members(self, name: str) -> list[GroupMember]:
        return [self._members[key] for key in sorted(self._members) if key[0] == name]

    def strays(self) -> list[int]:
        return sorted({bus for _, bus in self._members} - self._buses.keys())

    def standing(self, name: str, *, at: float, limit: int) -> Standing:
        """How a group is doing at a time; of what is free, the first so many."""
        free = self.free(name, at=at, limit=limit)
        return Standing(free, self.under_way(name), self.members(name))

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        mine = [each for number, each in self._letters.items() if number > after]
        return [each for each in mine if subscription in (None, each.subscription)][:limit]

    def count_letters(self, *, subscription: str | None = None, at: int | None = None) -> int:
        mine = self.letters(subscription=subscription)
        return sum(1 for each in mine if at is None or each.position == at)

    def adverts(self) -> list[Advert]:
        return list(self._adverts.values())

    def document(self, kind: str, name: str) -> bytes | None:
        return self._documents.get((kind, name))

    def documents(self, kind: str) -> dict[str, bytes]:
        return {key[1]: self._documents[key] for key in sorted(self._documents) if key[0] == kind}

    def routed(self) -> Routed:
        return self._routed

    def route(self, name: str) -> StoredRoute | None:
        mine = [each for each in self._routes.values() if each.name == name]
        return next((each for each in mine if each.until is None), None)

    def routes(self, *, at: int | None = None) -> list[StoredRoute]:
        found = [self._routes[number] for number in sorted(self._routes)]
        if at is None:
            return found
        return [each for each in found if each.start <= at and not _ended(each, at)]

    def context(self, name: str) -> ContextVersion | None:
        mine = [each for each in self._contexts.values() if each.name == name]
        return next((each for each in mine if each.until is None), None)

    def contexts(self, *, at: int | None = None) -> list[ContextVersion]:
        found = [self._contexts[number] for number in sorted(self._contexts)]
        if at is None:
            return found
        return [each for each in found if each.start <= at and not _ended(each, at)]

    def in_effect(self, position: int) -> Effect:
        routes, contexts = self.routes(at=position), self.contexts(at=position)
        numbers = [each.number for each in routes] + [each.number for each in contexts]
        return Effect(len(routes), max(numbers, default=0), len(contexts))

    def last_turn(self, position: int) -> int:
        return max(self.turns(0, position + 1), default=0)

    def turns(self, low: int, high: int) -> list[int]:
        both: list[StoredRoute | ContextVersion] = [
            *self._routes.values(),
            *self._contexts.values(),
        ]
        places = {place for each in both for place in (each.start, each.until)}
        return sorted(place for place in places if place is not None and low < place < high)

    def stretches(self, start: int, *, limit: int) -> list[Stretch]:
        later = [high for high in sorted(self._stretches) if high > start]
        return [self._stretches[high] for high in later[: max(limit, 0)]]

    def awaited(self) -> int:
        held_back, found = self.held_back(), [self._routed.high]
        for name, kept in self._kept.items():
            route = self.route(name)
            if route is not None:
                place = min(kept.cursor, held_back.get(name, kept.cursor))
                found.append(max(place, route.start))
        return min(found)

    # -- changing ----------------------------------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

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

    def remove_bus(self, bus: int) -> None:
        self._buses.pop(bus, None)
        self._members = {key: each for key, each in self._members.items() if each.bus != bus}
        self._adverts = {key: each for key, each in self._adverts.items() if each.bus != bus}
        for name, kept in self._kept.items():
            if kept.holder == bus:
                self._kept[name] = replace(kept, holder=None)
        for key, flight in self._flights.items():
            if flight.holder == bus:
                self._flights[key] = replace(flight, holder=None, token=flight.token + 1)

    def save(self, kept: StoredSubscription) -> None:
        self._kept[kept.name] = kept
        self._change(kept.name)

    def take_over(self, kept: StoredSubscription) -> int:
        token = self._revision + 1  # the revision that it is saved with
        self.save(replace(kept, token=token))
        return token

    def _change(self, name: str) -> None:
        self._revision += 1
        self._changes[self._revision] = name

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        kept = self._kept.get(name)
        if kept is None or kept.token != token:
            return False
        self._kept[name] = replace(kept, cursor=cursor)
        return True

    def remove(self, name: str) -> None:
        if self._kept.pop(name, None) is not None:
            self._change(name)
        self._flights = {key: each for key, each in self._flights.items() if key[0] != name}
        self._members = {key: each for key, each in self._members.items() if key[0] != name}
        self.end_route(name)

    def fly(self, flights: Sequence[Flight]) -> None:
        self._flights.update({(each.name, each.position): each for each in flights})

    def claim(self, flight: Flight) -> bool:
        return self._flights.setdefault((flight.name, flight.position), flight) is flight

    def land(self, name: str, positions: Collection[int]) -> None:
        for position in positions:
            self._flights.pop((name, position), None)

    def land_before(self, name: str, position: int) -> None:
        self.land(
            name, [f.position for f in self.flights(name) if f.done and f.position < position]
        )

    def join(self, member: GroupMember) -> None:
        self._members[member.name, member.bus] = member

    def leave(self, name: str, bus: int) -> None:
        self._members.pop((name, bus), None)

    def bury(self, letters: Sequence[Letter]) -> list[int]:
        buried = [replace(each, number=self._number()) for each in letters]
        self._letters.update({each.number: each for each in buried})
        return [each.number for each in buried]

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        there = sorted(set(numbers) & self._letters.keys())
        return [self._letters.pop(number) for number in there]

    def give_root(self, position: int, root: Root) -> bool:
        at = bisect_left(self._log, position, key=lambda each: each.position)
        stored = self._log[at] if at < len(self._log) else None
        if stored is None or stored.position != position:
            return False
        record = stored.record
        if record.context is None or record.root is not None:
            return False
        amended = replace(record, root=root)
        self._amended = [*self._amended, (at, stored)]
        self._log[at] = Stored(position, amended)
        self._name(amended)
        return True

    def undo_roots(self) -> None:
        """Take back what was given to records by work that comes to nothing."""
        for at, before in reversed(self._amended):
            self._log[at] = before

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

    def begin_route(self, name: str, definition: bytes) -> StoredRoute:
        self.end_route(name)
        self._last_number += 1
        route = StoredRoute(self._last_number, name, definition, self.newest() + 1)
        self._routes[route.number] = route
        return route

    def end_route(self, name: str) -> None:
        route = self.route(name)
        if route is not None:
            _end(self._routes, route, self.newest() + 1)

    def forget_routes(self, before: int) -> None:
        self._routes = {n: each for n, each in self._routes.items() if not _ended(each, before)}

    def put_context(self, name: str, body: bytes) -> ContextVersion:
        now, end = self.context(name), self.newest() + 1
        if now is not None and now.body == body:
            return now
        if now is not None:
            _end(self._contexts, now, end)
        self._last_number += 1
        version = ContextVersion(self._last_number, name, body, end)
        self._contexts[version.number] = version
        self._revision += 1
        return version

    def end_context(self, name: str) -> None:
        version = self.context(name)
        if version is not None:
            _end(self._contexts, version, self.newest() + 1)
            self._revision += 1

    def forget_contexts(self, before: int) -> None:
        kept = {n: each for n, each in self._contexts.items() if not _ended(each, before)}
        self._contexts = kept

    def take_routing(self) -> Routed:
        self._routed = replace(self._routed, token=self._routed.token + 1)
        return self._routed

    def advance(self, stretches: Sequence[Stretch], *, token: int) -> bool:
        if token != self._routed.token:
            return False
        new = following(stretches, self._routed.high, self.newest() + 1)
        self._stretches.update({each.high: each for each in new})
        if new:
            self._routed = replace(self._routed, high=new[-1].high)
        return True

    def drop_stretches(self, before: int) -> int:
        gone = [high for high in self._stretches if high <= before]
        for high in gone:
            del self._stretches[high]
        return len(gone)

    def answer(self, client: str) -> StoredReply | None:
        return self._answers.get(client)

    def put_answer(self, answer: StoredReply) -> None:
        self._answers[answer.client] = answer

    def drop_answers(self, before: float) -> int:
        kept = {name: each for name, each in self._answers.items() if each.time >= before}
        gone, self._answers = len(self._answers) - len(kept), kept
        return gone

    def after(self, done: Callable[[], None]) -> None:
        self._after = [*self._after, done]

    def finish(self) -> None:
        """The work has come to its end."""
        done, self._after, self._amended = self._after, [], []
        for each in done:
            each()


def _ended(each: StoredRoute | ContextVersion, at: int) -> bool:
    return each.until is not None and each.until <= at


def _end(all_of_them: dict[int, V], each: V, end: int) -> None:
    if each.start < end:
        all_of_them[each.number] = replace(each, until=end)
    else:
        del all_of_them[each.number]  # it was never in effect
