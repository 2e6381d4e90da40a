"""That a bus lives, told to the store, and who else does not any more."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from polycast.errors import BrokerError, StoreFailed
from polycast.stores.claiming import tidy
from polycast.stores.processes import has_ended, here
from polycast.text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.delivery import Timer, Timers
    from polycast.stores import OpenBus, Store, Transaction

__all__ = ["Presence", "bury_dead", "has_died"]

BEATS = 5  # how often it says so, within the time after which it counts as dead
_log = log_of("polycast")


class Presence:
    """One opening of a bus. What a dead one held is free for others."""

    def __init__(self, store: Store, publisher: str, clock: Clock, *, alive_for: float) -> None:
        self._store, self._clock, self._publisher = store, clock, publisher
        self._alive_for = alive_for
        self._timers: Timers | None = None
        self._timer: Timer | None = None
        self._closed = False
        self.revived: Callable[[], None] = lambda: None  # called when it had counted as dead
        self.bus: OpenBus = store.write(self._open).result()

    def _open(self, tx: Transaction) -> OpenBus:
        self._tend(tx)
        return tx.open_bus(
            self._publisher, until=self._until(), address=here(), process=os.getpid()
        )

    def _until(self) -> float:
        return self._clock.time() + self._alive_for

    def keep(self, timers: Timers) -> None:
        """Go on telling it."""
        self._timers = timers
        self._timer = timers.after(self._alive_for / BEATS, self._beat)

    def _beat(self) -> None:
        if not self._closed and self._store.failure is None:
            tell = partial(self._tell, until=self._until())
            self._store.write(tell).add_done_callback(self._told)

    def _tell(self, tx: Transaction, *, until: float) -> bool:
        known = tx.keep_bus(self.bus.id, until=until)
        if not known:
            again = tx.open_bus(self._publisher, until=until, address=here(), process=os.getpid())
            tx.after(lambda: self._is_again(again))
        self._tend(tx)
        return known

    def _is_again(self, bus: OpenBus) -> None:
        self.bus = bus

    def _told(self, telling: Future[bool]) -> None:
        if telling.exception() is None and not telling.result():
            _log.warning("this bus had counted as dead: it was still for too long")
            self.revived()
        if not self._closed and self._timers is not None:
            self._timer = self._timers.after(self._alive_for / BEATS, self._beat)

    def _tend(self, tx: Transaction) -> None:
        if not self._store.is_tended:
            mine = getattr(self, "bus", None)
            bury_dead(tx, self._clock.time(), mine=None if mine is None else mine.id)

    def close(self) -> None:
        """Say goodbye."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._store.failure is None and self._store.is_up:
            with suppress(BrokerError, StoreFailed):  # it is buried later
                self._store.write(lambda tx: tx.remove_bus(self.bus.id)).result()


def bury_dead(tx: Transaction, now: float, *, mine: int | None) -> None:
    """Free what the dead held; end what has outlived its lease or its last member."""
    dead = [
        each.id for each in tx.buses() if each.id != mine and (each.until <= now or has_died(each))
    ]
    dead += tx.strays()  # they were buried, and joined a group before they knew
    for bus in dead:
        tx.remove_bus(bus)
    for name in tx.lapsed(now):
        tx.remove(name)
    if dead:
        for kept in tx.subscriptions():
            if kept.group:
                tidy(tx, kept)


def has_died(bus: OpenBus) -> bool:
    """Whether its process is certainly gone; one that cannot be seen from here may live."""
    return has_ended(bus.process, bus.address)
