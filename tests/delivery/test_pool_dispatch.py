"""dispatch="pool": ordered per subscription, and a callback that hangs holds up nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import polycast as pc
from polycast.delivery.threads import Pool
from polycast.testing import ManualClock

Wait = Callable[[Callable[[], object]], None]
WAIT = 10.0


@dataclass
class Job:
    number: int = 0


@dataclass
class Other:
    number: int = 0


class Watched:
    """A bus with a clock turned by hand, and a gate for callbacks to hang in."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bus = pc.Bus(clock=self.clock, stuck_timeout=30)
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)

    def hang(self, event: object) -> None:
        self.entered.release()
        self.gate.wait(30)

    def hang_many(self, count: int) -> None:
        for _ in range(count):
            self.bus.subscribe(Job, self.hang)
        self.bus.publish(Job())
        for _ in range(count):
            assert self.entered.acquire(timeout=WAIT)


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A watched bus, released and closed afterwards."""
    watched = Watched()
    yield watched
    watched.gate.set()
    watched.bus.close(timeout=5)


def test_a_callback_of_the_pool_is_not_called_by_the_publisher(live: pc.Bus) -> None:
    ran: list[int] = []
    live.subscribe(Job, lambda job: ran.append(threading.get_ident()))
    live.publish(Job())
    live.flush(WAIT)
    assert ran[0] != threading.get_ident()


@pytest.mark.parametrize("level", ["sorted_set", "strong_set", "weak_bag"])
def test_a_subscription_handles_one_event_at_a_time(live: pc.Bus, level: str) -> None:
    inside, most = [0], [0]

    def callback(job: Job) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0)
        inside[0] -= 1

    live.subscribe(Job, callback, level=level)  # type: ignore[arg-type]
    live.publish_many([Job()] * 300)
    live.flush(WAIT)
    assert most == [1]


def test_events_come_in_log_order(live: pc.Bus) -> None:
    got: list[int] = []
    live.subscribe(Job, lambda job: got.append(job.number))
    for number in range(500):
        live.publish(Job(number))
    live.flush(WAIT)
    assert got == list(range(500))


def test_slow_callbacks_delay_nobody_else(live: pc.Bus) -> None:
    gate, done = threading.Event(), threading.Event()
    for _ in range(12):
        live.subscribe(Job, lambda job: gate.wait(30))
    live.publish(Job())
    live.subscribe(Other, lambda other: done.set())
    live.publish(Other())
    went_on = done.wait(WAIT)
    gate.set()
    assert went_on


def test_a_callback_that_does_not_return_is_reported(watched: Watched) -> None:
    watched.hang_many(1)
    watched.clock.advance(31)
    stuck = watched.bus.health().stuck
    assert [each.seconds for each in stuck] == [31]
    assert "Job" in stuck[0].subscription


def test_a_stuck_callback_is_a_problem_of_the_bus(watched: Watched) -> None:
    watched.hang_many(1)
    watched.clock.advance(31)
    health = watched.bus.health()
    assert not health.ok
    assert any("Job" in problem for problem in health.problems)


def test_a_callback_is_not_stuck_before_its_time(watched: Watched) -> None:
    watched.hang_many(1)
    watched.clock.advance(29)
    assert watched.bus.health().stuck == ()


def test_a_callback_that_returns_is_stuck_no_more(watched: Watched) -> None:
    watched.hang_many(1)
    watched.clock.advance(31)
    watched.gate.set()
    watched.bus.flush(WAIT)
    assert watched.bus.health().stuck == ()


def test_each_stuck_callback_is_replaced_so_that_others_go_on(watched: Watched) -> None:
    watched.hang_many(20)
    watched.clock.advance(31)
    done = threading.Semaphore(0)
    for _ in range(20):
        watched.bus.subscribe(Other, lambda other: done.release())
    watched.bus.publish(Other())
    assert all(done.acquire(timeout=WAIT) for _ in range(20))


def test_all_stuck_callbacks_are_reported(watched: Watched) -> None:
    watched.hang_many(20)
    watched.clock.advance(31)
    assert len(watched.bus.health().stuck) == 20


class Hanging:
    """A job that ends when a gate is opened."""

    def __init__(self, clock: ManualClock, gate: threading.Event) -> None:
        self.started: float | None = None
        self._clock, self._gate = clock, gate

    def run(self) -> None:
        self.started = self._clock.monotonic()
        self._gate.wait(30)


def test_more_stuck_callbacks_than_the_pool_may_have_threads_hold_up_nobody(
    eventually: Wait,
) -> None:
    clock, gate = ManualClock(), threading.Event()
    pool = Pool(clock, stuck_timeout=30, most=6)
    jobs = [Hanging(clock, gate) for _ in range(20)]
    for job in jobs:
        pool.submit(job)
    eventually(lambda: sum(job.started is not None for job in jobs) == 6)
    eventually(lambda: clock.advance(31) or all(job.started is not None for job in jobs))
    gate.set()
    pool.close(5)


def test_an_async_callback_that_does_not_return_is_reported(watched: Watched) -> None:
    async def hang(job: Job) -> None:
        watched.entered.release()
        while not watched.gate.is_set():
            await asyncio.sleep(0)

    watched.bus.subscribe(Job, hang)
    watched.bus.publish(Job())
    assert watched.entered.acquire(timeout=WAIT)
    watched.clock.advance(31)
    assert len(watched.bus.health().stuck) == 1


def test_a_callback_that_raises_does_not_stop_the_others(live: pc.Bus) -> None:
    got: list[int] = []
    live.subscribe(Job, lambda job: 1 / 0, attempts=1)
    live.subscribe(Job, lambda job: got.append(job.number))
    live.publish_many(Job(number) for number in range(20))
    live.flush(WAIT)
    assert got == list(range(20))


def test_callbacks_that_exit_their_thread_do_not_stop_the_others(live: pc.Bus) -> None:
    def leave(job: Job) -> None:
        raise SystemExit

    for _ in range(6):
        live.subscribe(Job, leave, attempts=1)
    live.publish(Job())
    live.flush(0.5)
    done = threading.Event()
    live.subscribe(Other, lambda other: done.set())
    live.publish(Other())
    assert done.wait(2)


def test_a_callback_that_exits_its_thread_is_a_failure_like_any_other(live: pc.Bus) -> None:
    def leave(job: Job) -> None:
        raise SystemExit("bye")

    live.subscribe(Job, leave, attempts=1)
    live.publish(Job(7))
    live.flush(2)
    assert [letter.event for letter in live.dead_letters()] == [Job(7)]


def test_flush_inside_a_callback_is_refused(live: pc.Bus) -> None:
    refused: list[type] = []

    def callback(job: Job) -> None:
        try:
            live.flush()
        except pc.WouldDeadlockError as error:
            refused.append(type(error))

    live.subscribe(Job, callback)
    live.publish(Job())
    live.flush(WAIT)
    assert refused == [pc.WouldDeadlockError]


def test_flush_inside_an_async_callback_is_refused(live: pc.Bus) -> None:
    refused: list[type] = []

    async def callback(job: Job) -> None:
        try:
            live.flush()
        except pc.WouldDeadlockError as error:
            refused.append(type(error))

    live.subscribe(Job, callback)
    live.publish(Job())
    live.flush(WAIT)
    assert refused == [pc.WouldDeadlockError]


def test_publishing_inside_a_callback_goes_on(live: pc.Bus) -> None:
    got: list[int] = []

    def callback(job: Job) -> None:
        got.append(job.number)
        if job.number < 50:
            live.publish(Job(job.number + 1))

    live.subscribe(Job, callback)
    live.publish(Job(0))
    live.flush(WAIT)
    assert got == list(range(51))


def test_cancelling_inside_a_callback_ends_it(live: pc.Bus) -> None:
    got: list[int] = []
    mine: list[pc.Subscription[Job]] = []

    def callback(job: Job) -> None:
        got.append(job.number)
        mine[0].cancel()

    mine.append(live.subscribe(Job, callback))
    live.publish_many([Job(0), Job(1)])
    live.flush(WAIT)
    assert got == [0]


def test_closing_inside_a_callback_ends_the_bus(eventually: Wait) -> None:
    bus, closed = pc.Bus(), threading.Event()

    def callback(job: Job) -> None:
        bus.close(timeout=5)
        closed.set()

    bus.subscribe(Job, callback)
    bus.publish(Job())
    assert closed.wait(WAIT)
    assert bus.health().state == "closed"


def test_flush_says_when_it_took_too_long(live: pc.Bus) -> None:
    gate = threading.Event()
    live.subscribe(Job, lambda job: gate.wait(30))
    live.publish(Job())
    in_time = live.flush(0.05)
    gate.set()
    assert in_time is False
    assert live.flush(WAIT) is True
