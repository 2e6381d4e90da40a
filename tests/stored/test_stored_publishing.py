"""Publishing over a file: receipts, identities, retries, and what nobody knows."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from stored_events import BigSale, Refund, Sale, numbers, sales

import polycast as pc
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
HeldUp = Callable[[], AbstractContextManager[None]]


def test_receipts_have_the_place_in_the_log_and_an_identity(shop: pc.Bus, other: pc.Bus) -> None:
    receipts = [shop.publish(Sale(0)), other.publish(Sale(1)), *shop.publish_many(sales(2, 3))]
    assert [each.position for each in receipts] == [1, 2, 3, 4]
    assert [str(each.identity) for each in receipts] == [
        "shop/1/1",
        "other/1/1",
        "shop/1/2",
        "shop/1/3",
    ]
    assert all(each.durable for each in receipts)


def test_each_opening_of_a_publisher_is_an_epoch(open_bus: OpenBus) -> None:
    epochs = []
    for _ in range(3):
        with open_bus(publisher="till") as bus:
            epochs.append(bus.publish(Sale(0)).identity.epoch)
    assert epochs == [1, 2, 3]


def test_an_identity_published_again_is_stored_once(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    with open_bus(publisher="till") as bus:
        bus.subscribe(Sale, seen)
        first = bus.publish(Sale(1))
        assert bus.publish(Sale(1), identity=first.identity) == first
        elsewhere = open_bus(publisher="elsewhere").publish(Sale(1), identity=first.identity)
        assert (elsewhere.position, elsewhere.identity) == (first.position, first.identity)
    with open_bus(publisher="till") as bus:
        again = bus.publish(Sale(1), identity=first.identity)
        assert (again.position, again.identity) == (first.position, first.identity)
        assert bus.publish(Sale(2)).position == 2
    assert numbers(seen) == [1]


def test_an_identity_that_this_bus_has_not_given_is_refused(shop: pc.Bus) -> None:
    given = shop.publish(Sale(0)).identity
    with pytest.raises(pc.BadOptionError, match="given before"):
        shop.publish(Sale(1), identity=pc.Identity(given.publisher, given.epoch, 7))


def test_a_publisher_who_waits_too_long_does_not_know_and_may_try_again(
    open_bus: OpenBus, held_up: HeldUp, eventually: Eventually
) -> None:
    bus, seen = open_bus(publish_timeout=0.05), Recorder[Any]()
    bus.subscribe(Sale, seen)
    with held_up():
        with pytest.raises(pc.PublishUnknownError) as unknown:
            bus.publish(Sale(1))
        with pytest.raises(pc.PublishUnknownError) as unknown_too:
            bus.publish_many(sales(2, 3))
    again = bus.publish(Sale(1), identity=unknown.value.identity)
    for sale, identity in zip(sales(2, 3), unknown_too.value.identities, strict=True):
        bus.publish(sale, identity=identity)
    eventually(lambda: len(seen.events) == 3)
    assert bus.flush(5)
    assert (again.position, numbers(seen)) == (1, [1, 2, 3])


def test_publish_many_is_all_or_nothing(shop: pc.Bus) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(object, seen)
    with pytest.raises(pc.PolycastError):
        shop.publish_many([Sale(0), lambda: None, Sale(1)])
    shop.publish(Sale(2))
    assert shop.flush(5)
    assert numbers(seen) == [2]
    assert shop.publish_many([]) == []


def test_publish_async_takes_its_place_by_the_call(shop: pc.Bus) -> None:
    async def publish() -> list[int]:
        waiting = [shop.publish_async(Sale(n)) for n in range(50)]
        return [receipt.position for receipt in await asyncio.gather(*waiting)]

    assert asyncio.run(publish()) == list(range(1, 51))


def test_publish_async_does_not_block_its_loop(open_bus: OpenBus, held_up: HeldUp) -> None:
    bus, turns = open_bus(), 0

    async def publish() -> None:
        nonlocal turns
        with held_up():
            waiting = asyncio.ensure_future(bus.publish_async(Sale(1)))
            for _ in range(100):
                await asyncio.sleep(0)
                turns += not waiting.done()
        await waiting

    asyncio.run(publish())
    assert turns == 100


def test_publish_async_does_not_block_its_loop_for_who_makes_publishers_wait(
    open_bus: OpenBus, held_up: HeldUp
) -> None:
    bus = open_bus(publish_timeout=1.0)
    bus.subscribe(Sale, lambda sale: None, overflow="block")

    async def publish() -> float:
        with held_up():
            began = time.monotonic()
            waiting = asyncio.ensure_future(bus.publish_async(Sale(1)))
            await asyncio.sleep(0)
            took = time.monotonic() - began
        await waiting
        return took

    assert asyncio.run(publish()) < 0.5


def test_publish_async_does_not_know_either_after_too_long(
    open_bus: OpenBus, held_up: HeldUp
) -> None:
    bus = open_bus(publish_timeout=0.05)

    async def publish() -> pc.PublishUnknownError:
        with held_up(), pytest.raises(pc.PublishUnknownError) as unknown:
            await asyncio.wait_for(bus.publish_async(Sale(1)), 2)
        return unknown.value

    unknown = asyncio.run(publish())
    assert bus.publish(Sale(1), identity=unknown.identity).position == 1


def test_a_cancelled_publish_async_is_let_be(
    shop: pc.Bus, held_up: HeldUp, caplog: pytest.LogCaptureFixture
) -> None:
    async def publish() -> None:
        with held_up():
            task = asyncio.ensure_future(shop.publish_async(Sale(1)))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with caplog.at_level(logging.WARNING):
        asyncio.run(publish())
        assert shop.publish(Sale(2)).position == 2
    assert caplog.records == []


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_callbacks_may_publish(dispatch: Any, shop: pc.Bus, eventually: Eventually) -> None:
    refunds: Recorder[Any] = Recorder()
    shop.subscribe(Refund, refunds)
    shop.subscribe(Sale, lambda sale: shop.publish(Refund(sale.number)), dispatch=dispatch)
    shop.publish_many(sales(1, 2, 3))
    eventually(lambda: len(refunds.events) == 3)
    assert numbers(refunds) == [1, 2, 3]


def test_an_async_callback_may_publish(shop: pc.Bus, eventually: Eventually) -> None:
    refunds: Recorder[Any] = Recorder()
    shop.subscribe(Refund, refunds)

    async def refund(sale: Sale) -> None:
        await shop.publish_async(Refund(sale.number))

    shop.subscribe(Sale, refund, durable="refunds")
    shop.publish_many(sales(1, 2, 3))
    eventually(lambda: len(refunds.events) == 3)
    assert numbers(refunds) == [1, 2, 3]


def test_an_inline_callback_does_not_wait_for_the_thread_it_runs_in(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus, took = open_bus(publish_timeout=3), list[float]()
    bus.subscribe(Refund, lambda refund: None, overflow="block")

    def refund(sale: Sale) -> None:
        began = time.monotonic()
        bus.publish(Refund(sale.number))
        took.append(time.monotonic() - began)

    bus.subscribe(Sale, refund, dispatch="inline")
    bus.publish(Sale(1))
    eventually(lambda: took)
    assert took[0] < 2


def test_each_thread_of_a_bus_keeps_its_own_order(
    shop: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, level="list")
    for k in range(4):
        in_thread(lambda k=k: [shop.publish(Sale(100 * k + n)) for n in range(25)])
    eventually(lambda: len(seen.events) == 100)
    for k in range(4):
        mine = [n for n in numbers(seen) if n // 100 == k]
        assert mine == sorted(mine)
    sequences = [each.identity.sequence for each in seen.deliveries]
    assert sequences == list(range(1, 101))


def test_an_event_that_has_expired_is_not_delivered(
    open_bus: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    with open_bus(clock=clock) as bus:
        bus.subscribe(Sale, seen, durable="kept").detach()
        bus.publish(Sale(0), expires=10)
        bus.publish(Sale(1), expires=1_000)
        bus.publish(Sale(2))
    clock.advance(20)
    with open_bus(clock=clock) as bus:
        subscription = bus.subscribe(Sale, seen, durable="kept")
        eventually(lambda: len(seen.events) == 2)
        assert bus.flush(5)
        assert subscription.mailbox.counts.expired == 1
        assert len(bus.dead_letters()) == 0
    assert numbers(seen) == [1, 2]


def test_priority_acts_where_no_order_is_promised(shop: pc.Bus, eventually: Eventually) -> None:
    unordered: Recorder[Any] = Recorder()
    ordered: Recorder[Any] = Recorder()
    bag = shop.subscribe(Sale, unordered, level="strong_bag", durable="bag")
    line = shop.subscribe(Sale, ordered, level="sorted_set", durable="line")
    bag.pause()
    line.pause()
    for number, priority in enumerate([0, -1, 5, 0, 9]):
        shop.publish(Sale(number), priority=priority)
    eventually(lambda: len(bag.mailbox.queue) == len(line.mailbox.queue) == 5)
    bag.resume()
    line.resume()
    assert shop.flush(5)
    assert (numbers(unordered), numbers(ordered)) == ([4, 2, 0, 3, 1], [0, 1, 2, 3, 4])


def test_headers_and_time_come_with_the_delivery(
    open_bus: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    bus, seen = open_bus(clock=clock, publisher="till"), Recorder[Any]()
    bus.subscribe(Sale, seen)
    bus.publish(Sale(1), headers={"trace": "7"})
    eventually(lambda: seen.events)
    [delivery] = seen.deliveries
    assert dict(delivery.headers) == {"trace": "7"}
    assert delivery.time.timestamp() == clock.time()
    assert (delivery.publisher, delivery.position, delivery.count) == ("till", 1, 1)


def test_a_closed_bus_refuses(shop: pc.Bus) -> None:
    shop.publish(BigSale(1))
    shop.close()
    with pytest.raises(pc.BusClosedError):
        shop.publish(BigSale(2))
    with pytest.raises(pc.BusClosedError):
        shop.publish_many([BigSale(2)])
    with pytest.raises(pc.BusClosedError):
        shop.publish_async(BigSale(2))
    with pytest.raises(pc.BusClosedError):
        shop.subscribe(BigSale, print)


def test_who_publishes_only_closes_at_once(open_bus: OpenBus) -> None:
    bus = open_bus()
    bus.publish(Sale(1))
    began = time.monotonic()
    assert bus.flush(5)
    assert bus.close() == ()
    assert time.monotonic() - began < 2


def test_many_threads_publish_and_nothing_is_lost(
    shop: pc.Bus, other: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    other.subscribe(Sale, seen, durable="kept")
    ready = threading.Barrier(6)

    def publish(k: int) -> None:
        ready.wait()
        for n in range(30):
            shop.publish(Sale(1_000 * k + n))

    for k in range(6):
        in_thread(lambda k=k: publish(k))
    eventually(lambda: len(seen.events) == 180)
    assert other.flush(5)
    assert sorted(numbers(seen)) == sorted(1_000 * k + n for k in range(6) for n in range(30))
