"""One of n over several processes: a member claims an event in the store before it has it."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.delivery.cursors import letter_of
from polycast.delivery.delivery import Nack, Reject
from polycast.delivery.group_claims import ClaimKeeper
from polycast.delivery.groups import Group
from polycast.errors import StoreError
from polycast.plain_text import log_of
from polycast.stores import Flight, GroupMember, Undecodable
from polycast.stores.claims import (
    Candidate,
    ClaimOrder,
    ClaimRequest,
    ClaimResult,
    StoredProcedure,
    take_claims,
    tidy,
)
from polycast.stores.deadlines import Countdown

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from concurrent.futures import Future

    from polycast.config import Settings
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.inbox import Services
    from polycast.delivery.queue import Parcel
    from polycast.matching import Interest
    from polycast.stores import Entry, Standing, Store, Transaction

__all__ = ["Offer", "SharedGroup"]

Offer = tuple[Flight, "Entry", object]  # a flight that nobody holds, and who here wants it
Got = list[Offer]
_log = log_of("polycast")
MOST = 256  # claims in one transaction
PORTION = 0.01  # seconds in which what was claimed at once should be handled
LONGEST = 0.05  # the same where claiming takes long, as over a network under load
PATIENCE = 0.1  # seconds after which what waits behind a callback is given back
GRACE = 0.1  # seconds in which others may take what failed here, before it is tried here again


@dataclass(frozen=True, slots=True)
class Wishes:
    """What members would have."""

    offers: list[Offer]
    candidates: list[tuple[Entry, object]]
    room: int
    beyond: int
    passes: int  # how often something had been passed on by then


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed."""

    got: Got
    moved: bool = False  # whether it need not look at something again
    passes: int = 0


