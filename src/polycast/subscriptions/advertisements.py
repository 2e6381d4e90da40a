"""What is going to be published, as the buses over one store tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.stores import Advert

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.stores import Store, Transaction
    from polycast.subscriptions.subscription_registry import Advertisement

__all__ = ["StoredAdverts"]


class StoredAdverts:
    """The advertisements of one bus, kept in its store."""

    def __init__(self, store: Store, bus: Callable[[], int]) -> None:
        self._store, self._bus = store, bus

    def put(self, advertisement: Advertisement, *, until: float | None = None) -> None:
        """Keep it, in place of what was kept of it; it ends at a time even if this process dies."""
        advert = Advert(0, self._bus(), advertisement.what, until)
        before = advertisement.number

        def keep(tx: Transaction) -> int:
            if before:
                tx.withdraw(before)
            return tx.advertise(advert)

        advertisement.number = self._store.write(keep).result()

    def remove(self, advertisement: Advertisement) -> None:
        """Keep it no more."""
        if self._store.failure is None:
            self._store.write(lambda tx: tx.withdraw(advertisement.number))

    def read(self) -> list[str]:
        """What any bus over the store is going to publish.

        Each bus takes back what has come to its end, and what a dead one has said goes with it.
        """
        with self._store.view() as view:
            return sorted(advert.what for advert in view.adverts())
