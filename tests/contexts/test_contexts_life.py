"""Views, durable subscriptions and history in contexts: what lasts, what is said, what may go."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from parties import (
    Dollar,
    Euro,
    Note,
    Order,
    Parties,
    UKOrder,
    USOrder,
    calls,
    make_parties,
    make_root,
    make_uk,
    make_us,
    order,
    uk_order,
    us_order,
)

import polycast as pc

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]


def recorded(bus: pc.Bus, what: Any, **options: Any) -> list[Any]:
    """What a new subscription gets from now on."""
    seen: list[Any] = []
    bus.subscribe(what, lambda event: seen.append(event), **options)
    return seen


def numbers(events: list[Any]) -> list[int]:
    return [event.number for event in events]


def rate_of_the_moment(price: Euro) -> Dollar:
    """Each time it is asked, a euro is dearer; there may be an end to that."""
    calls["rate"] += 1
    if calls["rate"] > calls["until"] > 0:
        raise LookupError("no rate today")
    return Dollar(price.amount + calls["rate"])


def changing_market(open_bus: OpenBus, *, until: int = 0) -> pc.Bus:
    calls.clear()
    calls["until"] = until
    root = make_root()
    federation = pc.Federation(root)
    federation.add(make_us(root, incoming=pc.impure(rate_of_the_moment)))
    federation.add(make_uk(root))
    return open_bus(federation=federation)


# -- history and durables --------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_history_is_seen_as_the_context_sees_it(
    market: pc.Bus, dispatch: str, eventually: Eventually
) -> None:
    us, uk = market.within("us"), market.within("uk")
    market.publish(order(1))
    uk.publish(uk_order(2, 3.0))
    us.publish(us_order(3))
    uk.publish(Note("x"))
    options: dict[str, Any] = {"since": "beginning", "dispatch": dispatch}
    seen = recorded(us, object, **options)
    dear = recorded(us, USOrder, where=lambda o: o.price.amount > 10, **options)
    at_root = recorded(market, Order, **options)
    eventually(lambda: (len(seen), len(dear), len(at_root)) == (4, 2, 3))
    first, second, third = us_order(1), USOrder(2, Dollar(4.0), ["tea"]), us_order(3)
    assert seen == [first, second, third, Note("x")]
    assert (dear, at_root[2]) == ([first, third], order(3))


def test_a_durable_catches_up_in_its_context(market: pc.Bus, eventually: Eventually) -> None:
    us = market.within("us")
    sub = us.subscribe(USOrder, print, durable="books", where=lambda o: o.price.amount > 10)
    sub.detach()
    market.publish_many([order(1), order(2, 1.0), Note("x"), order(3)])
    seen = recorded(us, USOrder, durable="books", where=lambda o: o.price.amount > 10)
    eventually(lambda: len(seen) == 2)
    market.publish(order(4))
    eventually(lambda: numbers(seen) == [1, 3, 4])
    assert all(type(event) is USOrder for event in seen)


def test_a_durable_of_another_context_is_another_definition(market: pc.Bus) -> None:
    recorded(market.within("us"), Note, durable="books")
    with pytest.raises(pc.DurableChangedError) as caught:
        market.within("uk").subscribe(Note, print, durable="books")
    assert caught.value.difference == {"context": ("us", "uk")}
    with pytest.raises(pc.DurableChangedError) as caught:
        market.subscribe(Note, print, durable="books")
    assert caught.value.difference == {"context": ("us", "nothing")}


def test_a_durable_can_move_to_another_context(market: pc.Bus, eventually: Eventually) -> None:
    market.within("us").subscribe(USOrder, print, durable="books").detach()
    market.publish(order(1))
    seen = recorded(market.within("uk"), UKOrder, durable="books", replace=True)
    market.publish(order(2))
    eventually(lambda: seen == [uk_order(1), uk_order(2)])


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
@pytest.mark.parametrize("publisher", ["root", "uk"])
def test_what_is_impure_is_translated_for_each_attempt(
    open_bus: OpenBus, publisher: str, dispatch: str, eventually: Eventually
) -> None:
    bus = changing_market(open_bus)
    seen: list[float] = []

    def work(event: USOrder) -> None:
        seen.append(event.price.amount)
        if len(seen) < 3:
            raise OSError("not yet")

    options: dict[str, Any] = {"dispatch": dispatch, "backoff": 0.001}
    bus.within("us").subscribe(USOrder, work, attempts=3, **options)
    if publisher == "uk":
        bus.within("uk").publish(uk_order(1, 11.0))
    else:
        bus.publish(order(1))
    eventually(lambda: len(seen) == 3)
    assert seen == [11.0, 12.0, 13.0]
    assert calls["from_pounds"] == (publisher == "uk")


def test_an_attempt_whose_translation_raises_has_failed(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus = changing_market(open_bus, until=1)
    seen: list[Any] = []

    def work(event: USOrder) -> None:
        seen.append(event)
        raise OSError("not yet")

    bus.within("us").subscribe(USOrder, work, attempts=3, backoff=0.001)
    bus.publish(order(1))
    eventually(lambda: len(bus.dead_letters()) == 1)
    [letter] = bus.dead_letters()
    assert (len(seen), letter.attempts) == (1, 3)
    assert letter.reason == "LookupError: no rate today"
    assert not letter.subscription.startswith("context")


def test_what_is_impure_is_translated_anew_for_a_replay(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus = changing_market(open_bus)
    seen: list[float] = []

    def work(event: USOrder) -> None:
        seen.append(event.price.amount)
        if len(seen) == 1:
            raise OSError("not yet")

    bus.within("us").subscribe(USOrder, work, attempts=1)
    bus.publish(order(1))
    eventually(lambda: len(bus.dead_letters()) == 1)
    assert bus.dead_letters().replay() == 1
    eventually(lambda: len(seen) == 2)
    assert seen[1] > seen[0]


def test_what_is_impure_is_translated_anew_for_who_pulls_again(open_bus: OpenBus) -> None:
    bus = changing_market(open_bus)
    us = bus.within("us")
    orders = pc.DAStrongSet(USOrder, us, pull="fifo", durable="orders")
    bus.publish(order(1))
    first = orders.get(timeout=5)
    again = pc.DAStrongSet(USOrder, us, pull="fifo", durable="orders")  # nothing is acknowledged
    second = again.get(timeout=5)
    assert first is not None
    assert second is not None
    assert (first.price.amount, second.price.amount) == (11.0, 12.0)


def test_what_fails_is_tried_again_without_another_translation(
    market: pc.Bus, eventually: Eventually
) -> None:
    attempts: list[Any] = []

    def work(event: Any) -> None:
        attempts.append(event)
        if len(attempts) < 3:
            raise OSError("not yet")

    market.within("us").subscribe(USOrder, work, attempts=3, backoff=0.001)
    market.publish(order())
    eventually(lambda: len(attempts) == 3)
    assert attempts == [us_order()] * 3
    assert calls == {"to_dollars": 1}


# -- what is said ----------------------------------------------------------------------------------


def test_a_subscription_explains_its_context(market: pc.Bus) -> None:
    sub = market.within("us").subscribe(USOrder, print, where=lambda o: o.price.amount > 10)
    assert "sees events as context 'us' does" in str(sub.explain())
    assert "context" not in str(market.subscribe(Order, print).explain())
    said = sub.explain(order())
    assert said.delivered is True
    assert "in context 'us' a parties.Order is a parties.USOrder" in said.reasons
    assert sub.explain(order(1, 1.0)).delivered is False
    mine = sub.explain(us_order())
    assert mine.delivered is True
    assert "parties.USOrder is a type of context 'us'" in mine.reasons


def test_a_subscription_explains_that_a_function_raises(market: pc.Bus) -> None:
    said = market.within("us").subscribe(USOrder, print).explain(order(1, -1.0))
    assert said.delivered is False
    assert "Refused" in str(said)


def test_health_and_repr_say_the_context(market: pc.Bus) -> None:
    us = market.within("us")
    us.subscribe(USOrder, print)
    market.subscribe(Order, print)
    assert [subscription.context for subscription in us.health().subscriptions] == ["us", None]
    assert "context 'us'" in repr(us)
    assert "context" not in repr(market)


# -- life ------------------------------------------------------------------------------------------


def test_closing_a_view_closes_the_bus_and_all_views(market: pc.Bus) -> None:
    us, uk = market.within("us"), market.within("uk")
    us.close()
    for view in (market, us, uk):
        with pytest.raises(pc.BusClosedError):
            view.publish(Note("x"))
        with pytest.raises(pc.BusClosedError):
            view.publish_many([Note("x")])
        with pytest.raises(pc.BusClosedError):
            view.subscribe(Note, print)
    assert market.health().state == "closed"


def test_closing_the_bus_delivers_what_is_there_to_all_views(market: pc.Bus) -> None:
    seen = recorded(market.within("us"), USOrder)
    for number in range(50):
        market.publish(order(number))
    market.close()
    assert numbers(seen) == list(range(50))


def test_whoever_has_a_view_has_the_bus(open_bus: OpenBus, party: Parties, place: str) -> None:
    if place == "memory":
        us = pc.Bus(federation=party.federation).within("us")
    else:
        us = open_bus(federation=party.federation).within("us")
    gc.collect()
    seen = recorded(us, USOrder)
    us.publish(us_order())
    assert us.flush(5)
    us.close()
    assert len(seen) == 1


def collected(reference: weakref.ref[Any]) -> bool:
    for _ in range(3):
        gc.collect()
    return reference() is None


def test_a_bus_and_its_views_can_go_while_the_federation_lives(party: Parties) -> None:
    bus = pc.Bus(federation=party.federation)
    view = bus.within("us")
    view.publish(us_order())
    bus.publish(order())
    references = [weakref.ref(bus), weakref.ref(view)]
    del bus, view
    assert all(collected(reference) for reference in references)
    party.mend()


def test_a_federation_can_go_with_its_bus() -> None:
    parties = make_parties()
    bus = pc.Bus(federation=parties.federation)
    recorded(bus.within("us"), USOrder)
    bus.publish(order())
    assert bus.flush(5)
    bus.close()
    reference = weakref.ref(parties.federation)
    del bus, parties
    assert collected(reference)


@pytest.mark.parametrize("within", ["root", "us"])
@pytest.mark.parametrize("topic", [None, "/a"])
def test_a_class_that_nobody_translated_can_go_while_the_bus_lives(
    party: Parties, within: str, topic: str | None
) -> None:
    @dataclass
    class Passing(Note):
        more: int = 0

    with pc.Bus(federation=party.federation) as bus:
        view, seen = bus.within(within), []
        view.subscribe(Note, lambda event: seen.append(event.text))
        for name in {"root", "us", "uk"} - {within}:
            bus.within(name).subscribe(UKOrder, print)
        view.publish(Passing("x"), topic=topic)
        view.publish_many([Passing("y")])
        assert bus.flush(5)
        assert seen == ["x", "y"]
        reference = weakref.ref(Passing)
        del Passing
        assert collected(reference)
