"""One of n over several processes: a member claims an event in the store before it has it."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.delivery.cursors import letter_of
from polycast.delivery.groups import ClaimCursor, GroupMembers
from polycast.delivery.mailbox import Mailbox, Services
from polycast.errors import StoreError
from polycast.plain_text import log_of
from polycast.stores import Entry, Flight, GroupMember, Standing, Store, Transaction
from polycast.stores.claims import (
    Candidate,
    ClaimOrder,
    ClaimRequest,
    ClaimResult,
    StoredProcedure,
    take_claims,
    tidy,
)
from polycast.stores.liveness import Countdown

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from concurrent.futures import Future

    from polycast.config import Clock, Settings
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.queue import Attempt, BoundedQueue, Candidacy
    from polycast.matching import Interest

Offer = tuple[Flight, "Entry", object]  # a flight that nobody holds, and who here wants it
Got = list[Offer]
_log = log_of("polycast")
MOST = 256  # claims in one transaction
PORTION = 0.01  # seconds in which what was claimed at once should be handled
LONGEST = 0.05  # the same where claiming takes long, as over a network under load
PATIENCE = 0.1  # seconds after which what waits behind a callback is given back
GRACE = 0.1  # seconds in which others may take what failed here, before it is tried here again


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """What members want to claim."""

    offers: list[Offer]
    candidates: list[Candidacy]
    room: int
    beyond: int
    passes: int  # how often something had been passed on by then


class ReleasedEvents:
    """What members have let go of: free in the store, and perhaps wanted here."""

    def __init__(self, queue: BoundedQueue, clock: Clock, bus: Callable[[], int]) -> None:
        self._queue, self._clock, self._bus = queue, clock, bus
        self.offers: dict[int, Offer] = {}  # wanted here
        self._refused: set[tuple[int, int]] = set()  # wanted by nobody here
        self.failed: dict[int, float] = {}  # what is not tried here again before some time
        self._waits = Countdown(clock)

    def reconsider(self) -> None:
        """One more member may want what nobody here wanted."""
        self._refused = set()

    def refuse(self, flight: Flight) -> None:
        """Nobody here wants it."""
        self._refused.add((flight.position, flight.token))

    def due(self, standing: Standing) -> tuple[list[Flight], list[float]]:
        """What nobody holds and is due, and in how many seconds the rest is.

        That is counted from when it was first seen here, so that nobody who sets a clock has
        something tried early, or never.
        """
        free = {
            (flight.position, flight.token): flight
            for flight in standing.under_way
            if flight.holder is None
        }
        left = {key: self._waits.left(key, flight.due) for key, flight in free.items()}
        self._waits.keep(free.keys())
        return [free[key] for key in free if left[key] <= 0], [t for t in left.values() if t > 0]

    def allowed(self, standing: Standing) -> list[Flight]:
        """Of what is free, what is not on offer yet, not refused, and may be claimed now."""
        order = ClaimOrder(self._queue.settings.level.order, standing.under_way, self._bus())
        now = self._clock.monotonic()
        with self._queue.locked():
            known = {(at, offer[0].token) for at, offer in self.offers.items()} | self._refused
            self.failed = {at: until for at, until in self.failed.items() if until > now}
            failed = self.failed.keys() if len(standing.members) > 1 else ()
        return [
            flight
            for flight in standing.free
            if (flight.position, flight.token) not in known
            and flight.position not in failed
            and order.allows(flight.publisher, flight)
        ]

    def offer(self, offers: list[Offer]) -> None:
        """These are free, and wanted here."""
        with self._queue.locked():
            self.offers.update({offer[0].position: offer for offer in offers})


class GroupClaims:
    """Claims events in the store for the members of a group in this process.

    What is wanted is a candidate first. As many are claimed at once as are handled within a few
    milliseconds, so that whoever is idle elsewhere finds something to do.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        members: GroupMembers,
        cursor: ClaimCursor,
        *,
        store: Store,
        bus: Callable[[], int],
        position: Callable[[], int],
        floor: int,
    ) -> None:
        self.mailbox, self.cursor, self._members = mailbox, cursor, members
        self._queue, self._settlement = mailbox.queue, mailbox.settlement
        self._services = mailbox.services
        self._store, self._bus, self._position = store, bus, position
        self.candidates: deque[Candidacy] = deque()
        mailbox.queue.candidates = self.candidates
        self.released = ReleasedEvents(mailbox.queue, mailbox.services.clock, bus)
        self.floor = floor  # where it joined: before it, others have seen to everything
        self.joined = bus()  # as which bus
        self._claiming = False
        self._asked_at = 0.0  # when that began
        self._asked_for: dict[int, Entry] = {}  # what may be claimed by it
        self._claim_takes = 0.0  # seconds
        self._pace = PORTION  # how long a callback takes
        self._looking_after = False  # whether a timer runs for what waits
        self.others = False  # whether there are members elsewhere
        self._handovers = 0  # how often something was passed on after a failure

    def looked(self, *, past: Container[int] = ()) -> int:
        """Before this position everything wanted has been claimed, here or elsewhere."""
        waiting = (entry.position for entry, _ in self.candidates if entry.position not in past)
        first = next(waiting, None)
        return max(self._position() if first is None else first, self.floor)

    def move_on(self, tx: Transaction) -> None:
        """Say how far it has looked, even if there was nothing to claim."""
        kept, bus = tx.subscription(self.mailbox.name), self._bus()
        with self._queue.locked():
            looked = self.looked()
        if kept and any(m.bus == bus and m.looked < looked for m in tx.members(self.mailbox.name)):
            tx.join(GroupMember(self.mailbox.name, bus, looked))
            tidy(tx, kept)

    # -- claiming ----------------------------------------------------------------------------------

    def _wanted_now(self) -> int:
        """How many to claim: for each member that is free or soon will be, less what is here."""
        late = self._services.clock.monotonic() - 2 * PORTION
        there = [
            member
            for member in self._members.members
            if not member.is_away() and (member.started is None or member.started > late)
        ]
        span = min(max(PORTION, 2 * self._claim_takes), LONGEST)
        portion = max(1, min(MOST, int(span / max(self._pace, 1e-6))))
        # What has returned and is not acknowledged yet keeps nobody from having more.
        queue, in_flight = self._queue, self._settlement.in_flight
        here = len(queue.backlog) + len(queue.delayed) + sum(member.busy for member in there)
        return min(len(there) * portion, MOST, queue.settings.queue - len(in_flight)) - here

    def claim_soon(self) -> None:
        """Claim what members have room for, unless that is under way."""
        with self._queue.locked():
            idle = self._claiming or self._queue.ended is not None or self._queue.paused
            if idle or not (self.candidates or self.released.offers):
                return
            has_room = self._claiming = self._wanted_now() > 0
        if not has_room:
            self._look_after()
            return
        self._begin_claiming(to_give=False)

    def _begin_claiming(self, *, to_give: bool) -> None:
        procedure = ClaimProcedure(self, self._bus(), to_give=to_give)
        self._asked_at = self._services.clock.monotonic()
        self._store.write(procedure).add_done_callback(partial(self._claimed, procedure))

    def demand(self, *, to_give: bool) -> ClaimDemand:
        """What to claim, as of now; nothing that is free, if it is only `to_give` it to others."""
        with self._queue.locked():
            room = MOST if to_give else max(0, self._wanted_now())
            offers = (
                [] if to_give else [self.released.offers[at] for at in sorted(self.released.offers)]
            )
            first = list(itertools.islice(self.candidates, MOST + 1))
            candidates, after = first[:MOST], first[MOST:]
            # What is before the position is a candidate, or was: it is asked under the lock.
            beyond = after[0][0].position if after else self._position()
            self._asked_for = {entry.position: entry for entry, _ in candidates}
            self._asked_for |= {offer[1].position: offer[1] for offer in offers}
            return ClaimDemand(offers, candidates, room, beyond, self._handovers)

    def looked_at(self, offers: list[Offer], passed: set[int], *, others: bool) -> None:
        """These are claimed here or elsewhere, or need not be."""
        with self._queue.locked():
            self.others = others
            for offer in offers:
                if self.released.offers.get(offer[0].position) is offer:
                    del self.released.offers[offer[0].position]
            left = [c for c in self.candidates if c[0].position not in passed]
            self.candidates.clear()
            self.candidates.extend(left)

    def is_wanted(self, verdict: object) -> bool:
        """Whether somebody who wanted it is still here."""
        if not isinstance(verdict, tuple) or self.mailbox.interest.durable is not None:
            return True
        return any(member in self._members.members for member in verdict)

    def _claimed(self, procedure: ClaimProcedure, claiming: Future[ClaimResult]) -> None:
        error = claiming.exception()
        got = [] if error is not None else procedure.claimed(claiming.result())
        if error is not None and not isinstance(error, StoreError):
            _log.error("claiming for %s failed", self.mailbox.name, exc_info=error)
        with self._queue.locked():
            self._claiming, self._asked_for = False, {}
            took = self._services.clock.monotonic() - self._asked_at
            self._claim_takes += (took - self._claim_takes) / 4
            # What was passed on after this was claimed may come before it.
            is_ordered = self._queue.settings.level.order != "none"
            late = is_ordered and procedure.demand.passes != self._handovers
            for flight, entry, verdict in got:
                self.cursor.claimed(flight)
                attempt = self._members.attempt(entry, verdict)
                attempt.count, attempt.begun = flight.attempts - 1, True
                attempt.claim = flight.token
                self._queue.note_publisher(attempt)
                is_last = flight.attempts > self._queue.settings.attempts
                if late:
                    self.cursor.pass_on(attempt, 0.0)
                elif not self._settlement.is_hopeless(attempt, is_last=is_last):
                    self._queue.backlog.append(attempt)
            if self._queue.behind is not None:
                self.mailbox.worker.read_on()
        self.mailbox.worker.pump_later()
        self._look_after()
        if procedure.has_moved or self.released.offers:
            self.claim_soon()

    def _look_after(self) -> None:
        """See to it that nothing waits for long behind a callback."""
        with self._queue.locked():
            queue = self._queue
            waits = bool(queue.backlog or self.candidates) and queue.ended is None
            if not waits or self._looking_after or queue.settings.level.order != "none":
                return
            self._looking_after = True
        self._services.timers.after(PATIENCE, self._give_back_what_waits)

    def _give_back_what_waits(self) -> None:
        with self._queue.locked():
            self._looking_after = False
            late = self._services.clock.monotonic() - PATIENCE
            stuck = {
                member
                for member in self._members.members
                if member.is_away() or (member.started is not None and member.started <= late)
            }
            queue = self._queue
            for attempt in list(queue.backlog) if stuck and self.others else []:
                if stuck.issuperset(self._members.wanting(attempt)):
                    queue.backlog.remove(attempt)
                    self.cursor.pass_on(attempt, 0.0)
            # Who has joined elsewhere since does not know of candidates: they are given as claims.
            gives = (
                self.others and bool(self.candidates) and stuck.issuperset(self._members.members)
            )
            gives = gives and not (self._claiming or queue.paused or queue.ended is not None)
            self._claiming = self._claiming or gives
        if gives:
            self._begin_claiming(to_give=True)
        self._look_after()

    def is_blocked(self, standing: Standing) -> bool:
        """Whether order forbids to claim any of the first candidates now."""
        self.others = len(standing.members) > 1
        with self._queue.locked():
            first = [entry for entry, _ in itertools.islice(self.candidates, MOST)]
        order = ClaimOrder(self._queue.settings.level.order, standing.under_way, self._bus())
        return not any(order.allows(entry.identity.publisher, None) for entry in first)

    def rejoin(self) -> None:
        """This bus had counted as dead: what it had claimed is free."""
        with self._queue.locked():
            self.cursor.lost()
            discarded = self._queue.backlog.clear()  # freed when the lock is not held any more
            self._queue.delayed.clear()
        del discarded

    # -- going out ---------------------------------------------------------------------------------

    def leave_letters(self, error: BaseException) -> None:
        """Keep dead letters of what nobody has claimed, for when nobody elsewhere can claim it."""
        left = dict(self._asked_for)
        left |= {at: offer[1] for at, offer in self.released.offers.items()}
        left |= {entry.position: entry for entry, _ in self.candidates}
        letter = self._settlement.letter
        self.cursor.unclaimed = [letter_of(letter(left[at], error, 0)) for at in sorted(left)]

    def hand_over(self, attempt: Attempt, delay: float, *, is_asked: bool) -> None:
        """Let members elsewhere try what has failed here: at once, unless a delay was asked for."""
        clock, level = self._services.clock, self._queue.settings.level
        self._handovers += 1
        self.released.failed[attempt.entry.position] = clock.monotonic() + delay + GRACE
        self.cursor.pass_on(attempt, clock.time() + delay if is_asked else 0.0)
        if level.order != "none":  # what comes after it goes where it goes
            for later in self._queue.backlog.clear():
                if level.order == "total" or later.publisher == attempt.publisher:
                    self.cursor.pass_on(later, 0.0)
                else:
                    self._queue.backlog.append(later)
        source: Any = self._services.source
        self._services.timers.after(delay + GRACE, source.ring)

    def measure(self, consumer: Consumer) -> None:
        """Note how long a callback has taken that has just returned."""
        if consumer.started is not None:
            took = self._services.clock.monotonic() - consumer.started
            self._pace += (took - self._pace) / 4

    def claim_for(self, following: Attempt | None) -> None:
        """Claim more if nothing, or soon nothing, is left for a consumer that has returned."""
        left = len(self._queue.backlog) * self._pace / max(1, len(self._members.members))
        # What is claimed will be handled before more could be.
        runs_short = left < self._claim_takes and bool(self.candidates) and not self._claiming
        if following is None or runs_short:
            self.claim_soon()

    def is_idle(self) -> bool:
        """Whether nothing is left to be claimed here."""
        waits = all(member.is_away() for member in self._members.consumers())
        nothing = not self.candidates and not self.released.offers and self._queue.behind is None
        return not self._claiming and (waits or nothing)


