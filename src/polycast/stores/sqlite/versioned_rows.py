"""Rows in effect from one position of the log to another: routes and contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import astuple, replace

from polycast.stores.sqlite.row_format import CHECKSUMMED
from polycast.stores.values import ContextVersion, StoredRoute

if TYPE_CHECKING:
    from polycast.stores.sqlite.row_format import SqlTables

__all__ = ["CONTEXTS", "IN_EFFECT", "LAST_TURN", "ROUTES", "Versions"]

V = TypeVar("V", StoredRoute, ContextVersion)


class Versions(Generic[V]):
    """A table with number, name, body, start and until.

    It is read by its indexes, not by its rows, so a row whose end was changed by damage is found
    and reported.
    """

    def __init__(self, table: str, kind: type[V]) -> None:
        self._table = CHECKSUMMED[table]
        self._kind: type[V] = kind
        self._lasts = f"INDEXED BY {table}_that_last WHERE name = ? AND until IS NULL"
        self._starts = f"INDEXED BY {table}_by_start WHERE start"
        self._ends = f"INDEXED BY {table}_by_until WHERE until"

    def _read(self, state: SqlTables, rest: str, *values: Any) -> list[V]:
        return [self._kind(*row) for row in state.checked(self._table, rest, *values)]

    def lasting(self, state: SqlTables, name: str) -> V | None:
        """Return the version of a name that is in effect from now on."""
        return next(iter(self._read(state, self._lasts, name)), None)

    def all(self, state: SqlTables, *, at: int | None) -> list[V]:
        """List all versions, or those in effect at a position, by number."""
        if at is None:
            return self._read(state, "ORDER BY number")
        # Few have ended: they are removed when nobody needs them any more.
        begun = self._read(state, f"{self._starts} <= ?", at)
        there = [version for version in begun if version.until is None or at < version.until]
        return sorted(there, key=lambda version: version.number)

    def turns(self, state: SqlTables, low: int, high: int) -> set[int]:
        """Return the positions between two, both exclusive, where a version begins or ends."""
        begin = self._read(state, f"{self._starts} > ? AND start < ?", low, high)
        end = self._read(state, f"{self._ends} > ? AND until < ?", low, high)
        ends = {version.until for version in end if version.until is not None}
        return {version.start for version in begin} | ends

    def put(self, state: SqlTables, version: V) -> V:
        """Store a version, replacing the one of its number."""
        self._table.put(state.connection, *astuple(version))
        return version

    def end(self, state: SqlTables, name: str, end: int) -> bool:
        """End the current version of a name at the end of the log; return whether there was one."""
        version = self.lasting(state, name)
        if version is None:
            return False
        if version.start == end:  # it was never in effect
            sql = f"DELETE FROM {self._table.table} WHERE number = ?"
            state.connection.execute(sql, (version.number,))
        else:
            self.put(state, replace(version, until=end))
        return True

    def forget(self, state: SqlTables, before: int) -> None:
        """Remove versions that ended at a position or earlier."""
        if self._read(state, f"{self._ends} <= ?", before):  # checks that damage has not ended one
            sql = f"DELETE FROM {self._table.table} WHERE until <= ?"
            state.connection.execute(sql, (before,))


ROUTES = Versions("routes", StoredRoute)
CONTEXTS = Versions("contexts", ContextVersion)

_THERE = "WHERE start <= ?1 AND (until IS NULL OR ?1 < until)"

# Without checksums, as it runs for every batch; reading the rows themselves finds damage.
IN_EFFECT = f"""
SELECT * FROM (SELECT count(*), max(number) FROM routes {_THERE})
CROSS JOIN (SELECT count(*), max(number) FROM contexts {_THERE})
"""
LAST_TURN = """
SELECT max(coalesce((SELECT max(start) FROM routes WHERE start <= ?1), 0),
    coalesce((SELECT max(until) FROM routes WHERE until <= ?1), 0),
    coalesce((SELECT max(start) FROM contexts WHERE start <= ?1), 0),
    coalesce((SELECT max(until) FROM contexts WHERE until <= ?1), 0))
"""
