"""What the members of a group in one process have claimed, as the store has it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery.keeping import TOKENS, Fenced, StoreKeeper, forget_outliving, letter_of
from polycast.errors import NotSettled
from polycast.stores import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.config import Clock
    from polycast.delivery.backlog import Parcel
    from polycast.delivery.dead_letters import DeadLetter, DeadLetters
    from polycast.stores import Flight, Kept, Letter, Store, Transaction

__all__ = ["ClaimKeeper", "forget_before", "tidy"]

Settled = tuple["Flight", "Flight", "Letter | None"]  # as it was, as it is, why it is buried


class ClaimKeeper(StoreKeeper):
    """Settles claims. One that was taken away meanwhile is somebody else's, and is let be."""

    def __init__(
        self,
        name: str,
        store: Store,
        clock: Clock,
        bus: Callable[[], int],
        looked: Callable[[], int],
    ) -> None:
        super().__init__(name, store, clock, lambda: None)
        self._bus, self._looked = bus, looked
        self._claims: dict[int, Flight] = {}
        self._attempts: dict[int, int] = {}  # of those that were tried again here
        self._settled_now: list[Settled] = []
        self._stale: set[tuple[int, int]] = set()  # claims that were taken away

    def claimed(self, flight: Flight) -> None:
        """It is ours."""
        with self._lock:
            self._claims[flight.position] = flight

    def fence(self, parcel: Parcel) -> int:
        """Whoever claims it later has a higher one."""
        return parcel.claim * TOKENS

    def has_tried(self) -> bool:
        """Whether one that has been tried before is claimed here."""
        with self._lock:
            return any(each.attempts > 1 for each in self._claims.values())

    def again(self, parcel: Parcel, delay: float) -> None:
        """It is tried again here; whoever has it next should know how often it was."""
        del delay
        with self._lock:
            self._attempts[parcel.entry.position] = parcel.count

    def done(self, parcel: Parcel) -> None:
        """Nobody needs to have it any more."""
        self._settle(parcel.entry.position, None)

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
        with self._lock:
            left = list(self._claims.values())
            freed = [_freed(each, self._tries_of(each), 0.0) for each in left]
        with suppress(Fenced):
            self._write(tx, [(a, b, None) for a, b in zip(left, freed, strict=True)])
            self.save(tx)
        tx.after(lambda: self._left(left))
        bus, kept = self._bus(), tx.subscription(self.name)
        if kept is None:
            return
        if any(member.bus == bus for member in tx.members(self.name)):
            tx.join(Member(self.name, bus, self._looked()))
            tidy(tx, kept)
            tx.leave(self.name, bus)
        tidy(tx, kept)
        if not durably and not tx.members(self.name):
            tx.remove(self.name)

    def _tries_of(self, claim: Flight) -> int:
        return self._attempts.get(claim.position, claim.attempts - 1)

    def _left(self, claims: list[Flight]) -> None:
        """They are for others."""
        with self._lock:
            for each in claims:
                self._claims.pop(each.position, None)

    def pass_on(self, parcel: Parcel, due: float) -> None:
        """Somebody else may try it, not before some time."""
        with self._lock:
            claim = self._claims.pop(parcel.entry.position, None)
            self._attempts.pop(parcel.entry.position, None)
            if claim is None:
                return
            self._settled_now.append((claim, _freed(claim, parcel.count, due), None))
        self.save_soon()

    def _settle(self, position: int, letter: Letter | None) -> None:
        with self._lock:
            claim = self._claims.pop(position, None)
            self._attempts.pop(position, None)
            if claim is None:
                return
            self._settled_now.append((claim, replace(claim, done=True, holder=None), letter))
        self.save_soon()

    def lost(self) -> None:
        """This bus had counted as dead, so that all it had claimed is free."""
        with self._lock:
            self._stale.update((each.position, each.token) for each in self._claims.values())
            self._claims = {}

    def _save(self, tx: Transaction) -> None:
        with self._lock:
            settled = list(self._settled_now)
        stale = self._write(tx, settled)

        def keep() -> None:
            with self._lock:
                del self._settled_now[: len(settled)]
                self._stale |= stale

        tx.after(keep)

    def _write(self, tx: Transaction, settled: Sequence[Settled]) -> set[tuple[int, int]]:
        """Write down what became of claims; those that were taken away before."""
        if not settled:
            return set()
        found = tx.flights_at(self.name, [before.position for before, _, _ in settled])
        current = {each.position: each for each in found}
        stale, new, letters = set(), [], []
        for before, after, letter in settled:
            now = current.get(before.position)
            if now is None or now.token != before.token or now.holder != before.holder:
                stale.add((before.position, before.token))
                continue
            current[before.position] = after
            new.append(after)
            letters += [] if letter is None else [letter]
        if new:
            tx.fly(new)
        if letters:
            tx.bury(letters)
        finished = [after.position for _, after, _ in settled if after.done]
        if finished:
            forget_outliving(tx, self.name, finished)
        return stale

    def confirm(self, action: str, parcel: Parcel | None = None) -> None:
        """Wait until it is on disk; refuse if it was somebody else's by then."""
        super().confirm(action, parcel)
        with self._lock:
            stale = parcel and (parcel.entry.position, parcel.claim) in self._stale
        if stale:
            why = "the event was given to another member, because this one was still for too long"
            raise NotSettled(action, why=why)


def _freed(claim: Flight, attempts: int, due: float) -> Flight:
    return replace(claim, holder=None, token=claim.token + 1, attempts=max(0, attempts), due=due)


def tidy(tx: Transaction, kept: Kept) -> None:
    """Forget what all members of a group have looked past; a group without any may be over."""
    forget_before(tx, kept, [member.looked for member in tx.members(kept.name)])


def forget_before(tx: Transaction, kept: Kept, looked: list[int]) -> None:
    """Forget what all members have looked past, who have looked so far."""
    if looked:
        tx.land_before(kept.name, min(looked))
        tx.move(kept.name, token=kept.token, cursor=max(kept.cursor, min(looked)))
    elif not kept.durable:
        tx.remove(kept.name)
