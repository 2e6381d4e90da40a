"""Filters of subscriptions: what they pass, and what becomes of one that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Offer:
    price: int = 0
    note: Any = "none"


class Unsure:
    """A verdict that cannot be told."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


DISPATCH = pytest.mark.parametrize("dispatch", ["pool", "inline"])


@DISPATCH
def test_only_what_passes_is_delivered(bus: TestBus, dispatch: str) -> None:
    got: list[int] = []
    bus.subscribe(
        Offer,
        lambda offer: got.append(offer.price),
        where=lambda offer: offer.price > 2,
        dispatch=dispatch,  # type: ignore[arg-type]
    )
    bus.publish_many(Offer(price) for price in range(5))
    for price in range(5):
        bus.publish(Offer(price))
    bus.run_until_idle()
    assert got == [3, 4, 3, 4]


@DISPATCH
def test_the_verdict_is_the_truth_value_of_the_result(bus: TestBus, dispatch: str) -> None:
    got: list[int] = []
    bus.subscribe(
        Offer,
        lambda offer: got.append(offer.price),
        where=lambda offer: [None] * offer.price,
        dispatch=dispatch,  # type: ignore[arg-type]
    )
    for price in (0, 1, 2):
        bus.publish(Offer(price))
    bus.run_until_idle()
    assert got == [1, 2]


FAILING = {
    "division by zero": lambda offer: 1 / offer.price,
    "missing attribute": lambda offer: offer.note.colour,
    "wrong type": lambda offer: offer.price < offer.note,
    "no truth value": lambda offer: Unsure(),
}


@DISPATCH
@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
def test_a_filter_that_fails_does_not_match_and_does_not_reach_the_publisher(
    bus: TestBus, dispatch: str, failing: object
) -> None:
    got: list[Offer] = []
    bus.subscribe(Offer, got.append, where=failing, dispatch=dispatch)  # type: ignore[call-overload]
    bus.publish(Offer(0))
    bus.run_until_idle()
    assert got == []


@DISPATCH
def test_a_failure_of_a_filter_is_counted(bus: TestBus, dispatch: str) -> None:
    bus.subscribe(
        Offer,
        print,
        where=lambda offer: 1 / offer.price,
        dispatch=dispatch,  # type: ignore[arg-type]
    )
    bus.publish(Offer(0))
    bus.publish(Offer(0), headers={"a": "b"})
    bus.run_until_idle()
    assert bus.health().counts.filter_failures == 2


def test_a_failure_of_the_filter_of_a_group_member_is_counted(bus: TestBus) -> None:
    bus.subscribe(Offer, print, where=lambda offer: 1 / offer.price, group="g")
    bus.publish(Offer(0))
    bus.run_until_idle()
    assert bus.health().counts.filter_failures == 1


@DISPATCH
def test_a_filter_that_fails_does_not_disturb_the_others(bus: TestBus, dispatch: str) -> None:
    got: list[Offer] = []
    bus.subscribe(Offer, print, where=lambda o: 1 / o.price, dispatch=dispatch)  # type: ignore[arg-type]
    bus.subscribe(Offer, got.append, dispatch=dispatch)  # type: ignore[arg-type]
    bus.publish(Offer(0))
    bus.run_until_idle()
    assert got == [Offer(0)]


@DISPATCH
def test_a_filter_that_fails_is_not_a_failed_delivery(bus: TestBus, dispatch: str) -> None:
    bus.subscribe(Offer, print, where=lambda o: 1 / o.price, dispatch=dispatch)  # type: ignore[arg-type]
    bus.publish(Offer(0))
    bus.run_until_idle()
    assert len(bus.dead_letters()) == 0


def test_a_filter_that_cannot_be_right_is_refused_at_once(bus: TestBus) -> None:
    with pytest.raises(pc.FilterMistakeError) as caught:
        bus.subscribe(Offer, print, where=lambda o: o.prize > 3)  # type: ignore[attr-defined]
    assert "did you mean `price`?" in str(caught.value)
    with pytest.raises(pc.FilterMistakeError, match=r"`event.price` is int and `'3'` is str"):
        bus.subscribe(Offer, print, where=lambda o: o.price < "3")  # type: ignore[operator]
    with pytest.raises(pc.FilterMistakeError):
        pc.DAStrongSet(Offer, bus).contains(print, lambda o: o.prize)  # type: ignore[attr-defined]
    assert bus.health().subscriptions == ()


def test_a_filter_goes_with_a_topic(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe("/numbers", seen, where=lambda number: number > 1)
    for number in range(4):
        bus.publish(number, topic="/numbers")
    bus.run_until_idle()
    assert seen.events == [2, 3]


def test_a_filter_sees_subtypes(bus: TestBus) -> None:
    @dataclass
    class Special(Offer):
        reason: str = ""

    seen: Recorder[Offer] = Recorder()
    bus.subscribe(Offer, seen, where=lambda o: getattr(o, "reason", None) == "birthday")
    bus.publish_many([Offer(), Special(), Special(reason="birthday")])
    bus.run_until_idle()
    assert seen.events == [Special(reason="birthday")]


def test_a_filter_may_be_a_bound_method(bus: TestBus) -> None:
    class Budget:
        limit = 2

        def allows(self, offer: Offer) -> bool:
            return offer.price <= self.limit

    seen: Recorder[Offer] = Recorder()
    bus.subscribe(Offer, seen, where=Budget().allows)
    bus.publish_many(Offer(price) for price in range(5))
    bus.run_until_idle()
    assert [offer.price for offer in seen.events] == [0, 1, 2]


def test_a_filter_may_subscribe_while_it_is_asked(bus: TestBus) -> None:
    late: Recorder[Offer] = Recorder()
    made: list[object] = []

    def curious(offer: Offer) -> bool:
        if not made:
            made.append(bus.subscribe(Offer, late))
        return True

    seen: Recorder[Offer] = Recorder()
    bus.subscribe(Offer, seen, where=curious)
    bus.publish(Offer(1))
    bus.publish(Offer(2))
    bus.run_until_idle()
    assert [offer.price for offer in seen.events] == [1, 2]


@pytest.mark.parametrize("where", [5, "price > 3", [1]])
def test_a_filter_that_cannot_be_called_is_refused(bus: TestBus, where: object) -> None:
    with pytest.raises(pc.PolycastError, match="callable"):
        bus.subscribe(Offer, print, where=where)  # type: ignore[call-overload]


def test_a_refused_filter_leaves_no_subscription_behind(bus: TestBus) -> None:
    with pytest.raises(pc.PolycastError):
        bus.subscribe(Offer, print, where=5)  # type: ignore[call-overload]
    assert bus.health().subscriptions == ()
