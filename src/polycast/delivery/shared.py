"""One of n over several processes: a member claims an event in the store before it has it."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from polycast.delivery.claims import ClaimKeeper, tidy
from polycast.delivery.delivery import Reject
from polycast.delivery.group import Group
from polycast.stores import Flight, Member, Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.config import Settings
    from polycast.delivery.backlog import Parcel
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.inbox import Services
    from polycast.matching import Interest
    from polycast.stores import Entry, Store, Transaction, View

__all__ = ["Offer", "SharedGroup"]

Offer = tuple[Flight, "Entry", object]  # a flight that nobody holds, and who here wants it
Got = list[Offer]
MOST = 256  # claims in one transaction
SLOW, FAST = 0.02, 0.005  # seconds in which what was claimed at once should be handled


class SharedGroup(Group):
    """The members of a group in this process; the store tells them from those elsewhere.

    What is wanted is a candidate first. As many are claimed at once as are handled within a few
    milliseconds, so that whoever is idle elsewhere finds something to do.
    """

    keeper: ClaimKeeper

    def __init__(
        self,
        name: str,
        interest: Interest,
        settings: Settings,
        services: Services,
        *,
        store: Store,
        bus: Callable[[], int],
        position: Callable[[], int],
    ) -> None:
        super().__init__(name, interest, settings, services)
        self._store, self._bus, self._position = store, bus, position
        self.keeper = ClaimKeeper(name, store, services.clock, bus, self.looked)
        self.candidates: deque[tuple[Entry, object]] = deque()
        self.offers: dict[int, Offer] = {}
        self.floor = 0  # where it joined: before it, others have seen to everything
        self._refused: set[tuple[int, int]] = set()  # free, and wanted by nobody here
        self._claiming = False
        self._portion = 1  # how many for each member
        self._began = 0.0

    # -- coming in ---------------------------------------------------------------------------------

    def _keep(self, entry: Entry, verdict: object) -> None:
        self.candidates.append((entry, verdict))

    def room(self) -> int:
        """How many more candidates it takes."""
        return self.settings.queue - len(self.candidates)

    def attach(self, consumer: Consumer, settings: Settings) -> bool:
        """One more member, who may want what nobody here wanted."""
        self._refused = set()
        return super().attach(consumer, settings)

    def refuse(self, flight: Flight) -> None:
        """Nobody here wants it."""
        self._refused.add((flight.position, flight.token))

    def allowed(self, free: list[Flight], view: View) -> list[Flight]:
        """Of what is free, what is not on offer yet, not refused, and may be claimed now."""
        order = Order(self.settings.level.order, view, self.name, self._bus())
        with self.lock:
            known = {(at, offer[0].token) for at, offer in self.offers.items()} | self._refused
        new = [each for each in free if (each.position, each.token) not in known]
        return [each for each in new if order.allows(each.publisher, each)]

    def offer(self, offers: list[Offer]) -> None:
        """These are free, and wanted here."""
        with self.lock:
            self.offers.update({each[0].position: each for each in offers})

    def wake(self) -> None:
        """Claim, and go on with what was claimed."""
        super().wake()
        self.claim_soon()

    def looked(self) -> int:
        """Before this position everything wanted has been claimed, here or elsewhere."""
        first = self.candidates[0][0].position if self.candidates else self._position()
        return max(first, self.floor)

    # -- claiming ----------------------------------------------------------------------------------

    def _wanted_now(self) -> int:
        """How many to claim: for each member that is there, less what is here. The lock is held."""
        there = sum(not member.is_away() for member in self.members)
        here = len(self.backlog) + len(self.in_flight) + len(self.delayed)
        return min(there * self._portion, MOST) - here

    def claim_soon(self) -> None:
        """Claim what members have room for, unless that is under way."""
        with self.lock:
            idle = self._claiming or self.ended is not None or self.paused
            if idle or not (self.candidates or self.offers) or self._wanted_now() <= 0:
                return
            self._claiming = True
            self._adapt()
        self._store.write(self._claim).add_done_callback(self._claimed)

    def _adapt(self) -> None:
        """Claim more at once while members are fast, fewer while they are slow."""
        now = self.services.clock.monotonic()
        took = now - self._began
        if took < FAST:
            self._portion = min(self._portion * 2, MOST)
        elif took > SLOW:
            self._portion = max(1, self._portion // 2)
        self._began = now

    def _claim(self, tx: Transaction) -> tuple[Got, bool]:
        """In one transaction: take what is free, then what nobody has claimed yet."""
        bus = self._bus()
        members = tx.members(self.name)
        kept = tx.subscription(self.name)
        if kept is None or all(member.bus != bus for member in members):
            return [], False  # this bus had counted as dead; it will join again
        with self.lock:
            room = max(0, self._wanted_now())
            offers = [self.offers[at] for at in sorted(self.offers)]
            candidates = list(itertools.islice(self.candidates, MOST))
        order = Order(self.settings.level.order, tx, self.name, bus)
        got = self._take_free(tx, offers, order, bus, room)
        passed = {
            entry.position
            for entry, takers in candidates
            if entry.position < kept.cursor or not self._has_takers(takers)
        }
        for entry, verdict in candidates:
            if len(got) >= room:
                break
            if entry.position not in passed and order.allows(entry.identity.publisher, None):
                passed.add(entry.position)
                token = tx.revision() + 1
                by = entry.identity.publisher
                flight = Flight(self.name, entry.position, by, bus, token, attempts=1)
                if tx.claim(flight):
                    got.append((flight, entry, verdict))
        with self.lock:
            for flight, _, _ in offers:
                self.offers.pop(flight.position, None)
            self.candidates = deque(c for c in self.candidates if c[0].position not in passed)
            looked = self.looked()
        if all(member.bus != bus or member.looked != looked for member in members):
            tx.join(Member(self.name, bus, looked))
            tidy(tx, kept)
        return got, bool(got or passed)

    def _has_takers(self, takers: object) -> bool:
        """Whether somebody who wanted it is still here."""
        if not isinstance(takers, tuple) or self.interest.durable is not None:
            return True
        return any(taker in self.members for taker in takers)

    def _take_free(
        self, tx: Transaction, offers: list[Offer], order: Order, bus: int, room: int
    ) -> Got:
        """What others have let go of, one at a time if it may be what killed them."""
        got: Got = []
        for flight, entry, verdict in offers:
            is_free = tx.flight(self.name, flight.position) == flight
            tried = flight.attempts > 0 and any(each[0].attempts > 1 for each in got)
            if is_free and len(got) < room and not tried and order.allows(flight.publisher, flight):
                taken = replace(flight, holder=bus, attempts=flight.attempts + 1)
                tx.fly([taken])
                got.append((taken, entry, verdict))
        return got

    def _claimed(self, claiming: Future[tuple[Got, bool]]) -> None:
        got, moved = ([], False) if claiming.exception() is not None else claiming.result()
        with self.lock:
            self._claiming = False
            for flight, entry, verdict in got:
                self.keeper.claimed(flight)
                parcel = self._parcel(entry, verdict)
                parcel.count, parcel.begun = flight.attempts - 1, True
                parcel.claim = flight.token
                self.publishers.add(parcel.publisher)
                if isinstance(entry.event, Undecodable):
                    self._bury(parcel, entry.event.error)
                elif flight.attempts > self.settings.attempts:
                    self._bury(parcel, ProcessLookupError("whoever had it died each time"))
                else:
                    self.backlog.append(parcel)
            if self.behind is not None:
                self._read_on()
        self.pump_later()
        if moved:
            self.claim_soon()

    def is_blocked(self, view: View) -> bool:
        """Whether order forbids to claim any of the first candidates now."""
        with self.lock:
            first = [entry for entry, _ in itertools.islice(self.candidates, MOST)]
        order = Order(self.settings.level.order, view, self.name, self._bus())
        return not any(order.allows(entry.identity.publisher, None) for entry in first)

    def rejoin(self) -> None:
        """This bus had counted as dead: what it had claimed is free."""
        with self.lock:
            self.keeper.lost()
            self.let_go.extend(self.backlog.clear())
            self.delayed.clear()
        self.let_go.clear()

    def _unwanted(self, parcel: Parcel) -> None:
        self.keeper.pass_on(parcel, 0.0)  # members elsewhere may want it

    # -- going out ---------------------------------------------------------------------------------

    def _after_failure(self, parcel: Parcel, error: BaseException) -> None:
        level = self.settings.level
        untried = any(member not in parcel.tried for member in self._wanting(parcel))
        final = not level.reliable or parcel.count >= self.settings.attempts
        # Where order is promised it stays claimed here, and what comes after it waits.
        if untried or final or isinstance(error, Reject) or level.order != "none":
            super()._after_failure(parcel, error)
            return
        self.counts.retried += 1
        delay = self._delay(parcel, error)
        self.keeper.pass_on(parcel, self.services.clock.time() + delay)
        source: Any = self.services.source
        self.services.timers.after(delay, source.ring)

    def finish(self, *arguments: Any) -> Parcel | None:
        """One has returned; claim more if there is nothing left for it."""
        following = super().finish(*arguments)
        if following is None:
            self.claim_soon()
        return following

    def is_idle(self) -> bool:
        """Whether nothing is left that could be handled here."""
        if self.ended is not None or self.winding_down:
            return super().is_idle()
        waits = all(member.is_away() for member in self.members)
        nothing = not self.candidates and not self.offers and self.behind is None
        return super().is_idle() and not self._claiming and (waits or nothing)


class Order:
    """What order forbids to claim: what comes after something that somebody else has."""

    def __init__(self, order: str, view: View, name: str, bus: int) -> None:
        self._order = order
        others = [] if order == "none" else view.under_way(name)
        self._others = [each for each in others if each.holder != bus]
        self._publishers = {each.publisher for each in self._others}

    def allows(self, publisher: str, flight: Flight | None) -> bool:
        """Whether an event of a publisher may be claimed; or a flight that is free."""
        if not self._others:
            return True
        if flight is None:
            return self._order == "fifo" and publisher not in self._publishers
        # Of those that are free the first comes first; what somebody holds has to end before.
        return all(
            each.holder is None and each.position >= flight.position
            for each in self._others
            if self._order == "total" or each.publisher == publisher
        )
