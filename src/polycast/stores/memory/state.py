# ruff: noqa: D102 - the contract says what each method does
"""The state of a store in memory: its tables, and the changes that concern several of them."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.stores.memory.catalog_tables import CatalogTables
from polycast.stores.memory.delivery_tables import DeliveryTables, SubscriptionTables
from polycast.stores.memory.routing_tables import RoutingTables
from polycast.stores.values import Stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.events import Record, Root

__all__ = ["MemoryState"]


class MemoryState(CatalogTables, SubscriptionTables, DeliveryTables, RoutingTables):
    """All tables; `name` registers the types of a record in the log."""

    def __init__(self, log: list[Stored], name: Callable[[Record], None]) -> None:
        super().__init__(log)
        self._name = name
        self._after: list[Callable[[], None]] = []
        self._amended: list[tuple[int, Stored]] = []  # records as they were before this work

    def awaited(self) -> int:
        held_back, awaited = self.held_back(), [self._routed.high]
        for name, kept in self._subscriptions.items():
            route = self.route(name)
            if route is not None:
                needed = min(kept.cursor, held_back.get(name, kept.cursor))
                awaited.append(max(needed, route.start))
        return min(awaited)

    def remove_bus(self, bus: int) -> None:
        self._buses.pop(bus, None)
        self._members = {key: row for key, row in self._members.items() if row.bus != bus}
        self._adverts = {key: row for key, row in self._adverts.items() if row.bus != bus}
        for name, kept in self._subscriptions.items():
            if kept.holder == bus:
                self._subscriptions[name] = replace(kept, holder=None)
        for key, flight in self._flights.items():
            if flight.holder == bus:
                self._flights[key] = replace(flight, holder=None, token=flight.token + 1)

    def remove(self, name: str) -> None:
        if self._subscriptions.pop(name, None) is not None:
            self._change(name)
        self._flights = {key: row for key, row in self._flights.items() if key[0] != name}
        self._members = {key: row for key, row in self._members.items() if key[0] != name}
        self.end_route(name)

    def give_root(self, position: int, root: Root) -> bool:
        at = bisect_left(self._log, position, key=attrgetter("position"))
        stored = self._log[at] if at < len(self._log) else None
        if stored is None or stored.position != position:
            return False
        record = stored.record
        if record.context is None or record.root is not None:
            return False
        amended = replace(record, root=root)
        self._amended = [*self._amended, (at, stored)]
        self._log[at] = Stored(position, amended)
        self._name(amended)
        return True

    def undo_roots(self) -> None:
        """Restore the records that failed work gave a root form to."""
        for at, before in reversed(self._amended):
            self._log[at] = before

    def after(self, done: Callable[[], None]) -> None:
        self._after = [*self._after, done]

    def finish(self) -> None:
        """Call what the work passed to `after`."""
        callbacks, self._after, self._amended = self._after, [], []
        for callback in callbacks:
            callback()
