"""The generated routes against the slow, obvious dispatcher."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from routing_reference import takers

import polycast as pc
from polycast.matching import Interest
from polycast.routing import plan as routing_plan
from polycast.routing.publish_codegen import UNROLLED, RouteShape, source_of
from polycast.testing import TestBus

MORE = 20 if os.environ.get("POLYCAST_STRESS") == "long" else 1


class Marked(ABC):  # noqa: B024
    """An interface without members."""


class HasSpeaker(Protocol):
    speaker: str


@dataclass(frozen=True)
class Talk:
    speaker: str = "?"
    stars: int = 0


@dataclass(frozen=True)
class Keynote(Talk):
    hall: str = "A"


@dataclass(frozen=True)
class Panel(Talk, Marked):
    pass


@dataclass(frozen=True)
class Lunch(Marked):
    stars: int = 0


CLASSES = [Talk, Keynote, Panel, Lunch]
SELECTORS: list[Any] = [
    Talk,
    Keynote,
    Marked,
    HasSpeaker,
    object,
    Talk | Lunch,
    pc.all_of(Talk, Marked),
    "/a",
    "/a/**",
    "/*/b",
    "**",
    pc.topic("/a/**", Talk),
]
FILTERS: list[Callable[[Any], object] | None] = [
    None,
    lambda e: e.stars > 2,
    lambda e: e.__dict__["speaker"] == "x",  # fails for Lunch
    lambda e: 1 / e.stars,  # fails for 0
    lambda e: [] if e.stars else "yes",
]
TOPICS = [None, "/a", "/a/b", "/c/b", "/"]

subscribes = st.tuples(
    st.just("subscribe"),
    st.sampled_from(SELECTORS),
    st.sampled_from(FILTERS),
    st.booleans(),  # exact
    st.sampled_from(["inline", "pool"]),
    st.booleans(),  # with the delivery
)
publishes = st.tuples(
    st.just("publish"), st.sampled_from(CLASSES), st.integers(0, 5), st.sampled_from(TOPICS)
)
cancels = st.tuples(st.just("cancel"), st.integers(0, 50))
pauses = st.tuples(st.sampled_from(["pause", "resume"]), st.integers(0, 50))
programs = st.lists(st.one_of(subscribes, publishes, publishes, cancels, pauses), max_size=40)


class Run:
    """One program, run on a bus and on the reference at once."""

    def __init__(self, history: int) -> None:
        self.bus = TestBus(history=history)
        self.got: dict[str, list[int]] = {}
        self.expected: dict[str, list[int]] = {}
        self.interests: dict[str, Interest] = {}
        self.subscriptions: list[pc.Subscription[Any]] = []

    def subscribe(
        self, what: Any, where: Any, exact: bool, dispatch: Any, with_delivery: bool
    ) -> None:
        name = f"s{len(self.subscriptions)}"
        got = self.got[name] = []
        self.expected[name] = []

        def plain(event: Any) -> None:
            got.append(id(event))

        def with_both(event: Any, delivery: pc.Delivery) -> None:
            got.append(id(event))

        callback: Any = with_both if with_delivery else plain
        subscription = self.bus.subscribe(
            what, callback, where=where, exact=exact, dispatch=dispatch
        )
        self.subscriptions.append(subscription)
        self.interests[name] = subscription.interest

    def publish(self, cls: Any, stars: int, topic: str | None) -> None:
        event = cls(stars=stars)
        options: Any = {} if topic is None else {"topic": topic}
        receipt = self.bus.publish(event, **options)
        self.keep.append(event)
        for name in takers(self.interests, event, topic=topic, position=receipt.position):
            self.expected[name].append(id(event))

    keep: list[Any] = []  # events stay alive, so that their ids stay theirs

    def cancel(self, number: int) -> None:
        if self.subscriptions:
            chosen = number % len(self.subscriptions)
            self.bus.run_until_idle()
            if self.subscriptions[chosen].state == "paused":
                self.subscriptions[chosen].resume()
                self.bus.run_until_idle()
            self.subscriptions[chosen].cancel()
            self.interests.pop(f"s{chosen}", None)

    def pause(self, number: int) -> None:
        self._toggle(number, "pause")

    def resume(self, number: int) -> None:
        self._toggle(number, "resume")

    def _toggle(self, number: int, action: str) -> None:
        live = [each for each in self.subscriptions if each.ended is None]
        if live:
            getattr(live[number % len(live)], action)()

    def finish(self) -> None:
        for each in self.subscriptions:
            if each.state == "paused":
                each.resume()
        self.bus.run_until_idle()


@pytest.mark.parametrize("many", [0, 3, routing_plan.MANY])
@pytest.mark.parametrize("history", [0, 100])
@settings(
    max_examples=75 * MORE,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(program=programs)
def test_generated_routes_deliver_what_the_slow_dispatcher_says(
    history: int, many: int, monkeypatch: pytest.MonkeyPatch, program: list[Any]
) -> None:
    """So many filters are a crowd, over which there is an index."""
    monkeypatch.setattr(routing_plan, "MANY", many)
    monkeypatch.setattr(routing_plan, "LOOKED_AT", 2)
    run = Run(history)
    for name, *arguments in program:
        getattr(run, name)(*arguments)
    run.finish()
    assert run.got == run.expected


@pytest.mark.parametrize("count", [1, 2, UNROLLED, UNROLLED + 1, 200])
def test_any_number_of_direct_subscribers_is_called_once_each(count: int) -> None:
    got: list[int] = []
    with pc.Bus() as bus:
        for number in range(count):
            bus.subscribe(Talk, lambda _, number=number: got.append(number), dispatch="inline")
        bus.publish(Talk())
    assert got == list(range(count))


@pytest.mark.parametrize("count", [3, UNROLLED + 3])
def test_a_subscriber_cancelled_by_an_earlier_one_is_not_called_any_more(count: int) -> None:
    got: list[int] = []
    with pc.Bus() as bus:
        later: list[pc.Subscription[Talk]] = []
        bus.subscribe(Talk, lambda _: later[1].cancel(), dispatch="inline")
        for number in range(count):
            later.append(
                bus.subscribe(Talk, lambda _, number=number: got.append(number), dispatch="inline")
            )
        bus.publish(Talk())
    assert got == [number for number in range(count) if number != 1]


def test_many_filters_call_in_the_order_of_their_subscriptions() -> None:
    got: list[int] = []
    with pc.Bus() as bus:
        for number in range(500):
            bus.subscribe(
                Talk,
                lambda _, number=number: got.append(number),
                where=lambda t, number=number: t.stars == number % 7,
                dispatch="inline",
            )
        bus.publish(Talk(stars=3))
        bus.publish_many([Talk(stars=4)])
    assert got == [n for n in range(500) if n % 7 == 3] + [n for n in range(500) if n % 7 == 4]


def test_a_crowd_changes_while_an_event_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_plan, "MANY", 48)
    got: list[int] = []
    subscriptions: list[pc.Subscription[Talk]] = []
    with pc.Bus() as bus:

        def call(number: int) -> None:
            got.append(number)
            if number == 10:
                subscriptions[20].cancel()
                subscribe(100)

        def subscribe(number: int) -> None:
            subscriptions.append(
                bus.subscribe(
                    Talk, lambda _: call(number), where=lambda t: t.stars < 9, dispatch="inline"
                )
            )

        for number in range(100):
            subscribe(number)
        bus.publish(Talk())
        assert got == [number for number in range(100) if number != 20]
        got.clear()
        bus.publish(Talk(stars=10))
        assert got == []
        bus.publish(Talk())
        assert len(got) == 100


def test_a_crowd_that_wants_most_events_is_asked_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing_plan, "MANY", 48)
    monkeypatch.setattr(routing_plan, "LOOKED_AT", 4)
    got: list[int] = []
    with pc.Bus() as bus:
        for number in range(100):
            bus.subscribe(
                Talk,
                lambda _, number=number: got.append(number),
                where=lambda t, number=number: t.stars >= number,
                dispatch="inline",
            )

        def is_crowded() -> bool:
            route: Any = bus._publishing.publisher.route(Talk, None, None)
            return "choose" in route.__globals__

        for _ in range(10):
            bus.publish(Talk(stars=1))
        assert is_crowded()
        for _ in range(10):
            bus.publish(Talk(stars=60))
        assert not is_crowded()
        assert got == [*([0, 1] * 10), *(list(range(61)) * 10)]
        bus.subscribe(Talk, print, where=lambda t: t.stars < 0)
        assert is_crowded()  # the plan has changed


def test_those_who_take_the_delivery_keep_their_order_in_a_crowd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing_plan, "MANY", 48)
    got: list[int] = []
    with pc.Bus() as bus:
        for number in range(100):

            def call(talk: Talk, delivery: pc.Delivery, number: int = number) -> None:
                got.append(number)

            bus.subscribe(Talk, call, where=lambda t: t.stars < 9, dispatch="inline")
        bus.publish(Talk())
    assert got == list(range(100))


def test_pausing_in_a_crowd_loses_nothing(
    in_thread: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing_plan, "MANY", 48)
    got: list[int] = []
    with pc.Bus() as bus:
        for number in range(60):
            bus.subscribe(Talk, print, where=lambda t, number=number: t.stars == -number - 1)
        mine = bus.subscribe(Talk, lambda t: got.append(t.stars), where=lambda t: t.stars >= 0)
        publishing = in_thread(lambda: [bus.publish(Talk(stars=n)) for n in range(1_500)])
        while publishing.is_alive():
            mine.pause()
            mine.resume()
        publishing.join(10)
        bus.flush()
    assert sorted(got) == list(range(1_500))


def test_the_source_holds_numbered_names_only() -> None:
    shape = RouteShape(queued=(True, False), direct=(None,), logged=True, locked=True, topic=True)
    assert "Talk" not in source_of(shape)
    assert "hit_0 = test_0(event)" in source_of(shape)


def test_a_subscription_to_an_unrelated_type_leaves_the_route_as_it_is() -> None:
    with pc.Bus() as bus:
        bus.subscribe(Talk, print, where=lambda t: False, dispatch="inline")
        bus.publish(Talk())
        before = bus._dispatcher.routes.plain[Talk]
        bus.subscribe(int, print, dispatch="inline")
        assert bus._dispatcher.routes.plain[Talk] is before


def test_a_new_subscription_to_a_supertype_makes_a_new_route() -> None:
    got: list[Talk] = []
    with pc.Bus() as bus:
        bus.publish(Keynote())
        bus.subscribe(Talk, got.append, dispatch="inline")
        bus.publish(Keynote())
    assert len(got) == 1
