# ruff: noqa: D102 - the contract says what each method does
"""The state of a store in the tables of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple, replace

from polycast.errors import StoreDamagedError
from polycast.events import Root, encode_record
from polycast.stores.contract import CHANGES
from polycast.stores.sqlite.event_log import Interner
from polycast.stores.sqlite.routing_state import SqlRouting, SqlRoutingChanges
from polycast.stores.sqlite.row_format import CHECKSUMMED, SqlChanges, SqlTables, insert_rows
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


# -- the catalog -----------------------------------------------------------------------------------

_DOCUMENTS, _PUBLISHERS = CHECKSUMMED["documents"], CHECKSUMMED["publishers"]
_ANSWERS = CHECKSUMMED["answers"]

# Made once: making one in two threads at the same time can end the process.
_decode_description = msgspec.json.Decoder(Description).decode


class SqlCatalog(SqlTables):
    """The store's name, descriptions, buses, advertisements and documents."""

    def identity(self) -> str:
        rows = self._rows("SELECT name FROM identity")
        if len(rows) != 1:
            raise StoreDamagedError(self._path, place="its identity", why="it has none")
        return str(rows[0][0])

    def descriptions(self, *, after: int = 0) -> list[Description]:
        # By number: one that is missing by damage must not hide another.
        which = "WHERE number > (SELECT min(number) - 1 + ? FROM descriptions) ORDER BY number"
        rows = self._rows(f"SELECT hash, body FROM descriptions {which}", after)
        return [self._description(*row) for row in rows]

    def _description(self, digest: str, body: bytes) -> Description:
        place = f"the description {digest}"
        try:
            description = _decode_description(body)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None
        if description.hash != digest:
            raise StoreDamagedError(
                self._path, place=place, why=f"its bytes have the hash {description.hash}"
            )
        return description

    def buses(self) -> list[OpenBus]:
        sql = "SELECT id, publisher, epoch, until, address, process FROM buses ORDER BY id"
        return [OpenBus(*row) for row in self._rows(sql)]

    def adverts(self) -> list[Advert]:
        sql = "SELECT number, bus, what, until FROM adverts ORDER BY number"
        return [Advert(*row) for row in self._rows(sql)]

    def document(self, kind: str, name: str) -> bytes | None:
        rows = self.checked(_DOCUMENTS, "WHERE kind = ? AND name = ?", kind, name)
        return rows[0][2] if rows else None

    def documents(self, kind: str) -> dict[str, bytes]:
        rows = self.checked(_DOCUMENTS, "WHERE kind = ? ORDER BY name", kind)
        return {name: body for _, name, body in rows}


class SqlCatalogChanges(SqlCatalog, SqlChanges):
    """Changes to them, and to the replies to clients."""

    def describe(self, description: Description) -> None:
        self._execute(
            "INSERT INTO descriptions(hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (description.hash, msgspec.json.encode(description)),
        )
        if self._changed():
            self._revise()

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        rows = self.checked(_PUBLISHERS, "WHERE name = ?", publisher)
        epoch = 1 + (rows[0][1] if rows else self._one("SELECT epochs FROM counters"))
        _PUBLISHERS.put(self.connection, publisher, epoch)
        opened = OpenBus(self._number(), publisher, epoch, until, address, process)
        self._execute("INSERT INTO buses VALUES (?, ?, ?, ?, ?, ?)", astuple(opened))
        return opened

    def _skip_epochs(self, skipped: int, epoch: int) -> None:
        """Continue every publisher's epochs at `epoch`, or `skipped` above its last."""
        for name, last in self.checked(_PUBLISHERS, ""):
            _PUBLISHERS.put(self.connection, name, max(last + skipped, epoch))
        self._execute("UPDATE counters SET epochs = max(epochs + ?, ?)", (skipped, epoch))

    def keep_bus(self, bus: int, *, until: float) -> bool:
        self._execute("UPDATE buses SET until = ? WHERE id = ?", (until, bus))
        return self._changed()

    def advertise(self, advert: Advert) -> int:
        number = self._number()
        self._execute(
            "INSERT INTO adverts VALUES (?, ?, ?, ?)",
            (number, advert.bus, advert.what, advert.until),
        )
        return number

    def withdraw(self, number: int) -> None:
        self._execute("DELETE FROM adverts WHERE number = ?", (number,))

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        _DOCUMENTS.put(self.connection, kind, name, body)
        self._revise()

    def remove_document(self, kind: str, name: str) -> None:
        self._execute("DELETE FROM documents WHERE kind = ? AND name = ?", (kind, name))
        if self._changed():
            self._revise()

    def answer(self, client: str) -> StoredReply | None:
        rows = self.checked(_ANSWERS, "WHERE client = ?", client)
        return StoredReply(*rows[0]) if rows else None

    def put_answer(self, answer: StoredReply) -> None:
        _ANSWERS.put(self.connection, answer.client, answer.number, answer.body, answer.time + 0.0)

    def drop_answers(self, before: float) -> int:
        self._execute("DELETE FROM answers WHERE time < ?", (before,))
        return self.connection.changes()


