"""One of n: an event goes to one member of a group that wants it (DAC: remove)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polycast.delivery.cursors import TOKENS, StoreCursor, letter_of
from polycast.delivery.delivery import Nack
from polycast.delivery.queue import Attempt
from polycast.errors import NotSettledError
from polycast.errors.failures import failures_here
from polycast.metrics import Trials
from polycast.stores import GroupMember
from polycast.stores.claims import SettledClaim, SettleRequest, Stale, StoredProcedure, settle, tidy

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock, Settings
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.dead_letters import DeadLetter, DeadLetters
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.worker import Handout
    from polycast.filters import Filter
    from polycast.matching import Interest
    from polycast.stores import Entry, Flight, Letter, Store, StoredSubscription, Transaction


LOOKAHEAD = 64  # how far a free member looks past events that only others want
_RANK = {"none": 0, "fifo": 1, "total": 2}


class GroupMembers:
    """The members of a group in this process. The strictest level of any holds for all."""

    __slots__ = ("_active", "_mailbox", "_trials", "interest", "members")

    sole = None
    pulls = False

    def __init__(self, mailbox: Mailbox, interest: Interest) -> None:
        self._mailbox, self.interest = mailbox, interest
        self.members: dict[Consumer, Interest] = {}
        self._trials: dict[object, Trials] = {}  # of the filters of members that have failed
        self._active: Consumer | None = None  # under total order one goes on as long as it can

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return f"group {self.interest.group}"

    # -- what they want ----------------------------------------------------------------------------

    def interests(self) -> tuple[Interest, ...]:
        """What the members want; without members, what the group was made for."""
        return tuple(self.members.values()) or (self.interest,)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Return the test which members want an event: a tuple of them, empty if none does."""
        pairs = [
            (member, None if interest.where is None else interest.where.on(topic))
            for member, interest in self.members.items()
            if interest.selector.covers(cls, topic)
        ]
        if not pairs and not self.members:
            pairs = [(self, self.interest.where)]  # type: ignore[list-item]  # nobody is here

        def wanting(event: Any) -> tuple[Consumer, ...]:
            return tuple(member for member, where in pairs if self._passes(member, where, event))

        return wanting

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return the test as it is: answers of members are counted already."""
        return test

    def _passes(self, member: object, where: Filter[Any] | None, event: Any) -> bool:
        lock = self._mailbox.queue.locked
        try:
            passes = where is None or bool(where.function(event))
        except failures_here() as error:
            self._mailbox.unfit(error)
            with lock():
                self._trials.setdefault(member, Trials()).fail(error)
            return False
        trials = self._trials.get(member)
        if trials is not None:
            with lock():
                trials.work()
        return passes

    def vain(self) -> list[tuple[str, Trials]]:
        """The filters of members that fail each time of late; each has its own."""
        with self._mailbox.queue.locked():
            here: list[tuple[object, Interest]] = [*self.members.items(), (self, self.interest)]
            tried = [(interest, self._trials.get(member)) for member, interest in here]
        return [
            (f"a member of {self._mailbox.name}, to {interest.selector},", trials)
            for interest, trials in tried
            if trials is not None and trials.are_vain
        ]

    # -- who they are ------------------------------------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether some member is called in the publisher's thread."""
        return any(member.inline for member in self.members)

    def consumers(self) -> tuple[Consumer, ...]:
        """All members here."""
        return tuple(self.members)

    def waits(self) -> bool:
        """Whether nobody here can be given anything for now."""
        return all(member.paused for member in self.members)

    def is_free(self) -> bool:
        """Whether some member can be given something now."""
        return any(not member.busy and not member.is_away() for member in self.members)

    def may_lose(self) -> bool:
        """Whether an event loop that is closed may have taken an attempt with it."""
        return any(member.may_lose for member in self.members)

    def attach(self, consumer: Consumer, settings: Settings) -> Settings:
        """Let one more member in."""
        # Publishers look at the members without the lock, so the dict is never changed.
        self.members = {**self.members, consumer: consumer.interest}
        if self._mailbox.claims is not None:
            self._mailbox.claims.released.reconsider()
        return _strictest(self._mailbox.queue.settings, settings)

    def remove(self, consumer: Consumer) -> None:
        """Go on without a member; what it has without being busy with it goes to the others."""
        self.members = {
            member: interest for member, interest in self.members.items() if member is not consumer
        }
        self._trials.pop(consumer, None)

    # -- who gets what -----------------------------------------------------------------------------

    def attempt(self, entry: Entry, verdict: object) -> Attempt:
        """Return the first attempt to deliver an entry to one of those who want it."""
        return Attempt(entry, verdict if isinstance(verdict, tuple) else ())

    def assign(self) -> list[Handout]:
        """Give each free member an event that it wants. The lock is held."""
        mailbox = self._mailbox
        handouts: list[Handout] = []
        skipped: list[Attempt] = []
        while self.is_free():
            attempt = mailbox.worker.take()
            if attempt is None:
                break
            member = self._choose(attempt)
            if member is not None:
                attempt.tried += (member,)
                member.busy = True
                mailbox.settlement.launch(member, attempt)
                handouts.append((member, attempt))
            elif not self.wanting(attempt) and self.interest.durable is None:
                if mailbox.claims is None:
                    mailbox.settlement.drop(attempt)  # all who wanted it have gone
                else:
                    mailbox.claims.cursor.pass_on(attempt, 0.0)  # members elsewhere may want it
            else:
                skipped.append(attempt)
                if mailbox.queue.settings.level.order != "none" or len(skipped) >= LOOKAHEAD:
                    break
        mailbox.queue.backlog.merge(skipped)
        return handouts

    def wanting(self, attempt: Attempt) -> list[Consumer]:
        """The members that want it; of a durable group, whose members are alike, all of them."""
        wanting = [member for member in attempt.members if member in self.members]
        if not wanting and (not attempt.members or self.interest.durable is not None):
            return list(self.members)
        return wanting

    def _choose(self, attempt: Attempt) -> Consumer | None:
        """Least in flight, then longest idle; one who has failed with it only if all have."""
        wanting = self.wanting(attempt)
        fresh = [member for member in wanting if member not in attempt.tried] or wanting
        free = [member for member in fresh if not member.busy and not member.is_away()]
        if not free:
            return None
        if self._mailbox.queue.settings.level.order == "total":
            if self._active not in free:
                self._active = free[0]
            return self._active
        return min(free, key=lambda member: (member.in_flight, member.idle_since))

    def resume(self) -> None:
        """Hand out what has become ready, from a thread that must not run callbacks."""
        self._mailbox.worker.pump_later()

    def retry_delay(self, attempt: Attempt, error: BaseException, usual: float) -> float | None:
        """Somebody else can try at once; only if all have failed is there a wait."""
        untried = any(member not in attempt.tried for member in self.wanting(attempt))
        is_asked = isinstance(error, Nack) and error.delay is not None
        if is_asked:
            delay = usual
        elif untried:
            delay = 0.0
        else:
            attempt.tried, delay = (), usual
        claims = self._mailbox.claims
        if claims is None or untried or not claims.others:
            return delay
        claims.hand_over(attempt, delay, is_asked=is_asked)
        return None


