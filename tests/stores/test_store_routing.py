"""Every store keeps what the pipeline routes for, how far it has come, and what it found out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import pytest
from store_drafts import MakeDrafts

from polycast.stores import (
    Routed,
    Store,
    StoredRoute,
    StoredSubscription,
    Stretch,
    Transaction,
)
from polycast.stores.memory_store import MemoryStore


@pytest.fixture
def filled(store: Store, drafts: MakeDrafts) -> Store:
    """Ten events."""
    store.append(drafts(*range(1, 11)))
    return store


def begin(store: Store, name: str, definition: bytes = b"{}") -> StoredRoute:
    return store.write(lambda tx: tx.begin_route(name, definition)).result(10)


def end(store: Store, name: str) -> None:
    store.write(lambda tx: tx.end_route(name)).result(10)


def take(store: Store) -> int:
    return store.write(lambda tx: tx.take_routing()).result(10).token


def advance(store: Store, stretches: Sequence[Stretch], token: int) -> bool:
    return store.write(lambda tx: tx.advance(stretches, token=token)).result(10)


def cuts(*places: int) -> list[Stretch]:
    """Stretches between these places."""
    return [Stretch(low, high, b"%d" % low) for low, high in pairwise(places)]


# -- routes ----------------------------------------------------------------------------------------


def test_a_new_store_routes_for_nobody(store: Store) -> None:
    with store.view() as view:
        assert view.routed() == Routed(1, 0)
        assert (view.route("a"), view.routes(), view.routes(at=1)) == (None, [], [])
        assert (view.turns(0, 99), view.stretches(0, limit=9)) == ([], [])
        assert len(view.identity()) == 32


def test_a_store_is_told_from_any_other(store: Store) -> None:
    with store.view() as view, MemoryStore().view() as other:
        assert view.identity() == view.identity() != other.identity()


def test_a_route_begins_after_the_end_of_the_log(filled: Store, drafts: MakeDrafts) -> None:
    assert begin(filled, "a", b"x") == StoredRoute(1, "a", b"x", 11)
    filled.append(drafts(11))
    assert begin(filled, "b", b"y") == StoredRoute(2, "b", b"y", 12)
    with filled.view() as view:
        assert view.route("a") == StoredRoute(1, "a", b"x", 11)
        assert view.routes() == [StoredRoute(1, "a", b"x", 11), StoredRoute(2, "b", b"y", 12)]
        assert [[each.name for each in view.routes(at=at)] for at in (10, 11, 12)] == [
            [],
            ["a"],
            ["a", "b"],
        ]


def test_a_route_begun_anew_takes_the_place_of_the_one_before(
    filled: Store, drafts: MakeDrafts
) -> None:
    begin(filled, "a", b"old")
    filled.append(drafts(11, 12))
    assert begin(filled, "a", b"new") == StoredRoute(2, "a", b"new", 13)
    with filled.view() as view:
        assert view.route("a") == StoredRoute(2, "a", b"new", 13)
        assert view.routes(at=12) == [StoredRoute(1, "a", b"old", 11, 13)]
        assert view.routes(at=13) == [StoredRoute(2, "a", b"new", 13)]


def test_a_route_that_was_never_in_effect_leaves_nothing_but_its_number(filled: Store) -> None:
    begin(filled, "a", b"old")
    assert begin(filled, "a", b"new").number == 2
    end(filled, "a")
    with filled.view() as view:
        assert (view.routes(), view.turns(0, 99)) == ([], [])
    assert begin(filled, "b").number == 3


def test_a_route_that_ended_is_in_effect_where_it_was(filled: Store, drafts: MakeDrafts) -> None:
    begin(filled, "a")
    filled.append(drafts(11))
    end(filled, "a")
    end(filled, "a")
    end(filled, "nobody")
    filled.append(drafts(12))
    with filled.view() as view:
        assert view.route("a") is None
        assert view.routes(at=11) == [StoredRoute(1, "a", b"{}", 11, 12)]
        assert view.routes(at=12) == []


def test_a_subscription_that_is_removed_ends_its_route(filled: Store, drafts: MakeDrafts) -> None:
    filled.write(lambda tx: tx.save(StoredSubscription("a", b"", 1, 1))).result(10)
    begin(filled, "a")
    begin(filled, "b")
    filled.append(drafts(11))
    filled.write(lambda tx: tx.remove("a")).result(10)
    with filled.view() as view:
        assert view.routes() == [StoredRoute(1, "a", b"{}", 11, 12), StoredRoute(2, "b", b"{}", 11)]


def test_turns_are_where_routes_begin_and_end(filled: Store, drafts: MakeDrafts) -> None:
    begin(filled, "a")
    begin(filled, "b")
    filled.append(drafts(11, 12, 13))
    end(filled, "a")
    begin(filled, "c")
    filled.append(drafts(14))
    end(filled, "b")
    with filled.view() as view:
        assert view.turns(0, 99) == [11, 14, 15]
        assert (view.turns(11, 15), view.turns(10, 14), view.turns(11, 14)) == ([14], [11], [])
        assert [view.last_turn(at) for at in (10, 11, 13, 14, 99)] == [0, 11, 11, 14, 15]
        assert [view.in_effect(at) for at in (10, 11, 14, 15)] == [
            (0, 0, 0),
            (2, 2, 0),
            (2, 3, 0),
            (1, 3, 0),
        ]


def test_routes_that_ended_are_forgotten_and_others_are_not(
    filled: Store, drafts: MakeDrafts
) -> None:
    for n, name in enumerate("abc", 11):
        begin(filled, name)
        filled.append(drafts(n))
        if name != "c":
            end(filled, name)
    filled.write(lambda tx: tx.forget_routes(12)).result(10)
    with filled.view() as view:
        assert [(each.name, each.until) for each in view.routes()] == [("b", 13), ("c", None)]


# -- how far it has come ---------------------------------------------------------------------------


def test_stretches_are_kept_and_move_the_pipeline_on(filled: Store) -> None:
    token = take(filled)
    assert advance(filled, cuts(1, 4, 6), token)
    assert advance(filled, cuts(6, 11), token)
    with filled.view() as view:
        assert view.routed() == Routed(11, token)
        assert view.stretches(0, limit=9) == cuts(1, 4, 6, 11)
        assert view.stretches(3, limit=2) == cuts(1, 4, 6)
        assert view.stretches(4, limit=2) == cuts(4, 6, 11)
        assert view.stretches(11, limit=2) == []


def test_what_was_kept_before_is_left_out(filled: Store) -> None:
    token = take(filled)
    advance(filled, cuts(1, 4, 6), token)
    assert advance(filled, [Stretch(1, 4, b"another"), *cuts(4, 6, 8)], token)
    assert advance(filled, [], token)
    with filled.view() as view:
        assert view.stretches(0, limit=9) == cuts(1, 4, 6, 8)


@pytest.mark.parametrize(
    "bad",
    [cuts(7, 9), cuts(5, 9), cuts(3, 9), [*cuts(6, 8), *cuts(9, 10)], cuts(6, 12)],
    ids=["a gap", "an overlap", "a longer overlap", "a gap within", "after the log"],
)
def test_what_does_not_follow_is_refused_and_nothing_kept(
    filled: Store, bad: list[Stretch]
) -> None:
    token = take(filled)
    advance(filled, cuts(1, 4, 6), token)

    def work(tx: Transaction) -> None:
        with pytest.raises(ValueError, match="cannot be kept: all before"):
            tx.advance(bad, token=token)

    filled.write(work).result(10)
    with filled.view() as view:
        assert view.stretches(0, limit=9) == cuts(1, 4, 6)
        assert view.routed().high == 6


def test_whoever_was_taken_over_may_not_write(filled: Store) -> None:
    first = take(filled)
    advance(filled, cuts(1, 4), first)
    second = filled.write(lambda tx: tx.take_routing()).result(10)
    assert second == Routed(4, first + 1)
    assert not advance(filled, cuts(4, 6), first)
    assert advance(filled, cuts(4, 7), second.token)
    with filled.view() as view:
        assert view.stretches(0, limit=9) == cuts(1, 4, 7)


def test_stretches_are_dropped_when_they_end_before_a_position(filled: Store) -> None:
    advance(filled, cuts(1, 4, 6, 11), take(filled))
    dropped = [
        filled.write(lambda tx, at=at: tx.drop_stretches(at)).result(10)  # type: ignore[misc]
        for at in (3, 6, 6)
    ]
    assert dropped == [0, 2, 0]
    with filled.view() as view:
        assert view.stretches(0, limit=9) == cuts(6, 11)
        assert view.routed().high == 11


def test_a_change_that_raises_routes_nothing(filled: Store) -> None:
    token = take(filled)

    def work(tx: Transaction) -> None:
        tx.begin_route("a", b"")
        tx.advance(cuts(1, 4), token=token)
        tx.take_routing()
        raise LookupError

    assert isinstance(filled.write(work).exception(10), LookupError)
    with filled.view() as view:
        assert (view.routes(), view.stretches(0, limit=9)) == ([], [])
        assert view.routed() == Routed(1, token)
    assert begin(filled, "a").number == 1


def test_who_watches_is_woken_by_stretches_without_a_revision(filled: Store) -> None:
    token = take(filled)
    with filled.view() as view:
        before = view.revision()
    woken = threading.Event()
    filled.watch(woken.set)
    advance(filled, cuts(1, 4), token)
    assert woken.wait(10)
    with filled.view() as view:
        assert view.revision() == before
