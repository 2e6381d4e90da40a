"""While calling back is all there is to do, events go without an account of each attempt.

Whatever needs an account closes that path, in the middle of a batch as well; nothing may be lost,
doubled or overtaken by that.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import polycast as pc
from polycast.testing import TestBus

EVENTS = 300
Eventually = Callable[[Callable[[], object]], None]


@contextmanager
def churn(subscription: pc.Subscription[int], seed: int) -> Iterator[None]:
    """Pause and resume a subscription, look at it and flush its bus, all the time."""
    over, dice = threading.Event(), random.Random(seed)

    def work() -> None:
        while not over.is_set():
            subscription.pause()
            over.wait(dice.uniform(0, 0.0005))
            subscription.resume()
            over.wait(dice.uniform(0, 0.0005))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def plain(callback: Callable[[int], None]) -> Callable[[int], object]:
    """The callback as it is."""
    return callback


def coroutine(callback: Callable[[int], None]) -> Callable[[int], object]:
    """The callback as a coroutine function that does not suspend."""

    async def handle(event: int) -> None:
        callback(event)

    return handle


def suspending(callback: Callable[[int], None]) -> Callable[[int], object]:
    """The callback as a coroutine function that suspends now and then."""

    async def handle(event: int) -> None:
        if event % 7 == 0:
            await asyncio.sleep(0)
        callback(event)

    return handle


FORMS = [plain, coroutine, suspending]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_who_pauses_in_the_middle_of_batches_loses_doubles_and_overtakes_nothing(
    form: Callable[..., Callable[[int], object]], seed: int
) -> None:
    got: list[int] = []
    with pc.Bus() as bus:
        subscription = bus.subscribe(int, form(got.append))
        with churn(subscription, seed):
            for number in range(EVENTS):
                bus.publish(number)
        assert bus.flush(30)
        counts = bus.health().subscriptions[0].counts
    assert got == list(range(EVENTS))
    assert (counts.delivered, counts.failed, counts.dropped) == (EVENTS, 0, 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_callbacks_that_fail_in_a_batch_are_tried_again_in_order(
    form: Callable[..., Callable[[int], object]], seed: int
) -> None:
    got: list[int] = []
    dice = random.Random(seed)

    def handle(event: int) -> None:
        if dice.random() < 0.1:
            raise ValueError(event)
        got.append(event)

    with pc.Bus() as bus:
        subscription = bus.subscribe(int, form(handle), attempts=50, backoff=0.0001)
        with churn(subscription, seed):
            for number in range(EVENTS):
                bus.publish(number)
        assert bus.flush(30)
        assert not bus.dead_letters()
    assert got == list(range(EVENTS))


@pytest.mark.parametrize("form", FORMS)
def test_several_publishers_are_heard_in_the_order_of_the_log(
    form: Callable[..., Callable[[int], object]],
) -> None:
    got: list[int] = []
    positions: dict[int, int] = {}
    numbers = itertools.count()

    def publish() -> None:
        for _ in range(EVENTS):
            number = next(numbers)
            positions[number] = bus.publish(number).position

    with pc.Bus() as bus:
        bus.subscribe(int, form(got.append))
        threads = [threading.Thread(target=publish) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bus.flush(30)
    assert got == sorted(positions, key=positions.__getitem__)


def test_an_event_with_an_account_comes_in_its_place_among_those_without() -> None:
    bus, got = TestBus(), []
    bus.subscribe(int, got.append)
    bus.publish(1)
    bus.publish(2, expires=60)
    bus.publish(3)
    bus.publish(4, priority=5)
    bus.run_until_idle()
    bus.publish(5)
    bus.run_until_idle()
    assert got == [1, 2, 3, 4, 5]


def test_a_callback_that_cancels_its_subscription_gets_nothing_more_of_its_batch(
    eventually: Eventually,
) -> None:
    got: list[int] = []

    def handle(event: int) -> None:
        got.append(event)
        if event == 2:
            subscription.cancel()

    with pc.Bus() as bus:
        subscription = bus.subscribe(int, handle)
        subscription.pause()
        for number in range(5):
            bus.publish(number)
        subscription.resume()
        eventually(lambda: subscription.state == "cancelled")
        assert bus.flush(5)
    assert got == [0, 1, 2]


def test_what_a_callback_has_in_its_hands_is_in_flight_not_waiting(
    eventually: Eventually,
) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def handle(event: int) -> None:
        begun.set()
        go_on.wait(10)

    with pc.Bus() as bus:
        bus.subscribe(int, handle)
        bus.publish_many([1, 2, 3])
        assert begun.wait(10)
        eventually(lambda: bus.health().subscriptions[0].waiting == 2)
        assert bus.health().subscriptions[0].in_flight == 1
        go_on.set()
        assert bus.flush(10)
        assert bus.health().subscriptions[0].counts.delivered == 3


def test_a_queue_that_is_full_cuts_off_with_what_was_in_hand_among_its_dead_letters(
    eventually: Eventually,
) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def handle(event: int) -> None:
        begun.set()
        go_on.wait(10)

    with pc.Bus() as bus:
        subscription = bus.subscribe(int, handle, queue=3)
        bus.publish(0)
        assert begun.wait(10)
        for number in range(1, 5):
            bus.publish(number)
        eventually(lambda: subscription.state == "cut off")
        assert [letter.event for letter in bus.dead_letters()] == [0, 1, 2, 3, 4]
        go_on.set()


def test_a_task_that_its_callback_cancels_has_failed_with_one_event_only() -> None:
    got: list[int] = []

    async def handle(event: int) -> None:
        if event == 2 and got[-1:] != ["cancelled"]:
            got.append("cancelled")  # type: ignore[arg-type]
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        got.append(event)

    with pc.Bus() as bus:
        bus.subscribe(int, handle, backoff=0.0001)
        for number in range(1, 5):
            bus.publish(number)
        assert bus.flush(10)
        assert bus.health().subscriptions[0].counts.failed == 1
    assert got == [1, "cancelled", 2, 3, 4]


def test_a_new_definition_of_a_durable_name_takes_over_what_its_batch_had_left() -> None:
    bus, first, second = TestBus(), [], []
    bus.subscribe(int, first.append, durable="name")
    bus.publish(1)
    bus.run_until_idle()
    bus.publish(2)
    bus.subscribe(int, second.append, durable="name", where=lambda n: n > 0, replace=True)
    bus.publish(3)
    bus.run_until_idle()
    assert (first, second) == ([1], [2, 3])
