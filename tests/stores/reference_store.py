"""The store that judges the others: its state is in plain dicts, its log in a list."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace
from reference_tables import CatalogTables, MemoryTables, RoutingTables

from polycast.config import Clock
from polycast.events import Record, Root
from polycast.stores.contract import CHANGES, Transaction
from polycast.stores.memory_store import MemoryStore
from polycast.stores.values import (
    MARK,
    Flight,
    GroupMember,
    Letter,
    Standing,
    Stored,
    StoredSubscription,
)

__all__ = ["ReferenceStore"]


class SubscriptionTables(MemoryTables):
    """Durable subscriptions and groups."""

    def changed(self, since: int) -> set[str] | None:
        known = self._revision - since <= CHANGES
        return {name for at, name in self._changes.items() if at > since} if known else None

    def subscription(self, name: str) -> StoredSubscription | None:
        return self._subscriptions.get(name)

    def subscriptions(self) -> list[StoredSubscription]:
        return [self._subscriptions[name] for name in sorted(self._subscriptions)]

    def lapsed(self, at: float) -> list[str]:
        kept = self.subscriptions()
        return [one.name for one in kept if one.lease is not None and one.lease <= at]

    def save(self, kept: StoredSubscription) -> None:
        self._subscriptions[kept.name] = kept
        self._change(kept.name)

    def take_over(self, kept: StoredSubscription) -> int:
        token = self._revision + 1  # the revision that it is saved with
        self.save(replace(kept, token=token))
        return token

    def _change(self, name: str) -> None:
        self._revision += 1
        self._changes[self._revision] = name

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        kept = self._subscriptions.get(name)
        if kept is None or kept.token != token:
            return False
        self._subscriptions[name] = replace(kept, cursor=cursor)
        return True


class DeliveryTables(MemoryTables):
    """Events in flight, members of groups, dead letters."""

    def flights(self, name: str) -> list[Flight]:
        mine = [key for key in sorted(self._flights) if key[0] == name and key[1] != MARK]
        return [self._flights[key] for key in mine]

    def flight(self, name: str, position: int) -> Flight | None:
        return self._flights.get((name, position))

    def flights_at(self, name: str, positions: Collection[int]) -> list[Flight]:
        flights = (self._flights.get((name, position)) for position in sorted(set(positions)))
        return [flight for flight in flights if flight is not None]

    def under_way(self, name: str) -> list[Flight]:
        return [flight for flight in self.flights(name) if not flight.done]

    def held_back(self) -> dict[str, int]:
        names = {name for name, _ in self._flights}
        under_way = {name: self.under_way(name) for name in names}
        return {name: flights[0].position for name, flights in under_way.items() if flights}

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        free = [flight for flight in self.under_way(name) if flight.holder is None]
        return [flight for flight in free if flight.due <= at][:limit]

    def members(self, name: str) -> list[GroupMember]:
        return [self._members[key] for key in sorted(self._members) if key[0] == name]

    def strays(self) -> list[int]:
        return sorted({bus for _, bus in self._members} - self._buses.keys())

    def standing(self, name: str, *, at: float, limit: int) -> Standing:
        free = self.free(name, at=at, limit=limit)
        return Standing(free, self.under_way(name), self.members(name))

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        later = [letter for number, letter in self._letters.items() if number > after]
        return [one for one in later if subscription in (None, one.subscription)][:limit]

    def count_letters(self, *, subscription: str | None = None, at: int | None = None) -> int:
        letters = self.letters(subscription=subscription)
        return sum(at is None or letter.position == at for letter in letters)

    def fly(self, flights: Sequence[Flight]) -> None:
        self._flights.update({(flight.name, flight.position): flight for flight in flights})

    def claim(self, flight: Flight) -> bool:
        return self._flights.setdefault((flight.name, flight.position), flight) is flight

    def land(self, name: str, positions: Collection[int]) -> None:
        for position in positions:
            self._flights.pop((name, position), None)

    def land_before(self, name: str, position: int) -> None:
        done = [flight.position for flight in self.flights(name) if flight.done]
        self.land(name, [at for at in done if at < position])

    def join(self, member: GroupMember) -> None:
        self._members[member.name, member.bus] = member

    def leave(self, name: str, bus: int) -> None:
        self._members.pop((name, bus), None)

    def bury(self, letters: Sequence[Letter]) -> None:
        buried = [replace(letter, number=self._number()) for letter in letters]
        self._letters.update({letter.number: letter for letter in buried})

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        known = sorted(set(numbers) & self._letters.keys())
        return [self._letters.pop(number) for number in known]


class MemoryState(CatalogTables, SubscriptionTables, DeliveryTables, RoutingTables):
    """All tables; `name` registers the types of a record in the log."""

    def __init__(self, log: list[Stored], name: Callable[[Record], None]) -> None:
        super().__init__(log)
        self._name = name
        self._after: list[Callable[[], None]] = []
        self._amended: list[tuple[int, Stored]] = []  # records as they were before this work

    def awaited(self) -> int:
        held_back, awaited = self.held_back(), [self._routed.high]
        for name, kept in self._subscriptions.items():
            route = self.route(name)
            if route is not None:
                needed = min(kept.cursor, held_back.get(name, kept.cursor))
                awaited.append(max(needed, route.start))
        return min(awaited)

    def remove_bus(self, bus: int) -> None:
        self._buses.pop(bus, None)
        self._members = {key: row for key, row in self._members.items() if row.bus != bus}
        self._adverts = {key: row for key, row in self._adverts.items() if row.bus != bus}
        for name, kept in self._subscriptions.items():
            if kept.holder == bus:
                self._subscriptions[name] = replace(kept, holder=None)
        for key, flight in self._flights.items():
            if flight.holder == bus:
                self._flights[key] = replace(flight, holder=None, token=flight.token + 1)

    def remove(self, name: str) -> None:
        if self._subscriptions.pop(name, None) is not None:
            self._change(name)
        self._flights = {key: row for key, row in self._flights.items() if key[0] != name}
        self._members = {key: row for key, row in self._members.items() if key[0] != name}
        self.end_route(name)

    def give_root(self, position: int, root: Root) -> bool:
        at = bisect_left(self._log, position, key=attrgetter("position"))
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
        """Restore the records that failed work gave a root form to."""
        for at, before in reversed(self._amended):
            self._log[at] = before

    def after(self, done: Callable[[], None]) -> None:
        self._after = [*self._after, done]

    def finish(self) -> None:
        """Call what the work passed to `after`."""
        callbacks, self._after, self._amended = self._after, [], []
        for callback in callbacks:
            callback()


T = TypeVar("T")


class ReferenceStore(MemoryStore):
    """The plainest implementation of the contract; a change that fails restores a copy."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._reference = MemoryState(self._log, self._name)

    def _state(self) -> Any:
        return self._reference

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Run a transaction; its changes are kept all or not at all."""
        state: Any = self._reference

        def change() -> T:
            before = state.copy()
            try:
                result = work(state)
                state.finish()
                return result
            except BaseException:
                state.undo_roots()
                vars(state).update(before)
                raise

        return self._done(change)
