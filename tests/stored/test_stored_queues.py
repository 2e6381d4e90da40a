"""Queues over a file: bounded, and what does not fit waits in the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from stored_events import BigSale, Sale, numbers, sales
from stored_player import Player

import polycast as pc
from polycast.log_reader import log_reader, routed_reader
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
LEVELS = ["strong_set", "list", "sorted_set"]


class Measured(Recorder[Any]):
    """A subscriber that looks at its queue each time."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0

    def __call__(self, event: Any, delivery: pc.Delivery) -> None:
        mailbox = delivery.subscription.mailbox
        self.longest = max(self.longest, len(mailbox.queue) + mailbox.state.under_way())
        super().__call__(event, delivery)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("options", [{"durable": "slow"}, {"overflow": "spill"}])
def test_a_slow_subscriber_with_a_short_queue_gets_all_in_order(
    options: dict[str, Any], level: Any, shop: pc.Bus, other: pc.Bus
) -> None:
    seen = Measured()
    shop.subscribe(Sale, seen, queue=10, level=level, **options)
    for start in range(0, 600, 100):
        other.publish_many(sales(*range(start, start + 100)))
    shop.publish(Sale(600))
    assert shop.flush(10)
    assert numbers(seen) == list(range(601))
    assert seen.longest <= 11


def test_what_a_paused_subscription_cannot_hold_waits_in_the_log(
    shop: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=5, durable="kept")
    sub.pause()
    shop.publish_many(sales(*range(100)))
    eventually(lambda: len(sub.mailbox.queue) == 5)
    assert (len(sub.mailbox.queue), seen.events, sub.state) == (5, [], "paused")
    sub.resume()
    eventually(lambda: len(seen.events) == 100)
    assert numbers(seen) == list(range(100))


def test_an_unordered_subscription_that_answers_late_is_bounded(
    shop: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    box = shop.subscribe(
        Sale, seen, queue=5, durable="kept", level="strong_set", ack="manual"
    ).mailbox
    shop.publish_many(sales(*range(40)))
    answered = 0
    while answered < 40:
        eventually(lambda answered=answered: len(seen.deliveries) > answered)
        assert len(box.settlement.in_flight) <= 5
        assert len(box.queue) <= 5
        seen.deliveries[answered].ack()
        answered += 1
    assert shop.flush(5)
    assert sorted(numbers(seen)) == list(range(40))


def test_what_has_failed_counts_against_the_bound(shop: pc.Bus, eventually: Eventually) -> None:
    ok = threading.Event()
    seen: Recorder[Any] = Recorder(fail=lambda sale: None if ok.is_set() else ValueError("no"))
    box = shop.subscribe(
        Sale, seen, queue=5, durable="kept", level="strong_set", attempts=100_000, backoff=0.01
    ).mailbox
    shop.publish_many(sales(*range(60)))
    eventually(lambda: len(seen.deliveries) > 12)
    assert len(box.queue) + len(box.queue.delayed) <= 11
    ok.set()
    eventually(lambda: len(seen.events) == 60)
    assert sorted(numbers(seen)) == list(range(60))


@pytest.mark.parametrize(
    ("policy", "kept"), [("drop_oldest", [7, 8, 9]), ("drop_newest", [0, 1, 2])]
)
@pytest.mark.parametrize("options", [{}, {"durable": "kept"}])
def test_a_policy_that_drops_does_so_and_says_so(
    options: dict[str, Any],
    policy: Any,
    kept: list[int],
    shop: pc.Bus,
    eventually: Eventually,
) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=3, overflow=policy, **options)
    sub.pause()
    shop.publish_many(sales(*range(10)))
    eventually(lambda: sub.mailbox.counts.dropped == 7)
    sub.resume()
    eventually(lambda: len(seen.events) == 3)
    assert numbers(seen) == kept
    assert any("lost 7 events" in problem for problem in shop.health().problems)