class ClaimProcedure(StoredProcedure[ClaimResult]):
    """Claims for the members of a group in this process, in one transaction of the store."""

    def __init__(self, group: GroupClaims, bus: int, *, to_give: bool) -> None:
        self._group, self._bus, self._to_give = group, bus, to_give
        self.demand = ClaimDemand([], [], 0, 0, 0)
        self._unwanted: set[int] = set()
        self._count = 0  # of what was settled
        self.has_moved = False  # whether something need not be looked at again

    def asked(self) -> ClaimRequest:
        """What is wanted as of now, and what became of earlier claims."""
        group = self._group
        self.demand = demand = group.demand(to_give=self._to_give)
        candidates = [(entry, group.is_wanted(verdict)) for entry, verdict in demand.candidates]
        self._unwanted = {entry.position for entry, is_wanted in candidates if not is_wanted}
        settled = group.cursor.unsaved()
        self._count = len(settled)
        return ClaimRequest(
            group.mailbox.name,
            self._bus,
            group.mailbox.queue.settings.level.order,
            demand.room,
            settled,
            [offer[0] for offer in demand.offers],
            group.cursor.has_tried(),
            [
                Candidate(entry.position, entry.identity.publisher)
                for entry, is_wanted in candidates
                if is_wanted
            ],
            demand.beyond,
            group.floor,
        )

    def done(self, tx: Transaction, asked: ClaimRequest) -> ClaimResult:
        """Claim, where the store is."""
        return take_claims(tx, asked)

    def heard(self, reply: ClaimResult) -> None:
        """It is claimed for good."""
        if reply.is_member:
            self._group.cursor.saved(self._count, reply.stale)
            passed = self._unwanted.union(reply.passed)
            self._group.looked_at(self.demand.offers, passed, others=reply.others)

    def claimed(self, reply: ClaimResult) -> Got:
        """What was claimed, with the events."""
        wanted = {entry.position: (entry, verdict) for entry, verdict in self.demand.candidates}
        wanted.update({offer[1].position: offer[1:] for offer in self.demand.offers})
        got = [(flight, *wanted[flight.position]) for flight in reply.got]
        self.has_moved = bool(got or reply.passed or (reply.is_member and self._unwanted))
        return got


def distributed_group(
    name: str,
    interest: Interest,
    settings: Settings,
    services: Services,
    *,
    store: Store,
    bus: Callable[[], int],
    position: Callable[[Mailbox], int],
    floor: int,
    doubt: int,
) -> Mailbox:
    """Return the mailbox of the members that a group over a store has in this process."""

    def claims(mailbox: Mailbox) -> GroupClaims:
        members = mailbox.members
        assert isinstance(members, GroupMembers)
        return GroupClaims(
            mailbox,
            members,
            cursor,
            store=store,
            bus=bus,
            position=lambda: position(mailbox),
            floor=floor,
        )

    def looked() -> int:
        assert mailbox.claims is not None
        return mailbox.claims.looked()

    cursor = ClaimCursor(name, store, services.clock, bus, looked, doubt=doubt)
    mailbox = Mailbox(name, interest, settings, services, cursor=cursor, claims=claims)
    return mailbox
