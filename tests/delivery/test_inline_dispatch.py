"""dispatch="inline": in the thread that brings the event, one event at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc


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


@FORMS
def test_the_callback_has_returned_when_publish_returns(live: pc.Bus, form: str) -> None:
    got: list[Step] = []
    inline(live, form, got.append)
    live.publish(Step("a"))
    assert got == [Step("a")]


@FORMS
def test_the_callback_runs_in_the_publishers_thread(live: pc.Bus, form: str) -> None:
    ran: list[int] = []
    inline(live, form, lambda step: ran.append(threading.get_ident()))
    thread = threading.Thread(target=live.publish, args=(Step(),))
    thread.start()
    thread.join(10)
    live.publish(Step())
    assert ran[1] == threading.get_ident()
    assert ran[0] != ran[1]


@FORMS
def test_subscribers_are_called_in_the_order_of_subscribing(live: pc.Bus, form: str) -> None:
    order: list[int] = []
    for number in range(5):
        inline(live, form, lambda step, number=number: order.append(number))
    live.publish(Step())
    assert order == [0, 1, 2, 3, 4]


@FORMS
def test_a_publish_from_inside_waits_until_the_event_has_gone_to_all(
    live: pc.Bus, form: str
) -> None:
    log: list[str] = []

    def first(step: Step) -> None:
        log.append(f"first {step.name}")
        if step.name == "a":
            live.publish(Step("b"))
            log.append("published")

    inline(live, form, first)
    inline(live, form, lambda step: log.append(f"second {step.name}"))
    live.publish(Step("a"))
    assert log == ["first a", "published", "second a", "first b", "second b"]


@FORMS
def test_publishes_from_inside_keep_their_order(live: pc.Bus, form: str) -> None:
    order: list[str] = []

    def callback(step: Step) -> None:
        order.append(step.name)
        if len(step.name) < 3:
            live.publish(Step(step.name + "0"))
            live.publish_many([Step(step.name + "1")])

    inline(live, form, callback)
    live.publish(Step("."))
    assert order == [".", ".0", ".1", ".00", ".01", ".10", ".11"]


@FORMS
def test_a_publish_from_inside_has_its_receipt_at_once(live: pc.Bus, form: str) -> None:
    receipts: list[pc.Receipt] = []

    def callback(step: Step) -> None:
        if step.name == "a":
            receipts.append(live.publish(Step("b")))

    inline(live, form, callback)
    outer = live.publish(Step("a"))
    assert receipts[0].position == outer.position + 1


@FORMS
def test_a_publish_of_another_type_from_inside_waits_too(live: pc.Bus, form: str) -> None:
    log: list[str] = []
    inline(live, form, lambda step: live.publish(Other("nested")))
    inline(live, form, lambda step: log.append("step"))
    inline(live, form, lambda other: log.append("other"), what=Other)
    live.publish(Step())
    assert log == ["step", "other"]


@FORMS
def test_all_that_was_published_inside_is_delivered_when_publish_returns(
    live: pc.Bus, form: str
) -> None:
    got: list[str] = []

    def callback(step: Step) -> None:
        got.append(step.name)
        if step.name != "0":
            live.publish(Step(str(int(step.name) - 1)))

    inline(live, form, callback)
    live.publish(Step("300"))
    assert len(got) == 301


@FORMS
def test_many_subscribers_each_get_the_event(live: pc.Bus, form: str) -> None:
    got: list[int] = []
    for number in range(100):
        inline(live, form, lambda step, number=number: got.append(number))
    live.publish(Step())
    assert got == list(range(100))


# -- changes from inside ---------------------------------------------------------------------------


@FORMS
def test_a_subscription_cancelled_inside_gets_the_current_event_no_more(
    live: pc.Bus, form: str
) -> None:
    got: list[Step] = []
    later: list[pc.Subscription[Step]] = []
    inline(live, form, lambda step: later[0].cancel())
    later.append(inline(live, form, got.append))
    live.publish(Step())
    assert got == []


@FORMS
def test_a_subscription_may_cancel_itself(live: pc.Bus, form: str) -> None:
    got: list[Step] = []
    mine: list[pc.Subscription[Step]] = []

    def once(step: Step) -> None:
        got.append(step)
        mine[0].cancel()

    mine.append(inline(live, form, once))
    live.publish(Step())
    live.publish(Step())
    assert len(got) == 1


@FORMS
def test_cancelling_one_inside_leaves_the_rest(live: pc.Bus, form: str) -> None:
    got: list[str] = []
    doomed: list[pc.Subscription[Step]] = []
    inline(live, form, lambda step: doomed[0].cancel())
    doomed.append(inline(live, form, lambda step: got.append("doomed")))
    inline(live, form, lambda step: got.append("third"))
    inline(live, form, lambda step: got.append("fourth"))
    live.publish(Step())
    assert got == ["third", "fourth"]


@FORMS
def test_a_subscription_made_inside_begins_with_the_next_event(live: pc.Bus, form: str) -> None:
    got: list[str] = []
    made: list[object] = []

    def callback(step: Step) -> None:
        if not made:
            made.append(inline(live, form, lambda step: got.append(step.name)))

    inline(live, form, callback)
    live.publish(Step("a"))
    live.publish(Step("b"))
    assert got == ["b"]


@FORMS
def test_a_subscription_made_inside_gets_what_is_published_after_it(
    live: pc.Bus, form: str
) -> None:
    got: list[str] = []

    def callback(step: Step) -> None:
        if step.name == "a":
            live.publish(Step("before"))
            inline(live, form, lambda step: got.append(step.name))
            live.publish(Step("after"))

    inline(live, form, callback)
    live.publish(Step("a"))
    assert got == ["after"]


@FORMS
def test_closing_inside_lets_the_current_event_end(form: str) -> None:
    bus, log = pc.Bus(), []

    def callback(step: Step) -> None:
        bus.close(timeout=5)
        log.append("closed")

    inline(bus, form, callback)
    bus.publish(Step())
    assert log == ["closed"]


@FORMS
def test_closing_inside_refuses_what_comes_after(form: str) -> None:
    bus = pc.Bus()
    inline(bus, form, lambda step: bus.close())
    bus.publish(Step())
    with pytest.raises(pc.BusClosedError):
        bus.publish(Step())


@FORMS
def test_flush_inside_is_refused(live: pc.Bus, form: str) -> None:
    refused: list[Exception] = []

    def callback(step: Step) -> None:
        with pytest.raises(pc.WouldDeadlockError) as caught:
            live.flush()
        refused.append(caught.value)

    inline(live, form, callback)
    live.publish(Step())
    assert "flush()" in str(refused[0])


@FORMS
def test_another_bus_can_be_flushed_inside(live: pc.Bus, form: str) -> None:
    flushed: list[bool] = []
    with pc.Bus() as other:
        inline(live, form, lambda step: flushed.append(other.flush(1)), attempts=1)
        live.publish(Step())
    assert flushed == [True]
