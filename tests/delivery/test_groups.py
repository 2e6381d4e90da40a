"""One of n: an event goes to one member of a group that wants it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus

WAIT = 10.0


@dataclass
class Order:
    number: int = 0


@dataclass
class Rush(Order):
    pass


@dataclass
class Parcel:
    number: int = 0


def members(bus: TestBus, count: int, **options: Any) -> list[Recorder[Any]]:
    """So many recorders in one group."""
    recorders: list[Recorder[Any]] = [Recorder() for _ in range(count)]
    for recorder in recorders:
        bus.subscribe(Order, recorder, group="workers", **options)
    return recorders


def numbers(recorder: Recorder[Any]) -> list[int]:
    """What it handled."""
    return [event.number for event in recorder.events]


def test_an_event_goes_to_one_member(bus: TestBus) -> None:
    recorders = members(bus, 3)
    bus.publish_many(Order(number) for number in range(9))
    bus.run_until_idle()
    assert sorted(n for each in recorders for n in numbers(each)) == list(range(9))


def test_other_subscriptions_are_unaffected(bus: TestBus) -> None:
    members(bus, 3)
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen)
    bus.publish_many(Order(number) for number in range(9))
    bus.run_until_idle()
    assert numbers(seen) == list(range(9))


def test_groups_of_different_names_each_get_the_event(bus: TestBus) -> None:
    one: Recorder[Order] = Recorder()
    other: Recorder[Order] = Recorder()
    bus.subscribe(Order, one, group="one")
    bus.subscribe(Order, other, group="other")
    bus.publish(Order())
    bus.run_until_idle()
    assert (len(one.events), len(other.events)) == (1, 1)


def test_a_group_is_of_one_bus(bus: TestBus) -> None:
    (mine,) = members(bus, 1)
    with TestBus() as elsewhere:
        (theirs,) = members(elsewhere, 1)
        bus.publish(Order())
        bus.run_until_idle()
        elsewhere.run_until_idle()
    assert (len(mine.events), len(theirs.events)) == (1, 0)


def test_the_one_with_least_in_flight_is_chosen(bus: TestBus) -> None:
    one, other = members(bus, 2, ack="manual")
    bus.publish_many([Order(0), Order(1)])
    bus.run_until_idle()
    one.deliveries[0].ack()
    bus.publish(Order(2))
    bus.run_until_idle()
    assert (numbers(one), numbers(other)) == ([0, 2], [1])


def test_among_equals_the_longest_idle_is_chosen(bus: TestBus) -> None:
    recorders = members(bus, 3)
    for number in range(6):
        bus.publish(Order(number))
        bus.run_until_idle()
    assert [numbers(each) for each in recorders] == [[0, 3], [1, 4], [2, 5]]


def test_members_work_side_by_side(live: pc.Bus) -> None:
    together = threading.Barrier(3)
    for _ in range(3):
        live.subscribe(Order, lambda order: together.wait(WAIT), group="workers", attempts=1)
    live.publish_many([Order()] * 3)
    live.flush(WAIT)
    assert len(live.dead_letters()) == 0


# -- members that differ ---------------------------------------------------------------------------


def test_members_may_differ_in_type(bus: TestBus) -> None:
    orders: Recorder[Order] = Recorder()
    parcels: Recorder[Parcel] = Recorder()
    bus.subscribe(Order, orders, group="g")
    bus.subscribe(Parcel, parcels, group="g")
    bus.publish_many([Order(1), Parcel(2), Order(3), Parcel(4)])
    bus.run_until_idle()
    assert (numbers(orders), numbers(parcels)) == ([1, 3], [2, 4])


def test_members_may_differ_in_filter(bus: TestBus) -> None:
    even: Recorder[Order] = Recorder()
    odd: Recorder[Order] = Recorder()
    bus.subscribe(Order, even, group="g", where=lambda order: order.number % 2 == 0)
    bus.subscribe(Order, odd, group="g", where=lambda order: order.number % 2 == 1)
    bus.publish_many(Order(number) for number in range(6))
    bus.run_until_idle()
    assert (numbers(even), numbers(odd)) == ([0, 2, 4], [1, 3, 5])


def test_an_event_that_several_members_want_by_different_types_comes_once(bus: TestBus) -> None:
    general: Recorder[Order] = Recorder()
    special: Recorder[Rush] = Recorder()
    bus.subscribe(Order, general, group="g")
    bus.subscribe(Rush, special, group="g")
    bus.publish_many(Rush(number) for number in range(6))
    bus.run_until_idle()
    assert sorted(numbers(general) + numbers(special)) == list(range(6))


def test_an_event_that_no_member_wants_goes_to_none(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, group="g", where=lambda order: False)
    bus.publish(Order())
    bus.run_until_idle()
    assert seen.events == []


def test_a_busy_member_does_not_hold_up_events_that_others_want(bus: TestBus) -> None:
    even: Recorder[Order] = Recorder()
    odd: Recorder[Order] = Recorder()
    stopped = bus.subscribe(Order, even, group="g", where=lambda o: o.number % 2 == 0)
    bus.subscribe(Order, odd, group="g", where=lambda o: o.number % 2 == 1)
    stopped.pause()
    bus.publish_many(Order(number) for number in range(6))
    bus.run_until_idle()
    assert numbers(odd) == [1, 3, 5]


def test_a_member_acknowledges_in_its_own_way(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order: None, group="g", where=lambda order: order.number == 0)
    by_hand: Recorder[Order] = Recorder()
    bus.subscribe(Order, by_hand, group="g", where=lambda o: o.number == 1, ack="manual")
    bus.publish(Order(1))
    bus.run_until_idle()
    assert bus.health().subscriptions[0].in_flight == 1


def test_a_member_may_be_called_in_line(bus: TestBus) -> None:
    got: list[int] = []
    bus.subscribe(Order, lambda order: got.append(order.number), group="g", dispatch="inline")
    bus.publish(Order(5))
    assert got == [5]


# -- failing, coming and going ---------------------------------------------------------------------


def test_the_failure_of_a_member_passes_the_event_to_the_next(bus: TestBus) -> None:
    bad: Recorder[Order] = Recorder(fail=lambda order: OSError("broken"))
    good: Recorder[Order] = Recorder()
    bus.subscribe(Order, bad, group="g")
    bus.subscribe(Order, good, group="g")
    bus.publish(Order(1))
    bus.run_until_idle()
    assert (len(bad.deliveries), numbers(good)) == (1, [1])


def test_the_next_member_sees_a_higher_count_and_token(bus: TestBus) -> None:
    bad: Recorder[Order] = Recorder(fail=lambda order: OSError("broken"))
    good: Recorder[Order] = Recorder()
    bus.subscribe(Order, bad, group="g")
    bus.subscribe(Order, good, group="g")
    bus.publish(Order())
    bus.run_until_idle()
    first, second = bad.deliveries[0], good.deliveries[0]
    assert (second.count, second.token > first.token) == (2, True)


def test_all_members_failing_ends_in_one_dead_letter(bus: TestBus) -> None:
    for _ in range(3):
        bad: Recorder[Order] = Recorder(fail=lambda order: OSError("broken"))
        bus.subscribe(Order, bad, group="g", attempts=4)
    bus.publish(Order())
    for _ in range(10):
        bus.advance(60)
    assert [letter.attempts for letter in bus.dead_letters()] == [4]


def test_a_weak_group_does_not_pass_on_a_failure(bus: TestBus) -> None:
    calls: list[int] = []
    for _ in range(2):
        bus.subscribe(Order, lambda o: calls.append(1 // 0), group="g", level="weak_set")
    seen: Recorder[Order] = Recorder(fail=lambda order: calls.append(1) or OSError())
    bus.subscribe(Order, seen, group="weak", level="weak_set")
    bus.subscribe(Order, seen, group="weak", level="weak_set")
    bus.publish(Order())
    bus.advance(60)
    assert calls == [1]


def test_what_a_leaving_member_had_in_flight_goes_to_another(bus: TestBus) -> None:
    recorders: list[Recorder[Order]] = [Recorder(), Recorder()]
    subs = [bus.subscribe(Order, each, group="g", ack="manual") for each in recorders]
    bus.publish(Order(1))
    bus.run_until_idle()
    holder = 0 if recorders[0].deliveries else 1
    subs[holder].cancel()
    bus.run_until_idle()
    assert numbers(recorders[1 - holder]) == [1]


def test_cancelling_a_member_leaves_the_group_to_the_others(bus: TestBus) -> None:
    recorders: list[Recorder[Order]] = [Recorder(), Recorder()]
    subs = [bus.subscribe(Order, each, group="g") for each in recorders]
    subs[0].cancel()
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    assert (numbers(recorders[0]), numbers(recorders[1])) == ([], [1, 2])


def test_the_states_of_members_are_their_own(bus: TestBus) -> None:
    subs = [bus.subscribe(Order, print, group="g") for _ in range(3)]
    subs[0].cancel()
    subs[1].pause()
    assert [sub.state for sub in subs] == ["cancelled", "paused", "active"]


def test_a_member_that_joins_later_takes_its_share(bus: TestBus) -> None:
    (early,) = members(bus, 1)
    bus.publish(Order(0))
    bus.run_until_idle()
    (late,) = members(bus, 1)
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    assert len(early.events) + len(late.events) == 3
    assert late.events


def test_a_paused_member_gets_nothing_while_others_work(bus: TestBus) -> None:
    one: Recorder[Order] = Recorder()
    other: Recorder[Order] = Recorder()
    bus.subscribe(Order, one, group="g").pause()
    bus.subscribe(Order, other, group="g")
    bus.publish_many(Order(number) for number in range(4))
    bus.run_until_idle()
    assert (numbers(one), numbers(other)) == ([], [0, 1, 2, 3])


def test_the_lease_of_a_member_ends_that_member_only(bus: TestBus) -> None:
    leased: Recorder[Order] = Recorder()
    staying: Recorder[Order] = Recorder()
    short = bus.subscribe(Order, leased, group="g", lease=10)
    long = bus.subscribe(Order, staying, group="g")
    bus.advance(10)
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    assert (short.state, long.state, numbers(staying)) == ("expired", "active", [1, 2])


# -- how events are shared out under each level ----------------------------------------------------


@pytest.mark.parametrize("level", ["array", "list"])
def test_a_fifo_group_gives_a_publishers_events_to_one_member_at_a_time(
    bus: TestBus, level: Any
) -> None:
    one, other = members(bus, 2, level=level, ack="manual")
    bus.publish_many([Order(0), Order(1)])
    bus.run_until_idle()
    assert len(one.deliveries) + len(other.deliveries) == 1


@pytest.mark.parametrize("level", ["array", "list"])
def test_a_fifo_group_keeps_the_order_of_a_publisher(live: pc.Bus, level: Any) -> None:
    order: list[int] = []
    for _ in range(3):
        live.subscribe(Order, lambda o: order.append(o.number), group="g", level=level)
    for number in range(100):
        live.publish(Order(number))
    live.flush(WAIT)
    assert order == list(range(100))


@pytest.mark.parametrize("level", ["sorted_bag", "sorted_set"])
def test_a_totally_ordered_group_has_one_active_member(bus: TestBus, level: Any) -> None:
    recorders = members(bus, 3, level=level)
    for number in range(6):
        bus.publish(Order(number))
        bus.run_until_idle()
    assert sorted(numbers(each) for each in recorders) == [[], [], list(range(6))]


@pytest.mark.parametrize("level", ["sorted_bag", "sorted_set"])
def test_another_member_becomes_active_when_the_active_one_leaves(bus: TestBus, level: Any) -> None:
    recorders: list[Recorder[Order]] = [Recorder(), Recorder()]
    subs = [bus.subscribe(Order, each, group="g", level=level) for each in recorders]
    bus.publish(Order(0))
    bus.run_until_idle()
    active = 0 if recorders[0].events else 1
    subs[active].cancel()
    bus.publish(Order(1))
    bus.run_until_idle()
    assert numbers(recorders[1 - active]) == [1]


def test_unordered_groups_do_not_wait_behind_a_failure(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder(fail=lambda o: OSError() if o.number == 0 else None)
    bus.subscribe(Order, seen, group="g")
    bus.publish_many([Order(0), Order(1)])
    bus.run_until_idle()
    assert numbers(seen) == [1]
