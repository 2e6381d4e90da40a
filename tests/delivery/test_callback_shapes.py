"""What can be a callback, how it is called, and in which thread or loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import TestBus


@dataclass
class Talk:
    title: str = "TPS"


def arguments_given(bus: TestBus, callback: Callable[..., Any], calls: list[Any]) -> int:
    """With how many arguments a callback was called."""
    bus.subscribe(Talk, callback)
    bus.publish(Talk())
    bus.run_until_idle()
    return len(calls[0])


def test_one_parameter_gets_the_event(bus: TestBus) -> None:
    calls: list[Any] = []
    assert arguments_given(bus, lambda talk: calls.append((talk,)), calls) == 1


def test_two_parameters_get_event_and_delivery(bus: TestBus) -> None:
    calls: list[Any] = []
    assert arguments_given(bus, lambda talk, delivery: calls.append((talk, delivery)), calls) == 2


def test_a_second_parameter_with_a_default_keeps_its_default(bus: TestBus) -> None:
    calls: list[Any] = []

    def callback(talk: Talk, delivery: object = None) -> None:
        calls.append(delivery)

    bus.subscribe(Talk, callback)
    bus.publish(Talk())
    bus.run_until_idle()
    assert calls == [None]


def test_print_gets_one_argument(bus: TestBus, capsys: pytest.CaptureFixture[str]) -> None:
    bus.subscribe(Talk, print)
    bus.publish(Talk())
    bus.run_until_idle()
    assert capsys.readouterr().out == "Talk(title='TPS')\n"


def test_variadic_parameters_get_one_argument(bus: TestBus) -> None:
    calls: list[Any] = []
    assert arguments_given(bus, lambda *given: calls.append(given), calls) == 1


def test_further_parameters_with_defaults_do_not_matter(bus: TestBus) -> None:
    calls: list[Any] = []

    def callback(talk: Talk, delivery: pc.Delivery, more: int = 1, *, still: int = 2) -> None:
        calls.append((talk, delivery))

    assert arguments_given(bus, callback, calls) == 2


def test_a_bound_method_is_a_callback(bus: TestBus) -> None:
    class Desk:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def take(self, talk: Talk, delivery: pc.Delivery) -> None:
            self.calls.append((talk, delivery))

    desk = Desk()
    assert arguments_given(bus, desk.take, desk.calls) == 2


def test_a_class_and_a_static_method_are_callbacks(bus: TestBus) -> None:
    calls: list[Any] = []

    class Desk:
        @classmethod
        def one(cls, talk: Talk) -> None:
            calls.append((talk,))

        @staticmethod
        def two(talk: Talk, delivery: pc.Delivery) -> None:
            calls.append((talk, delivery))

    bus.subscribe(Talk, Desk.one)
    bus.subscribe(Talk, Desk.two)
    bus.publish(Talk())
    bus.run_until_idle()
    assert sorted(map(len, calls)) == [1, 2]


def test_a_partial_is_called_with_what_it_still_needs(bus: TestBus) -> None:
    calls: list[Any] = []

    def callback(desk: str, talk: Talk, delivery: pc.Delivery) -> None:
        calls.append((talk, delivery))

    assert arguments_given(bus, functools.partial(callback, "desk 1"), calls) == 2


def test_a_partial_that_fills_the_delivery_gets_the_event_only(bus: TestBus) -> None:
    calls: list[Any] = []

    def callback(talk: Talk, delivery: object) -> None:
        calls.append((talk,))

    assert arguments_given(bus, functools.partial(callback, delivery=None), calls) == 1


def test_a_callable_object_is_a_callback(bus: TestBus) -> None:
    class Desk:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def __call__(self, talk: Talk, delivery: pc.Delivery) -> None:
            self.calls.append((talk, delivery))

    desk = Desk()
    assert arguments_given(bus, desk, desk.calls) == 2


def test_a_class_can_be_a_callback(bus: TestBus) -> None:
    made: list[Any] = []

    class Note:
        def __init__(self, talk: Talk) -> None:
            made.append((talk,))

    assert arguments_given(bus, Note, made) == 1


@pytest.mark.parametrize(
    "callback",
    [
        pytest.param(5, id="a number"),
        pytest.param(None, id="nothing"),
        pytest.param(lambda: None, id="no parameter"),
        pytest.param(lambda a, b, c: None, id="three parameters"),
        pytest.param(lambda a, *, key: None, id="a keyword it needs"),
    ],
)
def test_what_cannot_take_an_event_is_refused(bus: TestBus, callback: Any) -> None:
    with pytest.raises(
        pc.BadCallbackError, match=r"A callback takes \(event\) or \(event, delivery\)"
    ):
        bus.subscribe(Talk, callback)


def test_plain_on_without_annotation_is_refused(bus: TestBus) -> None:
    with pytest.raises(pc.BadCallbackError, match=r"@bus\.on\(Type\)"):

        @bus.on
        def announce(talk):  # type: ignore[no-untyped-def]
            pass


# -- what the delivery tells -----------------------------------------------------------------------


def test_the_delivery_tells_all_about_the_event(bus: TestBus) -> None:
    got: list[pc.Delivery] = []
    sub = bus.subscribe("/room", lambda talk, delivery: got.append(delivery))
    receipt = bus.publish(Talk(), topic="/room", headers={"trace": "7"})
    bus.run_until_idle()
    delivery = got[0]
    told = (
        delivery.subscription,
        delivery.topic,
        delivery.position,
        delivery.identity,
        delivery.publisher,
        delivery.time.timestamp(),
        dict(delivery.headers),
        delivery.count,
    )
    moment = bus.clock.time()
    identity = receipt.identity
    assert told == (sub, "/room", receipt.position, identity, "test", moment, {"trace": "7"}, 1)


def test_headers_are_empty_unless_given(bus: TestBus) -> None:
    got: list[pc.Delivery] = []
    bus.subscribe(Talk, lambda talk, delivery: got.append(delivery))
    bus.publish(Talk())
    bus.run_until_idle()
    assert dict(got[0].headers) == {}


def test_headers_are_as_they_were_at_the_call(bus: TestBus) -> None:
    got: list[pc.Delivery] = []
    bus.subscribe(Talk, lambda talk, delivery: got.append(delivery))
    headers = {"a": "1"}
    bus.publish(Talk(), headers=headers)
    headers["a"] = "2"
    bus.run_until_idle()
    assert dict(got[0].headers) == {"a": "1"}


def test_tokens_of_deliveries_grow(bus: TestBus) -> None:
    tokens: list[int] = []
    bus.subscribe(Talk, lambda talk, delivery: tokens.append(delivery.token))
    bus.publish_many([Talk()] * 3)
    bus.run_until_idle()
    assert tokens == sorted(set(tokens))
