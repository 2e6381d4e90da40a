"""The state of a store in its file: who reads the log, what is in flight, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import NotDecodable, StoreDamaged
from polycast.events import decode_record, encode_record
from polycast.stores.contract import CHANGES, Advert, Flight, Kept, Letter, Member, OpenBus
from polycast.stores.sqlite.rows import fetch, fetch_one, insert_rows
from polycast.typesystem import Description

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import apsw

__all__ = ["SqlTransaction", "SqlView"]

_KEPT = "name, definition, start, cursor, durable, grouped, pinned, until, token, holder, lease"
_FLIGHT = "name, position, publisher, holder, token, attempts, due, done"
_LETTER = "number, subscription, position, body, reason, attempts, time"


class SqlView:
    """The state as one read transaction sees it."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self._execute = connection.execute

    def _one(self, sql: str, *values: Any) -> Any:
        return fetch_one(self._connection, sql, *values)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return fetch(self._connection, sql, values)

    def newest(self) -> int:
        """The newest position."""
        return self._one("SELECT max(position) FROM log") or 0

    def oldest(self) -> int:
        """The oldest position kept."""
        return self._one("SELECT min(position) FROM log") or 1

    def revision(self) -> int:
        """A number that grows with every change of what routing depends on."""
        found: int = self._one("SELECT revision FROM counters")
        return found

    def changed(self, since: int) -> set[str] | None:
        """The subscriptions saved or removed after a revision; None if that is too long ago."""
        if self.revision() - since > CHANGES:
            return None
        rows = self._rows("SELECT name FROM changes WHERE revision > ?", since)
        return {name for (name,) in rows}

    def descriptions(self) -> list[Description]:
        """All of them, in the order in which they came."""
        rows = self._rows("SELECT hash, body FROM descriptions ORDER BY number")
        return [self._description(*row) for row in rows]

    def _description(self, digest: str, body: bytes) -> Description:
        place = f"the description {digest}"
        try:
            found = msgspec.json.decode(body, type=Description)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise StoreDamaged(self._path, place=place, why=str(error)) from None
        if found.hash != digest:
            raise StoreDamaged(self._path, place=place, why=f"its bytes have the hash {found.hash}")
        return found

    def buses(self) -> list[OpenBus]:
        """The buses that are open, or were when they died."""
        sql = "SELECT id, publisher, epoch, until, address, process FROM buses ORDER BY id"
        return [OpenBus(*row) for row in self._rows(sql)]

    def subscription(self, name: str) -> Kept | None:
        """The subscription of that name."""
        rows = self._rows(f"SELECT {_KEPT} FROM subscriptions WHERE name = ?", name)
        return next(map(_kept, rows), None)

    def subscriptions(self) -> list[Kept]:
        """All of them, by name."""
        return list(map(_kept, self._rows(f"SELECT {_KEPT} FROM subscriptions ORDER BY name")))

    def lapsed(self, at: float) -> list[str]:
        """The names of subscriptions whose lease is over at a time."""
        sql = "SELECT name FROM subscriptions WHERE lease <= ? ORDER BY name"
        return [name for (name,) in self._rows(sql, at)]

    def flights(self, name: str) -> list[Flight]:
        """What is in flight for a subscription, by position."""
        sql = f"SELECT {_FLIGHT} FROM flights WHERE name = ? ORDER BY position"
        return list(map(_flight, self._rows(sql, name)))

    def flight(self, name: str, position: int) -> Flight | None:
        """What is in flight for a subscription at a position."""
        sql = f"SELECT {_FLIGHT} FROM flights WHERE name = ? AND position = ?"
        return next(map(_flight, self._rows(sql, name, position)), None)

    def under_way(self, name: str) -> list[Flight]:
        """What is in flight for a subscription and not done, by position."""
        sql = f"SELECT {_FLIGHT} FROM flights WHERE name = ? AND NOT done ORDER BY position"
        return list(map(_flight, self._rows(sql, name)))

    def held_back(self) -> dict[str, int]:
        """For each subscription with something under way, the first position of that."""
        return dict(
            self._rows("SELECT name, min(position) FROM flights WHERE NOT done GROUP BY name")
        )

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        """The first flights of a group that nobody holds, not done and due at a time."""
        sql = (
            f"SELECT {_FLIGHT} FROM flights WHERE name = ? AND holder IS NULL AND NOT done "
            "AND due <= ? ORDER BY position LIMIT ?"
        )
        return list(map(_flight, self._rows(sql, name, at, limit)))

    def members(self, name: str) -> list[Member]:
        """Who is in a group."""
        sql = "SELECT name, bus, looked FROM members WHERE name = ? ORDER BY bus"
        return [Member(*row) for row in self._rows(sql, name)]

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        """Dead letters by number, of one subscription or all."""
        which, most = ("", -1 if limit is None else limit)
        values: tuple[Any, ...] = (after, most)
        if subscription is not None:
            which, values = "AND subscription = ?3", (after, most, subscription)
        sql = f"SELECT {_LETTER} FROM letters WHERE number > ?1 {which} ORDER BY number LIMIT ?2"
        return [self._letter(*row) for row in self._rows(sql, *values)]

    def _letter(self, number: int, subscription: str, position: int, *rest: Any) -> Letter:
        body, reason, attempts, time = rest
        try:
            record = decode_record(body)
        except NotDecodable as error:
            place = f"dead letter {number}"
            raise StoreDamaged(self._path, place=place, why=str(error)) from None
        return Letter(number, subscription, position, record, reason, attempts, time)

    def count_letters(self, *, subscription: str | None = None) -> int:
        """How many there are."""
        count = "SELECT count(*) FROM letters"
        if subscription is None:
            return int(self._one(count))
        return int(self._one(f"{count} WHERE subscription = ?", subscription))

    def adverts(self) -> list[Advert]:
        """What is advertised."""
        sql = "SELECT number, bus, what, until FROM adverts ORDER BY number"
        return [Advert(*row) for row in self._rows(sql)]

    def document(self, kind: str, name: str) -> bytes | None:
        """A document."""
        found: bytes | None = self._one(
            "SELECT body FROM documents WHERE kind = ? AND name = ?", kind, name
        )
        return found

    def documents(self, kind: str) -> dict[str, bytes]:
        """All of a kind, by name."""
        sql = "SELECT name, body FROM documents WHERE kind = ? ORDER BY name"
        return dict(self._rows(sql, kind))


