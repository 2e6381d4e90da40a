"""How much of the log is kept: by age, by size, by who has it; and what holds it back."""

from __future__ import annotations

import pytest
from store_drafts import MakeDrafts

from polycast.errors import BadOptionError
from polycast.stores import (
    Draft,
    Flight,
    Pin,
    Retention,
    Store,
    StoredSubscription,
    Stretch,
    pins,
    retain,
    retention_of,
    tidy_routing,
)
from polycast.testing import ManualClock


@pytest.fixture
def filled(store: Store, drafts: MakeDrafts, clock: ManualClock) -> Store:
    """Ten events, one a second."""
    for n in range(1, 11):
        store.append(drafts(n))
        clock.advance(1)
    return store


def keep(
    store: Store, *subscriptions: StoredSubscription, flights: tuple[Flight, ...] = ()
) -> None:
    for kept in subscriptions:
        store.write(lambda t, kept=kept: t.save(kept)).result(10)  # type: ignore[misc]
    store.write(lambda t: t.fly(flights)).result(10)


def test_a_store_without_a_rule_keeps_all(filled: Store, clock: ManualClock) -> None:
    assert retention_of(filled) == Retention()
    assert retain(filled, lambda _: clock.time() + 1e6) == 0


def test_a_rule_is_kept_in_the_store(store: Store) -> None:
    rule = Retention(age=5.0, size=1_000_000, delivered=True)
    rule.keep_in(store)
    assert retention_of(store) == rule


@pytest.mark.parametrize("bad", [{"age": 0}, {"age": float("nan")}, {"size": -1}])
def test_a_rule_that_keeps_nothing_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadOptionError):
        Retention(**bad)  # type: ignore[arg-type]


def test_what_is_older_goes(filled: Store, clock: ManualClock) -> None:
    Retention(age=4.0).keep_in(filled)
    assert (retain(filled, lambda _: clock.time()), filled.oldest()) == (6, 7)


def test_the_newest_stays_however_old_it_is(filled: Store, clock: ManualClock) -> None:
    Retention(age=4.0).keep_in(filled)
    assert (retain(filled, lambda _: clock.time() + 99), filled.oldest()) == (9, 10)


def test_what_everybody_has_goes(filled: Store, clock: ManualClock) -> None:
    Retention(delivered=True).keep_in(filled)
    assert retain(filled, lambda _: clock.time()) == 0  # nobody has anything yet
    keep(
        filled,
        StoredSubscription("a", b"", 1, 8),
        StoredSubscription("g", b"", 1, 5, group=True, pinned=False),
    )
    assert (retain(filled, lambda _: clock.time()), filled.oldest()) == (4, 5)


def test_a_pinned_subscription_holds_the_log_back(filled: Store, clock: ManualClock) -> None:
    keep(filled, StoredSubscription("a", b"", 1, 4))
    Retention(age=1.0, size=1).keep_in(filled)
    assert (retain(filled, lambda _: clock.time()), filled.oldest()) == (3, 4)


def test_an_open_flight_holds_the_log_back_and_a_done_one_does_not(
    filled: Store, clock: ManualClock
) -> None:
    flights = (Flight("a", 2, done=True), Flight("a", 3), Flight("a", 5))
    keep(filled, StoredSubscription("a", b"", 1, 8), flights=flights)
    Retention(age=1.0).keep_in(filled)
    assert (retain(filled, lambda _: clock.time()), filled.oldest()) == (2, 3)


def test_one_that_is_not_pinned_is_moved_up(filled: Store, clock: ManualClock) -> None:
    flights = (Flight("a", 2), Flight("a", 8))
    keep(filled, StoredSubscription("a", b"", 1, 4, pinned=False, token=3), flights=flights)
    Retention(age=4.0).keep_in(filled)
    assert (retain(filled, lambda _: clock.time()), filled.oldest()) == (6, 7)
    with filled.view() as view:
        assert view.subscription("a") == StoredSubscription("a", b"", 1, 7, pinned=False, token=3)
        assert view.flights("a") == [Flight("a", 8)]


def test_pins_are_named_the_farthest_behind_first(filled: Store) -> None:
    keep(
        filled,
        StoredSubscription("a", b"", 1, 11),
        StoredSubscription("b", b"", 1, 8, pinned=False),
        StoredSubscription("c", b"", 1, 9),
    )
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
    gone = retain(store, lambda _: clock.time())
    assert before // 5 < store.size() <= before // 3
    assert 1_200 < gone < 1_800
    assert store.oldest() == gone + 1


def large(draft: Draft) -> Draft:
    fields = {name: getattr(draft, name) for name in draft.__struct_fields__}
    return Draft(**{**fields, "payload": b"x" * 500})


# -- what is routed by the pipeline ----------------------------------------------------------------