NOTHING = Claimed([])


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
        self._asked_at = 0.0  # when that began
        self._asked_for: dict[int, Entry] = {}  # what may be claimed by it
        self._claim_takes = 0.0  # seconds
        self._pace = PORTION  # how long a callback takes
        self._looking_after = False  # whether a timer runs for what waits
        self.others = False  # whether there are members elsewhere
        self.joined = 0  # as which bus
        self._handovers = 0  # how often something was passed on after a failure
        self._failed: dict[int, float] = {}  # what is not tried here again before some time
        self._waits = Countdown(services.clock)

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

    def due(self, standing: Standing) -> tuple[list[Flight], list[float]]:
        """What nobody holds and is due, and in how many seconds the rest is.

        That is counted from when it was first seen here, so that nobody who sets a clock has
        something tried early, or never.
        """
        free = {
            (each.position, each.token): each for each in standing.under_way if each.holder is None
        }
        left = {key: self._waits.left(key, each.due) for key, each in free.items()}
        self._waits.keep(free.keys())
        return [free[key] for key in free if left[key] <= 0], [t for t in left.values() if t > 0]

    def allowed(self, standing: Standing) -> list[Flight]:
        """Of what is free, what is not on offer yet, not refused, and may be claimed now."""
        order = ClaimOrder(self.settings.level.order, standing.under_way, self._bus())
        self.others = len(standing.members) > 1
        now = self.services.clock.monotonic()
        with self.locked():
            known = {(at, offer[0].token) for at, offer in self.offers.items()} | self._refused
            self._failed = {at: until for at, until in self._failed.items() if until > now}
            failed = self._failed.keys() if self.others else ()
        new = [each for each in standing.free if (each.position, each.token) not in known]
        new = [each for each in new if each.position not in failed]
        return [each for each in new if order.allows(each.publisher, each)]

    def offer(self, offers: list[Offer]) -> None:
        """These are free, and wanted here."""
        with self.locked():
            self.offers.update({each[0].position: each for each in offers})

    def wake(self) -> None:
        """Claim, and go on with what was claimed."""
        super().wake()
        self.claim_soon()

    def looked(self, *, past: Container[int] = ()) -> int:
        """Before this position everything wanted has been claimed, here or elsewhere."""
        waiting = (entry.position for entry, _ in self.candidates if entry.position not in past)
        first = next(waiting, None)
        return max(self._position() if first is None else first, self.floor)

    def move_on(self, tx: Transaction) -> None:
        """Say how far it has looked, even if there was nothing to claim."""
        kept, bus = tx.subscription(self.name), self._bus()
        with self.locked():
            looked = self.looked()
        if kept and any(m.bus == bus and m.looked < looked for m in tx.members(self.name)):
            tx.join(GroupMember(self.name, bus, looked))
            tidy(tx, kept)

    # -- claiming ----------------------------------------------------------------------------------

    def _wanted_now(self) -> int:
        """How many to claim: for each member that is free or soon will be, less what is here."""
        late = self.services.clock.monotonic() - 2 * PORTION
        there = [
            member
            for member in self.members
            if not member.is_away() and (member.started is None or member.started > late)
        ]
        span = min(max(PORTION, 2 * self._claim_takes), LONGEST)
        portion = max(1, min(MOST, int(span / max(self._pace, 1e-6))))
        # What has returned and is not acknowledged yet keeps nobody from having more.
        here = len(self.backlog) + len(self.delayed) + sum(member.busy for member in there)
        most = min(len(there) * portion, MOST, self.settings.queue - len(self.in_flight))
        return most - here

    def claim_soon(self) -> None:
        """Claim what members have room for, unless that is under way."""
        with self.locked():
            idle = self._claiming or self.ended is not None or self.paused
            if idle or not (self.candidates or self.offers):
                return
            has_room = self._claiming = self._wanted_now() > 0
        if not has_room:
            self._look_after()
            return
        self._begin_claiming(to_give=False)

    def _begin_claiming(self, *, to_give: bool) -> None:
        errand = ClaimErrand(self, self._bus(), to_give=to_give)
        self._asked_at = self.services.clock.monotonic()
        self._store.write(errand).add_done_callback(partial(self._claimed, errand))

    def wishes(self, *, to_give: bool) -> Wishes:
        """What to claim, as of now; nothing that is free, if it is only `to_give` it to others."""
        with self.locked():
            room = MOST if to_give else max(0, self._wanted_now())
            offers = [] if to_give else [self.offers[at] for at in sorted(self.offers)]
            first = list(itertools.islice(self.candidates, MOST + 1))
            candidates, after = first[:MOST], first[MOST:]
            # What is before the position is a candidate, or was: it is asked under the lock.
            beyond = after[0][0].position if after else self._position()
            self._asked_for = {entry.position: entry for entry, _ in candidates}
            self._asked_for |= {offer[1].position: offer[1] for offer in offers}
            return Wishes(offers, candidates, room, beyond, self._handovers)

    def looked_at(self, offers: list[Offer], passed: set[int], *, others: bool) -> None:
        """These are claimed here or elsewhere, or need not be."""
        with self.locked():
            self.others = others
            for offer in offers:
                if self.offers.get(offer[0].position) is offer:
                    del self.offers[offer[0].position]
            self.candidates = deque(c for c in self.candidates if c[0].position not in passed)

    def has_takers(self, takers: object) -> bool:
        """Whether somebody who wanted it is still here."""
        if not isinstance(takers, tuple) or self.interest.durable is not None:
            return True
        return any(taker in self.members for taker in takers)

    def _claimed(self, errand: ClaimErrand, claiming: Future[ClaimResult]) -> None:
        error = claiming.exception()
        claimed = NOTHING if error is not None else errand.claimed(claiming.result())
        if error is not None and not isinstance(error, StoreError):
            _log.error("claiming for %s failed", self.name, exc_info=error)
        with self.locked():
            self._claiming, self._asked_for = False, {}
            took = self.services.clock.monotonic() - self._asked_at
            self._claim_takes += (took - self._claim_takes) / 4
            # What was passed on after this was claimed may come before it.
            late = self.settings.level.order != "none" and claimed.passes != self._handovers
            for flight, entry, verdict in claimed.got:
                self.keeper.claimed(flight)
                parcel = self._parcel(entry, verdict)
                parcel.count, parcel.begun = flight.attempts - 1, True
                parcel.claim = flight.token
                self.publishers[parcel.publisher] = None
                if late:
                    self.keeper.pass_on(parcel, 0.0)
                elif isinstance(entry.event, Undecodable):
                    self._bury(parcel, entry.event.error)
                elif flight.attempts > self.settings.attempts:
                    self._bury(parcel, ProcessLookupError("whoever had it died each time"))
                else:
                    self.backlog.append(parcel)
            if self.behind is not None:
                self._read_on()
        self.pump_later()
        self._look_after()
        if claimed.moved or self.offers:
            self.claim_soon()

    def _look_after(self) -> None:
        """See to it that nothing waits for long behind a callback."""
        with self.locked():
            waits = bool(self.backlog or self.candidates) and self.ended is None
            if not waits or self._looking_after or self.settings.level.order != "none":
                return
            self._looking_after = True
        self.services.timers.after(PATIENCE, self._give_back_what_waits)

    def _give_back_what_waits(self) -> None:
        with self.locked():
            self._looking_after = False
            late = self.services.clock.monotonic() - PATIENCE
            stuck = {
                member
                for member in self.members
                if member.is_away() or (member.started is not None and member.started <= late)
            }
            waiting = list(self.backlog) if stuck and self.others else []
            for parcel in waiting:
                if stuck.issuperset(self._wanting(parcel)):
                    self.backlog.remove(parcel)
                    self.keeper.pass_on(parcel, 0.0)
            # Who has joined elsewhere since does not know of candidates: they are given as claims.
            gives = self.others and bool(self.candidates) and stuck.issuperset(self.members)
            gives = gives and not (self._claiming or self.paused or self.ended is not None)
            self._claiming = self._claiming or gives
        if gives:
            self._begin_claiming(to_give=True)
        self._look_after()

    def is_blocked(self, standing: Standing) -> bool:
        """Whether order forbids to claim any of the first candidates now."""
        with self.locked():
            first = [entry for entry, _ in itertools.islice(self.candidates, MOST)]
        order = ClaimOrder(self.settings.level.order, standing.under_way, self._bus())
        return not any(order.allows(entry.identity.publisher, None) for entry in first)

    def rejoin(self) -> None:
        """This bus had counted as dead: what it had claimed is free."""
        with self.locked():
            self.keeper.lost()
            self.let_go.extend(self.backlog.clear())
            self.delayed.clear()
        self.let_go.clear()

    def _unwanted(self, parcel: Parcel) -> None:
        self.keeper.pass_on(parcel, 0.0)  # members elsewhere may want it

    # -- going out ---------------------------------------------------------------------------------

    def bury_all(self, error: BaseException) -> None:
        """What nobody has claimed, too, if nobody elsewhere is there to claim it."""
        with self.locked():
            left = dict(self._asked_for)
            left |= {at: offer[1] for at, offer in self.offers.items()}
            left |= {entry.position: entry for entry, _ in self.candidates}
            self.keeper.unclaimed = [
                letter_of(self._letter(left[at], error, 0)) for at in sorted(left)
            ]
            super().bury_all(error)

    def _after_failure(self, parcel: Parcel, error: BaseException) -> None:
        level = self.settings.level
        untried = any(member not in parcel.tried for member in self._wanting(parcel))
        final = not level.reliable or parcel.count >= self.settings.attempts
        if untried or final or isinstance(error, Reject) or not self.others:
            super()._after_failure(parcel, error)
            return
        # All here have tried: members elsewhere come next, at once unless a delay was asked for.
        self.counts.retried += 1
        delay = self._delay(parcel, error)
        asked = isinstance(error, Nack) and error.delay is not None
        due = self.services.clock.time() + delay if asked else 0.0
        self._handovers += 1
        self._failed[parcel.entry.position] = self.services.clock.monotonic() + delay + GRACE
        self.keeper.pass_on(parcel, due)
        if level.order != "none":  # what comes after it goes where it goes
            for later in self.backlog.clear():
                if level.order == "total" or later.publisher == parcel.publisher:
                    self.keeper.pass_on(later, 0.0)
                else:
                    self.backlog.append(later)
        source: Any = self.services.source
        self.services.timers.after(delay + GRACE, source.ring)

    def finish(self, consumer: Consumer, parcel: Parcel, outcome: object) -> Parcel | None:
        """One has returned; claim more if there is nothing left for it."""
        started = consumer.started
        if started is not None:
            took = self.services.clock.monotonic() - started
            self._pace += (took - self._pace) / 4
        following = super().finish(consumer, parcel, outcome)
        if following is None or self._runs_short():
            self.claim_soon()
        return following

    def _runs_short(self) -> bool:
        """Whether what is claimed will be handled before more could be."""
        left = len(self.backlog) * self._pace / max(1, len(self.members))
        return left < self._claim_takes and bool(self.candidates) and not self._claiming

    def is_idle(self) -> bool:
        """Whether nothing is left that could be handled here."""
        if self.ended is not None or self.winding_down:
            return super().is_idle()
        waits = all(member.is_away() for member in self.members)
        nothing = not self.candidates and not self.offers and self.behind is None
        return super().is_idle() and not self._claiming and (waits or nothing)


