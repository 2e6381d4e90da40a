"""How the members of a group claim events in a store, and what becomes of what they have claimed.

What a member asks is data, so that a store that is elsewhere does it in one transaction there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from polycast.stores.values import Flight, GroupMember, Letter, StoredSubscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polycast.stores.contract import Transaction

__all__ = [
    "OUTLIVING",
    "Candidate",
    "ClaimOrder",
    "ClaimRequest",
    "ClaimResult",
    "SettleRequest",
    "SettledClaim",
    "StoredProcedure",
    "forget_before",
    "forget_outliving",
    "outliving",
    "settle",
    "take_claims",
    "tidy",
]

OUTLIVING = "outliving"  # the kind of the documents with events that the log has let go of
_HELD = -1  # before every position
R = TypeVar("R")
Stale = list[tuple[int, int]]  # claims that were taken away before: position and token


class SettledClaim(msgspec.Struct, frozen=True):
    """What became of a claim: it is done, or else free for others from a time on."""

    position: int
    token: int
    holder: int | None
    done: bool
    attempts: int = 0
    due: float = 0.0
    letter: Letter | None = None
    """Why it is done without having been handled."""


class SettleRequest(msgspec.Struct, frozen=True):
    """What became of some claims of a group."""

    name: str
    settled: list[SettledClaim]


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An event that a member wants, and by whom it is."""

    position: int
    publisher: str


class ClaimRequest(msgspec.Struct, frozen=True):
    """What the members of a group in one bus would have, so many of it; settled claims first."""

    name: str
    bus: int
    order: Literal["none", "fifo", "total"]
    room: int
    settled: list[SettledClaim]
    offers: list[Flight]
    """What others have let go of."""
    has_tried: bool
    """Whether they hold one that has been tried before."""
    candidates: list[Candidate]
    """What nobody may have claimed yet, in the order of the log."""
    beyond: int
    """The first position after these that they have not looked at, or where what they want is."""
    floor: int
    """Where they joined: before it, others have seen to everything."""


class ClaimResult(msgspec.Struct, frozen=True):
    """What was claimed, and which candidates somebody has."""

    got: list[Flight] = []
    passed: list[int] = []
    stale: Stale = []
    is_member: bool = False
    """False if the bus had counted as dead; then nothing else was done."""
    others: bool = False
    """Whether there are members in other buses."""


class StoredProcedure(ABC, Generic[R]):
    """Work whose whole is data: it is asked for, done where the store is, and heard of.

    A store of this process calls it like any other work.
    """

    can_wait = False
    """Whether others that were asked for later may be done before it, and may make it needless."""

    @abstractmethod
    def asked(self) -> Any:
        """What is to be done, as of now. In the thread that writes."""

    def needless(self, asked: Any) -> R | None:
        """The reply, if nothing has to be done."""
        del asked
        return None

    @abstractmethod
    def done(self, tx: Transaction, asked: Any) -> R:
        """Do it."""

    @abstractmethod
    def heard(self, reply: R) -> None:
        """It is done for good. In the thread that writes, before any other work."""

    def __call__(self, tx: Transaction) -> R:
        """Do it in a store of this process."""
        asked = self.asked()
        reply = self.needless(asked)
        if reply is not None:
            return reply
        reply = self.done(tx, asked)
        tx.after(lambda: self.heard(reply))
        return reply


# -- settling --------------------------------------------------------------------------------------


def settle(tx: Transaction, asked: SettleRequest) -> Stale:
    """Write down what became of claims; those that had been taken away are let be."""
    if not asked.settled:
        return []
    found = tx.flights_at(asked.name, [claim.position for claim in asked.settled])
    current = {flight.position: flight for flight in found}
    stale: Stale = []
    new: list[Flight] = []
    letters: list[Letter] = []
    for claim in asked.settled:
        now = current.get(claim.position)
        if now is None or now.token != claim.token or now.holder != claim.holder:
            stale.append((claim.position, claim.token))
            continue
        current[claim.position] = after = _after(now, claim)
        new.append(after)
        letters += [] if claim.letter is None else [claim.letter]
    if new:
        tx.fly(new)
    if letters:
        tx.bury(letters)
    finished = [claim.position for claim in asked.settled if claim.done]
    if finished:
        forget_outliving(tx, asked.name, finished)
    return stale


def _after(flight: Flight, settled: SettledClaim) -> Flight:
    if settled.done:
        return replace(flight, done=True, holder=None)
    attempts, token = max(0, settled.attempts), flight.token + 1
    return replace(flight, holder=None, token=token, attempts=attempts, due=settled.due)


def outliving(name: str, position: int) -> str:
    """The name of the document with an event that a subscription gets once more."""
    return f"{name}/{position}"


