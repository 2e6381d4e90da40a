"""The log in the tables of a file: numbers in place of names, appending, and reading.

Each record that is read is verified by its checksum and against its row.
"""

from __future__ import annotations

import heapq
from itertools import chain, islice, repeat, takewhile
from operator import eq, ge
from typing import TYPE_CHECKING, Any

import apsw
import msgspec

from polycast.errors import NotDecodableError, NotSerialisableError, StoreDamagedError
from polycast.events import Identity, Record, decode_record
from polycast.stores.sqlite.row_format import CHECKSUMMED, fetch_one, insert_rows
from polycast.stores.values import EventType, LogPage, LogQuery, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from polycast.stores.sqlite.row_format import ChecksummedTable, Flaw
    from polycast.stores.sqlite.writer import Appending

# -- interning -------------------------------------------------------------------------------------

Type = tuple[str, int, str]
Source = tuple[str, int]
NamedRun = tuple[Type, Type | None, Source, range]
"""The type, the type of the root forms if that is another, source and sequences of a run."""
NumberedRun = tuple[int, int | None, int, range]

_TYPES, _EPOCHS = CHECKSUMMED["types"], CHECKSUMMED["epochs"]


class InternedNames:
    """The meaning of the numbers in the log; all readers of a store share it.

    A number never changes its meaning, so what was read once stays true.
    """

    def __init__(self) -> None:
        self.types: dict[int, EventType] = {}
        self.sources: dict[int, Source] = {}
        self.flaws: dict[str, Flaw] = {}  # damaged types; by place, as they are seen repeatedly

    def load(self, connection: apsw.Connection) -> None:
        """Read new numbers. Damaged rows are skipped, so records with their numbers are refused."""
        # Several threads may load at once; each update is atomic.
        new = "WHERE number > ?"
        rows, flaws = _TYPES.sort(connection, new, (max(self.types, default=0),))
        self.types.update({number: EventType(*named) for number, *named in rows})
        self.flaws.update({flaw[0]: flaw for flaw in flaws})
        rows, _ = _EPOCHS.sort(connection, new, (max(self.sources, default=0),))
        self.sources.update({number: (publisher, epoch) for number, publisher, epoch in rows})


class Interner:
    """The writer's side: finds the number of a name, or assigns a new one.

    New numbers count only once committed: then call `keep_new`, else `forget_new`.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._types: dict[Type, int] = {}
        self._sources: dict[Source, int] = {}
        self._new_types: dict[Type, int] = {}
        self._new_sources: dict[Source, int] = {}

    def known(self, runs: Sequence[NamedRun]) -> list[NumberedRun]:
        """Return runs with numbers in place of names; `KeyError` if one is not committed yet."""
        return _numbered(runs, self._types.__getitem__, self._sources.__getitem__)

    def given(self, runs: Sequence[NamedRun]) -> list[NumberedRun]:
        """Return runs with numbers in place of names, assigning new ones where needed."""
        return _numbered(runs, self.number_of_type, self.number_of_source)

    def keep_new(self) -> None:
        """Keep new numbers after a commit."""
        self._types.update(self._new_types)
        self._sources.update(self._new_sources)
        self.forget_new()

    def forget_new(self) -> None:
        """Forget new numbers after a rollback."""
        self._new_types.clear()
        self._new_sources.clear()

    def number_of_type(self, named: Type) -> int:
        """Return the number of a type, assigning a new one if needed."""
        number = self._types.get(named) or self._new_types.get(named)
        if number is None:
            which = "WHERE name = ? AND version = ? AND hash = ?"
            number = self._new_types[named] = self._number(_TYPES, which, named)
        return number

    def number_of_source(self, source: Source) -> int:
        """Return the number of a publisher's epoch, assigning a new one if needed."""
        number = self._sources.get(source) or self._new_sources.get(source)
        if number is None:
            which = "WHERE publisher = ? AND epoch = ?"
            number = self._new_sources[source] = self._number(_EPOCHS, which, source)
        return number

    def _number(self, table: ChecksummedTable, which: str, named: tuple[Any, ...]) -> int:
        rows = table.fetch(self._connection, self._connection.filename, which, named)
        if rows:
            return int(rows[0][0])
        last = fetch_one(self._connection, f"SELECT max(number) FROM {table.table}")
        number = int(last or 0) + 1
        table.put(self._connection, number, *named)
        return number


def _numbered(
    runs: Sequence[NamedRun], type_: Callable[[Type], int], source: Callable[[Source], int]
) -> list[NumberedRun]:
    return [
        (type_(kind), None if root is None else type_(root), source(publisher), sequences)
        for kind, root, publisher, sequences in runs
    ]