def _strictest(one: Settings, other: Settings) -> Settings:
    level = one.level
    if _RANK[other.level.order] > _RANK[level.order]:
        level = replace(level, order=other.level.order)
    level = replace(
        level,
        reliable=level.reliable or other.level.reliable,
        unique=level.unique or other.level.unique,
    )
    copy = one.copy or other.copy
    return replace(one, level=level, queue=max(one.queue, other.queue), copy=copy)


def _freed(claim: Flight, attempts: int, due: float) -> SettledClaim:
    about = (claim.position, claim.token, claim.holder)
    return SettledClaim(*about, done=False, attempts=max(0, attempts), due=due)


def _is_left(letter: Letter, kept: StoredSubscription, flights: dict[int, Flight]) -> bool:
    flight = flights.get(letter.position)
    if flight is None:
        return letter.position >= kept.cursor
    return not flight.done and flight.holder is None


class ClaimCursor(StoreCursor):
    """Settles claims. One that was taken away meanwhile is somebody else's, and is let be."""

    def __init__(
        self,
        name: str,
        store: Store,
        clock: Clock,
        bus: Callable[[], int],
        looked: Callable[[], int],
        *,
        doubt: int,
    ) -> None:
        super().__init__(name, store, clock, lambda: None)
        self._bus, self._looked, self.doubt = bus, looked, doubt
        self._claims: dict[int, Flight] = {}
        self._attempts: dict[int, int] = {}  # of those that were tried again here
        self._settled_now: list[SettledClaim] = []
        self._stale: set[tuple[int, int]] = set()  # claims that were taken away
        self.unclaimed: list[Letter] = []  # what is left if the last member is cut off

    def claimed(self, flight: Flight) -> None:
        """It is ours."""
        with self.lock:
            self._claims[flight.position] = flight

    def fence(self, attempt: Attempt) -> int:
        """Whoever claims it later has a higher one."""
        return attempt.claim * TOKENS

    def has_tried(self) -> bool:
        """Whether one that has been tried before is claimed here."""
        with self.lock:
            return any(claim.attempts > 1 for claim in self._claims.values())

    def redelivers(self, attempt: Attempt, delay: float) -> None:
        """It is tried again here; whoever has it next should know how often it was."""
        del delay
        with self.lock:
            self._attempts[attempt.entry.position] = attempt.count

    def leave_begun(self, attempt: Attempt) -> None:
        """Whoever has it next should know that it was begun."""
        self.redelivers(attempt, 0.0)

    def done(self, attempt: Attempt) -> None:
        """Nobody needs to have it any more."""
        self._settle(attempt.entry.position, None)

    def buried(self, letter: DeadLetter, letters: DeadLetters) -> None:
        """Nobody needs to have it any more, and the letter says why."""
        del letters
        self._settle(letter.position, letter_of(letter))

    def release(self, tx: Transaction) -> None:
        """Save, and leave: what is not begun is for others."""
        self._leave(tx, durably=True)

    def remove(self, tx: Transaction) -> None:
        """Save, and leave; whoever is the last ends the group."""
        self._leave(tx, durably=False)

    def _leave(self, tx: Transaction, *, durably: bool) -> None:
        with self.lock:
            left = list(self._claims.values())
            tries = self._attempts
            freed = [
                _freed(claim, tries.get(claim.position, claim.attempts - 1), 0.0) for claim in left
            ]

        def forget() -> None:
            with self.lock:
                for claim in left:
                    self._claims.pop(claim.position, None)

        settle(tx, SettleRequest(self.name, freed))
        self.save(tx)
        tx.after(forget)
        bus, kept = self._bus(), tx.subscription(self.name)
        if kept is None:
            return
        # What was claimed a moment ago, and is not known here yet.
        rest = [flight for flight in tx.flights(self.name) if flight.holder == bus]
        settle(
            tx,
            SettleRequest(self.name, [_freed(flight, flight.attempts - 1, 0.0) for flight in rest]),
        )
        members = tx.members(self.name)
        if any(member.bus == bus for member in members):
            tx.join(GroupMember(self.name, bus, self._looked()))
            tidy(tx, kept)
            if len(members) == 1 and not durably:
                self._bury_unclaimed(tx)
            tx.leave(self.name, bus)
        tidy(tx, kept)
        if not durably and not tx.members(self.name):
            tx.remove(self.name)

    def _bury_unclaimed(self, tx: Transaction) -> None:
        """Of what is left if the last member is cut off, what nobody has handled."""
        kept, positions = tx.subscription(self.name), [letter.position for letter in self.unclaimed]
        if kept is None or not positions:
            return
        flights = {flight.position: flight for flight in tx.flights_at(self.name, positions)}
        tx.bury([letter for letter in self.unclaimed if _is_left(letter, kept, flights)])

    def pass_on(self, attempt: Attempt, due: float) -> None:
        """Somebody else may try it, not before some time."""
        with self.lock:
            claim = self._claims.pop(attempt.entry.position, None)
            self._attempts.pop(attempt.entry.position, None)
            if claim is None:
                return
            self._settled_now.append(_freed(claim, attempt.count, due))
        self.save_soon()

    def _settle(self, position: int, letter: Letter | None) -> None:
        with self.lock:
            claim = self._claims.pop(position, None)
            self._attempts.pop(position, None)
            if claim is None:
                return
            about = (claim.position, claim.token, claim.holder)
            self._settled_now.append(SettledClaim(*about, done=True, letter=letter))
        self.save_soon()

    def lost(self) -> None:
        """This bus had counted as dead, so that all it had claimed is free."""
        with self.lock:
            self._stale.update((claim.position, claim.token) for claim in self._claims.values())
            self._claims = {}

    def unsaved(self) -> list[SettledClaim]:
        """What the store has not been told yet."""
        with self.lock:
            return list(self._settled_now)

    def saved(self, count: int, stale: Stale) -> None:
        """The store has the first so many; these claims had been taken away."""
        with self.lock:
            del self._settled_now[:count]
            self._stale.update(stale)

    def _saving_work(self) -> Callable[[Transaction], object]:
        return SettleProcedure(self)

    def _save(self, tx: Transaction) -> None:
        SettleProcedure(self)(tx)

    def confirm(self, action: str, attempt: Attempt | None = None) -> None:
        """Wait until it is on disk; refuse if it was somebody else's by then."""
        super().confirm(action, attempt)
        with self.lock:
            stale = attempt and (attempt.entry.position, attempt.claim) in self._stale
        if stale:
            why = "the event was given to another member, because this one was still for too long"
            raise NotSettledError(action, why=why)


class SettleProcedure(StoredProcedure[Stale]):
    """Tells the store what became of claims, all that is known when it is asked."""

    can_wait = True  # who claims tells it, too

    def __init__(self, cursor: ClaimCursor) -> None:
        self._cursor = cursor
        self._count = 0

    def asked(self) -> SettleRequest:
        """What the store has not been told yet."""
        settled = self._cursor.unsaved()
        self._count = len(settled)
        return SettleRequest(self._cursor.name, settled)

    def needless(self, asked: SettleRequest) -> Stale | None:
        """Nothing, if all is written down."""
        return None if asked.settled else []

    def done(self, tx: Transaction, asked: SettleRequest) -> Stale:
        """Write it down."""
        return settle(tx, asked)

    def heard(self, reply: Stale) -> None:
        """It is written down."""
        self._cursor.saved(self._count, reply)
