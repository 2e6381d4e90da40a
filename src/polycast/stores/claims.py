"""Claims: how the members of a group share its events among themselves.

Requests are plain data, so that a remote store can run each of them in one transaction.
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

OUTLIVING = "outliving"  # the kind of documents with events that are no longer in the log
_HELD = -1  # before every position
R = TypeVar("R")
Stale = list[tuple[int, int]]  # claims that were lost to another member: position and token


class SettledClaim(msgspec.Struct, frozen=True):
    """The outcome of a claim: the event is done, or free for others from `due` on."""

    position: int
    token: int
    holder: int | None
    done: bool
    attempts: int = 0
    due: float = 0.0
    letter: Letter | None = None
    """The dead letter, if the event is done without having been handled."""


class SettleRequest(msgspec.Struct, frozen=True):
    """Request to settle claims of a group."""

    name: str
    settled: list[SettledClaim]


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An event that a member wants, and its publisher."""

    position: int
    publisher: str


class ClaimRequest(msgspec.Struct, frozen=True):
    """Request to claim up to `room` events for the members in one bus, after settling others."""

    name: str
    bus: int
    order: Literal["none", "fifo", "total"]
    room: int
    settled: list[SettledClaim]
    offers: list[Flight]
    """Free flights: others have released them."""
    has_tried: bool
    """Whether the members hold an event that has been attempted before."""
    candidates: list[Candidate]
    """Events that may be unclaimed, in the order of the log."""
    beyond: int
    """The first position after the candidates where there may be an event that they want."""
    floor: int
    """The position where they joined; other members handle everything before it."""


class ClaimResult(msgspec.Struct, frozen=True):
    """The claimed events, and the candidates that somebody has claimed."""

    got: list[Flight] = []
    passed: list[int] = []
    stale: Stale = []
    is_member: bool = False
    """False if the bus was removed as dead; then nothing else was done."""
    others: bool = False
    """Whether there are members in other buses."""


class StoredProcedure(ABC, Generic[R]):
    """Work with plain data as argument and result, which a remote store runs where the data is.

    A store of this process calls it like any other work.
    """

    can_wait = False
    """Whether procedures submitted later may run before it, and may make it unnecessary."""

    @abstractmethod
    def asked(self) -> Any:
        """Return the argument, as of now. Called in the writer thread."""

    def needless(self, asked: Any) -> R | None:
        """Return the result if there is nothing to do, else None."""
        del asked
        return None

    @abstractmethod
    def done(self, tx: Transaction, asked: Any) -> R:
        """Run it in a transaction, and return the result."""

    @abstractmethod
    def heard(self, reply: R) -> None:
        """Take note of the committed result. Called in the writer thread, before other work."""

    def __call__(self, tx: Transaction) -> R:
        """Run it in a store of this process."""
        asked = self.asked()
        reply = self.needless(asked)
        if reply is not None:
            return reply
        reply = self.done(tx, asked)
        tx.after(lambda: self.heard(reply))
        return reply


# -- settling --------------------------------------------------------------------------------------


def settle(tx: Transaction, asked: SettleRequest) -> Stale:
    """Record the outcome of claims; return those that had been lost to another member."""
    if not asked.settled:
        return []
    flights = tx.flights_at(asked.name, [claim.position for claim in asked.settled])
    current = {flight.position: flight for flight in flights}
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
    """Return the name of the document with an event that a subscription gets again."""
    return f"{name}/{position}"


def forget_outliving(tx: Transaction, name: str, positions: Iterable[int]) -> None:
    """Remove the documents of events that have been handled."""
    oldest = tx.oldest()
    for position in positions:
        if position < oldest:
            tx.remove_document(OUTLIVING, outliving(name, position))


# -- claiming --------------------------------------------------------------------------------------


def take_claims(tx: Transaction, asked: ClaimRequest) -> ClaimResult:
    """Claim free flights, then events that nobody has claimed yet."""
    members, kept = tx.members(asked.name), tx.subscription(asked.name)
    if kept is None or all(member.bus != asked.bus for member in members):
        return ClaimResult()  # it was removed as dead, and will join again
    # Settled first: events that were released hold back those after them.
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
    """Claim what others have released; only one at a time that may have killed its holder."""
    got: list[Flight] = []
    if not asked.offers or asked.room <= 0:
        return got
    flights = tx.flights_at(asked.name, [flight.position for flight in asked.offers])
    current, has_tried = {flight.position: flight for flight in flights}, asked.has_tried
    for flight in asked.offers:
        tried = flight.attempts > 0 and has_tried
        if (
            current.get(flight.position) == flight
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
    """Claim unclaimed events while there is room; return the candidates that are claimed now."""
    ahead = [
        candidate.position for candidate in asked.candidates if candidate.position >= kept.cursor
    ]
    taken = {flight.position for flight in tx.flights_at(asked.name, ahead)} if ahead else set()
    positions = [candidate.position for candidate in asked.candidates]
    passed = {position for position in positions if position < kept.cursor or position in taken}
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
    """The ordering rule: nothing may overtake an earlier event that somebody else has claimed."""

    def __init__(self, order: str, under_way: Iterable[Flight], bus: int) -> None:
        self._order = order
        others = () if order == "none" else under_way
        self._first: dict[str, int] = {}  # the first event of each publisher that others may have
        for flight in others:
            if flight.holder != bus:
                source = self._source(flight.publisher)
                first = _HELD if flight.holder is not None else flight.position
                self._first[source] = min(first, self._first.get(source, first))

    def _source(self, publisher: str) -> str:
        return "" if self._order == "total" else publisher

    def allows(self, publisher: str, flight: Flight | None) -> bool:
        """Whether a publisher's new event, or a free flight of it, may be claimed."""
        first = self._first.get(self._source(publisher))
        if first is None:
            return True
        # Free flights are claimed in order; one that is held must be settled before all later ones.
        return flight is not None and flight.position <= first


def tidy(tx: Transaction, kept: StoredSubscription) -> None:
    """Remove what all members have looked past; a group without members may end."""
    forget_before(tx, kept, [member.looked for member in tx.members(kept.name)])


def forget_before(tx: Transaction, kept: StoredSubscription, looked: Sequence[int]) -> None:
    """Remove done flights before the least advanced member, and move the cursor there."""
    if looked:
        tx.land_before(kept.name, min(looked))
        tx.move(kept.name, token=kept.token, cursor=max(kept.cursor, min(looked)))
    elif not kept.durable:
        tx.remove(kept.name)