def rooted(connection: apsw.Connection, types: Sequence[int]) -> list[int]:
    """Return those types that occur as root forms of other types."""
    there = "SELECT 1 FROM log INDEXED BY log_by_root WHERE root"
    if fetch_one(connection, f"{there} IS NOT NULL LIMIT 1") is None:  # as without contexts
        return []
    return [number for number in types if fetch_one(connection, f"{there} = ? LIMIT 1", number)]


# -- appending -------------------------------------------------------------------------------------

# Raised by SQLite for an identity already in the log, a number over 64 bits, or no number.
_REFUSED = (apsw.ConstraintError, OverflowError, TypeError)
_INTO_LOG = "INSERT INTO log(sequence, type, root, epoch, time, body)"


class Appender:
    """Appends to the log, whose end it knows during the writer's transaction."""

    def __init__(self, connection: apsw.Connection, path: str, numbers: Interner) -> None:
        self._connection, self._path, self._numbers = connection, path, numbers
        self._newest, self._latest = 0, 0.0

    def start(self, newest: int, latest: float) -> None:
        """Begin a transaction at this end of the log."""
        self._newest, self._latest = newest, latest

    def append(self, jobs: Sequence[Appending]) -> None:
        """Append the records of several jobs, and set the outcome of each."""
        for job in jobs:
            # Another process may have appended since, and time never goes back in the log.
            if job.moment < self._latest:
                job.encode(self._latest)
            self._latest = max(self._latest, job.moment)
        try:
            numbered = [self._numbers.known(job.runs) for job in jobs]
        except KeyError:
            self._append_named(jobs)
            return
        try:
            self._insert(jobs, numbered)
        except _REFUSED:
            self._connection.execute("DELETE FROM log WHERE position > ?", (self._newest,))
            for job in jobs:
                self._append_carefully(job)

    def _append_named(self, jobs: Sequence[Appending]) -> None:
        """Append in a savepoint, as new types and publishers must be undone with the rest."""
        execute = self._connection.execute
        execute("SAVEPOINT run")
        try:
            self._insert(jobs, [self._numbers.given(job.runs) for job in jobs])
        except _REFUSED:
            execute("ROLLBACK TO run")
            self._numbers.forget_new()
            for job in jobs:
                self._append_carefully(job)
        execute("RELEASE run")

    def _insert(self, jobs: Sequence[Appending], numbered: Sequence[list[NumberedRun]]) -> None:
        """Insert all records at once: the usual case, where none is in the log yet."""
        values: list[Any] = []
        for job, runs in zip(jobs, numbered, strict=True):
            bodies, moment = iter(job.bodies), repeat(job.moment)
            for kind, root, source, sequences in runs:
                # The sequences end first, so that no body of the next run is taken.
                rows = zip(sequences, repeat(kind), repeat(root), repeat(source), moment, bodies)
                values.extend(chain.from_iterable(rows))
        if values:
            insert_rows(self._connection, _INTO_LOG, values, width=6)
        newest = self._newest
        for job in jobs:
            job.result = list(range(newest + 1, newest + 1 + job.records))
            newest += job.records
        if values and self._connection.last_insert_rowid() != newest:
            raise StoreDamagedError(
                self._path,
                place=f"position {newest}",
                why=f"SQLite put the record at {self._connection.last_insert_rowid()}",
            )
        self._newest = newest

    def _append_carefully(self, job: Appending) -> None:
        """Append record by record, skipping identities that are in the log."""
        execute, newest = self._connection.execute, self._newest
        execute("SAVEPOINT one")
        try:
            job.result = [self._append_one(job.moment, *parts) for parts in job.one_by_one()]
        except _REFUSED as error:
            job.error = NotSerialisableError(job.drafts, path="Record", why=str(error))
            execute("ROLLBACK TO one")
            self._numbers.forget_new()
            self._newest = newest
        execute("RELEASE one")

    def _append_one(
        self,
        moment: float,
        kind: Type,
        root: Type | None,
        source: Source,
        sequence: int,
        body: bytes,
    ) -> int:
        epoch = self._numbers.number_of_source(source)
        found = fetch_one(
            self._connection,
            "SELECT position FROM log WHERE epoch = ? AND sequence = ?",
            epoch,
            sequence,
        )
        if found is not None:
            return int(found)
        number = self._numbers.number_of_type(kind)
        other = None if root is None else self._numbers.number_of_type(root)
        row = (sequence, number, other, epoch, moment, body)
        self._connection.execute(f"{_INTO_LOG} VALUES (?, ?, ?, ?, ?, ?)", row)
        self._newest += 1
        return self._newest