@pytest.mark.parametrize("options", [{}, {"durable": "kept", "overflow": "cut_off"}])
def test_who_is_cut_off_leaves_dead_letters_in_the_store(
    options: dict[str, Any], shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    sub = shop.subscribe(Sale, Recorder(), queue=3, **options)
    sub.pause()
    shop.publish_many(sales(*range(10)))
    eventually(lambda: sub.state == "cut off")
    eventually(lambda: len(other.dead_letters()) == 4)
    assert [letter.event.number for letter in other.dead_letters()] == [0, 1, 2, 3]
    assert any("was cut off" in problem for problem in shop.health().problems)
    assert shop.subscribe(Sale, Recorder(), **options).state == "active"


def letters(bus: pc.Bus) -> list[int]:
    """What is among the dead letters."""
    return [each.event.number for each in bus.dead_letters()]


def cut_off_while_it_handles_one(shop: pc.Bus, other: pc.Bus, eventually: Eventually) -> list[int]:
    """A member of a group with a queue that is too short; what it has handled."""
    began, gate = threading.Event(), threading.Event()
    handled: list[int] = []

    def slow(sale: Sale) -> None:
        began.set()
        gate.wait(10)
        handled.append(sale.number)

    sub = shop.subscribe(Sale, slow, group="crew", queue=5)
    other.publish(Sale(0))
    assert other.health().subscriptions or began.wait(10)
    other.publish_many(sales(*range(1, 60)))
    eventually(lambda: sub.state == "cut off")
    gate.set()
    assert shop.flush(10)
    return handled


def test_what_a_group_had_not_claimed_when_its_last_member_was_cut_off_is_in_the_dead_letters(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    handled = cut_off_while_it_handles_one(shop, other, eventually)
    eventually(lambda: {*letters(shop), *handled} == set(range(7)))


def test_what_a_member_that_was_cut_off_had_not_claimed_is_for_members_elsewhere(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    other.subscribe(Sale, seen, group="crew", queue=100)
    handled = cut_off_while_it_handles_one(shop, other, eventually)
    assert other.flush(10)
    eventually(lambda: {*letters(shop), *handled, *numbers(seen)} == set(range(60)))
    assert not {*letters(shop), *handled}.intersection(numbers(seen))


def test_a_full_queue_that_blocks_lets_the_publisher_wait(
    shop: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=2, overflow="block", block_for=30)
    sub.pause()
    done = threading.Event()

    def publish() -> None:
        for n in range(8):
            shop.publish(Sale(n))
        done.set()

    in_thread(publish)
    eventually(lambda: len(sub.mailbox.queue) == 2)
    assert not done.is_set()
    sub.resume()
    eventually(done.is_set)
    assert shop.flush(5)
    assert numbers(seen) == list(range(8))


def test_a_full_queue_that_blocks_refuses_in_the_end_with_nothing_accepted(
    shop: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    witness: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=2, overflow="block", block_for=0.05)
    shop.subscribe(Sale, witness)
    sub.pause()
    shop.publish_many(sales(0, 1))
    with pytest.raises(pc.QueueFullError):
        shop.publish(Sale(2))
    sub.resume()
    assert shop.flush(5)
    shop.publish(Sale(3))
    assert shop.flush(5)
    assert numbers(seen) == numbers(witness) == [0, 1, 3]


def test_who_publishes_elsewhere_does_not_wait_and_nothing_is_lost(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=2, overflow="block", block_for=0.05)
    sub.pause()
    other.publish_many(sales(*range(20)))
    eventually(lambda: len(sub.mailbox.queue) == 2)
    sub.resume()
    eventually(lambda: len(seen.events) == 20)
    assert numbers(seen) == list(range(20))


def test_a_pull_collection_can_be_cleared_and_goes_on(shop: pc.Bus, eventually: Eventually) -> None:
    taken = pc.DAList(Sale, shop, pull="fifo", durable="taken", queue=10)
    shop.publish_many(sales(*range(25)))
    eventually(lambda: len(taken) == 10)
    taken.clear()
    rest = [taken.get(5) for _ in range(5)]
    assert [sale.number for sale in rest if sale is not None] == [10, 11, 12, 13, 14]


def test_a_short_pull_queue_gives_all_in_order(shop: pc.Bus) -> None:
    taken = pc.DASortedSet(Sale, shop, pull="fifo", durable="taken", queue=3)
    shop.publish_many(sales(*range(50)))
    got = [taken.get(5) for _ in range(50)]
    assert [sale.number for sale in got if sale is not None] == list(range(50))


def test_an_absent_subscriber_holds_up_nobody(open_bus: OpenBus, eventually: Eventually) -> None:
    """Neither one that is gone nor one that hangs."""
    bus, go, seen = open_bus(), threading.Event(), Recorder[Any]()
    bus.subscribe(Sale, print, durable="gone", queue=1).detach()
    bus.subscribe(Sale, lambda sale: go.wait(10), durable="stuck", queue=1)
    bus.subscribe(Sale, seen, durable="fine", queue=5)
    began = time.monotonic()
    bus.publish_many(sales(*range(500)))
    eventually(lambda: len(seen.events) == 500)
    assert time.monotonic() - began < 8
    go.set()
    assert numbers(seen) == list(range(500))


# -- large events ----------------------------------------------------------------------------------

LARGE = 1_000  # bytes of an event, at least
FEW = 3_000  # bytes that are read at a time


@pytest.fixture
def read(shop: pc.Bus, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes the bus has read each time."""
    store, sizes = shop._engine.store, []  # type: ignore[attr-defined]

    def watch(name: str) -> None:
        function = getattr(store, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            batch = function(*arguments, **options)
            sizes.append(sum(len(each.record.payload) for each in batch.entries))
            return batch

        monkeypatch.setattr(store, name, watched)

    watch("read")
    watch("news")
    for module in (log_reader, routed_reader):
        monkeypatch.setattr(module, "PAGE_BYTES", FEW)
    return sizes


def large_sales(count: int) -> list[BigSale]:
    return [BigSale(number, "x" * LARGE) for number in range(count)]


@pytest.mark.parametrize("way", ["new", "older", "routed", "routed and older"])
def test_large_events_are_read_a_few_at_a_time(
    way: str, place: str, shop: pc.Bus, read: list[int], player: Player
) -> None:
    seen: Recorder[Any] = Recorder()
    large = large_sales(60)
    if way == "older":
        shop.publish_many(large)
    engine: Any = "spark" if "routed" in way else "direct"
    queue = 4 if way == "routed and older" else 1_000
    sub = shop.subscribe(
        Sale, seen, durable="d", since="beginning", engine=engine, queue=queue, level="list"
    )
    player.learn(sub)
    if way != "older":
        shop.publish_many(large)
    if "routed" in way:
        player.play()
    assert shop.flush(10)
    assert numbers(seen) == list(range(60))
    assert sum(read) >= 60 * LARGE
    if place == "sqlite" or "older" in way:  # a broker decides what it sends at a time
        assert max(read) <= FEW + 2 * LARGE
