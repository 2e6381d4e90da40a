"""Claims of a group: what is asked is data, and every store does the same with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_drafts import make_drafts

from polycast.stores import Flight, GroupMember, Store, StoredSubscription, Transaction
from polycast.stores.claims import (
    Candidate,
    ClaimOrder,
    ClaimRequest,
    ClaimResult,
    SettledClaim,
    SettleRequest,
    StoredProcedure,
    settle,
    take_claims,
)
from polycast.stores.memory_store import MemoryStore

GROUP = "desk"


class Claim(StoredProcedure[ClaimResult]):
    """Claims, and remembers what it has heard."""

    def __init__(self, bus: int, positions: list[int], **options: Any) -> None:
        self.replies: list[ClaimResult] = []
        about = {"order": "none", "room": 10, "settled": [], "offers": [], "has_tried": False}
        wanted = [Candidate(each, "till") for each in positions]
        about |= {"candidates": wanted, "beyond": 100, "floor": 1}
        self._asked = ClaimRequest(GROUP, bus, **(about | options))

    def asked(self) -> ClaimRequest:
        return self._asked

    def done(self, tx: Transaction, asked: ClaimRequest) -> ClaimResult:
        return take_claims(tx, asked)

    def heard(self, reply: ClaimResult) -> None:
        self.replies.append(reply)


class Settle(StoredProcedure[list[tuple[int, int]]]):
    """Says what became of claims."""

    def __init__(self, *settled: SettledClaim) -> None:
        self._asked = SettleRequest(GROUP, list(settled))

    def asked(self) -> SettleRequest:
        return self._asked

    def done(self, tx: Transaction, asked: SettleRequest) -> list[tuple[int, int]]:
        return settle(tx, asked)

    def heard(self, reply: list[tuple[int, int]]) -> None:
        del reply


def begin(store: Store, *buses: int) -> None:
    """A group over a few events."""
    store.append(make_drafts(*range(1, 9)))

    def work(tx: Transaction) -> None:
        tx.save(StoredSubscription(GROUP, b"", 1, 1, durable=False, group=True))
        for bus in buses:
            tx.join(GroupMember(GROUP, bus, 1))

    store.write(work).result(10)


def positions(claims: ClaimResult) -> list[int]:
    return [each.position for each in claims.got]


def done(flight: Flight) -> SettledClaim:
    return SettledClaim(flight.position, flight.token, flight.holder, done=True)


def passed_on(flight: Flight, **about: Any) -> SettledClaim:
    return SettledClaim(flight.position, flight.token, flight.holder, done=False, **about)


def test_what_one_has_claimed_the_other_passes(store: Store) -> None:
    begin(store, 1, 2)
    first = store.write(Claim(1, [1, 2, 3], room=2)).result(10)
    assert positions(first) == [1, 2]
    assert first.others
    second = store.write(Claim(2, [1, 2, 3])).result(10)
    assert (positions(second), second.passed) == ([3], [1, 2, 3])


def test_who_asked_has_heard_before_the_result_is_there(store: Store) -> None:
    begin(store, 1)
    claim = Claim(1, [1])
    assert store.write(claim).result(10) == claim.replies[-1]


def test_who_is_no_member_gets_nothing_and_settles_nothing(store: Store) -> None:
    begin(store, 1)
    [flight] = store.write(Claim(1, [1])).result(10).got
    assert store.write(Claim(7, [2], settled=[done(flight)])).result(10) == ClaimResult()
    with store.view() as view:
        assert view.flights(GROUP) == [flight]


def test_what_all_have_looked_past_is_forgotten_when_it_is_done(store: Store) -> None:
    begin(store, 1, 2)
    [flight] = store.write(Claim(1, [4], beyond=6)).result(10).got
    store.write(Claim(2, [], beyond=5, settled=[done(flight)])).result(10)
    with store.view() as view:
        kept = view.subscription(GROUP)
        assert kept is not None
        assert (kept.cursor, view.flights(GROUP)) == (5, [])


def test_a_claim_that_was_taken_away_is_stale(store: Store) -> None:
    begin(store, 1, 2)
    [flight] = store.write(Claim(1, [1])).result(10).got
    assert store.write(Settle(passed_on(flight, attempts=1, due=3.0))).result(10) == []
    with store.view() as view:
        [free] = view.standing(GROUP, at=5.0, limit=9).free
    assert (free.holder, free.token, free.attempts) == (None, flight.token + 1, 1)
    [taken] = store.write(Claim(2, [], offers=[free])).result(10).got
    assert taken.holder == 2
    assert store.write(Settle(done(flight))).result(10) == [(1, flight.token)]
    with store.view() as view:
        assert view.standing(GROUP, at=5.0, limit=9).under_way == [taken]


def test_an_offer_that_somebody_holds_is_not_given(store: Store) -> None:
    begin(store, 1, 2)
    [flight] = store.write(Claim(1, [1])).result(10).got
    assert store.write(Claim(2, [], offers=[flight])).result(10).got == []


def test_what_was_tried_before_is_given_one_at_a_time(store: Store) -> None:
    begin(store, 1, 2)
    claimed = store.write(Claim(1, [1, 2])).result(10).got
    store.write(Settle(*(passed_on(each, attempts=1) for each in claimed))).result(10)
    with store.view() as view:
        free = view.standing(GROUP, at=0.0, limit=9).free
    assert positions(store.write(Claim(2, [], offers=free)).result(10)) == [1]


def test_order_holds_back_what_comes_after_what_another_has(store: Store) -> None:
    begin(store, 1, 2)
    [flight] = store.write(Claim(1, [1], order="fifo")).result(10).got
    mixed = [Candidate(2, "till"), Candidate(3, "other")]
    by_publisher = store.write(Claim(2, [], candidates=mixed, order="fifo")).result(10)
    assert positions(by_publisher) == [3]
    assert store.write(Claim(2, [4], order="total")).result(10).got == []
    freed = Claim(1, [4], order="total", settled=[done(flight), done(by_publisher.got[0])])
    store.write(freed).result(10)


@settings(max_examples=60, suppress_health_check=[*HealthCheck])
@given(
    asked=st.lists(
        st.tuples(st.integers(1, 3), st.lists(st.integers(1, 8), unique=True), st.integers(0, 4)),
        max_size=12,
    )
)
def test_an_event_has_one_holder_at_most_and_none_is_forgotten_unclaimed(
    asked: list[tuple[int, list[int], int]],
) -> None:
    store = MemoryStore()
    begin(store, 1, 2, 3)
    claimed: set[int] = set()
    for bus, wanted, room in asked:
        left = [each for each in range(1, 9) if each not in claimed or each in wanted]
        reply = store.write(Claim(bus, left, room=room, beyond=9)).result(10)
        assert claimed.isdisjoint(positions(reply))
        assert set(reply.passed) <= claimed | set(positions(reply))
        claimed.update(positions(reply))
        with store.view() as view:
            kept = view.subscription(GROUP)
            assert kept is not None
            assert all(each in claimed for each in range(1, min(9, kept.cursor)))
    store.close()


@dataclass(frozen=True)
class PlainOrder:
    """What `ClaimOrder` says, asked of each flight of others."""

    order: str
    others: tuple[Flight, ...]

    def allows(self, publisher: str, flight: Flight | None) -> bool:
        if self.order == "none" or not self.others:
            return True
        if flight is None:
            return self.order == "fifo" and all(each.publisher != publisher for each in self.others)
        return all(
            each.holder is None and each.position >= flight.position
            for each in self.others
            if self.order == "total" or each.publisher == publisher
        )


FLIGHTS = st.builds(
    Flight,
    st.just("g"),
    st.integers(1, 6),
    st.sampled_from(["", "p", "q"]),
    holder=st.sampled_from([None, 1, 2]),
)


@given(st.sampled_from(["none", "fifo", "total"]), st.lists(FLIGHTS, max_size=5), FLIGHTS)
def test_order_forbids_what_comes_after_something_that_others_have(
    order: str, under_way: list[Flight], flight: Flight
) -> None:
    others = tuple(each for each in under_way if each.holder != 1)
    plain, quick = PlainOrder(order, others), ClaimOrder(order, under_way, 1)
    for asked in (None, flight):
        assert quick.allows(flight.publisher, asked) == plain.allows(flight.publisher, asked)
