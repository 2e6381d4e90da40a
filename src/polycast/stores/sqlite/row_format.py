"""Reading and writing rows; one statement inserts many.

A statement releases the interpreter lock while it works, and must acquire it again afterwards: one
statement per row would wait once per row.

The rows of most tables carry a checksum. SQLite has none: a bit flipped by the disk makes another
cursor, or another document, and nothing complains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from polycast.errors import NotDecodableError, StoreDamagedError
from polycast.events import Record, decode_record
from polycast.events.instances import PLAIN
from polycast.stores.contract import CHANGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw


Row = tuple[Any, ...]
Flaw = tuple[str, str]
"""The place of a damaged row, and what is wrong with it."""

_SIZES = (256, 64, 32, 16, 8, 4, 2, 1)  # few, so that every statement is prepared only once
_texts: dict[tuple[str, int, int], str] = {}


def fetch(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return all rows."""
    return connection.execute(sql, values).fetchall()


def fetch_one(connection: apsw.Connection, sql: str, *values: Any) -> Any:
    """Return the first column of the only row; None if there is no row."""
    rows = connection.execute(sql, values).fetchall()
    return rows[0][0] if rows else None


def insert_rows(
    connection: apsw.Connection, into: str, values: Sequence[Any], *, width: int
) -> None:
    """Insert rows of `width` values; `into` is the statement up to VALUES."""
    start = 0
    for size in _SIZES:
        step = size * width
        while len(values) - start >= step:
            connection.execute(_text(into, width, size), values[start : start + step])
            start += step


def _text(into: str, width: int, rows: int) -> str:
    text = _texts.get((into, width, rows))
    if text is None:
        row = f"({', '.join('?' * width)})"
        text = _texts[into, width, rows] = f"{into} VALUES {', '.join([row] * rows)}"
    return text


# -- rows with a checksum --------------------------------------------------------------------------


class ChecksummedTable:
    """A table whose rows carry a checksum of all their other columns.

    A key is part of its row: if it is damaged, the row has another name, which its checksum does
    not match, and a lookup by the old name finds nothing. SQLite's own `integrity_check` finds only
    a key that is out of order, or differs from an index. So the doctor reads all rows, and reports
    those that do not match.
    """

    def __init__(self, table: str, columns: str, *, place: str, since: int = 1) -> None:
        self.table = table
        self.since = since  # the version of the file that has it first
        self.select = f"SELECT {columns}, checksum FROM {table}"
        self.width = columns.count(",") + 2  # with the checksum
        self._put = f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * self.width)})"
        self._place = place  # a format for the name of a row, by its first columns

    def seal(self, *values: Any) -> Row:
        """Return the row of these values, with its checksum.

        They must be what SQLite gives back: 0 or 1 for a flag, no int in place of a float.
        """
        return (*values, crc32(_encode(values)))

    def put(self, connection: apsw.Connection, *values: Any) -> None:
        """Store a row, replacing the one with its key."""
        connection.execute(self._put, self.seal(*values))

    def fetch(
        self, connection: apsw.Connection, path: str, rest: str = "", values: Sequence[Any] = ()
    ) -> list[Row]:
        """Return rows without their checksums; `StoreDamagedError` if one does not match."""
        rows, flaws = self.sort(connection, rest, values)
        if flaws:
            place, why = flaws[0]
            raise StoreDamagedError(path, place=place, why=why)
        return rows

    def sort(
        self, connection: apsw.Connection, rest: str = "", values: Sequence[Any] = ()
    ) -> tuple[list[Row], list[Flaw]]:
        """Return the sound rows, and what is wrong with the others."""
        sql = f"{self.select} {rest}"
        flaws: list[Flaw] = []
        try:
            rows = fetch(connection, sql, values)
        except UnicodeDecodeError:
            rows = list(self._readable(connection.execute(sql, values), flaws))
        good = [kept for row in rows if crc32(_encode(kept := row[:-1])) == row[-1]]
        if len(good) < len(rows):
            flaws += [flaw for row in rows if (flaw := self.flaw(row))]
        return good, flaws

    def flaw(self, row: Row) -> Flaw | None:
        """Return what is wrong with a row as `select` returns it."""
        found, computed = row[-1], crc32(_encode(row[:-1]))
        if found == computed:
            return None
        why = f"its checksum is {found}, its columns give {computed}: it is damaged"
        return self._place.format(*row), why

    def _readable(self, cursor: apsw.Cursor, flaws: list[Flaw]) -> Iterator[Row]:
        """Yield all rows except those whose text is not UTF-8, which SQLite returns, too."""
        while True:
            try:
                yield next(cursor)
            except StopIteration:
                return
            except UnicodeDecodeError as error:
                flaws.append((f"a row of the table {self.table}", str(error)))


