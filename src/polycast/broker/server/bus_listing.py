"""The buses and adverts of a store, listed once per transaction, however many steps ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.stores import OpenBus, View

__all__ = ["BusListing"]


class BusListing:
    """What a transaction of one client sees, its own steps included."""

    def __init__(self) -> None:
        self._buses: dict[int, str] | None = None
        self._publishers: set[str] = set()
        self._adverts: dict[int, int] | None = None

    def begin(self) -> None:
        """Begin a transaction."""
        self._buses = self._adverts = None

    def buses(self, view: View) -> dict[int, str]:
        """The publishers of open buses, by bus."""
        if self._buses is None:
            self._buses = {bus.id: bus.publisher for bus in view.buses()}
            self._publishers = set(self._buses.values())
        return self._buses

    def has_publisher(self, view: View, publisher: str) -> bool:
        """Whether a bus of a publisher is open, or was removed in this transaction."""
        self.buses(view)
        return publisher in self._publishers

    def opened(self, view: View, bus: OpenBus) -> None:
        """Add a bus."""
        self.buses(view)[bus.id] = bus.publisher
        self._publishers.add(bus.publisher)

    def removed(self, view: View, bus: int) -> None:
        """Remove a bus."""
        self.buses(view).pop(bus, None)

    def adverts(self, view: View) -> dict[int, int]:
        """The buses of adverts, by advert."""
        if self._adverts is None:
            self._adverts = {advert.number: advert.bus for advert in view.adverts()}
        return self._adverts

    def advertised(self, view: View, number: int, bus: int) -> None:
        """Add an advert."""
        self.adverts(view)[number] = bus

    def withdrawn(self, view: View, number: int) -> None:
        """Remove an advert."""
        self.adverts(view).pop(number, None)
