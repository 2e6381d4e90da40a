"""The life of a subscription: pausing, cancelling, leases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import polycast as pc
from polycast.testing import ManualClock, Recorder, TestBus

Wait = Callable[[Callable[[], object]], None]
DISPATCH = pytest.mark.parametrize("dispatch", ["pool", "inline"])
WAIT = 10.0


@dataclass
class Tick:
    number: int = 0


def numbers(seen: Recorder[Tick]) -> list[int]:
    """What was handled, in order."""
    return [tick.number for tick in seen.events]


# -- pausing ---------------------------------------------------------------------------------------


@DISPATCH
def test_a_paused_subscription_is_not_called(bus: TestBus, dispatch: Any) -> None:
    seen: Recorder[Tick] = Recorder()
    bus.subscribe(Tick, seen, dispatch=dispatch).pause()
    bus.publish(Tick())
    bus.run_until_idle()
    assert seen.events == []


@DISPATCH
def test_what_came_meanwhile_is_delivered_after_resume_in_order(
    bus: TestBus, dispatch: Any
) -> None:
    seen: Recorder[Tick] = Recorder()
    sub = bus.subscribe(Tick, seen, dispatch=dispatch)
    sub.pause()
    bus.publish_many([Tick(0), Tick(1)])
    sub.resume()
    bus.publish(Tick(2))
    bus.run_until_idle()
    assert numbers(seen) == [0, 1, 2]


@DISPATCH
def test_a_plain_callback_pauses_as_well(bus: TestBus, dispatch: Any) -> None:
    got: list[Tick] = []
    sub = bus.subscribe(Tick, got.append, dispatch=dispatch)
    bus.publish(Tick(0))
    sub.pause()
    bus.publish(Tick(1))
    sub.resume()
    bus.run_until_idle()
    assert got == [Tick(0), Tick(1)]


def test_what_waits_for_its_thread_when_it_is_paused_waits_on(bus: TestBus) -> None:
    seen: Recorder[Tick] = Recorder()
    sub = bus.subscribe(Tick, seen)
    bus.publish(Tick())
    sub.pause()
    bus.run_until_idle()
    assert seen.events == []


def test_the_state_tells_whether_it_is_paused(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print)
    states = [sub.state]
    sub.pause()
    states.append(sub.state)
    sub.resume()
    assert [*states, sub.state] == ["active", "paused", "active"]


def test_a_paused_subscription_does_not_keep_flush_waiting(live: pc.Bus) -> None:
    live.subscribe(Tick, print).pause()
    live.publish(Tick())
    assert live.flush(WAIT)


# -- cancelling ------------------------------------------------------------------------------------


@DISPATCH
def test_a_cancelled_subscription_gets_nothing_more(bus: TestBus, dispatch: Any) -> None:
    seen: Recorder[Tick] = Recorder()
    sub = bus.subscribe(Tick, seen, dispatch=dispatch)
    bus.publish(Tick(0))
    bus.run_until_idle()
    sub.cancel()
    bus.publish(Tick(1))
    bus.run_until_idle()
    assert numbers(seen) == [0]


def test_what_waits_is_let_go_by_cancel(bus: TestBus) -> None:
    seen: Recorder[Tick] = Recorder()
    sub = bus.subscribe(Tick, seen)
    bus.publish_many([Tick(0), Tick(1)])
    sub.cancel()
    bus.run_until_idle()
    assert seen.events == []


def test_cancelling_while_an_attempt_is_due_ends_the_attempts(bus: TestBus) -> None:
    seen: Recorder[Tick] = Recorder(fail=lambda tick: OSError("no"))
    sub = bus.subscribe(Tick, seen)
    bus.publish(Tick())
    bus.run_until_idle()
    sub.cancel()
    bus.advance(100)
    assert (len(seen.deliveries), len(bus.dead_letters())) == (1, 0)


def test_cancelling_twice_is_cancelling_once(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print)
    sub.cancel()
    sub.cancel()
    assert sub.state == "cancelled"


@pytest.mark.parametrize("use", ["pause", "resume", "detach"])
def test_a_cancelled_subscription_refuses_to_be_used(bus: TestBus, use: str) -> None:
    sub = bus.subscribe(Tick, print)
    sub.cancel()
    with pytest.raises(pc.SubscriptionCancelledError, match="subscribe again"):
        getattr(sub, use)()


def test_a_subscription_is_cancelled_by_leaving_its_with_block(bus: TestBus) -> None:
    with bus.subscribe(Tick, print) as sub:
        pass
    assert sub.state == "cancelled"


def test_a_cancelled_subscription_is_not_in_the_health(bus: TestBus) -> None:
    bus.subscribe(Tick, print).cancel()
    assert bus.health().subscriptions == ()


# -- leases ----------------------------------------------------------------------------------------


@DISPATCH
def test_a_lease_ends_the_subscription(bus: TestBus, dispatch: Any) -> None:
    seen: Recorder[Tick] = Recorder()
    sub = bus.subscribe(Tick, seen, lease=60, dispatch=dispatch)
    bus.advance(59)
    bus.publish(Tick(0))
    bus.run_until_idle()
    bus.advance(1)
    bus.publish(Tick(1))
    bus.run_until_idle()
    assert (numbers(seen), sub.state) == ([0], "expired")


@DISPATCH
def test_nothing_is_delivered_after_the_lease_ended_even_if_nobody_noticed(
    bus: TestBus, dispatch: Any
) -> None:
    got: list[Tick] = []
    bus.subscribe(Tick, got.append, lease=60, dispatch=dispatch)
    bus.clock.advance(60)  # no timer has run yet
    bus.publish(Tick())
    bus.run_until_idle()
    assert got == []


def test_what_was_published_before_the_end_is_not_delivered_after_it(bus: TestBus) -> None:
    seen: Recorder[Tick] = Recorder()
    bus.subscribe(Tick, seen, lease=60)
    bus.publish_many([Tick(0), Tick(1)])
    bus.clock.advance(60)
    bus.run_until_idle()
    assert seen.events == []


def test_a_second_attempt_is_not_made_after_the_lease_ended(bus: TestBus) -> None:
    seen: Recorder[Tick] = Recorder(fail=lambda tick: OSError("no"))
    bus.subscribe(Tick, seen, lease=20, backoff=100)
    bus.publish(Tick())
    bus.run_until_idle()
    bus.advance(200)
    assert len(seen.deliveries) == 1


def test_renew_prolongs_the_lease_from_now(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print, lease=60)
    bus.advance(50)
    sub.renew(60)
    bus.advance(59)
    before = sub.state
    bus.advance(1)
    assert (before, sub.state) == ("active", "expired")


def test_renew_can_shorten_the_lease(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print, lease=60)
    sub.renew(10)
    bus.advance(10)
    assert sub.state == "expired"


def test_events_do_not_prolong_a_lease(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, lambda tick: None, lease=60)
    for _ in range(6):
        bus.publish(Tick())
        bus.advance(10)
    assert sub.state == "expired"


def test_a_lease_takes_a_timedelta(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print, lease=timedelta(minutes=1))
    bus.advance(timedelta(minutes=1))
    assert sub.state == "expired"


def test_renewing_after_the_end_is_refused(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print, lease=60)
    bus.advance(60)
    with pytest.raises(pc.LeaseExpiredError, match="lease"):
        sub.renew(60)


def test_without_a_lease_a_subscription_does_not_end(bus: TestBus) -> None:
    sub = bus.subscribe(Tick, print)
    bus.advance(10**9)
    assert sub.state == "active"


def test_a_lease_counts_on_a_bus_with_threads_too(eventually: Wait) -> None:
    clock = ManualClock()
    with pc.Bus(clock=clock) as bus:
        sub = bus.subscribe(Tick, print, lease=60)
        clock.advance(60)
        eventually(lambda: sub.state == "expired")


def test_a_lease_that_ended_in_a_callback_lets_the_callback_return() -> None:
    clock, seen, done = ManualClock(), [], threading.Event()
    with pc.Bus(clock=clock) as bus:

        def callback(tick: Tick) -> None:
            clock.advance(60)
            seen.append(tick)
            done.set()

        bus.subscribe(Tick, callback, lease=60)
        bus.publish_many([Tick(0), Tick(1)])
        assert done.wait(WAIT)
        bus.flush(WAIT)
    assert seen == [Tick(0)]