class SqlTables:
    """The tables of one file, on a connection that is in a transaction."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self.connection, self._path = connection, path
        self._execute = connection.execute

    def _one(self, sql: str, *values: Any) -> Any:
        return fetch_one(self.connection, sql, *values)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        """Return rows of a table without checksums."""
        try:
            return fetch(self.connection, sql, values)
        except UnicodeDecodeError as error:
            raise StoreDamagedError(
                self._path, place="a text of the state", why=str(error)
            ) from None

    def checked(self, table: ChecksummedTable, rest: str, *values: Any) -> list[Row]:
        """Return rows of a table with checksums, verified."""
        return table.fetch(self.connection, self._path, rest, values)

    def decoded(self, body: bytes, place: str) -> Record:
        """Decode a record; `StoreDamagedError` if it is damaged."""
        try:
            return decode_record(body)
        except NotDecodableError as error:
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None

    def newest(self) -> int:
        """Return the newest position; 0 if nothing was ever appended."""
        return self._one("SELECT max(position) FROM log") or 0

    def oldest(self) -> int:
        """Return the oldest position kept."""
        return self._one("SELECT min(position) FROM log") or 1

    def revision(self) -> int:
        """Return a number that grows whenever what routing depends on changes."""
        return int(self._one("SELECT revision FROM counters"))


class SqlChanges(SqlTables):
    """What all changes to tables share: revisions and numbers."""

    def _changed(self) -> bool:
        return self.connection.changes() > 0

    def _number(self, many: int = 1) -> int:
        """Reserve new numbers, and return the first."""
        last: int = self._one("UPDATE counters SET numbers = numbers + ? RETURNING numbers", many)
        return last - many + 1

    def _revise(self, name: str | None = None) -> None:
        """Raise the revision; `name` is the subscription that changed, if one did."""
        sql = "UPDATE counters SET revision = revision + 1 RETURNING revision"
        revision: int = self._one(sql)
        if name is not None:
            self._execute("INSERT INTO changes VALUES (?, ?)", (revision, name))
            self._execute("DELETE FROM changes WHERE revision <= ?", (revision - CHANGES,))


def _plain(value: Any) -> Any:
    """Return the plain value that SQLite stores for an object of a subclass."""
    for kind, plain in PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    raise TypeError(f"{type(value).__name__} cannot be kept in a store")


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode

CHECKSUMMED = {
    table.table: table
    for table in (
        ChecksummedTable(
            "subscriptions",
            "name, definition, start, cursor, durable, grouped, pinned, until, token, holder, "
            "lease",
            place="the subscription {0!r}",
        ),
        ChecksummedTable(
            "flights",
            "name, position, publisher, holder, token, attempts, due, done",
            place="the flight of {0!r} at position {1!r}",
        ),
        ChecksummedTable("members", "name, bus, looked", place="the member {1!r} of {0!r}"),
        ChecksummedTable(
            "letters",
            "number, subscription, position, body, reason, attempts, time",
            place="dead letter {0!r}",
        ),
        ChecksummedTable("documents", "kind, name, body", place="the document {1!r} of kind {0!r}"),
        ChecksummedTable(
            "publishers", "name, epoch", place="the last epoch of the publisher {0!r}"
        ),
        ChecksummedTable("epochs", "number, publisher, epoch", place="the epoch with number {0!r}"),
        ChecksummedTable(
            "types", "number, name, version, hash", place="the type with number {0!r}"
        ),
        ChecksummedTable(
            "routing", "one, high, token, numbers", place="how far the pipeline has come", since=2
        ),
        ChecksummedTable(
            "routes",
            "number, name, definition, start, until",
            place="the route {0!r} of {1!r}",
            since=2,
        ),
        ChecksummedTable(
            "stretches", "high, low, takers", place="the stretch from {1!r} to {0!r}", since=2
        ),
        ChecksummedTable(
            "contexts",
            "number, name, body, start, until",
            place="the version {0!r} of the context {1!r}",
            since=3,
        ),
        ChecksummedTable(
            "answers", "client, number, body, time", place="the answer to client {0!r}", since=4
        ),
    )
}
"""The tables where a damaged row would mislead."""
