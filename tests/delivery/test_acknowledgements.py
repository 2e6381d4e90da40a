"""Acknowledging: on return or by hand, again after a failure, and the dead letters at last."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import polycast as pc
from polycast.testing import ManualClock, Recorder, TestBus

WAIT = 10.0


@dataclass
class Order:
    number: int = 0


def in_flight(bus: TestBus) -> int:
    """How many events are in flight for the only subscription."""
    (health,) = bus.health().subscriptions
    return health.in_flight


# -- by hand ---------------------------------------------------------------------------------------


def test_a_callback_that_returns_has_acknowledged(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order: None)
    bus.publish(Order())
    bus.run_until_idle()
    assert (in_flight(bus), bus.health().counts.delivered) == (0, 1)


def test_with_manual_ack_returning_does_not_acknowledge(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order, delivery: None, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    assert in_flight(bus) == 1


def test_ack_settles_the_delivery(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].ack()
    assert (in_flight(bus), bus.health().counts.delivered) == (0, 1)


def test_an_ordered_level_waits_for_the_acknowledgement(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    assert seen.events == [Order(1)]


def test_an_unordered_level_does_not_wait_for_the_acknowledgement(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual", level="strong_set")
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    assert seen.events == [Order(1), Order(2)]


def test_the_next_comes_after_the_acknowledgement(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    seen.deliveries[0].ack()
    bus.run_until_idle()
    assert seen.events == [Order(1), Order(2)]


def test_ack_inside_the_callback_is_enough(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order, delivery: delivery.ack(), ack="manual")
    bus.publish_many([Order(1), Order(2)])
    bus.run_until_idle()
    assert bus.health().counts.delivered == 2


def test_ack_inside_an_automatic_callback_counts_once(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order, delivery: delivery.ack())
    bus.publish(Order())
    bus.run_until_idle()
    assert bus.health().counts.delivered == 1


def test_manual_ack_works_in_line(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual", dispatch="inline")
    bus.publish_many([Order(1), Order(2)])
    seen.deliveries[0].ack()
    assert seen.events == [Order(1), Order(2)]


def test_nack_brings_the_event_again(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].nack()
    bus.advance(1)
    assert [each.count for each in seen.deliveries] == [1, 2]


def test_nack_with_a_delay_waits_that_long(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].nack(60)
    bus.advance(59)
    before = len(seen.deliveries)
    bus.advance(1)
    assert (before, len(seen.deliveries)) == (1, 2)


def test_nack_without_waiting_brings_it_at_once(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].nack(0)
    bus.run_until_idle()
    assert len(seen.deliveries) == 2


@pytest.mark.parametrize("delay", ["soon", -1, object()])
def test_nack_with_a_delay_that_is_none_is_refused(bus: TestBus, delay: Any) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    with pytest.raises(pc.BadOptionError, match="delay"):
        seen.deliveries[0].nack(delay)


def test_a_refused_nack_leaves_the_delivery_to_be_settled(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    with pytest.raises(Exception, match=r".*"):
        seen.deliveries[0].nack("soon")  # type: ignore[arg-type]
    seen.deliveries[0].ack()
    assert bus.health().counts.delivered == 1


def test_reject_goes_to_the_dead_letters_at_once(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order, delivery: delivery.reject("no such item"), ack="manual")
    bus.publish(Order(7))
    bus.run_until_idle()
    (letter,) = bus.dead_letters()
    assert (letter.event, letter.reason, letter.attempts) == (Order(7), "no such item", 1)


def test_reject_in_an_automatic_callback_is_not_undone_by_returning(bus: TestBus) -> None:
    bus.subscribe(Order, lambda order, delivery: delivery.reject("no"))
    bus.publish(Order())
    bus.run_until_idle()
    assert (len(bus.dead_letters()), bus.health().counts.delivered) == (1, 0)


@pytest.mark.parametrize("action", ["ack", "nack", "reject"])
def test_a_delivery_is_settled_once(bus: TestBus, action: str) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].ack()
    with pytest.raises(pc.NotSettledError, match=action):
        getattr(seen.deliveries[0], action)()


def test_an_acknowledgement_with_a_stale_token_is_refused(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual", ack_timeout=10)
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(10)
    bus.advance(1)
    first, second = seen.deliveries
    assert second.token > first.token
    with pytest.raises(pc.NotSettledError):
        first.ack()


def test_an_acknowledgement_after_the_end_of_the_subscription_is_refused(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    sub.cancel()
    with pytest.raises(pc.NotSettledError):
        seen.deliveries[0].ack()


# -- within a time ---------------------------------------------------------------------------------


def test_a_delivery_not_acknowledged_in_time_is_made_again(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual", ack_timeout=30)
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(29)
    before = len(seen.deliveries)
    bus.advance(1)
    bus.advance(1)
    assert (before, len(seen.deliveries)) == (1, 2)


def test_ack_timeout_takes_a_timedelta(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual", ack_timeout=timedelta(minutes=1))
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(timedelta(seconds=61))
    assert len(seen.deliveries) == 2


def test_a_delivery_never_acknowledged_ends_in_the_dead_letters(bus: TestBus) -> None:
    bus.subscribe(Order, Recorder(), ack="manual", ack_timeout=1, attempts=3)
    bus.publish(Order())
    for _ in range(20):
        bus.advance(1)
    (letter,) = bus.dead_letters()
    assert letter.attempts == 3


def test_one_acknowledged_in_time_is_not_made_again(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, ack="manual", ack_timeout=30)
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].ack()
    bus.advance(100)
    assert len(seen.deliveries) == 1


def test_a_late_return_does_not_acknowledge_for_the_member_that_has_it_now() -> None:
    clock, gate, begun, passed_on, back = ManualClock(), *(threading.Event() for _ in range(4))

    def slow(order: Order) -> None:
        if order.number == 1:
            back.set()  # it takes the next event only when the first has been dealt with
            return
        begun.set()
        gate.wait(WAIT)

    def failing(order: Order) -> None:
        passed_on.set()
        back.wait(WAIT)
        raise OSError("no")

    with pc.Bus(clock=clock) as bus:
        options: Any = {"group": "g", "ack_timeout": 10, "attempts": 2}
        bus.subscribe(Order, slow, **options)
        bus.subscribe(Order, failing, where=lambda order: order.number == 0, **options)
        bus.publish(Order(0))
        assert begun.wait(WAIT)
        bus.publish(Order(1))
        clock.advance(10)
        assert passed_on.wait(WAIT)
        gate.set()
        bus.flush(WAIT)
        dead = [(letter.event.number, letter.attempts) for letter in bus.dead_letters()]
    assert dead == [(0, 2)]


def test_a_member_that_missed_its_deadline_loses_the_event_to_another(bus: TestBus) -> None:
    one: Recorder[Order] = Recorder()
    other: Recorder[Order] = Recorder()
    bus.subscribe(Order, one, group="g", ack="manual", ack_timeout=10)
    bus.subscribe(Order, other, group="g", ack="manual", ack_timeout=10)
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(10)
    assert (len(one.deliveries), len(other.deliveries)) == (1, 1)
