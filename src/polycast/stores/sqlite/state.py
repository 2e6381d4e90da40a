"""The state of a store in its file: who reads the log, what is in flight, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple, replace

from polycast.errors import NotDecodableError, StoreDamagedError
from polycast.events import decode_record, encode_record
from polycast.stores.contract import CHANGES
from polycast.stores.sqlite.interning import Interner
from polycast.stores.sqlite.routing_state import RoutingTransaction, RoutingView
from polycast.stores.sqlite.row_format import CHECKSUMMED, insert_rows
from polycast.stores.values import (
    MARK,
    Advert,
    Flight,
    GroupMember,
    Letter,
    Mark,
    OpenBus,
    Standing,
    StoredReply,
    StoredSubscription,
)
from polycast.typesystem import Description

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import apsw

    from polycast.events import Root

__all__ = ["SqlTransaction", "SqlView"]

_SUBSCRIPTIONS, _FLIGHTS, _MEMBERS = (
    CHECKSUMMED["subscriptions"],
    CHECKSUMMED["flights"],
    CHECKSUMMED["members"],
)
_LETTERS, _DOCUMENTS, _PUBLISHERS = (
    CHECKSUMMED["letters"],
    CHECKSUMMED["documents"],
    CHECKSUMMED["publishers"],
)
_ANSWERS = CHECKSUMMED["answers"]

# By the index of what is not done: a row that has become done by damage is seen, and told.
_UNDER_WAY = "INDEXED BY flights_under_way WHERE name = ? AND NOT done"

# Made once: making one in two threads at the same time can end the process.
_decode_description = msgspec.json.Decoder(Description).decode


class SqlView(RoutingView):
    """The state as one read transaction sees it."""

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

    def descriptions(self, *, after: int = 0) -> list[Description]:
        """All of them but the first so many, in the order in which they came."""
        # By number: one that is missing by damage must not hide another.
        which = "WHERE number > (SELECT min(number) - 1 + ? FROM descriptions) ORDER BY number"
        rows = self._rows(f"SELECT hash, body FROM descriptions {which}", after)
        return [self._description(*row) for row in rows]

    def _description(self, digest: str, body: bytes) -> Description:
        place = f"the description {digest}"
        try:
            found = _decode_description(body)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None
        if found.hash != digest:
            raise StoreDamagedError(
                self._path, place=place, why=f"its bytes have the hash {found.hash}"
            )
        return found

    def buses(self) -> list[OpenBus]:
        """The buses that are open, or were when they died."""
        sql = "SELECT id, publisher, epoch, until, address, process FROM buses ORDER BY id"
        return [OpenBus(*row) for row in self._rows(sql)]

    def subscription(self, name: str) -> StoredSubscription | None:
        """The subscription of that name."""
        return next(map(_kept, self.checked(_SUBSCRIPTIONS, "WHERE name = ?", name)), None)

    def subscriptions(self) -> list[StoredSubscription]:
        """All of them, by name."""
        return list(map(_kept, self.checked(_SUBSCRIPTIONS, "ORDER BY name")))

    def lapsed(self, at: float) -> list[str]:
        """The names of subscriptions whose lease is over at a time."""
        # By the index, as few of many subscriptions have a lease.
        rest = "INDEXED BY subscriptions_by_lease WHERE lease <= ? ORDER BY name"
        return [name for name, *_ in self.checked(_SUBSCRIPTIONS, rest, at)]

    def flights(self, name: str) -> list[Flight]:
        """What is in flight for a subscription, by position."""
        which = f"WHERE name = ? AND position > {MARK} ORDER BY position"
        rows = self.checked(_FLIGHTS, which, name)
        return list(map(_flight, rows))

    def flight(self, name: str, position: int) -> Flight | None:
        """What is in flight for a subscription at a position."""
        rows = self.checked(_FLIGHTS, "WHERE name = ? AND position = ?", name, position)
        return next(map(_flight, rows), None)

    def flights_at(self, name: str, positions: Collection[int]) -> list[Flight]:
        """What is in flight for a subscription at some positions, by position."""
        which = "WHERE name = ? AND position IN (SELECT value FROM json_each(?)) ORDER BY position"
        listed = msgspec.json.encode(list(positions)).decode()
        return list(map(_flight, self.checked(_FLIGHTS, which, name, listed)))

    def under_way(self, name: str) -> list[Flight]:
        """What is in flight for a subscription and not done, by position."""
        rows = self.checked(_FLIGHTS, f"{_UNDER_WAY} ORDER BY position", name)
        return list(map(_flight, rows))

    def held_back(self) -> dict[str, int]:
        """For each subscription with something under way, the first position of that."""
        # With min() anywhere in a statement, SQLite gives the row of the minimum.
        which = "WHERE NOT done GROUP BY name HAVING min(position) NOT NULL"
        rows = self.checked(_FLIGHTS, f"INDEXED BY flights_under_way {which}")
        return {name: position for name, position, *_ in rows}

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        """The first flights of a group that nobody holds, not done and due at a time."""
        rest = f"{_UNDER_WAY} AND holder IS NULL AND due <= ? ORDER BY position LIMIT ?"
        return list(map(_flight, self.checked(_FLIGHTS, rest, name, at, limit)))

    def members(self, name: str) -> list[GroupMember]:
        """Who is in a group."""
        rows = self.checked(_MEMBERS, "WHERE name = ? ORDER BY bus", name)
        return [GroupMember(*row) for row in rows]

    def strays(self) -> list[int]:
        """The buses that are in groups and not open."""
        # A damaged row keeps no other from being found: its reader is told.
        rows, _ = _MEMBERS.sort(self.connection, "WHERE bus NOT IN (SELECT id FROM buses)")
        return sorted({bus for _, bus, _ in rows})

    def standing(self, name: str, *, at: float, limit: int) -> Standing:
        """How a group is doing at a time; of what is free, the first so many."""
        free = self.free(name, at=at, limit=limit)
        return Standing(free, self.under_way(name), self.members(name))

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        """Dead letters by number, of one subscription or all."""
        which, most = ("", -1 if limit is None else limit)
        values: tuple[Any, ...] = (after, most)
        if subscription is not None:
            which, values = "AND subscription = ?3", (after, most, subscription)
        rest = f"WHERE number > ?1 {which} ORDER BY number LIMIT ?2"
        return [self._letter(*row) for row in self.checked(_LETTERS, rest, *values)]

    def _letter(self, number: int, subscription: str, position: int, *rest: Any) -> Letter:
        body, reason, attempts, time = rest
        try:
            record = decode_record(body)
        except NotDecodableError as error:
            place = f"dead letter {number}"
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None
        return Letter(number, subscription, position, record, reason, attempts, time)

    def count_letters(self, *, subscription: str | None = None, at: int | None = None) -> int:
        """How many there are, of all or of one subscription, at a position or anywhere."""
        count = "SELECT count(*) FROM letters"
        if subscription is None:
            return int(self._one(count))
        if at is None:
            return int(self._one(f"{count} WHERE subscription = ?", subscription))
        return int(self._one(f"{count} WHERE subscription = ? AND position = ?", subscription, at))

    def adverts(self) -> list[Advert]:
        """What is advertised."""
        sql = "SELECT number, bus, what, until FROM adverts ORDER BY number"
        return [Advert(*row) for row in self._rows(sql)]

    def document(self, kind: str, name: str) -> bytes | None:
        """A document."""
        rows = self.checked(_DOCUMENTS, "WHERE kind = ? AND name = ?", kind, name)
        return rows[0][2] if rows else None

    def documents(self, kind: str) -> dict[str, bytes]:
        """All of a kind, by name."""
        rows = self.checked(_DOCUMENTS, "WHERE kind = ? ORDER BY name", kind)
        return {name: body for _, name, body in rows}


class SqlTransaction(SqlView, RoutingTransaction):
    """Changes to the state, within the transaction of the writer."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        super().__init__(connection, path)
        self._after: list[Callable[[], None]] = []

    def after(self, done: Callable[[], None]) -> None:
        """Have something done when the work has come to its end."""
        self._after.append(done)

    def finish(self) -> None:
        """The work has come to its end."""
        for done in self._after:
            done()

    def _changed(self) -> bool:
        return self.connection.changes() > 0

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
        rows = self.checked(_PUBLISHERS, "WHERE name = ?", publisher)
        epoch = 1 + (rows[0][1] if rows else self._one("SELECT epochs FROM counters"))
        _PUBLISHERS.put(self.connection, publisher, epoch)
        opened = OpenBus(self._number(), publisher, epoch, until, address, process)
        self._execute("INSERT INTO buses VALUES (?, ?, ?, ?, ?, ?)", astuple(opened))
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
        ):
            self._execute(sql, (bus,))
        # A damaged row is left as it is, and keeps no other from being free: its reader is told.
        rows, _ = _SUBSCRIPTIONS.sort(self.connection, "WHERE holder = ?", (bus,))
        for kept in map(_kept, rows):
            self._update(replace(kept, holder=None))
        rows, _ = _FLIGHTS.sort(self.connection, "WHERE holder = ?", (bus,))
        self.fly(
            [replace(flight, holder=None, token=flight.token + 1) for flight in map(_flight, rows)]
        )

    def begin_anew(self, *, skipped: int, epoch: int) -> None:
        """After a restore: nobody has it open, and publishers go on far after their last epoch."""
        for name, last in self.checked(_PUBLISHERS, ""):
            _PUBLISHERS.put(self.connection, name, max(last + skipped, epoch))
        self._execute("UPDATE counters SET epochs = max(epochs + ?, ?)", (skipped, epoch))
        for table in ("listeners", "buses", "members", "adverts"):
            self._execute(f"DELETE FROM {table}")
        flights = map(_flight, self.checked(_FLIGHTS, f"WHERE position > {MARK}"))
        self.fly([replace(flight, holder=None, token=flight.token + 1) for flight in flights])
        for kept in self.subscriptions():
            self._update(replace(kept, holder=None, token=kept.token + 1))
            # What came after the backup is not known: any of its events may have been handled.
            self.fly([Mark(0, self.newest() + 1).flight(kept.name)])
        self.route_anew(skipped=skipped, token=epoch)

    def save(self, kept: StoredSubscription) -> None:
        """Put a subscription in place of what there was under its name."""
        _SUBSCRIPTIONS.put(self.connection, *_of_kept(kept))
        self._revise(kept.name)

    def take_over(self, kept: StoredSubscription) -> int:
        """The same, under a token of its own, higher than any that a subscription ever had."""
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

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        """Move a cursor, if the token is the current one."""
        kept = self.subscription(name)
        if kept is None or kept.token != token:
            return False
        self._update(replace(kept, cursor=cursor))
        return True

    def remove(self, name: str) -> None:
        """Remove a subscription with its flights and members; its route ends here."""
        self._execute("DELETE FROM subscriptions WHERE name = ?", (name,))
        if self._changed():
            self._revise(name)
        self._execute("DELETE FROM flights WHERE name = ?", (name,))
        self._execute("DELETE FROM members WHERE name = ?", (name,))
        self.end_route(name)

    def fly(self, flights: Sequence[Flight]) -> None:
        """Put flights in place of what there was at their positions."""
        values = [value for flight in flights for value in _FLIGHTS.seal(*_of_flight(flight))]
        into = "INSERT OR REPLACE INTO flights"
        insert_rows(self.connection, into, values, width=_FLIGHTS.width)

    def claim(self, flight: Flight) -> bool:
        """Add a flight unless there is one at its position."""
        self._execute(
            "INSERT INTO flights VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (name, position) DO NOTHING",
            _FLIGHTS.seal(*_of_flight(flight)),
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
        which = f"WHERE name = ? AND position > {MARK} AND position < ? AND done"
        if self.checked(_FLIGHTS, which, name, position):  # none is done by damage only
            self._execute(f"DELETE FROM flights {which}", (name, position))

    def join(self, member: GroupMember) -> None:
        """Put a membership in place of what there was."""
        _MEMBERS.put(self.connection, *astuple(member))

    def leave(self, name: str, bus: int) -> None:
        """Remove a membership."""
        self._execute("DELETE FROM members WHERE name = ? AND bus = ?", (name, bus))

    def bury(self, letters: Sequence[Letter]) -> list[int]:
        """Keep dead letters under new numbers."""
        bodies = [encode_record(letter.record) for letter in letters]
        first = self._number(len(letters))
        numbers = list(range(first, first + len(letters)))
        values = [
            value
            for number, letter, body in zip(numbers, letters, bodies, strict=True)
            for value in _LETTERS.seal(
                number, letter.subscription, letter.position, body, *_fate(letter)
            )
        ]
        insert_rows(self.connection, "INSERT INTO letters", values, width=_LETTERS.width)
        return numbers

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        """Take dead letters out; those that were there, by number."""
        taken = []
        for number in sorted(set(numbers)):
            rows = self.checked(_LETTERS, "WHERE number = ?", number)
            taken += [self._letter(*row) for row in rows]
            self._execute("DELETE FROM letters WHERE number = ?", (number,))
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

    def give_root(self, position: int, root: Root) -> bool:
        """Let a record that could not leave its context have a root form, late."""
        found = self._rows("SELECT body FROM log WHERE position = ?", position)
        if not found:
            return False
        try:
            record = decode_record(found[0][0])
        except NotDecodableError as error:
            raise StoreDamagedError(
                self._path, place=f"position {position}", why=str(error)
            ) from None
        if record.context is None or record.root is not None:
            return False
        body = encode_record(replace(record, root=root))
        named, own = (root.name, root.version, root.hash), root.is_of(record)
        _, [number], _ = Interner(self.connection).given([named], [None if own else named], [])
        sql = "UPDATE log SET root = ?, body = ? WHERE position = ?"
        self._execute(sql, (number, body, position))
        return True

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        """Keep a document in place of what there was."""
        _DOCUMENTS.put(self.connection, kind, name, body)
        self._revise()

    def remove_document(self, kind: str, name: str) -> None:
        """Remove a document."""
        self._execute("DELETE FROM documents WHERE kind = ? AND name = ?", (kind, name))
        if self._changed():
            self._revise()

    def answer(self, client: str) -> StoredReply | None:
        """What a client of a broker was told last."""
        rows = self.checked(_ANSWERS, "WHERE client = ?", client)
        return StoredReply(*rows[0]) if rows else None

    def put_answer(self, answer: StoredReply) -> None:
        """Keep what a client is told."""
        _ANSWERS.put(self.connection, answer.client, answer.number, answer.body, answer.time + 0.0)

    def drop_answers(self, before: float) -> int:
        """Remove answers given before a time."""
        self._execute("DELETE FROM answers WHERE time < ?", (before,))
        return self.connection.changes()


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
