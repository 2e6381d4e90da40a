"""Time, waits and deaths, as the scheduler has them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from simulation_runtime import runtime_for
from simulation_scheduler import Death, Party, Scheduler, StuckError

from polycast.runtime import Runtime


def started(scheduler: Scheduler, name: str) -> tuple[Party, Runtime]:
    party = Party(name)
    scheduler.parties.append(party)
    return party, runtime_for(scheduler, party)


def test_an_hour_passes_at_once_when_nobody_has_anything_to_do() -> None:
    scheduler = Scheduler(1)
    scheduler.sleep(3_600.0)
    assert scheduler.now == 3_600.0


def test_only_one_task_runs_at_a_time() -> None:
    scheduler = Scheduler(1, preemption=0.5)
    _, runtime = started(scheduler, "p")
    lock, inside, most = runtime.lock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            inside += 1
            most = max(most, inside)
            inside -= 1
            with lock:
                runtime.sleep(0.01)

    threads = [runtime.thread(work, name="worker") for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert scheduler.now >= 0.8  # the lock let one sleep at a time


def test_two_that_wait_for_each_other_are_reported_with_their_stacks() -> None:
    scheduler = Scheduler(1)
    _, runtime = started(scheduler, "p")
    one, other = runtime.rlock(), runtime.rlock()

    def take(first: Any, second: Any) -> None:
        with first:
            runtime.sleep(0.1)
            with second:
                pass

    threads = [
        runtime.thread(lambda: take(one, other), name="left"),
        runtime.thread(lambda: take(other, one), name="right"),
    ]
    for thread in threads:
        thread.start()
    with pytest.raises(StuckError, match=r"(?s)left.*in take.*right.*in take"):
        threads[0].join()
    scheduler.kill(next(iter(scheduler.parties)))


def test_the_dead_do_nothing_more_and_their_blocks_are_left() -> None:
    scheduler = Scheduler(1)
    party, runtime = started(scheduler, "p")
    told: list[str] = []

    def work() -> None:
        try:
            runtime.sleep(1.0)
            told.append("woken")
        except Death:
            told.append("dead")
            raise

    runtime.thread(work, name="worker").start()
    scheduler.sleep(0.5)
    scheduler.kill(party)
    scheduler.sleep(1.0)
    assert told == ["dead"]
    assert not party.tasks


def test_who_stands_still_goes_on_where_he_was() -> None:
    scheduler = Scheduler(1)
    party, runtime = started(scheduler, "p")
    woken: list[float] = []

    def work() -> None:
        runtime.sleep(1.0)
        woken.append(scheduler.now)

    runtime.thread(work, name="worker").start()
    scheduler.sleep(0.5)
    scheduler.hold(party)
    scheduler.sleep(4.5)
    assert woken == []
    scheduler.resume(party)
    scheduler.sleep(0.1)
    assert woken == [5.0]


def test_a_wall_clock_that_is_set_moves_nothing_that_waits() -> None:
    scheduler = Scheduler(1)
    party, runtime = started(scheduler, "p")
    before = runtime.time()
    party.wall += 86_400.0
    event = runtime.event()
    assert not event.wait(2.0)
    assert scheduler.now == 2.0
    assert runtime.time() == before + 86_402.0


def test_an_event_loop_runs_in_simulated_time() -> None:
    scheduler = Scheduler(1)
    _, runtime = started(scheduler, "p")
    loop = runtime.event_loop()
    with pytest.raises(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(asyncio.Event().wait(), 60.0))
    loop.close()
    assert scheduler.now == pytest.approx(60.0)