# -- subscriptions and deliveries ------------------------------------------------------------------

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


# -- all of it -------------------------------------------------------------------------------------


class SqlView(SqlCatalog, SqlSubscriptions, SqlDelivery, SqlRouting):
    """The state as one read transaction sees it."""


class SqlTransaction(
    SqlCatalogChanges, SqlSubscriptionChanges, SqlDeliveryChanges, SqlRoutingChanges, SqlView
):
    """Changes to the state, within the transaction of the writer."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        super().__init__(connection, path)
        self._after: list[Callable[[], None]] = []
        self._before = connection.total_changes()

    def after(self, done: Callable[[], None]) -> None:
        self._after.append(done)

    def finish(self) -> None:
        """Call what the work passed to `after`."""
        for done in self._after:
            done()

    @property
    def is_silent(self) -> bool:
        """Whether all it has done is to move cursors, so that nobody has to look at the store."""
        return 0 < self.moves == self.connection.total_changes() - self._before

    def remove_bus(self, bus: int) -> None:
        self._execute("DELETE FROM buses WHERE id = ?", (bus,))
        for table in ("members", "adverts"):
            self._execute(f"DELETE FROM {table} WHERE bus = ?", (bus,))
        self._release_subscriptions(bus)
        self._release_flights(bus)

    def begin_anew(self, *, skipped: int, epoch: int) -> None:
        """Prepare a restored store: nobody has it open, and all epochs are far above the last."""
        self._skip_epochs(skipped, epoch)
        for table in ("listeners", "buses", "members", "adverts"):
            self._execute(f"DELETE FROM {table}")
        self._release_flights(None)
        for kept in self.subscriptions():
            self._update(replace(kept, holder=None, token=kept.token + 1))
            # Nobody knows what was handled after the backup: it may be any event.
            self.fly([Mark(0, self.newest() + 1).flight(kept.name)])
        self.route_anew(skipped=skipped, token=epoch)

    def remove(self, name: str) -> None:
        self._execute("DELETE FROM subscriptions WHERE name = ?", (name,))
        if self._changed():
            self._revise(name)
        for table in ("flights", "members"):
            self._execute(f"DELETE FROM {table} WHERE name = ?", (name,))
        self.end_route(name)

    def give_root(self, position: int, root: Root) -> bool:
        rows = self._rows("SELECT body FROM log WHERE position = ?", position)
        if not rows:
            return False
        record = self.decoded(rows[0][0], f"position {position}")
        if record.context is None or record.root is not None:
            return False
        body = encode_record(replace(record, root=root))
        numbers, named = Interner(self.connection), (root.name, root.version, root.hash)
        number = None if root.is_of(record) else numbers.number_of_type(named)
        sql = "UPDATE log SET root = ?, body = ? WHERE position = ?"
        self._execute(sql, (number, body, position))
        return True
