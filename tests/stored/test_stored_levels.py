"""The eight collections and subscribe over a file, at each level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stored_events import BigSale, Refund, Sale, big, numbers, sales

import polycast as pc
from polycast.config import LEVELS
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]

COLLECTIONS: list[type[pc.DACollection[Any]]] = [
    pc.DAWeakBag,
    pc.DAWeakSet,
    pc.DAStrongBag,
    pc.DAStrongSet,
    pc.DAArray,
    pc.DAList,
    pc.DASortedBag,
    pc.DASortedSet,
]
every_collection = pytest.mark.parametrize("kind", COLLECTIONS, ids=lambda kind: kind.__name__)
every_level = pytest.mark.parametrize("level", LEVELS)
ORDERED = [name for name, level in LEVELS.items() if level.order != "none"]
RELIABLE = [name for name, level in LEVELS.items() if level.reliable]


@every_collection
def test_a_collection_brings_what_another_bus_has_added(
    kind: type[pc.DACollection[Any]], shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    every: Recorder[Any] = Recorder()
    exactly: Recorder[Any] = Recorder()
    kind(Sale, shop).contains_all(every)
    kind(Sale, shop).contains(exactly)
    kind(Sale, other).add(Sale(1))
    kind(Sale, other).add(BigSale(2))
    eventually(lambda: len(every.events) == 2)
    shop.flush(5)
    assert (every.events, exactly.events) == ([Sale(1), BigSale(2)], [Sale(1)])


@every_collection
def test_one_of_those_who_remove_gets_each_event(
    kind: type[pc.DACollection[Any]], shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    here: Recorder[Any] = Recorder()
    there: Recorder[Any] = Recorder()
    kind(Sale, shop).remove_all(here)
    kind(Sale, other).remove_all(there)
    shop.publish_many(sales(*range(40)))
    eventually(lambda: len(here.events) + len(there.events) == 40)
    assert sorted(numbers(here) + numbers(there)) == list(range(40))


@every_collection
@pytest.mark.parametrize("pull", ["fifo", "lifo"])
def test_a_pull_collection_fills_and_is_emptied(
    kind: type[pc.DACollection[Any]], pull: Any, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    taken = kind(Sale, shop, pull=pull, where=lambda sale: sale.number != 1)
    other.publish_many(sales(0, 1, 2))
    eventually(lambda: len(taken) == 2)
    expected = [0, 2] if pull == "fifo" else [2, 0]
    assert [sale.number for sale in taken] == expected
    assert [taken.get().number, taken.get().number, taken.get()] == [*expected, None]


@every_collection
def test_a_durable_pull_collection_goes_on_where_it_was(
    kind: type[pc.DACollection[Any]], open_bus: Callable[..., pc.Bus]
) -> None:
    with open_bus() as bus:
        taken = kind(Sale, bus, pull="fifo", durable="taken")
        bus.publish_many(sales(0, 1, 2))
        assert taken.get(5) == Sale(0)
        assert taken.get(5) == Sale(1)  # which acknowledges the first
    with open_bus() as bus:
        again = kind(Sale, bus, pull="fifo", durable="taken")
        assert [again.get(5), again.get(5)] == sales(1, 2)
        again.close()
    with open_bus() as bus:
        assert kind(Sale, bus, pull="fifo", durable="taken").get(0.05) is None


@every_level
def test_a_subscription_of_a_level_gets_what_another_bus_publishes(
    level: Any, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, level=level, where=big)
    other.publish_many(sales(*range(20)))
    eventually(lambda: len(seen.events) == 14)
    assert sorted(numbers(seen)) == list(range(6, 20))


@pytest.mark.parametrize("level", ORDERED)
def test_ordered_levels_keep_the_order_of_the_log_over_a_failure(
    level: Any, shop: pc.Bus, eventually: Eventually
) -> None:
    failed: set[int] = set()

    def once(sale: Sale) -> ValueError | None:
        if sale.number == 3 and not failed:
            failed.add(3)
            return ValueError("not now")
        return None

    seen: Recorder[Any] = Recorder(fail=once)
    shop.subscribe(Sale, seen, level=level, backoff=0.01, durable="kept")
    shop.publish_many(sales(*range(30)))
    eventually(lambda: len(seen.events) == 30)
    assert numbers(seen) == list(range(30))


@pytest.mark.parametrize("level", RELIABLE)
def test_a_durable_subscription_of_a_level_survives_a_reopening(
    level: Any, open_bus: Callable[..., pc.Bus], eventually: Eventually
) -> None:
    first: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.subscribe(Sale, first, level=level, durable="kept")
        bus.publish_many(sales(0, 1))
        bus.flush(5)
    with open_bus() as bus:
        bus.publish_many(sales(2, 3))
    second: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.subscribe(Sale, second, level=level, durable="kept")
        eventually(lambda: len(second.events) == 2)
        assert bus.flush(5)
    assert (numbers(first), sorted(numbers(second))) == ([0, 1], [2, 3])


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_topics_and_types_go_together_over_a_file(
    dispatch: Any, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    every: Recorder[Any] = Recorder()
    below: Recorder[Any] = Recorder()
    both: Recorder[Any] = Recorder()
    shop.subscribe(object, every, dispatch=dispatch)
    shop.subscribe("/Chat/**", below, dispatch=dispatch)
    shop.subscribe(Sale, both, topic="/Chat/*", dispatch=dispatch)
    other.publish(Sale(1), topic="/Chat/Insomnia")
    other.publish("hello", topic="/Chat/Insomnia/Late")
    other.publish(Refund(2), topic="/Chat")
    other.publish(Sale(3))
    eventually(lambda: len(every.events) == 4)
    shop.flush(5)
    assert below.events == [Sale(1), "hello", Refund(2)]
    assert both.events == [Sale(1)]
    assert below.deliveries[0].topic == "/Chat/Insomnia"


def test_subscribers_get_copies_that_are_their_own(shop: pc.Bus, eventually: Eventually) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen)
    sale = Sale(1)
    shop.publish(sale)
    sale.number = 2
    eventually(lambda: seen.events)
    assert seen.events == [Sale(1)]


def test_all_subscribers_at_a_total_order_see_the_same_order(
    open_bus: Callable[..., pc.Bus], in_thread: Any, eventually: Eventually
) -> None:
    buses = [open_bus() for _ in range(3)]
    seen: list[Recorder[Any]] = [Recorder() for _ in buses]
    for bus, each in zip(buses, seen, strict=True):
        bus.subscribe(Sale, each, level="sorted_set")
    for k, bus in enumerate(buses):
        in_thread(lambda k=k, bus=bus: [bus.publish(Sale(100 * k + n)) for n in range(20)])
    eventually(lambda: all(len(each.events) == 60 for each in seen))
    assert numbers(seen[0]) == numbers(seen[1]) == numbers(seen[2])
    positions = [each.position for each in seen[0].deliveries]
    assert positions == sorted(set(positions))


def test_a_class_that_others_cannot_name_is_refused(shop: pc.Bus) -> None:
    class Local:
        pass

    with pytest.raises(pc.NotShareableError):
        shop.publish(Local())
    with pytest.raises(pc.NotShareableError):
        shop.subscribe(Local, print)
