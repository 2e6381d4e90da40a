"""What is held back behind a failure, what priority does, what expires."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus

ORDERED = ["array", "list", "sorted_bag", "sorted_set"]
UNORDERED = ["weak_bag", "weak_set", "strong_bag", "strong_set"]
STRONG_UNORDERED = ["strong_bag", "strong_set"]


@dataclass
class Order:
    number: int = 0


def numbers(seen: Recorder[Order]) -> list[int]:
    """What was handled, in order."""
    return [order.number for order in seen.events]


def failing_once(number: int) -> Recorder[Order]:
    """A subscriber that fails with the first attempt at one event."""
    failed: list[int] = []

    def fail(order: Order) -> Exception | None:
        if order.number == number and not failed:
            failed.append(number)
            return OSError("not yet")
        return None

    return Recorder(fail=fail)


# -- holding back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ORDERED)
def test_ordered_levels_hold_back_what_is_behind_a_failure(bus: TestBus, level: Any) -> None:
    seen = failing_once(1)
    bus.subscribe(Order, seen, level=level)
    bus.publish_many(Order(number) for number in range(4))
    bus.run_until_idle()
    before = numbers(seen)
    bus.advance(1)
    assert (before, numbers(seen)) == ([0], [0, 1, 2, 3])


@pytest.mark.parametrize("level", STRONG_UNORDERED)
def test_unordered_levels_go_on_behind_a_failure(bus: TestBus, level: Any) -> None:
    seen = failing_once(1)
    bus.subscribe(Order, seen, level=level)
    bus.publish_many(Order(number) for number in range(4))
    bus.run_until_idle()
    before = numbers(seen)
    bus.advance(1)
    assert (before, numbers(seen)) == ([0, 2, 3], [0, 2, 3, 1])


@pytest.mark.parametrize("level", ORDERED)
def test_a_dead_letter_lets_go_what_was_held_back(bus: TestBus, level: Any) -> None:
    seen: Recorder[Order] = Recorder(fail=lambda o: OSError() if o.number == 1 else None)
    bus.subscribe(Order, seen, level=level, attempts=2)
    bus.publish_many(Order(number) for number in range(4))
    bus.run_until_idle()
    bus.advance(60)
    assert numbers(seen) == [0, 2, 3]


@pytest.mark.parametrize("level", ORDERED)
def test_a_nack_holds_back_in_ordered_levels(bus: TestBus, level: Any) -> None:
    order: list[int] = []

    def callback(event: Order, delivery: pc.Delivery) -> None:
        if event.number == 0 and delivery.count == 1:
            delivery.nack(30)
            return
        order.append(event.number)
        delivery.ack()

    bus.subscribe(Order, callback, level=level, ack="manual")
    bus.publish_many([Order(0), Order(1)])
    bus.run_until_idle()
    bus.advance(29)
    before = list(order)
    bus.advance(1)
    assert (before, order) == ([], [0, 1])


def test_a_failure_holds_back_that_subscription_only(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, failing_once(0))
    bus.subscribe(Order, seen)
    bus.publish_many([Order(0), Order(1)])
    bus.run_until_idle()
    assert numbers(seen) == [0, 1]


@pytest.mark.parametrize("level", ["array", "list"])
def test_fifo_levels_hold_back_that_publishers_events_only(bus: TestBus, level: Any) -> None:
    seen = failing_once(0)
    bus.subscribe(Order, seen, level=level)
    bus.publish(Order(0))
    bus.publish(Order(1))
    bus.publish(Order(100), identity=pc.Identity("another", 1, 1))
    bus.run_until_idle()
    assert numbers(seen) == [100]


@pytest.mark.parametrize("level", ["sorted_bag", "sorted_set"])
def test_total_order_holds_back_the_events_of_all_publishers(bus: TestBus, level: Any) -> None:
    seen = failing_once(0)
    bus.subscribe(Order, seen, level=level)
    bus.publish(Order(0))
    bus.publish(Order(100), identity=pc.Identity("another", 1, 1))
    bus.run_until_idle()
    before = numbers(seen)
    bus.advance(1)
    assert (before, numbers(seen)) == ([], [0, 100])


# -- priority --------------------------------------------------------------------------------------


def taken_by_priority(bus: TestBus, level: Any, priorities: list[int]) -> list[int]:
    """The priorities in the order of delivery, when all wait at once."""
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, level=level)
    sub.pause()
    for priority in priorities:
        bus.publish(Order(priority), priority=priority)
    sub.resume()
    bus.run_until_idle()
    return numbers(seen)


@pytest.mark.parametrize("level", UNORDERED)
def test_priority_acts_in_unordered_levels(bus: TestBus, level: Any) -> None:
    assert taken_by_priority(bus, level, [0, -1, 5, 0, 9, -3]) == [9, 5, 0, 0, -1, -3]


@pytest.mark.parametrize("level", ORDERED)
def test_priority_is_ignored_in_ordered_levels(bus: TestBus, level: Any) -> None:
    assert taken_by_priority(bus, level, [0, -1, 5, 0, 9, -3]) == [0, -1, 5, 0, 9, -3]


@pytest.mark.parametrize("level", UNORDERED)
def test_equal_priorities_keep_the_log_order(bus: TestBus, level: Any) -> None:
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, level=level)
    sub.pause()
    for number in range(6):
        bus.publish(Order(number), priority=7)
    sub.resume()
    bus.run_until_idle()
    assert numbers(seen) == list(range(6))


@pytest.mark.parametrize("level", ORDERED)
def test_explain_says_that_priority_is_ignored(bus: TestBus, level: Any) -> None:
    sub = bus.subscribe(Order, print, level=level)
    assert "priority of an event is ignored" in str(sub.explain())


@pytest.mark.parametrize("level", UNORDERED)
def test_explain_says_nothing_about_priority_where_it_acts(bus: TestBus, level: Any) -> None:
    sub = bus.subscribe(Order, print, level=level)
    assert "priority of an event is ignored" not in str(sub.explain())


def test_an_urgent_event_overtakes_one_that_is_tried_again(bus: TestBus) -> None:
    seen = failing_once(1)
    sub = bus.subscribe(Order, seen, level="strong_set")
    bus.publish(Order(1), priority=-5)
    bus.run_until_idle()
    sub.pause()
    bus.publish(Order(2), priority=5)
    bus.advance(1)
    sub.resume()
    bus.run_until_idle()
    assert numbers(seen) == [2, 1]


# -- expiry ----------------------------------------------------------------------------------------


DISPATCH = pytest.mark.parametrize("dispatch", ["pool", "inline"])


@DISPATCH
def test_an_expired_event_is_not_delivered(bus: TestBus, dispatch: Any) -> None:
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, dispatch=dispatch)
    sub.pause()
    bus.publish(Order(1), expires=10)
    bus.publish(Order(2))
    bus.advance(10)
    sub.resume()
    bus.run_until_idle()
    assert numbers(seen) == [2]


@DISPATCH
def test_an_event_is_delivered_before_it_expires(bus: TestBus, dispatch: Any) -> None:
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, dispatch=dispatch)
    sub.pause()
    bus.publish(Order(1), expires=10)
    bus.advance(9)
    sub.resume()
    bus.run_until_idle()
    assert numbers(seen) == [1]


@pytest.mark.parametrize("kind", ["seconds", "timedelta", "datetime"])
def test_expiry_is_seconds_a_timedelta_or_a_moment(bus: TestBus, kind: str) -> None:
    now = datetime.fromtimestamp(bus.clock.time(), UTC)
    expires: Any = {
        "seconds": 10,
        "timedelta": timedelta(seconds=10),
        "datetime": now + timedelta(seconds=10),
    }[kind]
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen)
    sub.pause()
    bus.publish(Order(), expires=expires)
    bus.advance(10)
    sub.resume()
    bus.run_until_idle()
    assert (numbers(seen), bus.health().counts.expired) == ([], 1)


@DISPATCH
def test_an_event_that_had_expired_when_it_was_published_is_not_delivered(
    bus: TestBus, dispatch: Any
) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, dispatch=dispatch)
    past = datetime.fromtimestamp(bus.clock.time(), UTC) - timedelta(seconds=1)
    bus.publish(Order(), expires=past)
    bus.run_until_idle()
    assert numbers(seen) == []


def test_a_plain_callback_in_line_does_not_get_an_expired_event(bus: TestBus) -> None:
    got: list[Order] = []
    bus.subscribe(Order, got.append, dispatch="inline")
    past = datetime.fromtimestamp(bus.clock.time(), UTC) - timedelta(seconds=1)
    bus.publish(Order(), expires=past)
    assert got == []


def test_an_event_that_expires_between_attempts_is_not_tried_again(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder(fail=lambda order: OSError("no"))
    bus.subscribe(Order, seen, backoff=20)
    bus.publish(Order(), expires=10)
    bus.run_until_idle()
    bus.advance(100)
    assert len(seen.deliveries) == 1


def test_an_expired_event_is_no_dead_letter(bus: TestBus) -> None:
    sub = bus.subscribe(Order, print)
    sub.pause()
    bus.publish(Order(), expires=1)
    bus.advance(2)
    sub.resume()
    bus.run_until_idle()
    assert len(bus.dead_letters()) == 0
