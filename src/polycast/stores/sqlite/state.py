# ruff: noqa: D102 - the contract says what each method does
"""The state of a store in its file, and the changes that concern several of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.events import encode_record
from polycast.stores.sqlite.catalog_state import SqlCatalog, SqlCatalogChanges
from polycast.stores.sqlite.delivery_state import (
    SqlDelivery,
    SqlDeliveryChanges,
    SqlSubscriptionChanges,
    SqlSubscriptions,
)
from polycast.stores.sqlite.interning import Interner
from polycast.stores.sqlite.routing_state import SqlRouting, SqlRoutingChanges
from polycast.stores.values import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from polycast.events import Root


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
