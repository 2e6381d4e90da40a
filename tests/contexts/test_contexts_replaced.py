"""Contexts are added, replaced and removed while events flow."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from parties import (
    Dollar,
    Euro,
    Note,
    Order,
    Parties,
    UKOrder,
    USMemo,
    USOrder,
    make_marked_us,
    make_root,
    make_us,
    order,
    to_dollars,
    to_dollars_always,
    us_order,
)

import polycast as pc

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]
InThread = Callable[[Callable[[], object]], threading.Thread]


def recorded(bus: pc.Bus, what: Any, **options: Any) -> list[Any]:
    """What a new subscription gets from now on."""
    seen: list[Any] = []
    bus.subscribe(what, lambda event: seen.append(event), **options)
    return seen


def prices(events: list[Any]) -> list[tuple[int, float]]:
    return [(event.number, event.price.amount) for event in events]


@dataclass
class FeeOrder:
    """What a child of `us` makes of orders."""

    number: int
    price: Dollar
    fee: str = "none"


# -- adding and replacing --------------------------------------------------------------------------


def test_a_context_that_comes_later_gets_what_comes_later(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    root = make_root()
    bus = open_bus(federation=pc.Federation(root))
    bus.publish(order(1))
    seen = recorded(bus.within(make_us(root)), USOrder)
    bus.publish(order(2))
    eventually(lambda: prices(seen) == [(2, 20.0)])


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_what_is_published_after_a_replacement_is_seen_by_it(
    market: pc.Bus, party: Parties, dispatch: str
) -> None:
    seen = recorded(market.within("us"), USOrder, dispatch=dispatch)
    market.publish(order(1))
    party.mend()
    market.publish(order(2))
    market.publish(order(3), topic="/a")
    market.publish_many([order(4)])
    assert market.flush(5)
    assert prices(seen) == [(1, 20.0), (2, 40.0), (3, 40.0), (4, 40.0)]


def test_the_way_out_is_replaced_too(market: pc.Bus, party: Parties) -> None:
    us, seen = market.within("us"), recorded(market, Order)
    us.publish(us_order(1, 20.0))
    party.mend()
    us.publish(us_order(2, 20.0))
    assert market.flush(5)
    assert prices(seen) == [(1, 10.0), (2, 5.0)]


def test_what_was_published_before_a_replacement_is_seen_by_what_was_before(
    market: pc.Bus, party: Parties, eventually: Eventually
) -> None:
    us = market.within("us")
    sub = us.subscribe(USOrder, print, durable="books")
    sub.detach()
    market.publish(order(1))
    party.mend()
    market.publish(order(2))
    seen = recorded(us, USOrder, durable="books")
    eventually(lambda: prices(seen) == [(1, 20.0), (2, 40.0)])


def test_history_meets_each_context_as_it_was_at_that_position(
    market: pc.Bus, party: Parties, eventually: Eventually
) -> None:
    us, uk = market.within("us"), market.within("uk")
    market.publish(order(1))
    us.publish(us_order(2, 20.0))
    party.mend()
    market.publish(order(3))
    us.publish(us_order(4, 20.0))
    in_us = recorded(us, USOrder, since="beginning")
    in_uk = recorded(uk, UKOrder, since="beginning")
    at_root = recorded(market, Order, since="beginning")
    eventually(lambda: list(map(len, (in_us, in_uk, at_root))) == [4, 4, 4])
    assert prices(in_us) == [(1, 20.0), (2, 20.0), (3, 40.0), (4, 20.0)]
    assert prices(at_root) == [(1, 10.0), (2, 10.0), (3, 10.0), (4, 5.0)]
    assert prices(in_uk) == [(1, 11.0), (2, 11.0), (3, 11.0), (4, 6.0)]


def test_history_before_a_context_came_is_seen_by_its_first_version(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    root = make_root()
    federation = pc.Federation(root)
    bus = open_bus(federation=federation)
    bus.publish(order(1))
    us = bus.within(make_us(root))
    bus.publish(order(2))
    federation.replace(make_us(root, incoming=to_dollars_always))
    bus.publish(order(3))
    seen = recorded(us, USOrder, since="beginning")
    eventually(lambda: prices(seen) == [(1, 20.0), (2, 20.0), (3, 40.0)])


def test_history_while_a_context_was_away_is_not_seen_by_it(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    root = make_root()
    federation = pc.Federation(root)
    bus = open_bus(federation=federation)
    us = bus.within(make_us(root))
    bus.publish(order(1))
    us.publish(us_order(2, 20.0))
    federation.remove("us")
    bus.publish(order(3))
    at_root = recorded(bus, Order, since="beginning")
    eventually(lambda: prices(at_root) == [(1, 10.0), (2, 10.0), (3, 10.0)])
    federation.add(make_us(root, incoming=to_dollars_always))
    bus.publish(order(4))
    seen = recorded(us, USOrder, since="beginning")
    eventually(lambda: prices(seen) == [(1, 20.0), (2, 20.0), (4, 40.0)])


def test_a_replacement_that_is_refused_changes_nothing(market: pc.Bus, party: Parties) -> None:
    wrong = make_us(party.root)
    wrong.rule("Order.nothing", to_dollars)
    seen = recorded(market.within("us"), USOrder)
    with pytest.raises(pc.ContextRefusedError):
        party.federation.replace(wrong)
    market.publish(order())
    assert market.flush(5)
    assert prices(seen) == [(1, 20.0)]


def test_mappings_can_come_and_go(market: pc.Bus, party: Parties) -> None:
    us = market.within("us")
    every, at_root = recorded(us, object), recorded(market, object)
    without = pc.Context("us", parent=party.root, types=[USOrder, USMemo, Dollar])
    party.federation.replace(without)
    market.publish(order(1))
    us.publish(us_order(2))
    assert market.flush(5)
    assert (every, at_root) == ([order(1), us_order(2)], [order(1)])
    party.federation.replace(make_us(party.root))
    market.publish(order(3))
    us.publish(us_order(4))
    assert market.flush(5)
    assert every[2:] == [us_order(3), us_order(4)]
    assert at_root[1:] == [order(3), order(4)]


def test_statistics_go_on_when_a_context_is_replaced(market: pc.Bus, party: Parties) -> None:
    recorded(market.within("us"), USOrder)
    market.publish(order(1, -1.0))
    assert market.flush(5)
    party.mend()
    market.publish(order(2))
    assert market.flush(5)
    found = party.federation.statistics()["us"]
    assert found.failed == {"Order": 1}
    assert list(found.incoming.values()) == [1]


# -- removing --------------------------------------------------------------------------------------


def test_a_context_that_is_removed_is_cut_off(market: pc.Bus, party: Parties) -> None:
    us = market.within("us")
    mine, at_root = recorded(us, object), recorded(market, object)
    party.federation.remove("us")
    market.publish(order(1))
    us.publish(us_order(2))
    us.publish_many([us_order(3)])
    assert market.flush(5)
    assert mine == [us_order(2), us_order(3)]
    assert at_root == [order(1)]
    with pytest.raises(pc.BadContextError):
        market.within("us")


def test_a_context_that_comes_back_goes_on(market: pc.Bus, party: Parties) -> None:
    us = market.within("us")
    seen = recorded(us, USOrder)
    party.federation.remove("us")
    market.publish(order(1))
    assert market.flush(5)
    party.federation.add(make_us(party.root, incoming=to_dollars_always))
    market.publish(order(2))
    us.publish(us_order(3))
    assert market.flush(5)
    assert prices(seen) == [(2, 40.0), (3, 20.0)]


def test_a_parent_is_not_removed_before_its_children(market: pc.Bus, party: Parties) -> None:
    market.within(pc.Context("ca", parent=party.us))
    with pytest.raises(pc.BadContextError, match="ca"):
        party.federation.remove("us")


# -- children --------------------------------------------------------------------------------------


def test_children_follow_their_parent(market: pc.Bus, party: Parties) -> None:
    child = pc.Context("ca", parent=party.us)
    seen = recorded(market.within(child), USOrder)
    market.publish(order(1))
    party.mend()
    market.publish(order(2))
    assert market.flush(5)
    assert prices(seen) == [(1, 20.0), (2, 40.0)]


def test_a_child_and_its_parent_meet_in_the_root(market: pc.Bus, party: Parties) -> None:
    child = pc.Context("ca", parent=party.us)
    child.rule("Order.price", to_dollars_always)
    ca, us = market.within(child), market.within("us")
    seen = [recorded(ca, USOrder), recorded(us, USOrder)]
    us.publish(us_order(1, 20.0))
    ca.publish(us_order(2, 20.0))
    assert market.flush(5)
    assert [prices(events) for events in seen] == [[(1, 40.0), (2, 20.0)], [(1, 20.0), (2, 20.0)]]


def test_a_child_that_its_parent_breaks_keeps_its_code_until_it_is_replaced(
    market: pc.Bus, party: Parties, caplog: pytest.LogCaptureFixture
) -> None:
    child = pc.Context("ca", parent=party.us, types=[FeeOrder])
    child.map(Order, FeeOrder, "?")
    market.within(child)
    seen, in_us = recorded(market.within("ca"), FeeOrder), recorded(market.within("us"), USOrder)
    broken = pc.Context("us", parent=party.root, types=[USOrder, Dollar])
    broken.map(Order, USOrder, "?")  # a rule for the prices is what the child needs
    broken.rule("Order.price", as_dollar_name)
    with caplog.at_level(logging.WARNING, "polycast.contexts"):
        with pytest.raises(pc.ContextRefusedError):
            party.federation.replace(broken)
        party.federation.replace(_without_prices(party.root))
    assert party.federation.statistics()["ca"].stale
    assert any("'ca' is stale" in record.getMessage() for record in caplog.records)
    market.publish(order(1))
    assert market.flush(5)
    assert (seen, in_us) == ([FeeOrder(1, Dollar(20.0))], [])
    mended = pc.Context("ca", parent=party.federation.members["us"].context, types=[FeeOrder])
    mended.map(Order, FeeOrder, "?")
    mended.rule("Order.price", to_dollars_always)
    party.federation.replace(mended)
    assert not party.federation.statistics()["ca"].stale
    market.publish(order(2))
    assert market.flush(5)
    assert prices(seen) == [(1, 20.0), (2, 40.0)]


def as_dollar_name(price: Euro) -> str:
    return str(price.amount)


def _without_prices(root: pc.Context) -> pc.Context:
    return pc.Context("us", parent=root, types=[USOrder, Dollar])


# -- newly met subtypes ----------------------------------------------------------------------------


@dataclass
class GiftOrder(Order):
    """A subtype that no context lists."""

    wrapping: str = "red"


@dataclass
class CostlyOrder(Order):
    """A subtype whose attribute does not go with what `ca` makes of it."""

    fee: Euro = field(default_factory=lambda: Euro(1.0))


def test_a_subtype_is_resolved_when_it_is_first_met(market: pc.Bus) -> None:
    seen, at_root = recorded(market.within("us"), USOrder), recorded(market, Order)
    market.publish(order(1))
    market.publish(GiftOrder(2, Euro(3.0)))
    assert market.flush(5)
    assert prices(seen) == [(1, 20.0), (2, 6.0)]
    assert at_root[1] == GiftOrder(2, Euro(3.0))


def test_a_subtype_that_fails_the_check_goes_on_under_its_supertype(
    market: pc.Bus, party: Parties
) -> None:
    child = pc.Context("ca", parent=party.root, types=[FeeOrder, Dollar])
    child.map(Order, FeeOrder, "?")
    child.rule("Euro", to_dollars)  # and so a fee would be dollars, where a text is needed
    seen, at_root = recorded(market.within(child), FeeOrder), recorded(market, Order)
    market.publish(CostlyOrder(1, Euro(3.0)))
    market.publish(order(2))
    assert market.flush(5)
    assert seen == [FeeOrder(1, Dollar(6.0)), FeeOrder(2, Dollar(20.0))]
    assert len(at_root) == 2
    assert [name for name, _ in party.federation.findings] == ["ca"]
    assert len(market.dead_letters()) == 0


# -- while others publish --------------------------------------------------------------------------


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


EACH = 40


def test_every_event_is_seen_by_one_version_and_once(
    open_bus: OpenBus, in_thread: InThread
) -> None:
    root = make_root()
    federation = pc.Federation(root)
    federation.add(make_marked_us(root, "A"))
    bus = open_bus(federation=federation)
    in_us = [recorded(bus.within("us"), USOrder, dispatch=way) for way in ("pool", "inline")]
    at_root, errors = recorded(bus, Order), []

    def publish(first: int, view: pc.Bus, make: Callable[[int], Any]) -> None:
        try:
            for number in range(first, first + EACH):
                view.publish(make(number))
        except BaseException as error:
            errors.append(error)

    threads = [
        in_thread(lambda: publish(0, bus, order)),
        in_thread(lambda: publish(EACH, bus.within("root"), order)),
        in_thread(lambda: publish(2 * EACH, bus.within("us"), us_order)),
    ]
    version = 0
    while any(thread.is_alive() for thread in threads):
        version += 1
        federation.replace(make_marked_us(root, "AB"[version % 2]))
    assert not errors
    assert bus.flush(10)
    foreign = {(20.0, "tea A"), (40.0, "tea B")}
    for seen in in_us:
        assert sorted(event.number for event in seen) == list(range(3 * EACH))
        theirs = [event for event in seen if event.number < 2 * EACH]
        assert {(event.price.amount, event.items[0]) for event in theirs} <= foreign
    assert sorted(event.number for event in at_root) == list(range(3 * EACH))
    assert len(bus.dead_letters()) == 0


@pytest.mark.usefixtures("restless")
def test_contexts_come_and_go_while_others_publish(
    market: pc.Bus, party: Parties, in_thread: InThread
) -> None:
    us, errors = market.within("us"), []
    at_root, mine = recorded(market, Order), recorded(us, object)
    notes = recorded(market.within("uk"), Note, dispatch="inline")

    def publish(first: int) -> None:
        try:
            for number in range(first, first + EACH):
                market.publish(order(number))
                us.publish(USMemo(str(number)))
                us.publish_many([Note(str(number))])
        except BaseException as error:
            errors.append(error)

    threads = [in_thread(lambda: publish(0)), in_thread(lambda: publish(EACH))]
    while any(thread.is_alive() for thread in threads):
        party.federation.remove("us")
        party.federation.add(make_us(party.root))
    assert not errors
    assert market.flush(10)
    assert sorted(event.number for event in at_root) == list(range(2 * EACH))
    assert len([event for event in mine if isinstance(event, USMemo)]) == 2 * EACH
    assert len([event for event in mine if isinstance(event, Note)]) == 2 * EACH
    assert len({note.text for note in notes}) == len(notes) <= 2 * EACH
    assert len(market.dead_letters()) == 0


def test_subscriptions_come_and_go_in_contexts_while_others_publish(
    market: pc.Bus, in_thread: InThread
) -> None:
    us, errors = market.within("us"), []
    seen = recorded(us, USOrder)

    def publish(first: int) -> None:
        try:
            for number in range(first, first + EACH):
                market.publish(order(number))
        except BaseException as error:
            errors.append(error)

    threads = [in_thread(lambda: publish(0)), in_thread(lambda: publish(EACH))]
    for _ in range(200):  # without an end to it, publishers ask again and again
        passing: list[Any] = []
        sub = us.subscribe(USOrder, lambda event, to=passing: to.append(event), dispatch="inline")
        sub.cancel()
        found = [event.number for event in passing]
        assert len(set(found)) == len(found)
    for thread in threads:
        thread.join(10)
    assert not errors
    assert market.flush(10)
    assert sorted(event.number for event in seen) == list(range(2 * EACH))


# -- publishing goes on ----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the same", "another"])
def test_a_publisher_gets_on_while_others_subscribe_without_end(
    market: pc.Bus, what: str, in_thread: InThread
) -> None:
    us, over = market.within("us"), threading.Event()
    seen = recorded(us, USOrder)

    def crowd() -> None:
        while not over.is_set():
            if what == "the same":
                us.subscribe(USOrder, lambda event: None)
            else:
                market.subscribe(Note, lambda event: None)

    in_thread(crowd)
    try:
        for number in range(20):
            market.publish(order(number), topic="/orders")
        assert market.flush(20)
    finally:
        over.set()
    assert [number for number, _ in prices(seen)] == list(range(20))


def test_a_filter_that_subscribes_is_asked_once_for_each_event() -> None:
    asked: list[int] = []
    with pc.Bus() as bus:

        def wanted(event: Order) -> bool:
            asked.append(event.number)
            bus.subscribe(Order, lambda event: None)
            return True

        seen = recorded(bus, Order, where=lambda event: wanted(event))
        bus.publish_many([order(1)])
        assert bus.flush(5)
    assert (asked, len(seen)) == ([1], 1)
