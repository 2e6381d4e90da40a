"""dispatch="inline": callbacks that raise or are interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


class Interrupted(BaseException):
    """Like KeyboardInterrupt, which pytest itself would obey."""


@dataclass
class Step:
    name: str = ""


@dataclass
class Other:
    name: str = ""


# Without and with a delivery: the two ways of calling in line.
FORMS = pytest.mark.parametrize("form", ["event", "delivery"])


def inline(bus: pc.Bus, form: str, function: Any, what: Any = Step, **options: Any) -> Any:
    """Subscribe in line in one of the two forms."""
    callback = function if form == "event" else (lambda event, delivery: function(event))
    return bus.subscribe(what, callback, dispatch="inline", **options)


# -- raising ---------------------------------------------------------------------------------------


@FORMS
def test_a_callback_that_raises_does_not_stop_the_others(live: pc.Bus, form: str) -> None:
    got: list[str] = []
    inline(live, form, lambda step: 1 / 0, attempts=1)
    inline(live, form, lambda step: got.append(step.name))
    live.publish(Step("a"))
    assert got == ["a"]


@FORMS
def test_a_callback_that_raises_does_not_reach_the_publisher(live: pc.Bus, form: str) -> None:
    inline(live, form, lambda step: 1 / 0, attempts=1)
    assert live.publish(Step()).position == 1


@FORMS
def test_a_callback_that_raised_is_tried_again(bus: TestBus, form: str) -> None:
    attempts: list[str] = []

    def callback(step: Step) -> None:
        attempts.append(step.name)
        if len(attempts) == 1:
            raise OSError("not yet")

    inline(bus, form, callback)
    bus.publish(Step("a"))
    bus.advance(1)
    assert attempts == ["a", "a"]


@FORMS
def test_later_events_wait_behind_one_that_failed(bus: TestBus, form: str) -> None:
    done: list[str] = []
    failed: list[str] = []

    def callback(step: Step) -> None:
        if not failed:
            failed.append(step.name)
            raise OSError("not yet")
        done.append(step.name)

    inline(bus, form, callback)
    for name in "abc":
        bus.publish(Step(name))
    bus.advance(1)
    assert done == ["a", "b", "c"]


@FORMS
def test_an_interrupt_reaches_the_publisher_and_leaves_the_bus_usable(
    live: pc.Bus, form: str
) -> None:
    got: list[str] = []

    def callback(step: Step) -> None:
        if step.name == "stop":
            raise Interrupted
        got.append(step.name)

    inline(live, form, callback, backoff=0.01)
    with pytest.raises(Interrupted):
        live.publish(Step("stop"), headers={"attempt": "1"})
    live.subscribe(Other, print)
    sub = inline(live, form, lambda step: got.append("other"), what=Other)
    live.publish(Other())
    sub.cancel()
    assert got == ["other"]


@FORMS
def test_an_interrupted_subscription_goes_on_with_the_next_event(live: pc.Bus, form: str) -> None:
    got: list[str] = []

    def callback(step: Step) -> None:
        if step.name == "stop" and not got:
            got.append("stopped")
            raise Interrupted
        got.append(step.name)

    inline(live, form, callback, level="strong_set", backoff=0.01)
    with pytest.raises(Interrupted):
        live.publish(Step("stop"))
    live.publish(Step("next"))
    live.flush(2)
    assert "next" in got


@FORMS
def test_an_interrupt_does_not_lose_what_was_published_inside(live: pc.Bus, form: str) -> None:
    got: list[str] = []

    def callback(step: Step) -> None:
        if step.name == "stop" and not got:
            got.append("stopped")
            live.publish(Other("inner"))
            raise Interrupted

    inline(live, form, callback)
    inline(live, form, lambda other: got.append(other.name), what=Other)
    with pytest.raises(Interrupted):
        live.publish(Step("stop"))
    assert got == ["stopped", "inner"]


# -- beside the pool -------------------------------------------------------------------------------


def test_the_pool_gets_what_is_published_inside_in_log_order(bus: TestBus) -> None:
    seen: Recorder[Step] = Recorder()
    bus.subscribe(Step, seen)
    bus.subscribe(
        Step, lambda step: bus.publish(Step("b")) if step.name == "a" else None, dispatch="inline"
    )
    bus.publish(Step("a"))
    bus.publish(Step("c"))
    bus.run_until_idle()
    assert [step.name for step in seen.events] == ["a", "b", "c"]


@FORMS
def test_an_interrupt_does_not_strand_what_waits_behind_it(live: pc.Bus, form: str) -> None:
    got: list[str] = []

    def callback(step: Step) -> None:
        if step.name == "stop" and not got:
            got.append("stopped")
            raise Interrupted
        got.append(step.name)

    sub = inline(live, form, callback, level="strong_set", backoff=0.01)
    sub.pause()
    for name in ("stop", "b", "c"):
        live.publish(Step(name))
    with pytest.raises(Interrupted):
        sub.resume()
    live.publish(Step("d"))
    live.flush(2)
    assert sorted(got) == ["b", "c", "d", "stop", "stopped"]


def test_an_interrupt_of_one_member_does_not_strand_what_another_was_given(live: pc.Bus) -> None:
    got: list[str] = []
    interrupts = iter([Interrupted])

    def callback(step: Step, delivery: pc.Delivery) -> None:
        for interrupt in interrupts:
            raise interrupt
        got.append(step.name)

    subs = [live.subscribe(Step, callback, group="g", dispatch="inline") for _ in range(2)]
    for sub in subs:
        sub.pause()
    for name in "abcd":
        live.publish(Step(name))
    try:
        for sub in subs:
            sub.resume()
    except Interrupted:
        for sub in subs:
            sub.resume()
    live.flush(2)
    assert sorted(got) == ["a", "b", "c", "d"]