class SqlTransaction(SqlView):
    """Changes to the state, within the transaction of the writer."""

    def _changed(self) -> bool:
        return self._connection.changes() > 0

    def _revise(self, name: str | None = None) -> None:
        sql = "UPDATE counters SET revision = revision + 1 RETURNING revision"
        revision: int = self._one(sql)
        if name is not None:
            self._execute("INSERT INTO changes VALUES (?, ?)", (revision, name))
            self._execute("DELETE FROM changes WHERE revision <= ?", (revision - CHANGES,))

    def _number(self, many: int = 1) -> int:
        """The first of so many new numbers."""
        last: int = self._one("UPDATE counters SET numbers = numbers + ? RETURNING numbers", many)
        return last - many + 1

    def describe(self, description: Description) -> None:
        """Keep a description."""
        self._execute(
            "INSERT INTO descriptions(hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (description.hash, msgspec.json.encode(description)),
        )
        if self._changed():
            self._revise()

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        """A new opening of a publisher."""
        epoch = self._one(
            "INSERT INTO publishers VALUES (?, (SELECT epochs + 1 FROM counters)) "
            "ON CONFLICT DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
            publisher,
        )
        opened = OpenBus(self._number(), publisher, epoch, until, address, process)
        self._execute(
            "INSERT INTO buses VALUES (?, ?, ?, ?, ?, ?)", msgspec.structs.astuple(opened)
        )
        return opened

    def keep_bus(self, bus: int, *, until: float) -> bool:
        """It lives on; False if it was removed."""
        self._execute("UPDATE buses SET until = ? WHERE id = ?", (until, bus))
        return self._changed()

    def remove_bus(self, bus: int) -> None:
        """It is closed or dead."""
        for sql in (
            "DELETE FROM buses WHERE id = ?",
            "DELETE FROM members WHERE bus = ?",
            "DELETE FROM adverts WHERE bus = ?",
            "UPDATE subscriptions SET holder = NULL WHERE holder = ?",
            "UPDATE flights SET holder = NULL, token = token + 1 WHERE holder = ?",
        ):
            self._execute(sql, (bus,))

    def save(self, kept: Kept) -> None:
        """Put a subscription in place of what there was under its name."""
        self._execute(
            "INSERT OR REPLACE INTO subscriptions "
            "VALUES (:name, :definition, :start, :cursor, :durable, :group, :pinned, :until, "
            ":token, :holder, :lease)",
            msgspec.structs.asdict(kept),
        )
        self._revise(kept.name)

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        """Move a cursor, if the token is the current one."""
        self._execute(
            "UPDATE subscriptions SET cursor = ? WHERE name = ? AND token = ?",
            (cursor, name, token),
        )
        return self._changed()

    def remove(self, name: str) -> None:
        """Remove a subscription with its flights and members."""
        self._execute("DELETE FROM subscriptions WHERE name = ?", (name,))
        if self._changed():
            self._revise(name)
        self._execute("DELETE FROM flights WHERE name = ?", (name,))
        self._execute("DELETE FROM members WHERE name = ?", (name,))

    def fly(self, flights: Sequence[Flight]) -> None:
        """Put flights in place of what there was at their positions."""
        values = [value for each in flights for value in msgspec.structs.astuple(each)]
        insert_rows(self._connection, "INSERT OR REPLACE INTO flights", values, width=8)

    def claim(self, flight: Flight) -> bool:
        """Add a flight unless there is one at its position."""
        self._execute(
            "INSERT INTO flights VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (name, position) DO NOTHING",
            msgspec.structs.astuple(flight),
        )
        return self._changed()

    def land(self, name: str, positions: Collection[int]) -> None:
        """Remove flights."""
        self._execute(
            "DELETE FROM flights WHERE name = ? AND position IN (SELECT value FROM json_each(?))",
            (name, msgspec.json.encode(list(positions)).decode()),
        )

    def land_before(self, name: str, position: int) -> None:
        """Remove flights that are done and before a position."""
        self._execute(
            "DELETE FROM flights WHERE name = ? AND position < ? AND done", (name, position)
        )

    def join(self, member: Member) -> None:
        """Put a membership in place of what there was."""
        self._execute(
            "INSERT OR REPLACE INTO members VALUES (?, ?, ?)", msgspec.structs.astuple(member)
        )

    def leave(self, name: str, bus: int) -> None:
        """Remove a membership."""
        self._execute("DELETE FROM members WHERE name = ? AND bus = ?", (name, bus))

    def bury(self, letters: Sequence[Letter]) -> list[int]:
        """Keep dead letters under new numbers."""
        bodies = [encode_record(each.record) for each in letters]
        first = self._number(len(letters))
        numbers = list(range(first, first + len(letters)))
        values = [
            value
            for number, each, body in zip(numbers, letters, bodies, strict=True)
            for value in (number, each.subscription, each.position, body, *_fate(each))
        ]
        insert_rows(self._connection, "INSERT INTO letters", values, width=7)
        return numbers

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        """Take dead letters out; those that were there, by number."""
        taken = []
        for number in sorted(set(numbers)):
            sql = f"DELETE FROM letters WHERE number = ? RETURNING {_LETTER}"
            taken += [self._letter(*row) for row in self._rows(sql, number)]
        return taken

    def advertise(self, advert: Advert) -> int:
        """Keep an advert under a new number."""
        number = self._number()
        self._execute(
            "INSERT INTO adverts VALUES (?, ?, ?, ?)",
            (number, advert.bus, advert.what, advert.until),
        )
        return number

    def withdraw(self, number: int) -> None:
        """Remove an advert."""
        self._execute("DELETE FROM adverts WHERE number = ?", (number,))

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        """Keep a document in place of what there was."""
        self._execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (kind, name, body))
        self._revise()

    def remove_document(self, kind: str, name: str) -> None:
        """Remove a document."""
        self._execute("DELETE FROM documents WHERE kind = ? AND name = ?", (kind, name))
        if self._changed():
            self._revise()


def _fate(letter: Letter) -> tuple[str, int, float]:
    return letter.reason, letter.attempts, letter.time


def _kept(row: tuple[Any, ...]) -> Kept:
    name, definition, start, cursor, durable, group, pinned, until, token, holder, lease = row
    flags = (bool(durable), bool(group), bool(pinned))
    return Kept(name, definition, start, cursor, *flags, until, token, holder, lease)


def _flight(row: tuple[Any, ...]) -> Flight:
    name, position, publisher, holder, token, attempts, due, done = row
    return Flight(name, position, publisher, holder, token, attempts, due, bool(done))
