"""Many threads at once. `POLYCAST_STRESS=long` runs each for longer (`make torture`)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc

ROUNDS = 20_000 if os.environ.get("POLYCAST_STRESS") == "long" else 1_500
THREADS = 6


@dataclass(frozen=True)
class Step:
    thread: int
    number: int


@dataclass(frozen=True)
class Noise:
    number: int


@pytest.fixture(autouse=True)
def _switch_threads_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], object], count: int = THREADS) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a publisher hangs"
    assert not errors, errors


@pytest.mark.parametrize("history", [0, 1_000_000])
@pytest.mark.parametrize("dispatches", [("inline",), ("pool",), ("inline", "pool")])
def test_every_subscriber_sees_all_events_of_all_threads_in_one_order(
    history: int, dispatches: tuple[Any, ...]
) -> None:
    seen: list[list[Step]] = []
    receipts: list[list[int]] = [[] for _ in range(THREADS)]
    with pc.Bus(history=history) as bus:
        for dispatch in dispatches * 2:
            mine: list[Step] = []
            seen.append(mine)
            bus.subscribe(Step, mine.append, dispatch=dispatch, queue=10**7)

        def publish(thread: int) -> None:
            for number in range(ROUNDS):
                receipts[thread].append(bus.publish(Step(thread, number)).position)

        in_threads(publish)
        assert bus.flush(60)
    positions = [position for each in receipts for position in each]
    assert len(set(positions)) == len(positions), "a position was given twice"
    assert all(each == sorted(each) for each in receipts), "a thread's own order was lost"
    by_position = {
        position: Step(thread, number)
        for thread, each in enumerate(receipts)
        for number, position in enumerate(each)
    }
    total = [by_position[position] for position in sorted(by_position)]
    for mine in seen:
        assert mine == total


def test_in_line_callbacks_run_one_at_a_time_in_the_thread_of_their_publisher() -> None:
    inside = 0
    wrong: list[str] = []
    own: dict[int, int] = {}

    def callback(step: Step) -> None:
        nonlocal inside
        inside += 1
        if inside != 1:
            wrong.append("two at once")
        if own[step.thread] != threading.get_ident():
            wrong.append("another thread")
        inside -= 1

    with pc.Bus() as bus:
        bus.subscribe(Step, callback, dispatch="inline")

        def publish(thread: int) -> None:
            own[thread] = threading.get_ident()
            for number in range(ROUNDS):
                bus.publish(Step(thread, number))

        in_threads(publish)
    assert wrong == []


def test_nothing_is_lost_or_doubled_while_other_subscriptions_come_and_go() -> None:
    got: list[int] = []
    stop = threading.Event()
    with pc.Bus() as bus:
        bus.subscribe(Step, lambda step: got.append(step.number), dispatch="inline")

        def work(thread: int) -> None:
            if thread == 0:
                for number in range(ROUNDS * 2):
                    bus.publish(Step(0, number))
                stop.set()
            else:
                while not stop.is_set():
                    dispatch: Any = "inline" if thread % 2 else "pool"
                    with bus.subscribe(Step, lambda _: None, dispatch=dispatch):
                        bus.publish(Noise(0))

        in_threads(work, 4)
        bus.flush(30)
    assert got == list(range(ROUNDS * 2))


def test_a_subscription_gets_exactly_what_comes_at_and_after_its_start() -> None:
    records: list[tuple[int, list[int]]] = []
    positions: list[int] = []
    done = threading.Event()
    with pc.Bus() as bus:

        def work(thread: int) -> None:
            if thread == 0:
                for number in range(ROUNDS):
                    positions.append(bus.publish(Step(0, number)).position)
                done.set()
                return
            while not done.is_set() and len(records) < 60:
                mine: list[int] = []

                kind: Any = "inline" if thread == 1 else "pool"
                subscription = bus.subscribe(
                    Step,
                    lambda step, delivery, mine=mine: mine.append(delivery.position),
                    dispatch=kind,
                    queue=10**7,
                )
                records.append((subscription.interest.start, mine))

        in_threads(work, 3)
        assert bus.flush(60)
    for start, mine in records:
        assert mine == [position for position in positions if position >= start]


def test_publishing_from_callbacks_of_many_threads_never_hangs() -> None:
    count = 0
    lock = threading.Lock()

    def forward(step: Step) -> None:
        if step.number % 2 == 0:
            bus.publish(Step(step.thread, step.number + 1))

    def tally(_: Step) -> None:
        nonlocal count
        with lock:
            count += 1

    with pc.Bus() as bus:
        bus.subscribe(Step, forward, dispatch="inline")
        bus.subscribe(Step, tally, queue=10**7)
        bus.subscribe(Step, forward, where=lambda s: False)

        def publish(thread: int) -> None:
            for number in range(0, ROUNDS, 2):
                bus.publish(Step(thread, number))

        in_threads(publish)
        assert bus.flush(60)
    assert count == ROUNDS * THREADS