def routed(store: Store, drafts: MakeDrafts, *subscriptions: StoredSubscription) -> Store:
    """These subscriptions have routes from 11 on; of the log up to 15, 12 is routed last."""
    keep(store, *subscriptions)
    for kept in subscriptions:
        store.write(lambda t, name=kept.name: t.begin_route(name, b"{}")).result(10)  # type: ignore[misc]
    store.append(drafts(*range(11, 16)))
    token = store.write(lambda t: t.take_routing()).result(10).token
    stretches = [Stretch(low, high, b"") for low, high in ((1, 11), (11, 12), (12, 13))]
    assert store.write(lambda t: t.advance(stretches, token=token)).result(10)
    return store


def kept_stretches(store: Store) -> list[int]:
    with store.view() as view:
        return [each.low for each in view.stretches(0, limit=99)]


def test_what_is_not_routed_yet_is_not_let_go(
    filled: Store, drafts: MakeDrafts, clock: ManualClock
) -> None:
    routed(
        filled, drafts, StoredSubscription("a", b"", 1, 14)
    )  # it has asked for more than is routed
    Retention(age=1.0, delivered=True, size=1).keep_in(filled)
    retain(filled, lambda _: clock.time() + 99)
    assert filled.oldest() == 13


def test_the_pipeline_is_named_before_those_that_wait_for_it(
    filled: Store, drafts: MakeDrafts
) -> None:
    routed(
        filled,
        drafts,
        StoredSubscription("a", b"", 1, 13),
        StoredSubscription("z", b"", 1, 4, pinned=False),
    )
    assert pins(filled) == [
        Pin("z", 4, 12, pinned=False),
        Pin("pipeline", 13, 3, pinned=True),
        Pin("a", 13, 3, pinned=True),
    ]


def test_the_log_is_not_kept_for_the_pipeline_if_no_pinned_subscription_needs_it(
    filled: Store, drafts: MakeDrafts
) -> None:
    kept = (
        StoredSubscription("a", b"", 1, 13, pinned=False),
        StoredSubscription("b", b"", 1, 13),
        StoredSubscription("c", b"", 1, 13),
    )
    routed(filled, drafts, *kept)
    filled.write(lambda t: t.remove("b")).result(10)
    filled.write(lambda t: t.end_route("c")).result(10)  # it is read from the log from now on
    assert [pin.name for pin in pins(filled)] == ["a", "c"]


def test_stretches_that_all_have_passed_go_without_a_rule(
    filled: Store, drafts: MakeDrafts, clock: ManualClock
) -> None:
    routed(filled, drafts, StoredSubscription("a", b"", 1, 13), StoredSubscription("b", b"", 1, 12))
    keep(filled, StoredSubscription("direct", b"", 1, 1))
    retain(filled, lambda _: clock.time())
    assert kept_stretches(filled) == [12]
    with filled.view() as view:
        assert view.routed().high == 13


def test_a_stretch_with_something_under_way_is_kept(filled: Store, drafts: MakeDrafts) -> None:
    routed(filled, drafts, StoredSubscription("a", b"", 1, 13), StoredSubscription("b", b"", 1, 13))
    keep(filled, flights=(Flight("a", 11), Flight("b", 10), Flight("b", 11, done=True)))
    filled.write(tidy_routing).result(10)
    assert kept_stretches(filled) == [11, 12]


def test_what_is_before_its_route_holds_no_stretch_back(filled: Store, drafts: MakeDrafts) -> None:
    routed(
        filled, drafts, StoredSubscription("a", b"", 1, 2)
    )  # it reads the log up to 11 by itself
    assert filled.write(tidy_routing).result(10) == 1
    assert kept_stretches(filled) == [11, 12]


def test_with_nobody_left_all_stretches_go(
    filled: Store, drafts: MakeDrafts, clock: ManualClock
) -> None:
    routed(filled, drafts, StoredSubscription("a", b"", 1, 11))
    filled.write(lambda t: t.remove("a")).result(10)
    retain(filled, lambda _: clock.time())
    assert kept_stretches(filled) == []


def test_routes_that_ended_are_forgotten_when_the_pipeline_has_passed_them(
    filled: Store, drafts: MakeDrafts
) -> None:
    routed(filled, drafts, StoredSubscription("a", b"", 1, 11), StoredSubscription("b", b"", 1, 11))
    filled.write(lambda t: t.remove("a")).result(10)
    for stretch, names in ((Stretch(13, 15, b""), ["a", "b"]), (Stretch(15, 16, b""), ["b"])):
        filled.write(lambda t, s=stretch: t.advance([s], token=1)).result(10)  # type: ignore[misc]
        filled.write(tidy_routing).result(10)
        with filled.view() as view:
            assert [each.name for each in view.routes()] == names
