"""Queues are bounded, and what happens at the bound was chosen by name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus

Start = Callable[[Callable[[], object]], threading.Thread]
WAIT = 10.0
STRONG = ["strong_bag", "strong_set", "array", "list", "sorted_bag", "sorted_set"]
WEAK = ["weak_bag", "weak_set"]


@dataclass
class Order:
    number: int = 0


def flooded(bus: TestBus, count: int = 5, **options: Any) -> tuple[Any, Recorder[Order]]:
    """A paused subscription of three places that got more than that, and is then resumed."""
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, queue=3, **options)
    sub.pause()
    for number in range(count):
        bus.publish(Order(number))
    if sub.ended is None:
        sub.resume()
    bus.run_until_idle()
    return sub, seen


def numbers(seen: Recorder[Order]) -> list[int]:
    """What was handled, in order."""
    return [order.number for order in seen.events]


# -- dropping --------------------------------------------------------------------------------------


def test_drop_oldest_keeps_the_newest(bus: TestBus) -> None:
    assert numbers(flooded(bus, overflow="drop_oldest")[1]) == [2, 3, 4]


def test_drop_newest_keeps_the_oldest(bus: TestBus) -> None:
    assert numbers(flooded(bus, overflow="drop_newest")[1]) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
def test_what_is_dropped_is_counted_and_visible(bus: TestBus, policy: Any) -> None:
    flooded(bus, overflow=policy)
    health = bus.health()
    assert health.counts.dropped == 2
    assert not health.ok


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
def test_dropping_ends_nothing(bus: TestBus, policy: Any) -> None:
    assert flooded(bus, overflow=policy)[0].state == "active"


@pytest.mark.parametrize("level", WEAK)
def test_weak_levels_drop_the_oldest_by_default(bus: TestBus, level: Any) -> None:
    assert numbers(flooded(bus, level=level)[1]) == [2, 3, 4]


# -- cutting off -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", STRONG)
def test_strong_levels_are_cut_off_by_default(bus: TestBus, level: Any) -> None:
    assert flooded(bus, level=level)[0].state == "cut off"


def test_what_a_cut_off_subscription_had_not_handled_is_in_the_dead_letters(
    bus: TestBus,
) -> None:
    flooded(bus, count=4)
    assert [letter.event.number for letter in bus.dead_letters()] == [0, 1, 2, 3]


def test_what_a_cut_off_subscription_had_handled_is_not_in_the_dead_letters(
    bus: TestBus,
) -> None:
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, queue=2)
    bus.publish(Order(0))
    bus.run_until_idle()
    sub.pause()
    for number in (1, 2, 3):
        bus.publish(Order(number))
    bus.run_until_idle()
    assert [letter.event.number for letter in bus.dead_letters()] == [1, 2, 3]


def test_health_says_that_it_was_cut_off(bus: TestBus) -> None:
    sub, _ = flooded(bus)
    problems = bus.health().problems
    assert any("cut off" in problem and sub.name in problem for problem in problems)


def test_a_cut_off_subscription_gets_nothing_more(bus: TestBus) -> None:
    _, seen = flooded(bus)
    bus.publish(Order(99))
    bus.run_until_idle()
    assert seen.events == []


def test_a_cut_off_subscription_says_so_when_it_is_used(bus: TestBus) -> None:
    sub, _ = flooded(bus)
    with pytest.raises(pc.CutOffError, match="queue was full"):
        sub.resume()


def test_cutting_one_off_disturbs_nobody_else(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen)
    flooded(bus)
    assert numbers(seen) == [0, 1, 2, 3, 4]


def test_the_publisher_of_the_last_straw_has_its_receipt(bus: TestBus) -> None:
    sub = bus.subscribe(Order, print, queue=1)
    sub.pause()
    bus.publish(Order())
    assert bus.publish(Order()).position == 2


def test_publish_many_past_the_bound_leaves_nothing_unaccounted(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    sub = bus.subscribe(Order, seen, queue=3)
    sub.pause()
    bus.publish_many(Order(number) for number in range(4))
    bus.run_until_idle()
    assert [letter.event.number for letter in bus.dead_letters()] == [0, 1, 2, 3]


def test_a_callback_in_line_can_be_cut_off(bus: TestBus) -> None:
    sub, _ = flooded(bus, dispatch="inline", overflow="cut_off")
    assert sub.state == "cut off"


# -- spilling --------------------------------------------------------------------------------------


def test_spill_keeps_everything(bus: TestBus) -> None:
    assert numbers(flooded(bus, overflow="spill")[1]) == [0, 1, 2, 3, 4]


def test_durables_spill_by_default(bus: TestBus) -> None:
    assert numbers(flooded(bus, durable="billing")[1]) == [0, 1, 2, 3, 4]


# -- blocking --------------------------------------------------------------------------------------


def test_block_raises_when_its_deadline_has_passed(live: pc.Bus) -> None:
    sub = live.subscribe(Order, print, queue=1, overflow="block", block_for=0.01)
    sub.pause()
    live.publish(Order())
    with pytest.raises(pc.QueueFullError, match="not accepted") as caught:
        live.publish(Order())
    assert (caught.value.queue, caught.value.waited) == (1, 0.01)


def test_a_refused_event_was_accepted_by_nobody(live: pc.Bus) -> None:
    got: list[int] = []
    live.subscribe(Order, lambda order: got.append(order.number))
    live.subscribe(Order, lambda order: got.append(order.number), dispatch="inline")
    sub = live.subscribe(Order, print, queue=1, overflow="block", block_for=0.01)
    sub.pause()
    live.publish(Order(0))
    with pytest.raises(pc.QueueFullError):
        live.publish(Order(1))
    live.flush(WAIT)
    assert got == [0, 0]


def test_a_refused_event_takes_no_position(live: pc.Bus) -> None:
    sub = live.subscribe(Order, print, queue=1, overflow="block", block_for=0.01)
    sub.pause()
    before = live.publish(Order())
    with pytest.raises(pc.QueueFullError):
        live.publish(Order())
    assert live.publish("something else").position == before.position + 1


def test_a_blocked_publisher_goes_on_when_there_is_room(live: pc.Bus, in_thread: Start) -> None:
    got: list[int] = []
    sub = live.subscribe(
        Order, lambda order: got.append(order.number), queue=2, overflow="block", block_for=WAIT
    )
    sub.pause()
    live.publish_many([Order(0), Order(1)])
    thread = in_thread(lambda: live.publish(Order(2)))
    sub.resume()
    thread.join(WAIT)
    live.flush(WAIT)
    assert got == [0, 1, 2]


def test_a_blocked_publisher_goes_on_when_the_subscription_ends(
    live: pc.Bus, in_thread: Start
) -> None:
    sub = live.subscribe(Order, print, queue=1, overflow="block", block_for=WAIT)
    sub.pause()
    live.publish(Order())
    receipts: list[pc.Receipt] = []
    thread = in_thread(lambda: receipts.append(live.publish(Order())))
    sub.cancel()
    thread.join(WAIT)
    assert len(receipts) == 1


def test_many_blocked_publishers_lose_and_double_nothing(live: pc.Bus, in_thread: Start) -> None:
    got: list[int] = []
    live.subscribe(
        Order, lambda order: got.append(order.number), queue=3, overflow="block", block_for=WAIT
    )

    def publish(begin: int) -> None:
        for number in range(begin, begin + 50):
            live.publish(Order(number))

    threads = [in_thread(lambda n=n: publish(n * 50)) for n in range(4)]
    for thread in threads:
        thread.join(WAIT)
    live.flush(WAIT)
    assert sorted(got) == list(range(200))


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_block_never_blocks_inside_a_callback(live: pc.Bus, dispatch: Any) -> None:
    waited: list[float] = []
    done = threading.Event()
    sub = live.subscribe(Order, print, queue=1, overflow="block", block_for=3600)
    sub.pause()
    live.publish(Order())

    def callback(text: str) -> None:
        try:
            live.publish(Order())
        except pc.QueueFullError as error:
            waited.append(error.waited)
        done.set()

    live.subscribe(str, callback, dispatch=dispatch)
    live.publish("go")
    assert done.wait(WAIT)
    assert waited == [0]


def test_block_never_blocks_inside_an_async_callback(live: pc.Bus) -> None:
    waited: list[float] = []
    sub = live.subscribe(Order, print, queue=1, overflow="block", block_for=3600)
    sub.pause()
    live.publish(Order())

    async def callback(text: str) -> None:
        try:
            live.publish(Order())
        except pc.QueueFullError as error:
            waited.append(error.waited)

    live.subscribe(str, callback)
    live.publish("go")
    live.flush(WAIT)
    assert waited == [0]


def test_a_filter_decides_before_anyone_has_to_wait(live: pc.Bus) -> None:
    sub = live.subscribe(
        Order, print, where=lambda o: o.number == 0, queue=1, overflow="block", block_for=0.01
    )
    sub.pause()
    live.publish(Order(0))
    assert live.publish(Order(1)).position == 2


# -- the bound -------------------------------------------------------------------------------------


def test_ten_thousand_events_wait_by_default(bus: TestBus) -> None:
    sub = bus.subscribe(Order, print)
    sub.pause()
    bus.publish_many([Order()] * 10_000)
    full = sub.state
    bus.publish(Order())
    assert (full, sub.state) == ("paused", "cut off")


def test_all_that_a_full_queue_of_the_default_size_held_is_in_the_dead_letters(
    live: pc.Bus,
) -> None:
    began, finish = threading.Event(), threading.Event()

    def wait(order: Order) -> None:
        began.set()
        finish.wait(WAIT)

    live.subscribe(Order, wait)
    live.publish(Order(0))
    assert began.wait(WAIT)
    live.publish_many([Order(number) for number in range(1, 10_002)])
    letters = live.dead_letters()
    finish.set()
    assert [letter.event.number for letter in letters] == list(range(10_002))
    assert letters.let_go == 0


def test_the_limit_of_dead_letters_is_for_those_that_were_not_cut_off() -> None:
    with pc.Bus(dead_letters=2) as bus:
        cut = bus.subscribe(Order, print, queue=3)
        cut.pause()
        bus.publish_many([Order(number) for number in range(4)])

        def fail(order: Order) -> None:
            raise ValueError(order.number)

        bus.subscribe(Order, fail, attempts=1)
        bus.publish_many([Order(number) for number in range(10, 15)])
        assert bus.flush(WAIT)
        letters = bus.dead_letters()
        assert [each.event.number for each in letters] == [0, 1, 2, 3, 13, 14]
        assert (letters.let_go, letters.cut_off()) == (3, 4)
        assert any("4 of them were cut off" in problem for problem in bus.health().problems)
        assert letters.purge(letters[0], letters[4]) == 2
        assert [each.event.number for each in letters] == [1, 2, 3, 14]
        assert (letters.purge(), len(letters), letters.cut_off()) == (4, 0, 0)


def test_a_bus_told_to_keep_no_dead_letters_keeps_none_of_a_cut_off() -> None:
    with pc.Bus(dead_letters=0) as bus:
        bus.subscribe(Order, print, queue=1).pause()
        bus.publish_many([Order(), Order()])
        assert (len(bus.dead_letters()), bus.dead_letters().let_go) == (0, 2)


def test_health_warns_when_a_queue_is_nearly_full(bus: TestBus) -> None:
    sub = bus.subscribe(Order, print, queue=10)
    sub.pause()
    bus.publish_many([Order()] * 8)
    assert any(sub.name in problem for problem in bus.health().problems)
