# ruff: noqa: D102 - the contract says what each method does
"""Who gets what from a store in memory: subscriptions, flights, groups, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.stores.contract import CHANGES
from polycast.stores.memory.tables import MemoryTables
from polycast.stores.values import (
    MARK,
    Flight,
    GroupMember,
    Letter,
    Standing,
    StoredSubscription,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["DeliveryTables", "SubscriptionTables"]


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
