"""Failing, trying again, the dead letters at last, and effects that happen once."""

from __future__ import annotations

import itertools
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Order:
    number: int = 0


def always(order: Order) -> Exception:
    """What a subscriber says that never succeeds."""
    return OSError(f"no {order.number}")


def in_flight(bus: TestBus) -> int:
    """How many events are in flight for the only subscription."""
    (health,) = bus.health().subscriptions
    return health.in_flight


# -- failing ---------------------------------------------------------------------------------------


def test_attempts_are_counted_from_one(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder(fail=always)
    bus.subscribe(Order, seen, attempts=3)
    bus.publish(Order())
    for _ in range(10):
        bus.advance(60)
    assert [each.count for each in seen.deliveries] == [1, 2, 3]


def test_after_the_last_attempt_it_is_a_dead_letter_with_its_reason(bus: TestBus) -> None:
    sub = bus.subscribe(Order, Recorder(fail=always), attempts=2)
    receipt = bus.publish(Order(5))
    for _ in range(10):
        bus.advance(60)
    (letter,) = bus.dead_letters()
    told = (letter.event, letter.position, letter.identity, letter.subscription, letter.attempts)
    assert told == (Order(5), receipt.position, receipt.identity, sub.name, 2)
    assert "OSError: no 5" in letter.reason


def test_five_attempts_are_the_default(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder(fail=always)
    bus.subscribe(Order, seen)
    bus.publish(Order())
    for _ in range(20):
        bus.advance(60)
    assert len(seen.deliveries) == 5


def test_attempts_are_further_and_further_apart(bus: TestBus) -> None:
    times: list[float] = []

    def callback(order: Order) -> None:
        times.append(bus.clock.monotonic())
        raise OSError

    bus.subscribe(Order, callback, attempts=5, backoff=1)
    bus.publish(Order())
    for _ in range(200):
        bus.advance(0.25)
    waits = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert waits == sorted(set(waits))


@pytest.mark.parametrize("level", ["weak_bag", "weak_set"])
def test_weak_levels_are_never_retried(bus: TestBus, level: Any) -> None:
    seen: Recorder[Order] = Recorder(fail=always)
    bus.subscribe(Order, seen, level=level)
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(60)
    assert (len(seen.deliveries), len(bus.dead_letters())) == (1, 0)


@pytest.mark.parametrize("level", ["weak_bag", "weak_set"])
def test_weak_levels_are_not_retried_after_nack(bus: TestBus, level: Any) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen, level=level, ack="manual")
    bus.publish(Order())
    bus.run_until_idle()
    seen.deliveries[0].nack(0)
    bus.advance(60)
    assert len(seen.deliveries) == 1


def test_one_that_failed_and_then_succeeded_is_no_dead_letter(bus: TestBus) -> None:
    failures = iter([OSError("once")])
    seen: Recorder[Order] = Recorder(fail=lambda order: next(failures, None))
    bus.subscribe(Order, seen, attempts=2)
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(60)
    assert (seen.events, len(bus.dead_letters())) == ([Order()], 0)


def test_a_failure_is_counted(bus: TestBus) -> None:
    bus.subscribe(Order, Recorder(fail=always), attempts=2)
    bus.publish(Order())
    bus.run_until_idle()
    bus.advance(60)
    counts = bus.health().counts
    assert (counts.failed, counts.retried, counts.dead) == (2, 1, 1)


# -- exactly-once effects --------------------------------------------------------------------------


def effects_of(bus: TestBus, connection: sqlite3.Connection, *, fail_after: bool) -> list[int]:
    """The rows that a subscriber has written, whose first delivery is not acknowledged."""
    connection.execute("CREATE TABLE sold (number INTEGER)")
    connection.commit()

    def callback(order: Order, delivery: pc.Delivery) -> None:
        with delivery.transaction(connection) as fresh:
            if fresh:
                connection.execute("INSERT INTO sold VALUES (?)", (order.number,))
                if not fail_after and delivery.count == 1:
                    raise OSError("in the transaction")
        if fail_after and delivery.count == 1:
            raise OSError("after the transaction")

    bus.subscribe(Order, callback)
    bus.publish_many([Order(1), Order(2)])
    for _ in range(5):
        bus.advance(1)
    return [row[0] for row in connection.execute("SELECT number FROM sold ORDER BY number")]


@pytest.mark.parametrize("fail_after", [True, False])
def test_an_effect_in_a_transaction_happens_once(bus: TestBus, fail_after: bool) -> None:
    connection = sqlite3.connect(":memory:")
    rows = effects_of(bus, connection, fail_after=fail_after)
    connection.close()
    assert rows == [1, 2]


def test_a_transaction_needs_a_connection(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen)
    bus.publish(Order())
    bus.run_until_idle()
    with pytest.raises(pc.BadOptionError, match="DB-API connection"):
        seen.deliveries[0].transaction("not a connection")
