"""Async callbacks: on the loop that was running, or on the one of the bus."""

from __future__ import annotations

import asyncio
import functools
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import TestBus


@dataclass
class Talk:
    title: str = "TPS"


# -- async -----------------------------------------------------------------------------------------


def test_an_async_callback_runs_on_the_loop_that_was_running_at_subscribe() -> None:
    async def main() -> bool:
        got: asyncio.Queue[object] = asyncio.Queue()

        async def callback(talk: Talk) -> None:
            got.put_nowait(asyncio.get_running_loop())

        async with pc.Bus() as bus:
            bus.subscribe(Talk, callback)
            bus.publish(Talk())
            loop = await asyncio.wait_for(got.get(), 10)
        return loop is asyncio.get_running_loop()

    assert asyncio.run(main())


def test_an_async_callback_runs_on_the_loop_also_if_another_thread_publishes() -> None:
    async def main() -> bool:
        got: asyncio.Queue[object] = asyncio.Queue()

        async def callback(talk: Talk) -> None:
            got.put_nowait(threading.current_thread())

        async with pc.Bus() as bus:
            bus.subscribe(Talk, callback)
            await asyncio.to_thread(bus.publish, Talk())
            thread = await asyncio.wait_for(got.get(), 10)
        return thread is threading.current_thread()

    assert asyncio.run(main())


def test_an_async_callback_without_a_loop_runs_on_the_loop_of_the_bus(live: pc.Bus) -> None:
    ran: list[threading.Thread] = []

    async def callback(talk: Talk) -> None:
        await asyncio.sleep(0)
        ran.append(threading.current_thread())

    live.subscribe(Talk, callback)
    live.publish(Talk())
    live.flush(10)
    assert len(ran) == 1
    assert ran[0] is not threading.current_thread()


def test_an_async_callback_handles_one_event_at_a_time_in_order(live: pc.Bus) -> None:
    steps: list[tuple[str, str]] = []

    async def callback(talk: Talk) -> None:
        steps.append(("begin", talk.title))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        steps.append(("end", talk.title))

    live.subscribe(Talk, callback)
    for title in "abc":
        live.publish(Talk(title))
    live.flush(10)
    assert steps == [(step, title) for title in "abc" for step in ("begin", "end")]


def test_async_callbacks_of_two_subscriptions_run_side_by_side(live: pc.Bus) -> None:
    met = asyncio.Event()

    async def waits(talk: Talk) -> None:
        await asyncio.wait_for(met.wait(), 10)

    async def comes(talk: Talk) -> None:
        met.set()

    live.subscribe(Talk, waits)
    live.subscribe(Talk, comes)
    live.publish(Talk())
    assert live.flush(10)
    assert not live.dead_letters()


@pytest.mark.parametrize("kind", ["method", "partial", "object"])
def test_async_methods_partials_and_objects_are_awaited(bus: TestBus, kind: str) -> None:
    got: list[Talk] = []

    class Desk:
        async def take(self, talk: Talk) -> None:
            got.append(talk)

        async def __call__(self, talk: Talk) -> None:
            got.append(talk)

    async def two(desk: str, talk: Talk, delivery: pc.Delivery) -> None:
        got.append(talk)

    callback: Any = {
        "method": Desk().take,
        "partial": functools.partial(two, "desk"),
        "object": Desk(),
    }[kind]
    bus.subscribe(Talk, callback)
    bus.publish(Talk())
    bus.run_until_idle()
    assert got == [Talk()]


def test_an_async_callback_that_raises_is_tried_again(bus: TestBus) -> None:
    counts: list[int] = []

    async def callback(talk: Talk, delivery: pc.Delivery) -> None:
        counts.append(delivery.count)
        if delivery.count == 1:
            raise OSError("not yet")

    bus.subscribe(Talk, callback)
    bus.publish(Talk())
    bus.advance(1)
    bus.advance(1)
    assert counts == [1, 2]


def test_an_async_callback_that_is_cancelled_does_not_stop_its_subscription(live: pc.Bus) -> None:
    got: list[str] = []

    async def callback(talk: Talk, delivery: pc.Delivery) -> None:
        if talk.title == "a" and delivery.count == 1:
            raise asyncio.CancelledError
        got.append(talk.title)

    sub = live.subscribe(Talk, callback, level="strong_set", backoff=0.01)
    sub.pause()
    for title in "abc":
        live.publish(Talk(title))
    sub.resume()
    live.flush(3)
    assert sorted(got) == ["a", "b", "c"]


def test_an_async_callback_cannot_run_in_the_publishers_thread(bus: TestBus) -> None:
    async def callback(talk: Talk) -> None: ...

    with pytest.raises(pc.BadOptionError, match="async"):
        bus.subscribe(Talk, callback, dispatch="inline")


def test_a_refused_async_callback_leaves_no_subscription_behind(bus: TestBus) -> None:
    async def callback(talk: Talk) -> None: ...

    with pytest.raises(pc.BadOptionError):
        bus.subscribe(Talk, callback, dispatch="inline")
    assert bus.health().subscriptions == ()


def test_an_async_callback_that_exits_does_not_stop_the_others(live: pc.Bus) -> None:
    got: list[str] = []

    async def leave(talk: Talk) -> None:
        raise SystemExit

    async def stay(talk: Talk) -> None:
        got.append(talk.title)

    live.subscribe(Talk, leave, attempts=1)
    live.subscribe(Talk, stay)
    for title in "abc":
        live.publish(Talk(title))
        live.flush(1)
    assert got == ["a", "b", "c"]
