"""Reading the log; each record is verified by its checksum and against its row."""

from __future__ import annotations

import heapq
from itertools import islice, takewhile
from operator import eq, ge
from typing import TYPE_CHECKING, Any

import apsw
import msgspec

from polycast.errors import NotDecodableError, StoreDamagedError
from polycast.events import decode_record
from polycast.stores.sqlite.interning import InternedNames, rooted
from polycast.stores.sqlite.row_format import fetch_one
from polycast.stores.values import LogPage, Stored

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from polycast.events import Identity, Record
    from polycast.stores.values import EventType

_ROW = "SELECT position, type, root, epoch, sequence, time, body FROM log"
_RANGE = "position >= ? AND position < ?"
_OF_TYPE = f"WHERE type = ? AND {_RANGE}"
# A record that has one of the types itself is found by that.
_OF_ROOT = f"WHERE root = ? AND {_RANGE} AND type NOT IN (SELECT value FROM json_each(?))"
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

    def read(
        self,
        connection: apsw.Connection,
        start: int,
        *,
        limit: int,
        until: int | None,
        types: Collection[int] | None,
        size: int | None = None,
    ) -> LogPage:
        """The first records from a position on.

        What is before a damaged record is given; only a read whose first record is damaged raises.
        """
        newest = fetch_one(connection, "SELECT max(position) FROM log") or 0
        end = newest + 1 if until is None else min(until, newest + 1)
        end = max(start, end)
        limit = max(limit, 0)
        try:
            if types is None:
                rows, upto = self._all(connection, start, end, limit, size)
            else:
                kinds = sorted(set(types))
                rows, upto = self._some(connection, start, end, limit, kinds, size)
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
            # Bytes that have become a text by damage are decoded before anybody can look at them.
            if limit > 1:
                half = limit // 2  # to give what is before it
                return self.read(connection, start, limit=half, until=until, types=types, size=size)
            place = f"position {start} or after"
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None
        entries, upto = self._checked(connection, rows, upto)
        return LogPage(entries, upto, more=upto < end)

    def _all(
        self, connection: apsw.Connection, start: int, end: int, limit: int, size: int | None
    ) -> tuple[list[Row], int]:
        sql = f"{_ROW} WHERE {_RANGE} ORDER BY position LIMIT ?"
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
        found = [
            connection.execute(
                plan_of_types(len(group)),
                [value for number in group for value in (number, start, end)] + [limit + 1],
            )
            for group in _groups(types)
        ]
        others = rooted(connection, types)
        own = msgspec.json.encode(types).decode() if others else ""
        found += [
            connection.execute(
                plan_of_types(0, len(group)),
                [value for number in group for value in (number, start, end, own)] + [limit + 1],
            )
            for group in _groups(others)
        ]
        merged = found[0] if len(found) == 1 else islice(heapq.merge(*found), limit + 1)
        rows, is_cut = _up_to(size, merged)
        for cursor in found:
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


def _groups(types: list[int]) -> list[list[int]]:
    return [types[at : at + _TOGETHER] for at in range(0, len(types), _TOGETHER)]


def plan_of_types(count: int, roots: int = 0) -> str:
    """Return the statement that reads `count` types by the index, merged in order of position."""
    # Each branch is a subquery, so that none is sorted as a whole before the first row.
    branches = [f"{_ROW} {_OF_TYPE}"] * count + [f"{_ROW} {_OF_ROOT}"] * roots
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
    marks = ", ".join("?" * len(types))
    sql = f"SELECT count(*) FROM log WHERE type IN ({marks}) AND {_RANGE}"
    count = int(fetch_one(connection, sql, *types, low, high))
    for number in rooted(connection, types):
        sql = f"SELECT count(*) FROM log {_OF_ROOT}"
        count += int(fetch_one(connection, sql, number, low, high, _listed(types)))
    return count


def skip_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int, count: int
) -> int:
    """Return a position that at most `count` of the records in `[low, high)` come before."""
    if types is None or len(types) > _TOGETHER:
        return min(low + count, high)
    if not types:
        return high
    others = rooted(connection, types)
    # Each branch comes in order by the index, so that they are merged and nothing is sorted.
    position = "SELECT position FROM log"
    branches = [f"{position} {_OF_TYPE}"] * len(types) + [f"{position} {_OF_ROOT}"] * len(others)
    bounds: list[Any] = [value for number in types for value in (number, low, high)]
    bounds += [value for number in others for value in (number, low, high, _listed(types))]
    sql = f"{' UNION ALL '.join(branches)} ORDER BY position LIMIT 1 OFFSET ?"
    found = fetch_one(connection, sql, *bounds, count)
    return high if found is None else int(found)


def _listed(types: Sequence[int]) -> str:
    return msgspec.json.encode(types).decode()
