"""History, then what is new, without a gap or a duplicate between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from stored_events import AlsoRegistered, BigSale, Refund, Registered, Sale, big, numbers, sales

import polycast as pc
from polycast.broker.client.remote_transaction import TransactionRunner
from polycast.broker.wire.protocol import Done, Step
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_history_comes_first(dispatch: Any, open_bus: OpenBus, eventually: Eventually) -> None:
    with open_bus() as bus:
        bus.publish_many([*sales(0, 1), Refund(2), BigSale(3)])
    bus, seen = open_bus(), Recorder[Any]()
    bus.subscribe(Sale, seen, since="beginning", dispatch=dispatch)
    bus.publish(Sale(4))
    eventually(lambda: len(seen.events) == 4)
    assert bus.flush(5)
    assert numbers(seen) == [0, 1, 3, 4]


def test_since_a_position_and_since_one_to_come(shop: pc.Bus, eventually: Eventually) -> None:
    shop.publish_many(sales(1, 2, 3))
    second: Recorder[Any] = Recorder()
    fifth: Recorder[Any] = Recorder()
    shop.subscribe(Sale, second, since=2)
    shop.subscribe(Sale, fifth, since=5, durable="fifth")
    shop.publish_many(sales(4, 5, 6))
    eventually(lambda: len(second.events) == 5)
    assert shop.flush(5)
    assert (numbers(second), numbers(fifth)) == ([2, 3, 4, 5, 6], [5, 6])


def test_since_a_time(open_bus: OpenBus, clock: ManualClock, eventually: Eventually) -> None:
    bus = open_bus(clock=clock, heartbeat_timeout=100_000)
    for n in range(5):
        bus.publish(Sale(n))
        clock.advance(10)
    seen: Recorder[Any] = Recorder()
    moment = datetime.fromtimestamp(clock.time(), UTC) - timedelta(seconds=30)
    bus.subscribe(Sale, seen, since=moment)
    eventually(lambda: len(seen.events) == 3)
    assert numbers(seen) == [2, 3, 4]
    with pytest.raises(pc.BadOptionError, match="time zone"):
        bus.subscribe(Sale, seen, since=moment.replace(tzinfo=None))


def test_history_that_is_gone_says_what_is_kept(open_bus: OpenBus, clock: ManualClock) -> None:
    bus = open_bus(clock=clock, heartbeat_timeout=100_000)
    before = datetime.fromtimestamp(clock.time(), UTC) + timedelta(seconds=1)
    for n in range(5):
        bus.publish(Sale(n))
        clock.advance(10)
    bus._engine.store.truncate(4)  # type: ignore[attr-defined]
    for since in (1, 3, before):
        with pytest.raises(pc.HistoryGoneError) as gone:
            bus.subscribe(Sale, print, since=since)
        assert gone.value.oldest == 4
    seen: Recorder[Any] = Recorder()
    bus.subscribe(Sale, seen, since="beginning")
    assert bus.flush(5)
    assert numbers(seen) == [3, 4]


@pytest.mark.parametrize("options", [{}, {"durable": "kept"}, {"queue": 7, "overflow": "spill"}])
def test_there_is_no_gap_and_no_duplicate_at_the_seam(
    options: dict[str, Any], shop: pc.Bus, other: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    stop = threading.Event()
    begun = threading.Event()
    published = [0, 0]

    def publish(k: int, bus: pc.Bus) -> None:
        while not stop.is_set() and published[k] < 3_000:
            bus.publish_many(sales(*range(published[k], published[k] + 5)))
            published[k] += 5
            begun.set()

    threads = [
        in_thread(lambda k=k, bus=bus: publish(k, bus)) for k, bus in enumerate((shop, other))
    ]
    begun.wait(10)
    seen: list[Recorder[Any]] = []
    for n in range(6):
        seen.append(Recorder())
        named = {**options, "durable": f"kept-{n}"} if "durable" in options else options
        (shop, other)[n % 2].subscribe(Sale, seen[-1], since="beginning", **named)
    stop.set()
    for thread in threads:
        thread.join(10)
    total = sum(published)
    eventually(lambda: all(len(each.events) >= total for each in seen))
    for each in seen:
        assert [delivery.position for delivery in each.deliveries] == list(range(1, total + 1))


@contextmanager
def late(others: Callable[[int], object]) -> Iterator[list[int]]:
    """Others do something before each time that work on "kept" gets to a broker.

    The number of times that it was to be kept is the item of the list.
    """
    send, tries = TransactionRunner.send, [0]

    def send_late(self: TransactionRunner, steps: list[Step], *, keep: bool) -> Done:
        if any(b"kept" in each.arguments for each in steps):
            tries[0] += keep
            elsewhere.submit(others, tries[0]).result(30)
        return send(self, steps, keep=keep)

    with ThreadPoolExecutor(1) as elsewhere, pytest.MonkeyPatch.context() as patched:
        patched.setattr(TransactionRunner, "send", send_late)
        yield tries


def check_all_since_it_attached(
    seen: Recorder[Any], other: pc.Bus, eventually: Eventually, *, from_the_first: bool
) -> None:
    last = other.publish(Sale(-1)).position
    eventually(lambda: seen.deliveries and seen.deliveries[-1].position == last)
    positions = [delivery.position for delivery in seen.deliveries]
    assert positions == list(range(positions[0], last + 1))
    assert (positions[0] == 1) is from_the_first
    assert {delivery.count for delivery in seen.deliveries} == {1}


@pytest.mark.parametrize("options", [{"since": "beginning"}, {}])
@pytest.mark.parametrize("who", [{"durable": "kept"}, {"group": "kept"}])
def test_who_attaches_is_not_held_up_by_others_that_publish(
    options: dict[str, Any],
    who: dict[str, Any],
    shop: pc.Bus,
    other: pc.Bus,
    eventually: Eventually,
) -> None:
    other.publish(Sale(0))
    seen: Recorder[Any] = Recorder()
    with late(lambda n: other.publish(Sale(n))):
        sub = shop.subscribe(Sale, seen, **who, **options)
    check_all_since_it_attached(seen, other, eventually, from_the_first=bool(options))
    sub.cancel()


@pytest.mark.parametrize("options", [{"since": "beginning"}, {}])
def test_who_attaches_is_not_held_up_by_others_that_attach(
    options: dict[str, Any], shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    def another(n: int) -> None:
        other.publish(Sale(n))
        other.subscribe(Sale, Recorder(), durable=f"another-{n}")

    other.publish(Sale(0))
    seen: Recorder[Any] = Recorder()
    with late(another) as tries:
        sub = shop.subscribe(Sale, seen, durable="kept", **options)
    assert tries[0] <= 2  # the first time, and what it says of how far it has come
    check_all_since_it_attached(seen, other, eventually, from_the_first=bool(options))
    with shop._engine.store.view() as view:  # type: ignore[attr-defined]
        tokens = [each.token for each in view.subscriptions()]
    assert len(set(tokens)) == len(tokens)  # each has one of its own
    sub.cancel()


def test_a_subscription_gets_all_that_is_published_after_it(
    shop: pc.Bus, other: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    stop = threading.Event()
    thread = in_thread(
        lambda: [other.publish(Sale(n)) for n in range(1_000_000) if not stop.is_set()]
    )
    seen: list[tuple[int, Recorder[Any]]] = []
    for _ in range(10):
        recorder: Recorder[Any] = Recorder()
        sub = shop.subscribe(Sale, recorder)
        seen.append((shop.publish(Sale(-1)).position, recorder))
        assert sub.state == "active"
    stop.set()
    thread.join(10)
    last = shop.publish(Sale(-2)).position
    eventually(lambda: all(each.deliveries[-1].position == last for _, each in seen))
    for first, each in seen:
        positions = [delivery.position for delivery in each.deliveries]
        assert positions == list(range(positions[0], last + 1))
        assert positions[0] <= first


def test_since_is_for_a_durable_that_is_new(shop: pc.Bus, eventually: Eventually) -> None:
    shop.publish_many(sales(0, 1))
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, durable="kept", since="beginning", where=lambda s: s.number)
    eventually(lambda: seen.events)
    assert shop.flush(5)
    sub.detach()
    shop.publish(Sale(2))
    shop.subscribe(Sale, seen, durable="kept", since="beginning", where=lambda s: s.number)
    eventually(lambda: len(seen.events) == 2)
    assert shop.flush(5)
    assert numbers(seen) == [1, 2]


def test_a_rare_type_is_found_among_many(open_bus: OpenBus, eventually: Eventually) -> None:
    with open_bus() as bus:
        for _ in range(3):
            bus.publish_many(sales(*range(2_000)))
            bus.publish(Refund(7))
    bus, seen, few = open_bus(), Recorder[Any](), Recorder[Any]()
    bus.subscribe(Refund, seen, since="beginning")
    bus.subscribe(Sale, few, since="beginning", where=lambda sale: sale.number > 1_998, queue=3)
    eventually(lambda: len(seen.events) == len(few.events) == 3)
    assert [each.position for each in seen.deliveries] == [2_001, 4_002, 6_003]


def test_a_class_registered_with_an_abc_later_is_found_in_history(
    shop: pc.Bus, place: str, eventually: Eventually
) -> None:
    shop.publish(Refund(1))
    seen: Recorder[Any] = Recorder()
    registered: Any = Registered if place == "sqlite" else AlsoRegistered
    sub = shop.subscribe(registered, seen, since="beginning", durable="kept", queue=2)
    assert shop.flush(5)
    registered.register(Refund)
    sub.pause()
    shop.publish_many([Refund(n) for n in range(2, 12)])
    eventually(lambda: sub.mailbox.queue.behind is not None)
    sub.resume()
    eventually(lambda: len(seen.events) == 10)
    assert numbers(seen) == list(range(2, 12))


def test_a_filter_asks_history_too(shop: pc.Bus, eventually: Eventually) -> None:
    shop.publish_many(sales(*range(10)))
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, since="beginning", where=big)
    eventually(lambda: len(seen.events) == 4)
    assert numbers(seen) == [6, 7, 8, 9]