# -- reading ---------------------------------------------------------------------------------------

_COLUMNS = "position, type, root, epoch, sequence, time, body"
_RANGE = "position >= ? AND position < ?"
OF_TYPE = f"WHERE type = ? AND {_RANGE}"
# A record that has one of the types itself is found by that.
OF_ROOT = f"WHERE root = ? AND {_RANGE} AND type NOT IN (SELECT value FROM json_each(?))"
_TOGETHER = 100  # types in one statement; more are merged here

Row = tuple[int, int, int | None, int, int, float, bytes]


def _up_to(size: int | None, rows: Iterable[Row]) -> tuple[list[Row], bool]:
    """Return the first rows, up to `size` bytes, and whether there may be more."""
    if size is None:
        return list(rows), False
    taken: list[Row] = []
    for row in rows:
        taken.append(row)
        size -= len(row[-1]) if isinstance(row[-1], bytes) else 0  # else it is damaged
        if size <= 0:
            return taken, True
    return taken, False


class LogRowReader:
    """Reads the log on any connection that is in a read transaction."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.names = InternedNames()

    def read(self, connection: apsw.Connection, query: LogQuery) -> LogPage:
        """The first records from a position on.

        What is before a damaged record is given; only a read whose first record is damaged raises.
        """
        start, limit, until = query.start, max(query.limit, 0), query.until
        newest = fetch_one(connection, "SELECT max(position) FROM log") or 0
        end = max(start, newest + 1 if until is None else min(until, newest + 1))
        try:
            if query.types is None:
                rows, upto = self._all(connection, start, end, limit, query.size)
            else:
                kinds = sorted(set(query.types))
                rows, upto = self._some(connection, start, end, limit, kinds, query.size)
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
            # Bytes that have become a text by damage are decoded before anybody can look at them.
            if limit > 1:  # give what is before it
                return self.read(connection, query._replace(limit=limit // 2))
            place = f"position {start} or after"
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None
        entries, upto = self._checked(connection, rows, upto)
        return LogPage(entries, upto, more=upto < end)

    def _all(
        self, connection: apsw.Connection, start: int, end: int, limit: int, size: int | None
    ) -> tuple[list[Row], int]:
        sql = f"SELECT {_COLUMNS} FROM log WHERE {_RANGE} ORDER BY position LIMIT ?"
        rows, is_cut = _up_to(size, connection.execute(sql, (start, end, limit)))
        limit = len(rows) if is_cut else limit
        if limit == 0:
            return [], start if max(self._oldest(connection, end), start) < end else end
        # Positions have no gaps from the oldest on.
        first = max(start, self._oldest(connection, end))
        wanted = range(first, min(end, first + limit))
        positions = [row[0] for row in rows]
        if positions == list(wanted):
            return rows, rows[-1][0] + 1 if rows else end
        good = sum(takewhile(bool, map(eq, positions, wanted)))
        if not good:
            why = "there is no record, but some after it"
            raise StoreDamagedError(self._path, place=f"position {first}", why=why)
        return rows[:good], first + good

    def _oldest(self, connection: apsw.Connection, end: int) -> int:
        return fetch_one(connection, "SELECT min(position) FROM log") or end

    def _some(
        self,
        connection: apsw.Connection,
        start: int,
        end: int,
        limit: int,
        types: list[int],
        size: int | None,
    ) -> tuple[list[Row], int]:
        searches = _searches(connection, types, start, end)
        cursors = []
        for at in range(0, len(searches), _TOGETHER):
            group = searches[at : at + _TOGETHER]
            values = [value for _, bounds in group for value in bounds]
            plan = merged_by_position([which for which, _ in group])
            cursors.append(connection.execute(plan, [*values, limit + 1]))
        one = cursors[0] if len(cursors) == 1 else islice(heapq.merge(*cursors), limit + 1)
        rows, is_cut = _up_to(size, one)
        for cursor in cursors:
            cursor.close()
        self._check_order(start, [row[0] for row in rows])
        if len(rows) <= limit and not is_cut:
            return rows, end
        del rows[limit:]
        return rows, rows[-1][0] + 1 if rows else start

    def _check_order(self, start: int, positions: list[int]) -> None:
        """Check the order: with a damaged index, a reader might go back and never end."""
        if positions and (positions[0] < start or any(map(ge, positions, positions[1:]))):
            place, why = f"position {start} or after", "the index by type is not in order"
            raise StoreDamagedError(self._path, place=place, why=why)

    def _checked(
        self, connection: apsw.Connection, rows: list[Row], upto: int
    ) -> tuple[list[Stored], int]:
        entries: list[Stored] = []
        add, names = entries.append, self.names
        types, sources = names.types, names.sources
        for position, kind, root, source, sequence, time, body in rows:
            if kind not in types or source not in sources or (root and root not in types):
                names.load(connection)
            try:
                record = decode_record(body)
                identity, named = record.identity, types[kind]
                if (
                    record.time != time
                    or identity.sequence != sequence
                    or (identity.publisher, identity.epoch) != sources[source]
                    or record.name != named.name
                    or record.version != named.version
                    or record.hash != named.hash
                    or (
                        (root is not None or record.root is not None)
                        and not names_root(record, root, types)
                    )
                ):
                    raise NotDecodableError("its row", why="it does not say what the record says")
            except (
                NotDecodableError,
                KeyError,
                TypeError,
            ) as error:  # NULL may be where none can be
                if entries:
                    return entries, position
                why = "no type or publisher has its number" if type(error) is KeyError else error
                raise StoreDamagedError(
                    self._path, place=f"position {position}", why=str(why)
                ) from None
            add(Stored(position, record))
        return entries, upto

    def types(self, connection: apsw.Connection) -> dict[int, EventType]:
        """Return the types by number; `StoreDamagedError` if one is damaged."""
        self.names.load(connection)
        for place, why in tuple(self.names.flaws.values()):
            raise StoreDamagedError(self._path, place=place, why=why)
        return dict(self.names.types)

    def position_at(self, connection: apsw.Connection, moment: float) -> int:
        """Return the first position whose time is not before a moment; times never decrease."""
        newest = fetch_one(connection, "SELECT max(position) FROM log") or 0
        low, high = self._oldest(connection, 1), newest + 1
        while low < high:
            middle = (low + high) // 2
            time = fetch_one(connection, "SELECT time FROM log WHERE position = ?", middle)
            if time is None:
                raise StoreDamagedError(
                    self._path, place=f"position {middle}", why="there is no record"
                )
            if time < moment:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, connection: apsw.Connection, identity: Identity) -> int | None:
        """Return the position of the record with an identity."""
        position: int | None = fetch_one(
            connection,
            "SELECT position FROM log WHERE sequence = ? AND epoch = "
            "(SELECT number FROM epochs WHERE publisher = ? AND epoch = ?)",
            identity.sequence,
            identity.publisher,
            identity.epoch,
        )
        return position


def _searches(
    connection: apsw.Connection, types: Sequence[int], low: int, high: int
) -> list[tuple[str, list[Any]]]:
    """Return the conditions, with their values, that each record of some types meets one of."""
    searches: list[tuple[str, list[Any]]] = [(OF_TYPE, [number, low, high]) for number in types]
    roots = rooted(connection, types)
    listed = msgspec.json.encode(types).decode() if roots else ""
    return searches + [(OF_ROOT, [number, low, high, listed]) for number in roots]


def merged_by_position(conditions: Sequence[str], columns: str = _COLUMNS) -> str:
    """Return the statement that reads by these conditions, merged in order of position."""
    # Each branch is in order by its index, so that none is sorted as a whole before the first row.
    branches = [f"SELECT {columns} FROM log {which}" for which in conditions]
    return f"{' UNION ALL '.join(branches)} ORDER BY position LIMIT ?"


def names_root(record: Record, number: int | None, types: Mapping[int, EventType]) -> bool:
    """Whether the row of a record names the type of its root form, if that is another type."""
    root = record.root
    if root is None or root.is_of(record):
        return number is None
    return number is not None and root.is_of(types[number])


def count_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int
) -> int:
    """Count the records of some types, or all, in `[low, high)`; or return an upper bound."""
    if types is None or len(types) > _TOGETHER:
        return max(high - low, 0)
    count = "SELECT count(*) FROM log"
    searches = _searches(connection, types, low, high)
    return sum(
        int(fetch_one(connection, f"{count} {which}", *values)) for which, values in searches
    )


def skip_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int, count: int
) -> int:
    """Return a position that at most `count` of the records in `[low, high)` come before."""
    if types is None or len(types) > _TOGETHER:
        return min(low + count, high)
    if not types:
        return high
    searches = _searches(connection, types, low, high)
    bounds = [value for _, values in searches for value in values]
    sql = merged_by_position([which for which, _ in searches], "position")
    position = fetch_one(connection, f"{sql} OFFSET ?", *bounds, 1, count)
    return high if position is None else int(position)
