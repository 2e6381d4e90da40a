"""The heartbeat of a bus over a store, and the detection of buses that have died."""

from __future__ import annotations

import functools
import itertools
import math
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from polycast.errors import BrokerError, StoreDamagedError, StoreFailedError
from polycast.matching import Definition
from polycast.plain_text import log_of
from polycast.stores import MARK, Mark, OpenBus, Store, StoredSubscription, Transaction, View
from polycast.stores.claims import tidy
from polycast.stores.liveness import STEP, Countdown, has_ended, signed, term_of, wall_offset

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.delivery import Timer, Timers

BEATS = 5  # how often it says so, within the time after which it counts as dead
_log = log_of("polycast")


class Heartbeat:
    """Tells the store that a bus lives, from its opening on. What a dead one held is free."""

    def __init__(
        self,
        store: Store,
        publisher: str,
        clock: Clock,
        timers: Timers,
        *,
        heartbeat_timeout: float,
        revived: Callable[[], None] = lambda: None,
        clock_stepped: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._clock, self._publisher = store, clock, publisher
        self._heartbeat_timeout = heartbeat_timeout
        self._signs = itertools.count()
        self._offset = wall_offset(clock)
        self.detector = FailureDetector(clock)
        self._timers = timers
        self._timer: Timer | None = None
        self._closed = False
        self._revived = revived  # called when it had counted as dead
        self._clock_stepped = clock_stepped  # called when the wall clock was set
        self.bus: OpenBus = store.write(self._open).result()

    def _open(self, tx: Transaction) -> OpenBus:
        self._tend(tx)
        return self._opened(tx, self._until())

    def _opened(self, tx: Transaction, until: float) -> OpenBus:
        address = signed(self._heartbeat_timeout)
        return tx.open_bus(self._publisher, until=until, address=address, process=os.getpid())

    def _until(self) -> float:
        """A sign of life that differs from those before it, even if the clock was set back."""
        return self._clock.time() + self._heartbeat_timeout + next(self._signs) % 1_000 * 1e-6

    def start(self) -> None:
        """Go on telling it."""
        self._timer = self._timers.after(self._heartbeat_timeout / BEATS, self._beat)

    def _beat(self) -> None:
        if not self._closed and self._store.failure is None:
            self.look_at_clock()
            tell = partial(self._tell, until=self._until())
            self._store.write(tell).add_done_callback(self._told)

    def _tell(self, tx: Transaction, *, until: float) -> bool:
        known = tx.keep_bus(self.bus.id, until=until)
        if not known:
            again = self._opened(tx, until)
            tx.after(lambda: self._is_again(again))
        self._tend(tx)
        return known

    def look_at_clock(self) -> None:
        """See whether somebody has set the wall clock: what is kept by it has to follow."""
        now = wall_offset(self._clock)
        if abs(now - self._offset) >= STEP:  # smaller ones add up to one that counts
            self._offset = now
            self._clock_stepped()

    def _is_again(self, bus: OpenBus) -> None:
        self.bus = bus

    def _told(self, telling: Future[bool]) -> None:
        if telling.exception() is None and not telling.result():
            _log.warning("this bus had counted as dead: it was still for too long")
            self._revived()
        if not self._closed:
            self.start()

    def _tend(self, tx: Transaction) -> None:
        if not self._store.is_tended:
            mine = getattr(self, "bus", None)
            self.detector.bury_dead(tx, mine=None if mine is None else mine.id)

    def close(self) -> None:
        """Say goodbye."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._store.failure is None and self._store.is_up:
            with suppress(BrokerError, StoreFailedError):  # it is buried later
                self._store.write(lambda tx: tx.remove_bus(self.bus.id)).result()


class FailureDetector:
    """Which buses live, and which leases are over, as one process sees it.

    No clocks of two processes are compared, and no wall clock is believed while this one goes on. A
    bus is dead when its process has ended, or when it has given no other sign of life for as long
    as it said, watched from here. A lease is counted down from when it was first seen here; who has
    looked before knows that what is new was given just now.
    """

    def __init__(self, clock: Clock) -> None:
        self._signs, self._leases = Countdown(clock), Countdown(clock)
        self._has_looked = False

    def bury_dead(self, tx: Transaction, *, mine: int | None) -> None:
        """Free what the dead held; end what has outlived its lease or its last member."""
        buses = tx.buses()
        dead = [bus.id for bus in buses if self._is_silent(bus) and bus.id != mine]
        self._signs.keep([bus.id for bus in buses])
        with suppress(StoreDamagedError):  # the same
            _bound(tx, {bus.id for bus in buses if bus.id in dead and has_died(bus)})
        strays = tx.strays()  # they were buried, and joined a group before they knew
        for number in [*dead, *strays]:
            tx.remove_bus(number)
        with suppress(StoreDamagedError):  # whoever attaches to it is told, and all others live on
            self._end_lapsed(tx, {bus.id for bus in buses} - set(dead))
        if dead or strays:
            for kept in tx.subscriptions():
                if kept.group:
                    tidy(tx, kept)

    def _is_silent(self, bus: OpenBus) -> bool:
        return self._signs.since(bus.id, bus.until) >= term_of(bus.address) or has_died(bus)

    def _end_lapsed(self, tx: Transaction, living: set[int]) -> None:
        names = tx.lapsed(math.inf)  # all that have a lease
        for name in names:
            kept = tx.subscription(name)
            # Who is attached counts by himself, and ends it himself.
            if kept and self._left(kept) <= 0 and kept.holder not in living:
                tx.remove(name)
        self._leases.keep(names)
        self._has_looked = True

    def see(self, kept: StoredSubscription) -> None:
        """Begin to count down its lease, if it has another one than before."""
        self._left(kept)

    def moved(self, kept: StoredSubscription) -> None:
        """Its lease is the same, by a wall clock that was set."""
        if kept.lease is not None:
            self._leases.moved(kept.name, kept.lease)

    def is_over(self, view: View, kept: StoredSubscription, *, mine: int) -> bool:
        """Whether its lease has run out; that of one attached to another bus is for that to end."""
        if self._left(kept) > 0:
            return False
        return kept.holder == mine or all(bus.id != kept.holder for bus in view.buses())

    def _left(self, kept: StoredSubscription) -> float:
        if kept.lease is None:
            return math.inf
        term = _term_of(kept.definition)
        return self._leases.left(kept.name, kept.lease, term=term, is_new=self._has_looked)


def _bound(tx: Transaction, gone: set[int]) -> None:
    """What is published from now on was begun by nobody whose process has ended."""
    end = tx.newest() + 1 if gone else 0
    for kept in tx.subscriptions() if gone else ():
        mark = Mark.among(tx.flights_at(kept.name, [MARK])) if kept.holder in gone else Mark()
        if mark.reach > end:
            tx.fly([replace(mark, reach=end).flight(kept.name)])


@functools.lru_cache(maxsize=1_000)
def _term_of(definition: bytes) -> float | None:
    """For how long a subscription was given; None if that cannot be read here."""
    try:
        return Definition.decoded(definition).lease
    except msgspec.MsgspecError:  # whoever attaches to it is told; all others live on
        return None


def has_died(bus: OpenBus) -> bool:
    """Whether its process is certainly gone; one that cannot be seen from here may live."""
    return has_ended(bus.process, bus.address)
