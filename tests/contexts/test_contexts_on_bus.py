"""Contexts on a bus, in memory and over a file: each party gets its own types."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from parties import (
    Dollar,
    Euro,
    Note,
    Order,
    Parties,
    Pound,
    RushOrder,
    UKOrder,
    USMemo,
    USOrder,
    USRushOrder,
    calls,
    make_uk,
    make_us,
    order,
    us_order,
)

import polycast as pc
from polycast.testing import Recorder

OpenBus = Callable[..., pc.Bus]
Publish = Callable[[pc.Bus, Any], object]

PUBLISHED: dict[str, Publish] = {
    "publish": lambda bus, event: bus.publish(event),
    "many": lambda bus, event: bus.publish_many([event]),
    "topic": lambda bus, event: bus.publish(event, topic="/orders/new"),
    "priority": lambda bus, event: bus.publish(event, priority=3),
    "headers": lambda bus, event: bus.publish(event, headers={"a": "b"}),
    "async": lambda bus, event: asyncio.run(_publish_async(bus, event)),
}
DISPATCHES = {
    "pool": ["pool", "pool", "pool"],
    "inline": ["inline", "inline", "inline"],
    "mixed": ["inline", "pool", "inline"],
}


async def _publish_async(bus: pc.Bus, event: Any) -> None:
    await bus.publish_async(event)


def recorded(bus: pc.Bus, what: Any, **options: Any) -> list[Any]:
    """What a new subscription gets from now on."""
    seen: list[Any] = []
    bus.subscribe(what, lambda event: seen.append(event), **options)
    return seen


# -- what everybody gets ---------------------------------------------------------------------------


@pytest.mark.parametrize("publish", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_each_party_gets_its_own_type(
    market: pc.Bus, publish: Publish, dispatch: str, party: Parties
) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    at_root = recorded(market, Order, dispatch=dispatch)
    in_us = recorded(us, USOrder, dispatch=dispatch)
    in_uk = recorded(uk, UKOrder, dispatch=dispatch)
    publish(us, us_order(7, 20.0))
    assert market.flush(5)
    assert at_root == [Order(7, Euro(10.0), ["tea"])]
    assert in_us == [USOrder(7, Dollar(20.0), ["tea"])]
    assert in_uk == [UKOrder(7, Pound(11.0), ["tea"])]


@pytest.mark.parametrize("publish", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("dispatches", DISPATCHES.values(), ids=DISPATCHES)
def test_an_event_is_translated_once_for_each_context(
    market: pc.Bus, publish: Publish, dispatches: list[str], party: Parties
) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    seen = [recorded(view, object, dispatch=way) for view in (market, us, uk) for way in dispatches]
    publish(us, us_order())
    assert market.flush(5)
    assert [len(events) for events in seen] == [1] * 9
    assert calls == {"from_dollars": 1, "to_pounds": 1}


def test_nothing_is_translated_for_a_context_in_which_nobody_wants_it(
    market: pc.Bus, party: Parties
) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    recorded(us, USMemo), recorded(uk, Note)
    at_root = recorded(market, Order)
    market.publish(order())
    assert market.flush(5)
    assert len(at_root) == 1
    assert calls == {}


def test_several_events_at_once_are_translated_once_each(market: pc.Bus, party: Parties) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    seen = [recorded(uk, UKOrder), recorded(uk, object, dispatch="inline")]
    us.publish_many([us_order(1), USMemo("stays"), us_order(2)])
    assert market.flush(5)
    assert [[event.number for event in some] for some in seen] == [[1, 2], [1, 2]]
    assert calls == {"from_dollars": 2, "to_pounds": 2}


def test_who_makes_the_publisher_wait_sees_what_its_context_sees(
    market: pc.Bus, party: Parties
) -> None:
    us = market.within(party.us)
    dear = recorded(us, USOrder, overflow="block", queue=2, where=lambda o: o.price.amount > 15)
    for number in range(20):
        market.publish(order(number, float(number)))
    assert market.flush(5)
    assert [event.number for event in dear] == list(range(8, 20))


def test_a_publisher_waits_for_room_in_its_own_context(market: pc.Bus, party: Parties) -> None:
    us = market.within(party.us)
    box = us.subscribe(USOrder, print, overflow="block", queue=1, block_for=0.01)
    box.pause()
    us.publish(us_order(1))
    with pytest.raises(pc.QueueFullError):
        us.publish(us_order(2))
    with pytest.raises(pc.QueueFullError):
        asyncio.run(_publish_async(us, us_order(3)))
    box.cancel()


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_in_memory_only_the_own_context_gets_the_very_object(party: Parties, dispatch: str) -> None:
    with pc.Bus(federation=party.federation) as bus:
        views = [bus, bus.within(party.us), bus.within(party.uk)]
        seen = [recorded(view, object, dispatch=dispatch) for view in views]
        note, sent = Note("hello", ["a"]), us_order()
        views[1].publish(note)
        views[1].publish(sent)
        assert bus.flush(5)
    assert [received[0] for received in seen] == [note, note, note]
    assert [received[0] is note for received in seen] == [False, True, False]
    assert seen[0][0].marks is not seen[2][0].marks
    assert seen[1][1] is sent
    assert seen[0][1].items is not sent.items
    assert seen[2][1].items is not seen[0][1].items


def test_a_type_of_the_root_without_a_mapping_passes_unchanged(
    market: pc.Bus, party: Parties
) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    seen = [recorded(us, Note), recorded(uk, Note), recorded(market, Note)]
    uk.publish(Note("hello"))
    market.publish(Note("again"))
    assert market.flush(5)
    assert seen == [[Note("hello"), Note("again")]] * 3


def test_whoever_is_in_a_context_does_not_see_types_of_the_root_that_are_mapped(
    market: pc.Bus, party: Parties
) -> None:
    us = market.within(party.us)
    raw, mine, every = recorded(us, Order), recorded(us, USOrder), recorded(us, object)
    market.publish(order())
    assert market.flush(5)
    assert raw == []
    assert mine == every == [USOrder(1, Dollar(20.0), ["tea"])]


def test_subtypes_of_what_is_mapped_are_mapped(market: pc.Bus, party: Parties) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    at_root, in_us, in_uk = recorded(market, Order), recorded(us, USOrder), recorded(uk, UKOrder)
    market.publish(RushOrder(1, Euro(1.0), ["tea"], hours=5))
    us.publish(USRushOrder(2, Dollar(4.0), ["tea"], hours=5))
    assert market.flush(5)
    assert at_root == [RushOrder(1, Euro(1.0), ["tea"], 5), Order(2, Euro(2.0), ["tea"])]
    assert in_us == [USOrder(1, Dollar(2.0), ["tea"]), USRushOrder(2, Dollar(4.0), ["tea"], 5)]
    assert in_uk == [UKOrder(1, Pound(2.0), ["tea"]), UKOrder(2, Pound(3.0), ["tea"])]


def test_exact_is_about_what_the_event_is_there(market: pc.Bus, party: Parties) -> None:
    us = market.within(party.us)
    exact = recorded(us, USOrder, exact=True)
    market.publish(RushOrder(1, Euro(1.0)))
    us.publish(USRushOrder(2, Dollar(4.0)))
    us.publish(us_order(3))
    assert market.flush(5)
    assert [event.number for event in exact] == [1, 3]


# -- filters, topics, collections, streams ---------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_filter_sees_what_its_subscriber_sees(
    market: pc.Bus, party: Parties, dispatch: str
) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    dear = recorded(us, USOrder, where=lambda o: o.price.amount > 15, dispatch=dispatch)
    cheap = recorded(uk, UKOrder, where=lambda o: o.price.amount <= 11, dispatch=dispatch)
    market.publish_many([order(1, 5.0), order(2, 10.0), order(3, 20.0)])
    assert market.flush(5)
    assert [event.number for event in dear] == [2, 3]
    assert [event.number for event in cheap] == [1, 2]


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_topics_are_the_same_everywhere(market: pc.Bus, party: Parties, dispatch: str) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    by_topic = recorded(us, "/orders/**", dispatch=dispatch)
    both = recorded(us, USOrder, topic="/orders/new", dispatch=dispatch)
    neither = recorded(us, USOrder, topic="/bids", dispatch=dispatch)
    uk.publish(UKOrder(1, Pound(11.0)), topic="/orders/new")
    uk.publish("plain text", topic="/orders/new")
    uk.publish({"a": 1}, topic="/orders/old")
    assert market.flush(5)
    assert by_topic == [USOrder(1, Dollar(20.0)), "plain text", {"a": 1}]
    assert (both, neither) == ([USOrder(1, Dollar(20.0))], [])


def test_an_event_goes_to_one_member_of_a_group_in_a_context(
    market: pc.Bus, party: Parties
) -> None:
    us = market.within(party.us)
    members = [recorded(us, USOrder, group="crew") for _ in range(3)]
    alone = recorded(us, USOrder)
    for number in range(9):
        market.publish(order(number))
    assert market.flush(5)
    assert sorted(event.number for some in members for event in some) == list(range(9))
    assert len(alone) == 9
    assert calls == {"to_dollars": 9}


def test_a_group_has_its_members_in_one_context(market: pc.Bus, party: Parties) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    recorded(us, USOrder, group="crew")
    with pytest.raises(pc.BadOptionError, match="us"):
        recorded(uk, UKOrder, group="crew")


def test_collections_are_of_the_types_of_their_view(market: pc.Bus, party: Parties) -> None:
    us = market.within(party.us)
    orders = pc.DAStrongSet(USOrder, us)
    pulled = pc.DAList(USOrder, us, pull="fifo")
    seen: list[Any] = []
    at_root = recorded(market, Order)
    orders.contains_all(lambda event: seen.append(event))
    orders.add(us_order(1))
    market.publish(order(2))
    assert market.flush(5) or pulled
    got = [pulled.get(timeout=5), pulled.get(timeout=5)]
    assert [event.number for event in seen] == [1, 2]
    assert got == seen == [us_order(1), USOrder(2, Dollar(20.0), ["tea"])]
    assert at_root == [Order(1, Euro(10.0), ["tea"]), order(2)]


def test_collections_of_two_contexts_are_not_equal(market: pc.Bus, party: Parties) -> None:
    us = market.within(party.us)
    assert pc.DAStrongBag(Note, us) == pc.DAWeakSet(Note, us)
    assert pc.DAStrongBag(Note, us) != pc.DAStrongBag(Note, market)


def test_a_stream_is_of_the_types_of_its_view(market: pc.Bus, party: Parties) -> None:
    async def first() -> Any:
        async with market.within(party.us).stream(USOrder) as stream:
            market.publish(order(3))
            async for event in stream:
                return event
            return None

    assert asyncio.run(asyncio.wait_for(first(), 5)) == USOrder(3, Dollar(20.0), ["tea"])


def test_a_delivery_says_where_the_event_is_in_the_log(market: pc.Bus, party: Parties) -> None:
    us, seen = market.within(party.us), Recorder[Any]()
    us.subscribe(USOrder, seen)
    receipt = market.publish(order(), headers={"a": "b"}, topic="/x")
    assert market.flush(5)
    [delivery] = seen.deliveries
    assert delivery.position == receipt.position
    assert delivery.identity == receipt.identity
    assert (delivery.headers, delivery.topic) == ({"a": "b"}, "/x")


# -- what does not leave ---------------------------------------------------------------------------


@pytest.mark.parametrize("overflow", ["cut_off", "block"])
@pytest.mark.parametrize("publish", PUBLISHED.values(), ids=PUBLISHED)
def test_a_local_type_without_a_mapping_stays_is_counted_and_logged_once(
    market: pc.Bus,
    publish: Publish,
    overflow: str,
    party: Parties,
    caplog: pytest.LogCaptureFixture,
) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    mine = recorded(us, USMemo, overflow=overflow)
    others = [recorded(market, object), recorded(uk, object)]
    with caplog.at_level(logging.WARNING, "polycast.contexts"):
        for number in range(3):
            publish(us, USMemo(str(number)))
    assert market.flush(5)
    assert [event.text for event in mine] == ["0", "1", "2"]
    assert others == [[], []]
    assert party.federation.statistics()["us"].dropped == {"USMemo": 3}
    assert len([record for record in caplog.records if "USMemo" in record.getMessage()]) == 1
    assert len(market.dead_letters()) == 0


def test_statistics_count_each_translation(market: pc.Bus, party: Parties) -> None:
    us, uk = market.within(party.us), market.within(party.uk)
    recorded(uk, object), recorded(uk, object)
    us.publish(us_order())
    us.publish(Note("x"))
    assert market.flush(5)
    found = party.federation.statistics()
    assert list(found["us"].outgoing.values()) == [1]
    assert list(found["uk"].incoming.values()) == [1]
    assert found["uk"].unchanged == 1


# -- views -----------------------------------------------------------------------------------------


def test_a_view_is_found_by_object_and_by_name(market: pc.Bus, party: Parties) -> None:
    seen = recorded(market.within("us"), USOrder)
    market.within(party.us).publish(us_order())
    market.within(party.root).publish(order(2))
    market.within("root").publish(order(3))
    assert market.flush(5)
    assert [event.number for event in seen] == [1, 2, 3]


def test_a_name_nobody_knows_is_refused_and_the_known_ones_are_told(market: pc.Bus) -> None:
    with pytest.raises(pc.BadContextError, match=r"'fr'.*root or us or uk"):
        market.within("fr")
    with pytest.raises(pc.BadContextError):
        market.within(42)


def test_a_bus_without_a_federation_makes_one_of_the_first_context(
    open_bus: OpenBus, party: Parties
) -> None:
    bus = open_bus()
    assert bus.federation is None
    with pytest.raises(pc.BadContextError, match="none is known yet"):
        bus.within("us")
    at_root = recorded(bus, Order)
    us = bus.within(make_us(party.root))
    in_uk = recorded(bus.within(make_uk(party.root)), UKOrder)
    us.publish(us_order())
    assert bus.flush(5)
    assert (len(at_root), len(in_uk)) == (1, 1)
    assert bus.federation is not None
    assert us.federation is bus.federation
    assert "us" in bus.federation


def test_a_context_is_refused_with_its_errors_and_nothing_changes(
    market: pc.Bus, party: Parties
) -> None:
    wrong = pc.Context("fr", parent=party.root, types=[])
    wrong.map(Order, USOrder, "?")
    with pytest.raises(pc.ContextRefusedError):
        market.within(wrong)
    seen = recorded(market.within("us"), USOrder)
    market.publish(order())
    assert market.flush(5)
    assert len(seen) == 1
    assert "fr" not in party.federation


def test_a_bus_can_be_opened_in_a_context(open_bus: OpenBus, party: Parties) -> None:
    bus = open_bus(federation=party.federation, context="us")
    at_root = recorded(bus.within("root"), Order)
    seen = recorded(bus, USOrder)
    bus.publish(us_order())
    assert bus.flush(5)
    assert (seen, at_root) == ([us_order()], [order()])


def test_a_view_of_a_view_is_a_view_of_the_bus(market: pc.Bus, party: Parties) -> None:
    seen = recorded(market.within("us").within("uk"), UKOrder)
    market.within("uk").within("us").within("root").publish(order())
    assert market.flush(5)
    assert seen == [UKOrder(1, Pound(11.0), ["tea"])]


def test_two_buses_may_have_one_federation(party: Parties) -> None:
    with pc.Bus(federation=party.federation) as one, pc.Bus(federation=party.federation) as other:
        seen = [recorded(one.within("us"), USOrder), recorded(other.within("us"), USOrder)]
        one.publish(order(1))
        other.publish(order(2))
        party.mend()
        one.publish(order(3))
        other.publish(order(4))
        assert one.flush(5)
        assert other.flush(5)
    prices = [[(event.number, event.price.amount) for event in some] for some in seen]
    assert prices == [[(1, 20.0), (3, 40.0)], [(2, 20.0), (4, 40.0)]]


def test_what_is_no_federation_is_refused() -> None:
    with pytest.raises(pc.BadOptionError, match="federation"):
        pc.Bus(federation="us")
