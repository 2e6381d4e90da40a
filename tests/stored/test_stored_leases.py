"""Leases over a file: they go on while nobody is there, and over a reopening."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from stored_events import Refund, Sale, numbers, sales

import polycast as pc
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


@pytest.fixture
def reopen(open_bus: OpenBus, clock: ManualClock) -> Callable[[], pc.Bus]:
    """Open a bus that counts by the same clock as the others, and does not count as dead."""
    return lambda: open_bus(clock=clock, heartbeat_timeout=100_000)


def test_a_lease_ends_a_durable_subscription(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    bus, seen = reopen(), Recorder[Any]()
    sub = bus.subscribe(Sale, seen, durable="kept", lease=10)
    bus.publish(Sale(0))
    eventually(lambda: seen.events)
    clock.advance(10)
    bus.publish(Sale(1))
    eventually(lambda: sub.state == "expired")
    again = bus.subscribe(Refund, Recorder(), durable="kept")  # the name is free
    assert (numbers(seen), again.state) == ([0], "active")


def test_renew_prolongs_a_lease(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    with reopen() as bus:
        sub = bus.subscribe(Sale, Recorder(), durable="kept", lease=10)
        clock.advance(8)
        sub.renew(timedelta(seconds=20))
    clock.advance(15)
    seen: Recorder[Any] = Recorder()
    bus = reopen()
    bus.publish(Sale(0))
    sub = bus.subscribe(Sale, seen, durable="kept")
    eventually(lambda: seen.events)  # it was there all the time
    clock.advance(15)  # attaching again has prolonged it, by as much as it was given last
    assert sub.state == "active"
    clock.advance(6)
    eventually(lambda: sub.state == "expired")


def test_a_lease_runs_out_while_nobody_is_attached(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    with reopen() as bus:
        bus.subscribe(Sale, Recorder(), durable="kept", lease=10)
    with reopen() as bus:
        bus.publish(Sale(0))
    clock.advance(10)
    seen: Recorder[Any] = Recorder()
    bus = reopen()
    bus.subscribe(Sale, seen, durable="kept")
    bus.publish(Sale(1))
    eventually(lambda: seen.events)
    assert numbers(seen) == [1]


def test_attaching_with_a_lease_prolongs_it(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    with reopen() as bus:
        bus.subscribe(Sale, Recorder(), durable="kept", lease=10)
    clock.advance(8)
    with reopen() as bus:
        bus.subscribe(Sale, Recorder(), durable="kept", lease=10)
        bus.publish(Sale(0))
    clock.advance(8)
    seen: Recorder[Any] = Recorder()
    bus = reopen()
    bus.subscribe(Sale, seen, durable="kept")
    bus.publish(Sale(1))
    eventually(lambda: len(seen.events) >= 1)
    assert bus.flush(5)
    assert numbers(seen)[-1] == 1


def test_a_clock_that_was_set_back_does_not_prolong_a_lease(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    early, late = ManualClock(1_000_000.0), ManualClock(2_000_000.0)
    with open_bus(clock=late) as bus:
        bus.subscribe(Sale, Recorder(), durable="kept", lease=100)
    bus = open_bus(clock=early, heartbeat_timeout=100_000)
    sub = bus.subscribe(Sale, Recorder(), durable="kept")
    assert sub.state == "active"
    early.advance(100)
    eventually(lambda: sub.state == "expired")


def test_a_lease_that_another_bus_has_prolonged_counts_there(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    one, other = reopen(), reopen()
    first = one.subscribe(Sale, Recorder(), durable="kept", lease=10)
    seen: Recorder[Any] = Recorder()
    second = other.subscribe(Sale, seen, durable="kept", lease=100)
    clock.advance(20)
    other.publish(Sale(0))
    eventually(lambda: seen.events)
    eventually(lambda: first.state in ("taken over", "expired"))
    assert second.state == "active"


@pytest.mark.parametrize("options", [{}, {"durable": "crew"}])
def test_the_lease_of_a_member_ends_its_membership_only(
    options: dict[str, Any],
    reopen: Callable[[], pc.Bus],
    clock: ManualClock,
    eventually: Eventually,
) -> None:
    bus, other, seen = reopen(), reopen(), Recorder[Any]()
    leased = bus.subscribe(Sale, Recorder(), group="crew", lease=10, **options)
    staying = bus.subscribe(Sale, seen, group="crew", **options)
    elsewhere = other.subscribe(Sale, seen, group="crew", **options)
    clock.advance(11)
    eventually(lambda: leased.state == "expired")
    bus.publish_many(sales(0, 1))
    eventually(lambda: len(seen.events) == 2)
    assert (staying.state, elsewhere.state) == ("active", "active")


def test_a_member_renews_its_lease(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    bus, seen = reopen(), Recorder[Any]()
    sub = bus.subscribe(Sale, seen, group="crew", durable="crew", lease=10)
    sub.renew(1_000)
    clock.advance(100)
    bus.publish(Sale(0))
    eventually(lambda: seen.events)
    assert sub.state == "active"


def test_a_lease_of_a_subscription_without_a_name_ends_it(
    reopen: Callable[[], pc.Bus], clock: ManualClock, eventually: Eventually
) -> None:
    bus, seen = reopen(), Recorder[Any]()
    sub = bus.subscribe(Sale, seen, lease=10)
    clock.advance(11)
    bus.publish(Sale(0))
    eventually(lambda: sub.state == "expired")
    assert (numbers(seen), bus.health().subscriptions) == ([], ())
