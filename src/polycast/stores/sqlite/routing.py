"""What the pipeline routes for, how far it has come, and what it found out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import astuple, replace

from polycast.errors import StoreDamaged
from polycast.stores.contract import Route, Routed, Stretch
from polycast.stores.sqlite.rows import SEALED, State
from polycast.stores.stretches import following

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RoutingTransaction", "RoutingView"]

_ROUTING, _ROUTES, _STRETCHES = SEALED["routing"], SEALED["routes"], SEALED["stretches"]

# By the indexes, not by the rows: a row that has another end by damage is seen, and told.
_LASTS = "INDEXED BY routes_that_last WHERE name = ? AND until IS NULL"
_STARTS = "INDEXED BY routes_by_start WHERE start"
_ENDS = "INDEXED BY routes_by_until WHERE until"

_IN_EFFECT = """
SELECT count(*), max(number) FROM routes
WHERE start <= ?1 AND (until IS NULL OR ?1 < until)
"""

# Without checksums, as it is asked often: whose cursor is damaged gets nothing more in any case.
_AWAITED = """
SELECT min(max(routes.start, min(subscriptions.cursor, coalesce(
    (SELECT min(position) FROM flights INDEXED BY flights_under_way
        WHERE flights.name = routes.name AND NOT done), subscriptions.cursor))))
FROM routes CROSS JOIN subscriptions ON subscriptions.name = routes.name
WHERE routes.until IS NULL
"""


class RoutingView(State):
    """What the pipeline and those it routes for look at."""

    def identity(self) -> str:
        """What tells this store from any other."""
        rows = self._rows("SELECT name FROM identity")
        if len(rows) != 1:
            raise StoreDamaged(self._path, place="its identity", why="it has none")
        return str(rows[0][0])

    def routed(self) -> Routed:
        """How far the pipeline has come."""
        high, token, _ = self._routing()
        return Routed(high, token)

    def _routing(self) -> tuple[int, int, int]:
        rows = self._checked(_ROUTING, "")
        if len(rows) != 1:
            place = "how far the pipeline has come"
            raise StoreDamaged(self._path, place=place, why="there is no such row")
        _, high, token, numbers = rows[0]
        return high, token, numbers

    def route(self, name: str) -> Route | None:
        """What the pipeline routes for a subscription from now on."""
        return next((Route(*row) for row in self._checked(_ROUTES, _LASTS, name)), None)

    def routes(self, *, at: int | None = None) -> list[Route]:
        """All that the pipeline routes for, or those in effect at a position, by number."""
        if at is None:
            return [Route(*row) for row in self._checked(_ROUTES, "ORDER BY number")]
        # Those that have ended are few: they are forgotten when the pipeline has passed them.
        begun = [Route(*row) for row in self._checked(_ROUTES, f"{_STARTS} <= ?", at)]
        there = [each for each in begun if each.until is None or at < each.until]
        return sorted(there, key=lambda each: each.number)

    def in_effect(self, position: int) -> tuple[int, int]:
        """How many routes are in effect at a position, and the highest number of them."""
        # Without checksums, as it is asked for each batch: who reads the routes themselves is told.
        ((count, highest),) = self._rows(_IN_EFFECT, position)
        return count, highest or 0

    def last_turn(self, position: int) -> int:
        """The last position, up to this one, at which a route begins or ends."""
        sql = "SELECT max(start) FROM routes WHERE start <= ?"
        ended = "SELECT max(until) FROM routes WHERE until <= ?"
        return max(self._one(sql, position) or 0, self._one(ended, position) or 0)

    def turns(self, low: int, high: int) -> list[int]:
        """The positions between two, both exclusive, at which a route begins or ends."""
        begin = self._checked(_ROUTES, f"{_STARTS} > ? AND start < ?", low, high)
        end = self._checked(_ROUTES, f"{_ENDS} > ? AND until < ?", low, high)
        return sorted({row[3] for row in begin} | {row[4] for row in end})

    def stretches(self, start: int, *, limit: int) -> list[Stretch]:
        """The first stretches that end after a position."""
        rest = "WHERE high > ? ORDER BY high LIMIT ?"
        rows = self._checked(_STRETCHES, rest, start, max(limit, 0))
        found = [Stretch(low, high, takers) for high, low, takers in rows]
        for one, other in pairwise(found):
            if one.high != other.low:
                place, why = f"position {one.high}", f"the next stretch begins at {other.low}"
                raise StoreDamaged(self._path, place=place, why=why)
        return found

    def awaited(self) -> int:
        """The first position before `routed().high` of which somebody may ask who takes it."""
        high, first = self.routed().high, self._one(_AWAITED)
        return high if first is None else min(high, first)


class RoutingTransaction(RoutingView):
    """Changes to it."""

    def _put_routing(self, *values: int) -> None:
        _ROUTING.put(self._connection, 1, *values)

    def begin_route(self, name: str, definition: bytes) -> Route:
        """Route for a subscription from the end of the log on, in place of what there was."""
        self.end_route(name)
        high, token, numbers = self._routing()
        self._put_routing(high, token, numbers + 1)
        route = Route(numbers + 1, name, definition, self.newest() + 1)
        self._put_route(route)
        return route

    def _put_route(self, route: Route) -> None:
        _ROUTES.put(self._connection, *astuple(route))

    def end_route(self, name: str) -> None:
        """Route for a subscription no more from the end of the log on."""
        route, end = self.route(name), self.newest() + 1
        if route is None:
            return
        if route.start == end:  # it was never in effect
            self._execute("DELETE FROM routes WHERE number = ?", (route.number,))
        else:
            self._put_route(replace(route, until=end))

    def forget_routes(self, before: int) -> None:
        """Remove routes that ended at a position or earlier."""
        if self._checked(_ROUTES, f"{_ENDS} <= ?", before):  # none has ended by damage only
            self._execute("DELETE FROM routes WHERE until <= ?", (before,))

    def take_routing(self) -> Routed:
        """Whoever asks runs the pipeline from now on."""
        high, token, numbers = self._routing()
        self._put_routing(high, token + 1, numbers)
        return Routed(high, token + 1)

    def route_anew(self, *, skipped: int, token: int) -> None:
        """After a restore: it is a store of its own, and no token was ever given in it."""
        high, last, numbers = self._routing()
        self._put_routing(high, max(last + skipped, token), numbers)
        self._execute("UPDATE identity SET name = lower(hex(randomblob(16)))")

    def advance(self, stretches: Sequence[Stretch], *, token: int) -> bool:
        """Keep what follows `routed().high`, and move that on; False if the token is stale."""
        high, current, numbers = self._routing()
        if token != current:
            return False
        new = following(stretches, high, self.newest() + 1)
        for each in new:
            _STRETCHES.put(self._connection, each.high, each.low, each.takers)
        if new:
            self._put_routing(new[-1].high, current, numbers)
        return True

    def drop_stretches(self, before: int) -> int:
        """Remove stretches that end at a position or earlier; how many went."""
        self._execute("DELETE FROM stretches WHERE high <= ?", (before,))
        return self._connection.changes()
