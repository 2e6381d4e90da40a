"""The buses and adverts of a store, listed once for a transaction, however many steps ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.stores import OpenBus, View

__all__ = ["Register"]


class Register:
    """What a transaction of one client sees of them, its own steps included."""

    def __init__(self) -> None:
        self._buses: dict[int, str] | None = None
        self._publishers: set[str] = set()
        self._adverts: dict[int, int] | None = None

    def begin(self) -> None:
        """Another transaction begins."""
        self._buses = self._adverts = None

    def buses(self, view: View) -> dict[int, str]:
        """The publishers of the open buses, by the number of the bus."""
        if self._buses is None:
            self._buses = {each.id: each.publisher for each in view.buses()}
            self._publishers = set(self._buses.values())
        return self._buses

    def has_publisher(self, view: View, publisher: str) -> bool:
        """Whether there is, or just was, a bus of that publisher."""
        self.buses(view)
        return publisher in self._publishers

    def opened(self, view: View, bus: OpenBus) -> None:
        """One more."""
        self.buses(view)[bus.id] = bus.publisher
        self._publishers.add(bus.publisher)

    def removed(self, view: View, bus: int) -> None:
        """One less."""
        self.buses(view).pop(bus, None)

    def adverts(self, view: View) -> dict[int, int]:
        """The buses that have adverts, by the number of the advert."""
        if self._adverts is None:
            self._adverts = {each.number: each.bus for each in view.adverts()}
        return self._adverts

    def advertised(self, view: View, number: int, bus: int) -> None:
        """One more."""
        self.adverts(view)[number] = bus

    def withdrawn(self, view: View, number: int) -> None:
        """One less."""
        self.adverts(view).pop(number, None)
