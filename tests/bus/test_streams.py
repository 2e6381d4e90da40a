"""Events as an asynchronous iterator."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

import polycast as pc

T = TypeVar("T")


@dataclass
class Talk:
    number: int = 0


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, which has to end in time."""

    async def in_time() -> T:
        return await asyncio.wait_for(main, 20)

    return asyncio.run(in_time())


async def take(stream: pc.Stream[Talk], count: int) -> list[int]:
    """The next so many numbers of a stream."""
    return [(await anext(stream)).number for _ in range(count)]


def test_a_stream_gives_the_events_in_order() -> None:
    async def main() -> list[int]:
        async with pc.Bus() as bus, bus.stream(Talk) as stream:
            bus.publish_many(Talk(number) for number in range(5))
            return await take(stream, 5)

    assert run(main()) == [0, 1, 2, 3, 4]


def test_a_stream_begins_when_it_is_made() -> None:
    async def main() -> list[int]:
        async with pc.Bus() as bus:
            bus.publish(Talk(0))
            async with bus.stream(Talk) as stream:
                bus.publish(Talk(1))
                return await take(stream, 1)

    assert run(main()) == [1]


def test_a_stream_takes_a_filter_and_options() -> None:
    async def main() -> list[int]:
        async with pc.Bus(history=10) as bus:
            bus.publish_many(Talk(number) for number in range(4))
            where = lambda talk: talk.number % 2  # noqa: E731
            async with bus.stream(Talk, where=where, since="beginning") as stream:
                return await take(stream, 2)

    assert run(main()) == [1, 3]


def test_an_event_is_acknowledged_when_the_next_is_asked_for() -> None:
    async def main() -> list[int]:
        delivered = []
        async with pc.Bus() as bus, bus.stream(Talk) as stream:
            bus.publish_many([Talk(0), Talk(1)])
            for _ in range(2):
                await anext(stream)
                delivered.append(bus.health().counts.delivered)
        return delivered

    assert run(main()) == [0, 1]


def test_what_a_durable_stream_did_not_take_is_kept() -> None:
    async def main() -> list[int]:
        async with pc.Bus() as bus:
            async with bus.stream(Talk, durable="reader") as stream:
                bus.publish_many(Talk(number) for number in range(4))
                await take(stream, 2)
            async with bus.stream(Talk, durable="reader") as stream:
                return await take(stream, 2)

    assert run(main()) == [2, 3]


def test_leaving_a_stream_ends_its_subscription() -> None:
    async def main() -> str:
        async with pc.Bus() as bus:
            async with bus.stream(Talk) as stream:
                pass
            return stream.subscription.state

    assert run(main()) == "cancelled"


def test_a_stream_ends_when_its_bus_is_closed() -> None:
    async def main() -> list[int]:
        bus = pc.Bus()
        stream = bus.stream(Talk)
        bus.publish(Talk(0))
        got = await take(stream, 1)
        closing = asyncio.ensure_future(asyncio.to_thread(bus.close, 0.1))
        got += [talk.number async for talk in stream]
        await closing
        return got

    assert run(main()) == [0]


def test_a_stream_that_was_cut_off_says_so() -> None:
    async def main() -> None:
        async with pc.Bus() as bus:
            stream = bus.stream(Talk, queue=1)
            bus.publish_many(Talk(number) for number in range(5))
            while True:
                await anext(stream)

    with pytest.raises(pc.CutOffError):
        run(main())


@pytest.mark.parametrize("steps", range(12))
def test_an_event_that_comes_while_waiting_is_given_up_is_not_lost(steps: int) -> None:
    async def main() -> int:
        async with pc.Bus() as bus, bus.stream(Talk) as stream:
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            bus.publish(Talk(7))
            for _ in range(steps):
                await asyncio.sleep(0)
            waiting.cancel()
            try:
                return (await waiting).number
            except asyncio.CancelledError:
                return (await asyncio.wait_for(anext(stream), 2)).number

    assert run(main()) == 7


def test_two_streams_each_get_the_event() -> None:
    async def main() -> list[int]:
        async with pc.Bus() as bus, bus.stream(Talk) as one, bus.stream(Talk) as other:
            bus.publish(Talk(3))
            return await take(one, 1) + await take(other, 1)

    assert run(main()) == [3, 3]


def test_another_thread_may_publish_to_a_stream() -> None:
    async def main() -> list[int]:
        async with pc.Bus() as bus, bus.stream(Talk) as stream:
            await asyncio.to_thread(bus.publish_many, [Talk(1), Talk(2)])
            return await take(stream, 2)

    assert run(main()) == [1, 2]


def test_a_stream_made_before_the_loop_runs_in_it() -> None:
    bus = pc.Bus()
    stream = bus.stream(Talk)
    bus.publish_many([Talk(1), Talk(2)])
    got = run(take(stream, 2))
    stream.subscription.cancel()
    bus.close()
    assert got == [1, 2]