def forget_outliving(tx: Transaction, name: str, positions: Iterable[int]) -> None:
    """These have been handled."""
    oldest = tx.oldest()
    for position in positions:
        if position < oldest:
            tx.remove_document(OUTLIVING, outliving(name, position))


# -- claiming --------------------------------------------------------------------------------------


def take_claims(tx: Transaction, asked: ClaimRequest) -> ClaimResult:
    """Take what is free, then what nobody has claimed yet."""
    members, kept = tx.members(asked.name), tx.subscription(asked.name)
    if kept is None or all(member.bus != asked.bus for member in members):
        return ClaimResult()  # it had counted as dead; it will join again
    # What was passed on is in the way of what comes after it.
    stale = settle(tx, SettleRequest(asked.name, asked.settled))
    under_way = () if asked.order == "none" else tx.under_way(asked.name)
    order = ClaimOrder(asked.order, under_way, asked.bus)
    got = _free(tx, asked, order)
    passed = _new(tx, asked, kept, order, got)
    waiting = (
        candidate.position for candidate in asked.candidates if candidate.position not in passed
    )
    looked = max(next(waiting, asked.beyond), asked.floor)
    if all(member.bus != asked.bus or member.looked != looked for member in members):
        tx.join(GroupMember(asked.name, asked.bus, looked))
        others = [member.looked for member in members if member.bus != asked.bus]
        forget_before(tx, kept, [*others, looked])
    return ClaimResult(got, sorted(passed), stale, is_member=True, others=len(members) > 1)


def _free(tx: Transaction, asked: ClaimRequest, order: ClaimOrder) -> list[Flight]:
    """What others have let go of, one at a time if it may be what killed them."""
    got: list[Flight] = []
    if not asked.offers or asked.room <= 0:
        return got
    found = tx.flights_at(asked.name, [flight.position for flight in asked.offers])
    there, has_tried = {flight.position: flight for flight in found}, asked.has_tried
    for flight in asked.offers:
        tried = flight.attempts > 0 and has_tried
        if (
            there.get(flight.position) == flight
            and flight.holder is None
            and not flight.done
            and len(got) < asked.room
            and not tried
            and order.allows(flight.publisher, flight)
        ):
            taken = replace(flight, holder=asked.bus, attempts=flight.attempts + 1)
            tx.fly([taken])
            got.append(taken)
            has_tried = has_tried or taken.attempts > 1
    return got


def _new(
    tx: Transaction,
    asked: ClaimRequest,
    kept: StoredSubscription,
    order: ClaimOrder,
    got: list[Flight],
) -> set[int]:
    """Claim what nobody has, as far as there is room; the candidates that somebody has now."""
    ahead = [
        candidate.position for candidate in asked.candidates if candidate.position >= kept.cursor
    ]
    taken = {flight.position for flight in tx.flights_at(asked.name, ahead)} if ahead else set()
    known = [candidate.position for candidate in asked.candidates]
    passed = {position for position in known if position < kept.cursor or position in taken}
    token = tx.revision() + 1
    for candidate in asked.candidates:
        if len(got) >= asked.room:
            break
        if candidate.position not in passed and order.allows(candidate.publisher, None):
            passed.add(candidate.position)
            about = (asked.name, candidate.position, candidate.publisher, asked.bus, token)
            flight = Flight(*about, attempts=1)
            if tx.claim(flight):
                got.append(flight)
    return passed


class ClaimOrder:
    """What order forbids to claim: what comes after something that somebody else has."""

    def __init__(self, order: str, under_way: Iterable[Flight], bus: int) -> None:
        self._order = order
        others = () if order == "none" else under_way
        self._first: dict[str, int] = {}  # by publisher, of what others may have before it
        for flight in others:
            if flight.holder != bus:
                source = self._source(flight.publisher)
                first = _HELD if flight.holder is not None else flight.position
                self._first[source] = min(first, self._first.get(source, first))

    def _source(self, publisher: str) -> str:
        return "" if self._order == "total" else publisher

    def allows(self, publisher: str, flight: Flight | None) -> bool:
        """Whether an event of a publisher may be claimed; or a flight that is free."""
        first = self._first.get(self._source(publisher))
        if first is None:
            return True
        # Of those that are free the first comes first; what somebody holds has to end before.
        return flight is not None and flight.position <= first


def tidy(tx: Transaction, kept: StoredSubscription) -> None:
    """Forget what all members of a group have looked past; a group without any may be over."""
    forget_before(tx, kept, [member.looked for member in tx.members(kept.name)])


def forget_before(tx: Transaction, kept: StoredSubscription, looked: Sequence[int]) -> None:
    """Forget what all members have looked past, who have looked so far."""
    if looked:
        tx.land_before(kept.name, min(looked))
        tx.move(kept.name, token=kept.token, cursor=max(kept.cursor, min(looked)))
    elif not kept.durable:
        tx.remove(kept.name)
