# ruff: noqa: D102 - the contract says what each method does
"""What the pipeline routes for, by which contexts, how far it has come, what it found out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

from msgspec.structs import astuple, replace

from polycast.errors import StoreDamagedError
from polycast.stores.sqlite.row_format import CHECKSUMMED, SqlChanges, SqlTables
from polycast.stores.values import ContextVersion, Effect, Routed, StoredRoute, Stretch, following

_ROUTING, _STRETCHES = CHECKSUMMED["routing"], CHECKSUMMED["stretches"]

# Without checksums, as it is asked often: whose cursor is damaged gets nothing more in any case.
_AWAITED = """
SELECT min(max(routes.start, min(subscriptions.cursor, coalesce(
    (SELECT min(position) FROM flights INDEXED BY flights_under_way
        WHERE flights.name = routes.name AND NOT done), subscriptions.cursor))))
FROM routes CROSS JOIN subscriptions ON subscriptions.name = routes.name
WHERE routes.until IS NULL
"""


class SqlRouting(SqlTables):
    """Routes, versions of contexts, and stretches, as one read transaction sees them."""

    def routed(self) -> Routed:
        high, token, _ = self._routing()
        return Routed(high, token)

    def _routing(self) -> tuple[int, int, int]:
        rows = self.checked(_ROUTING, "")
        if len(rows) != 1:
            place = "how far the pipeline has come"
            raise StoreDamagedError(self._path, place=place, why="there is no such row")
        _, high, token, numbers = rows[0]
        return high, token, numbers

    def route(self, name: str) -> StoredRoute | None:
        return ROUTES.lasting(self, name)

    def routes(self, *, at: int | None = None) -> list[StoredRoute]:
        return ROUTES.all(self, at=at)

    def context(self, name: str) -> ContextVersion | None:
        return CONTEXTS.lasting(self, name)

    def contexts(self, *, at: int | None = None) -> list[ContextVersion]:
        return CONTEXTS.all(self, at=at)

    def in_effect(self, position: int) -> Effect:
        ((routes, one, contexts, other),) = self._rows(IN_EFFECT, position)
        return Effect(routes, max(one or 0, other or 0), contexts)

    def last_turn(self, position: int) -> int:
        return int(self._one(LAST_TURN, position))

    def turns(self, low: int, high: int) -> list[int]:
        return sorted(ROUTES.turns(self, low, high) | CONTEXTS.turns(self, low, high))

    def stretches(self, start: int, *, limit: int) -> list[Stretch]:
        rest = "WHERE high > ? ORDER BY high LIMIT ?"
        rows = self.checked(_STRETCHES, rest, start, max(limit, 0))
        stretches = [Stretch(low, high, takers) for high, low, takers in rows]
        for one, other in pairwise(stretches):
            if one.high != other.low:
                place, why = f"position {one.high}", f"the next stretch begins at {other.low}"
                raise StoreDamagedError(self._path, place=place, why=why)
        return stretches

    def awaited(self) -> int:
        high, first = self.routed().high, self._one(_AWAITED)
        return high if first is None else min(high, first)


class SqlRoutingChanges(SqlRouting, SqlChanges):
    """Changes to them."""

    def _put_routing(self, *values: int) -> None:
        _ROUTING.put(self.connection, 1, *values)

    def _next_number(self) -> int:
        """That of a new route or context. The first number after all that were ever given."""
        high, token, numbers = self._routing()
        self._put_routing(high, token, numbers + 1)
        return numbers + 1

    def begin_route(self, name: str, definition: bytes) -> StoredRoute:
        self.end_route(name)
        route = StoredRoute(self._next_number(), name, definition, self.newest() + 1)
        return ROUTES.put(self, route)

    def end_route(self, name: str) -> None:
        ROUTES.end(self, name, self.newest() + 1)

    def forget_routes(self, before: int) -> None:
        ROUTES.forget(self, before)

    def put_context(self, name: str, body: bytes) -> ContextVersion:
        now = self.context(name)
        if now is not None and now.body == body:
            return now
        end = self.newest() + 1
        CONTEXTS.end(self, name, end)
        self._revise()
        return CONTEXTS.put(self, ContextVersion(self._next_number(), name, body, end))

    def end_context(self, name: str) -> None:
        if CONTEXTS.end(self, name, self.newest() + 1):
            self._revise()

    def forget_contexts(self, before: int) -> None:
        CONTEXTS.forget(self, before)

    def take_routing(self) -> Routed:
        high, token, numbers = self._routing()
        self._put_routing(high, token + 1, numbers)
        return Routed(high, token + 1)

    def route_anew(self, *, skipped: int, token: int) -> None:
        """After a restore: it is a store of its own, and no token was ever given in it."""
        high, last, numbers = self._routing()
        self._put_routing(high, max(last + skipped, token), numbers)
        self._execute("UPDATE identity SET name = lower(hex(randomblob(16)))")

    def advance(self, stretches: Sequence[Stretch], *, token: int) -> bool:
        high, current, numbers = self._routing()
        if token != current:
            return False
        new = following(stretches, high, self.newest() + 1)
        for stretch in new:
            _STRETCHES.put(self.connection, stretch.high, stretch.low, stretch.takers)
        if new:
            self._put_routing(new[-1].high, current, numbers)
        return True

    def drop_stretches(self, before: int) -> int:
        self._execute("DELETE FROM stretches WHERE high <= ?", (before,))
        return self.connection.changes()


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