class ClaimErrand(StoredProcedure[ClaimResult]):
    """Claims for the members of a group in this process, in one transaction of the store."""

    _wishes: Wishes
    _unwanted: set[int]
    _count: int

    def __init__(self, group: SharedGroup, bus: int, *, to_give: bool) -> None:
        self._group, self._bus, self._to_give = group, bus, to_give

    def asked(self) -> ClaimRequest:
        """What is wanted as of now, and what became of earlier claims."""
        group = self._group
        self._wishes = wishes = group.wishes(to_give=self._to_give)
        takers = [(entry, group.has_takers(verdict)) for entry, verdict in wishes.candidates]
        self._unwanted = {entry.position for entry, has_takers in takers if not has_takers}
        settled = group.keeper.unsaved()
        self._count = len(settled)
        return ClaimRequest(
            group.name,
            self._bus,
            group.settings.level.order,
            wishes.room,
            settled,
            [offer[0] for offer in wishes.offers],
            group.keeper.has_tried(),
            [
                Candidate(entry.position, entry.identity.publisher)
                for entry, has_takers in takers
                if has_takers
            ],
            wishes.beyond,
            group.floor,
        )

    def done(self, tx: Transaction, asked: ClaimRequest) -> ClaimResult:
        """Claim, where the store is."""
        return take_claims(tx, asked)

    def heard(self, reply: ClaimResult) -> None:
        """It is claimed for good."""
        if reply.is_member:
            self._group.keeper.saved(self._count, reply.stale)
            passed = self._unwanted.union(reply.passed)
            self._group.looked_at(self._wishes.offers, passed, others=reply.others)

    def claimed(self, reply: ClaimResult) -> Claimed:
        """What was claimed, with the events."""
        wanted = {entry.position: (entry, verdict) for entry, verdict in self._wishes.candidates}
        wanted.update({each[1].position: each[1:] for each in self._wishes.offers})
        got = [(flight, *wanted[flight.position]) for flight in reply.got]
        moved = bool(got or reply.passed or (reply.is_member and self._unwanted))
        return Claimed(got, moved, self._wishes.passes)
