"""What the buses over one store are going to publish, by their own word."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from polycast.config import Clock, seconds
from polycast.errors.failures import STORE_FAILURES
from polycast.stores import Advert, Store, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from polycast.delivery import Timer, Timers


class Advertisement:
    """A publisher's word that it is going to publish a type; it ends with its lease."""

    def __init__(self, advertisements: Advertisements, what: str) -> None:
        self._advertisements, self.what = advertisements, what
        self.timer: Timer | None = None
        self.number = 0  # by which a store knows it

    def renew(self, lease: float | timedelta) -> None:
        """End so many seconds from now."""
        self._advertisements.renew(self, lease)

    def cancel(self) -> None:
        """End now."""
        self._advertisements.cancel(self)


class Advertisements:
    """The advertisements of one bus; all buses over its store can read them."""

    def __init__(
        self,
        timers: Timers,
        clock: Clock,
        *,
        check_free: Callable[[str], None],
        store: Store | None = None,
        bus: Callable[[], int] = lambda: 0,
    ) -> None:
        self._timers, self._clock, self._check_free = timers, clock, check_free
        self._store, self._bus = store, bus
        self._current: set[Advertisement] = set()

    def announce(self, what: str, lease: float | timedelta | None) -> Advertisement:
        """Register an advertisement, for as long as its lease says."""
        if lease is not None:
            seconds("lease", lease)
        advertisement = Advertisement(self, what)
        self._current.add(advertisement)
        self._keep(advertisement, None)
        if lease is not None:
            advertisement.renew(lease)
        return advertisement

    def renew(self, advertisement: Advertisement, lease: float | timedelta) -> None:
        """Let it end so many seconds from now, even if this process has died by then."""
        self._check_free("renew()")
        wait = seconds("lease", lease)
        if advertisement.timer is not None:
            advertisement.timer.cancel()
        advertisement.timer = self._timers.after(wait, advertisement.cancel)
        self._keep(advertisement, self._clock.time() + wait)

    def _keep(self, advertisement: Advertisement, until: float | None) -> None:
        """Keep it in the store, in place of what was kept of it before."""
        if self._store is None:
            return
        advert = Advert(0, self._bus(), advertisement.what, until)
        before = advertisement.number

        def save(tx: Transaction) -> int:
            if before:
                tx.withdraw(before)
            return tx.advertise(advert)

        advertisement.number = self._store.write(save).result()

    def cancel(self, advertisement: Advertisement) -> None:
        """Take an advertisement back."""
        self._check_free("cancel()")
        self._current.discard(advertisement)
        if self._store is not None and self._store.failure is None:
            self._store.write(lambda tx: tx.withdraw(advertisement.number))

    def names(self) -> list[str]:
        """Return what any bus over the store advertises; of this bus, if it cannot be asked.

        Each bus takes back what has come to its end, and what a dead one has said goes with it.
        """
        if self._store is not None and self._store.is_up and self._store.trouble is None:
            with suppress(*STORE_FAILURES), self._store.view() as view:
                return sorted(advert.what for advert in view.adverts())
        return sorted(advertisement.what for advertisement in list(self._current))

    def close(self) -> None:
        """Take all advertisements of this bus back."""
        for advertisement in list(self._current):
            advertisement.cancel()
