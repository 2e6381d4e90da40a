# ruff: noqa: D102 - the contract says what each method does
"""Who gets what from a store in a file: subscriptions, flights, groups, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple, replace

from polycast.events import encode_record
from polycast.stores.contract import CHANGES
from polycast.stores.sqlite.row_format import CHECKSUMMED, SqlChanges, SqlTables, insert_rows
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

_SUBSCRIPTIONS, _FLIGHTS = CHECKSUMMED["subscriptions"], CHECKSUMMED["flights"]
_MEMBERS, _LETTERS = CHECKSUMMED["members"], CHECKSUMMED["letters"]

# By the index of what is not done: a row that has become done by damage is seen, and told.
_UNDER_WAY = "INDEXED BY flights_under_way WHERE name = ? AND NOT done"


class SqlSubscriptions(SqlTables):
    """Durable subscriptions and groups, as one read transaction sees them."""

    def changed(self, since: int) -> set[str] | None:
        if self.revision() - since > CHANGES:
            return None
        rows = self._rows("SELECT name FROM changes WHERE revision > ?", since)
        return {name for (name,) in rows}

    def subscription(self, name: str) -> StoredSubscription | None:
        return next(map(_kept, self.checked(_SUBSCRIPTIONS, "WHERE name = ?", name)), None)

    def subscriptions(self) -> list[StoredSubscription]:
        return list(map(_kept, self.checked(_SUBSCRIPTIONS, "ORDER BY name")))

    def lapsed(self, at: float) -> list[str]:
        # By the index, as few of many subscriptions have a lease.
        rest = "INDEXED BY subscriptions_by_lease WHERE lease <= ? ORDER BY name"
        return [name for name, *_ in self.checked(_SUBSCRIPTIONS, rest, at)]


class SqlSubscriptionChanges(SqlSubscriptions, SqlChanges):
    """Changes to subscriptions."""

    moves = 0  # how many cursors were moved

    def save(self, kept: StoredSubscription) -> None:
        _SUBSCRIPTIONS.put(self.connection, *_of_kept(kept))
        self._revise(kept.name)

    def take_over(self, kept: StoredSubscription) -> int:
        token = self.revision() + 1  # the revision that it is saved with
        self.save(replace(kept, token=token))
        return token

    def _update(self, kept: StoredSubscription) -> None:
        """Write what changes without a revision; it was read before, so no damage is covered up."""
        sealed = _SUBSCRIPTIONS.seal(*_of_kept(kept))
        self._execute(
            "UPDATE subscriptions SET cursor = ?, token = ?, holder = ?, checksum = ? "
            "WHERE name = ?",
            (kept.cursor, kept.token, kept.holder, sealed[-1], kept.name),
        )

    def _release_subscriptions(self, bus: int) -> None:
        """Free the subscriptions that a removed bus holds."""
        # A damaged row stays as it is, and does not keep the others from being freed.
        rows, _ = _SUBSCRIPTIONS.sort(self.connection, "WHERE holder = ?", (bus,))
        for kept in map(_kept, rows):
            self._update(replace(kept, holder=None))

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        kept = self.subscription(name)
        if kept is None or kept.token != token:
            return False
        self._update(replace(kept, cursor=cursor))
        self.moves += 1
        return True


class SqlDelivery(SqlTables):
    """Events in flight, members of groups and dead letters, as one read transaction sees them."""

    def flights(self, name: str) -> list[Flight]:
        which = f"WHERE name = ? AND position > {MARK} ORDER BY position"
        rows = self.checked(_FLIGHTS, which, name)
        return list(map(_flight, rows))

    def flight(self, name: str, position: int) -> Flight | None:
        rows = self.checked(_FLIGHTS, "WHERE name = ? AND position = ?", name, position)
        return next(map(_flight, rows), None)

    def flights_at(self, name: str, positions: Collection[int]) -> list[Flight]:
        which = "WHERE name = ? AND position IN (SELECT value FROM json_each(?)) ORDER BY position"
        listed = msgspec.json.encode(list(positions)).decode()
        return list(map(_flight, self.checked(_FLIGHTS, which, name, listed)))

    def under_way(self, name: str) -> list[Flight]:
        rows = self.checked(_FLIGHTS, f"{_UNDER_WAY} ORDER BY position", name)
        return list(map(_flight, rows))

    def held_back(self) -> dict[str, int]:
        # With min() anywhere in a statement, SQLite gives the row of the minimum.
        which = "WHERE NOT done GROUP BY name HAVING min(position) NOT NULL"
        rows = self.checked(_FLIGHTS, f"INDEXED BY flights_under_way {which}")
        return {name: position for name, position, *_ in rows}

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        rest = f"{_UNDER_WAY} AND holder IS NULL AND due <= ? ORDER BY position LIMIT ?"
        return list(map(_flight, self.checked(_FLIGHTS, rest, name, at, limit)))

    def members(self, name: str) -> list[GroupMember]:
        rows = self.checked(_MEMBERS, "WHERE name = ? ORDER BY bus", name)
        return [GroupMember(*row) for row in rows]

    def strays(self) -> list[int]:
        # A damaged row keeps no other from being found: its reader is told.
        rows, _ = _MEMBERS.sort(self.connection, "WHERE bus NOT IN (SELECT id FROM buses)")
        return sorted({bus for _, bus, _ in rows})

    def standing(self, name: str, *, at: float, limit: int) -> Standing:
        free = self.free(name, at=at, limit=limit)
        return Standing(free, self.under_way(name), self.members(name))

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        which, most = ("", -1 if limit is None else limit)
        values: tuple[Any, ...] = (after, most)
        if subscription is not None:
            which, values = "AND subscription = ?3", (after, most, subscription)
        rest = f"WHERE number > ?1 {which} ORDER BY number LIMIT ?2"
        return [self._letter(*row) for row in self.checked(_LETTERS, rest, *values)]

    def _letter(self, number: int, subscription: str, position: int, *rest: Any) -> Letter:
        body, reason, attempts, time = rest
        record = self.decoded(body, f"dead letter {number}")
        return Letter(number, subscription, position, record, reason, attempts, time)

    def count_letters(self, *, subscription: str | None = None, at: int | None = None) -> int:
        count = "SELECT count(*) FROM letters"
        if subscription is None:
            return int(self._one(count))
        if at is None:
            return int(self._one(f"{count} WHERE subscription = ?", subscription))
        return int(self._one(f"{count} WHERE subscription = ? AND position = ?", subscription, at))


class SqlDeliveryChanges(SqlDelivery, SqlChanges):
    """Changes to them."""

    def fly(self, flights: Sequence[Flight]) -> None:
        values = [value for flight in flights for value in _FLIGHTS.seal(*_of_flight(flight))]
        into = "INSERT OR REPLACE INTO flights"
        insert_rows(self.connection, into, values, width=_FLIGHTS.width)

    def _release_flights(self, bus: int | None) -> None:
        """Free the flights that a removed bus holds, except damaged rows; None frees all."""
        if bus is None:
            rows = self.checked(_FLIGHTS, f"WHERE position > {MARK}")
        else:
            rows, _ = _FLIGHTS.sort(self.connection, "WHERE holder = ?", (bus,))
        flights = map(_flight, rows)
        self.fly([replace(flight, holder=None, token=flight.token + 1) for flight in flights])

    def claim(self, flight: Flight) -> bool:
        self._execute(
            "INSERT INTO flights VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (name, position) DO NOTHING",
            _FLIGHTS.seal(*_of_flight(flight)),
        )
        return self._changed()

    def land(self, name: str, positions: Collection[int]) -> None:
        self._execute(
            "DELETE FROM flights WHERE name = ? AND position IN (SELECT value FROM json_each(?))",
            (name, msgspec.json.encode(list(positions)).decode()),
        )

    def land_before(self, name: str, position: int) -> None:
        which = f"WHERE name = ? AND position > {MARK} AND position < ? AND done"
        if self.checked(_FLIGHTS, which, name, position):  # none is done by damage only
            self._execute(f"DELETE FROM flights {which}", (name, position))

    def join(self, member: GroupMember) -> None:
        _MEMBERS.put(self.connection, *astuple(member))

    def leave(self, name: str, bus: int) -> None:
        self._execute("DELETE FROM members WHERE name = ? AND bus = ?", (name, bus))

    def bury(self, letters: Sequence[Letter]) -> None:
        bodies = [encode_record(letter.record) for letter in letters]
        first = self._number(len(letters))
        numbers = range(first, first + len(letters))
        values = [
            value
            for number, letter, body in zip(numbers, letters, bodies, strict=True)
            for value in _LETTERS.seal(
                number, letter.subscription, letter.position, body, *_fate(letter)
            )
        ]
        insert_rows(self.connection, "INSERT INTO letters", values, width=_LETTERS.width)

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        taken = []
        for number in sorted(set(numbers)):
            rows = self.checked(_LETTERS, "WHERE number = ?", number)
            taken += [self._letter(*row) for row in rows]
            self._execute("DELETE FROM letters WHERE number = ?", (number,))
        return taken


def _fate(letter: Letter) -> tuple[str, int, float]:
    return letter.reason, letter.attempts, letter.time + 0.0


# SQLite gives back 0 and 1 for flags, a float for an int, and 0.0 for -0.0, which `+ 0.0` makes.


def _of_kept(kept: StoredSubscription) -> tuple[Any, ...]:
    flags = (int(kept.durable), int(kept.group), int(kept.pinned))
    lease = None if kept.lease is None else kept.lease + 0.0
    head = (kept.name, kept.definition, kept.start, kept.cursor)
    return (*head, *flags, kept.until, kept.token, kept.holder, lease)


def _of_flight(flight: Flight) -> tuple[Any, ...]:
    name, position, publisher, holder, token, attempts, due, done = astuple(flight)
    return name, position, publisher, holder, token, attempts, due + 0.0, int(done)


def _kept(row: tuple[Any, ...]) -> StoredSubscription:
    name, definition, start, cursor, durable, group, pinned, until, token, holder, lease = row
    flags = (bool(durable), bool(group), bool(pinned))
    return StoredSubscription(name, definition, start, cursor, *flags, until, token, holder, lease)


def _flight(row: tuple[Any, ...]) -> Flight:
    name, position, publisher, holder, token, attempts, due, done = row
    return Flight(name, position, publisher, holder, token, attempts, due, bool(done))
