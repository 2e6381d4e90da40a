"""What the members of a group in one process have claimed, as the store has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.delivery.cursors import TOKENS, StoreCursor, letter_of
from polycast.errors import NotSettledError
from polycast.stores import GroupMember
from polycast.stores.claims import (
    SettledClaim,
    SettleRequest,
    Stale,
    StoredProcedure,
    settle,
    tidy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.delivery.dead_letters import DeadLetter, DeadLetters
    from polycast.delivery.queue import Attempt
    from polycast.stores import Flight, Letter, Store, StoredSubscription, Transaction


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
