"""How much of the log is kept: by age, by size, by who has it; and what holds it back."""

from __future__ import annotations

import pytest
from store_drafts import MakeDrafts

from polycast.errors import BadOption
from polycast.stores import (
    Draft,
    Flight,
    Kept,
    Pin,
    Retention,
    Store,
    pins,
    retain,
    retention_of,
)
from polycast.testing import ManualClock


@pytest.fixture
def filled(store: Store, drafts: MakeDrafts, clock: ManualClock) -> Store:
    """Ten events, one a second."""
    for n in range(1, 11):
        store.append(drafts(n))
        clock.advance(1)
    return store


def keep(store: Store, *subscriptions: Kept, flights: tuple[Flight, ...] = ()) -> None:
    for kept in subscriptions:
        store.write(lambda t, kept=kept: t.save(kept)).result(10)  # type: ignore[misc]
    store.write(lambda t: t.fly(flights)).result(10)


def test_a_store_without_a_rule_keeps_all(filled: Store, clock: ManualClock) -> None:
    assert retention_of(filled) == Retention()
    assert retain(filled, clock.time() + 1e6) == 0


def test_a_rule_is_kept_in_the_store(store: Store) -> None:
    rule = Retention(age=5.0, size=1_000_000, delivered=True)
    rule.keep_in(store)
    assert retention_of(store) == rule


@pytest.mark.parametrize("bad", [{"age": 0}, {"age": float("nan")}, {"size": -1}])
def test_a_rule_that_keeps_nothing_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadOption):
        Retention(**bad)  # type: ignore[arg-type]


def test_what_is_older_goes(filled: Store, clock: ManualClock) -> None:
    Retention(age=4.0).keep_in(filled)
    assert (retain(filled, clock.time()), filled.oldest()) == (6, 7)


def test_the_newest_stays_however_old_it_is(filled: Store, clock: ManualClock) -> None:
    Retention(age=4.0).keep_in(filled)
    assert (retain(filled, clock.time() + 99), filled.oldest()) == (9, 10)


def test_what_everybody_has_goes(filled: Store, clock: ManualClock) -> None:
    Retention(delivered=True).keep_in(filled)
    assert retain(filled, clock.time()) == 0  # nobody has anything yet
    keep(filled, Kept("a", b"", 1, 8), Kept("g", b"", 1, 5, group=True, pinned=False))
    assert (retain(filled, clock.time()), filled.oldest()) == (4, 5)


def test_a_pinned_subscription_holds_the_log_back(filled: Store, clock: ManualClock) -> None:
    keep(filled, Kept("a", b"", 1, 4))
    Retention(age=1.0, size=1).keep_in(filled)
    assert (retain(filled, clock.time()), filled.oldest()) == (3, 4)


def test_an_open_flight_holds_the_log_back_and_a_done_one_does_not(
    filled: Store, clock: ManualClock
) -> None:
    flights = (Flight("a", 2, done=True), Flight("a", 3), Flight("a", 5))
    keep(filled, Kept("a", b"", 1, 8), flights=flights)
    Retention(age=1.0).keep_in(filled)
    assert (retain(filled, clock.time()), filled.oldest()) == (2, 3)


def test_one_that_is_not_pinned_is_moved_up(filled: Store, clock: ManualClock) -> None:
    flights = (Flight("a", 2), Flight("a", 8))
    keep(filled, Kept("a", b"", 1, 4, pinned=False, token=3), flights=flights)
    Retention(age=4.0).keep_in(filled)
    assert (retain(filled, clock.time()), filled.oldest()) == (6, 7)
    with filled.view() as view:
        assert view.subscription("a") == Kept("a", b"", 1, 7, pinned=False, token=3)
        assert view.flights("a") == [Flight("a", 8)]


def test_pins_are_named_the_farthest_behind_first(filled: Store) -> None:
    keep(filled, Kept("a", b"", 1, 11), Kept("b", b"", 1, 8, pinned=False), Kept("c", b"", 1, 9))
    keep(filled, flights=(Flight("c", 2),))
    assert pins(filled) == [
        Pin("c", 2, 9, pinned=True),
        Pin("b", 8, 3, pinned=False),
        Pin("a", 11, 0, pinned=True),
    ]


def test_the_store_shrinks_below_its_size(
    store: Store, drafts: MakeDrafts, clock: ManualClock
) -> None:
    for n in range(0, 2_000, 200):
        store.append([large(each) for each in drafts(*range(n, n + 200))])
    before = store.size()
    Retention(size=before // 3).keep_in(store)
    gone = retain(store, clock.time())
    assert before // 5 < store.size() <= before // 3
    assert 1_200 < gone < 1_800
    assert store.oldest() == gone + 1


def large(draft: Draft) -> Draft:
    fields = {name: getattr(draft, name) for name in draft.__struct_fields__}
    return Draft(**{**fields, "payload": b"x" * 500})
