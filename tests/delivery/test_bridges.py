"""Callbacks in line that publish on another bus, whose callbacks publish on the first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import polycast as pc

Start = Callable[[Callable[[], object]], threading.Thread]
Wait = Callable[[Callable[[], object]], None]
WAIT = 10.0


@dataclass
class Ball:
    sender: str
    hops: int = 0


@pytest.fixture
def east() -> Iterator[pc.Bus]:
    with pc.Bus(publisher="east") as bus:
        yield bus


@pytest.fixture
def west() -> Iterator[pc.Bus]:
    with pc.Bus(publisher="west") as bus:
        yield bus


class Crossing:
    """Two buses that hand on what comes from outside, once both are in a callback."""

    def __init__(self, *buses: pc.Bus, form: str, attempts: int = 1) -> None:
        self.met = threading.Barrier(len(buses))
        self.errors: list[BaseException] = []
        self.got: list[tuple[str, str]] = []
        for number, here in enumerate(buses):
            there = buses[(number + 1) % len(buses)]
            callback = self._bridge(here, there)
            if form == "delivery":
                here.subscribe(
                    Ball,
                    lambda ball, delivery, call=callback: call(ball),  # type: ignore[misc]
                    dispatch="inline",
                    attempts=attempts,
                    backoff=0.01,
                )
            else:
                here.subscribe(Ball, callback, dispatch="inline", attempts=attempts, backoff=0.01)

    def _bridge(self, here: pc.Bus, there: pc.Bus) -> Callable[[Ball], None]:
        crossed: list[Ball] = []

        def callback(ball: Ball) -> None:
            if ball.hops:
                self.got.append((here.publisher, ball.sender))
                return
            if not crossed:
                crossed.append(ball)
                self.met.wait(WAIT)
            try:
                there.publish(Ball(ball.sender, ball.hops + 1))
            except pc.WouldDeadlockError as error:
                self.errors.append(error)
                raise

        return callback


@pytest.mark.parametrize("form", ["event", "delivery"])
def test_two_threads_that_cross_do_not_wait_for_each_other_for_ever(
    east: pc.Bus, west: pc.Bus, in_thread: Start, form: str
) -> None:
    crossing = Crossing(east, west, form=form)
    threads = [in_thread(lambda bus=bus: bus.publish(Ball(bus.publisher))) for bus in (east, west)]  # type: ignore[misc]
    for thread in threads:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in threads)
    assert 1 <= len(crossing.errors) <= 2
    letters = [each.event.sender for bus in (east, west) for each in bus.dead_letters()]
    assert len(letters) == len(crossing.errors)
    # What was refused went to nobody, and the other to all.
    assert sorted([sender for _, sender in crossing.got] + letters) == ["east", "west"]


def test_three_buses_in_a_ring_do_not_wait_for_each_other_for_ever(
    east: pc.Bus, west: pc.Bus, live: pc.Bus, in_thread: Start
) -> None:
    crossing = Crossing(east, west, live, form="event")
    threads = [
        in_thread(lambda bus=bus: bus.publish(Ball(bus.publisher)))  # type: ignore[misc]
        for bus in (east, west, live)
    ]
    for thread in threads:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in threads)
    assert len(crossing.got) + len(crossing.errors) == 3


def test_what_was_refused_is_tried_again_as_after_any_failure(
    east: pc.Bus, west: pc.Bus, in_thread: Start, eventually: Wait
) -> None:
    crossing = Crossing(east, west, form="event", attempts=20)
    for bus in (east, west):
        in_thread(lambda bus=bus: bus.publish(Ball(bus.publisher)))  # type: ignore[misc]
    eventually(lambda: len(crossing.got) == 2)
    assert crossing.errors
    assert sorted(crossing.got) == [("east", "west"), ("west", "east")]


def test_the_error_says_what_waits_for_what(
    east: pc.Bus, west: pc.Bus, in_thread: Start, eventually: Wait
) -> None:
    crossing = Crossing(east, west, form="event")
    for bus in (east, west):
        in_thread(lambda bus=bus: bus.publish(Ball(bus.publisher)))  # type: ignore[misc]
    eventually(lambda: crossing.errors)
    text = str(crossing.errors[0])
    assert "in line" in text
    assert 'dispatch="pool"' in text


def test_who_waits_for_a_turn_without_having_one_is_not_refused(
    east: pc.Bus, in_thread: Start, eventually: Wait
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    got: list[int] = []

    def callback(ball: Ball) -> None:
        begun.set()
        go_on.wait(WAIT)
        got.append(ball.hops)

    east.subscribe(Ball, callback, dispatch="inline")
    first = in_thread(lambda: east.publish(Ball("a", 1)))
    assert begun.wait(WAIT)
    second = in_thread(lambda: east.publish(Ball("b", 2)))
    eventually(lambda: east._dispatcher.inline_lock.pending)
    go_on.set()
    first.join(WAIT)
    second.join(WAIT)
    assert got == [1, 2]


def test_going_on_in_the_other_bus_is_left_to_another_thread_where_it_would_wait_for_ever(
    east: pc.Bus, west: pc.Bus, in_thread: Start, eventually: Wait
) -> None:
    met = threading.Barrier(2)
    got: list[str] = []
    paused = west.subscribe(Ball, lambda ball: got.append(ball.sender), dispatch="inline")
    paused.pause()
    west.publish(Ball("waits"))

    def resume(_: Ball) -> None:
        met.wait(WAIT)
        paused.resume()

    def cross(_: str) -> None:
        met.wait(WAIT)
        east.publish("from the west")

    east.subscribe(Ball, resume, dispatch="inline", attempts=1)
    east.subscribe("/east", lambda _: None, dispatch="inline")
    west.subscribe("/west", cross, dispatch="inline", attempts=1)
    east.subscribe(str, lambda _: None, dispatch="inline")
    in_thread(lambda: east.publish(Ball("resumes")))
    in_thread(lambda: west.publish("crosses", topic="/west"))
    eventually(lambda: got == ["waits"])


@pytest.mark.parametrize("form", ["event", "delivery"])
def test_one_thread_may_bounce_an_event_as_often_as_it_likes(
    east: pc.Bus, west: pc.Bus, form: str
) -> None:
    got: list[int] = []

    def bridge(there: pc.Bus) -> Callable[[Ball], None]:
        def callback(ball: Ball) -> None:
            got.append(ball.hops)
            if ball.hops < 5_000:  # more than Python's stack is deep
                there.publish(Ball(ball.sender, ball.hops + 1))

        return callback

    for here, there in ((east, west), (west, east)):
        call = bridge(there)
        callback = call if form == "event" else (lambda ball, delivery, call=call: call(ball))  # type: ignore[misc]
        here.subscribe(Ball, callback, dispatch="inline", attempts=1)
    east.publish(Ball("here"))
    assert got == list(range(5_001))
    assert not [*east.dead_letters(), *west.dead_letters()]


def test_what_interrupts_the_thread_that_writes_does_not_wait_for_who_waits_for_it(
    east: pc.Bus, tmp_path: Path, in_thread: Start
) -> None:
    """A finaliser runs in any thread: here in the one that a callback in line waits for."""
    errors: list[BaseException] = []
    inside = threading.Event()
    with pc.Bus(f"sqlite:///{tmp_path / 'west.db'}", publish_timeout=WAIT) as west:
        store = west._engine.store  # type: ignore[attr-defined]

        def across(ball: Ball) -> None:
            inside.set()
            west.publish(Ball(ball.sender, 1))

        def finalise(tx: object) -> None:
            assert inside.wait(WAIT)
            try:
                east.publish(Ball("finaliser"))
            except pc.WouldDeadlockError as error:
                errors.append(error)

        east.subscribe(Ball, across, dispatch="inline", attempts=1)
        written = store.write(finalise)
        publishing = in_thread(lambda: east.publish(Ball("program")))
        written.result(WAIT / 2)
        publishing.join(WAIT)
        assert not publishing.is_alive()
    assert "signal handler or a finaliser" in str(errors[0])
    assert not east.dead_letters()


def test_what_interrupts_a_change_of_one_bus_does_not_wait_for_the_turn_of_another(
    east: pc.Bus, west: pc.Bus, in_thread: Start
) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def across(ball: Ball) -> None:
        inside.set()
        assert go_on.wait(WAIT)
        west.subscribe(Ball, lambda ball: None)

    east.subscribe(Ball, across, dispatch="inline", attempts=1)
    with west._dispatcher.changing:
        publishing = in_thread(lambda: east.publish(Ball("program")))
        assert inside.wait(WAIT)
        with pytest.raises(pc.WouldDeadlockError, match="signal handler or a finaliser"):
            east.publish(Ball("finaliser"))
        go_on.set()
    publishing.join(WAIT)
    assert not publishing.is_alive()
    assert not east.dead_letters()


def test_coroutines_of_one_loop_may_publish_on_each_others_bus() -> None:
    async def program() -> list[int]:
        got: list[int] = []
        async with pc.Bus() as east, pc.Bus() as west:

            async def to_west(ball: Ball) -> None:
                got.append(ball.hops)
                if ball.hops < 100:
                    await west.publish_async(Ball("a", ball.hops + 1))

            async def to_east(ball: Ball) -> None:
                got.append(ball.hops)
                if ball.hops < 100:
                    await east.publish_async(Ball("a", ball.hops + 1))

            east.subscribe(Ball, to_west)
            west.subscribe(Ball, to_east)
            await east.publish_async(Ball("a"))
            async with asyncio.timeout(WAIT):
                while len(got) < 101:
                    await asyncio.sleep(0)
        return got

    assert asyncio.run(program()) == list(range(101))
