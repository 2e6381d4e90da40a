"""Publishing from asyncio, and the order that threads see."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Talk:
    title: str = ""
    number: int = 0


class Lecture(Talk):
    pass


# -- asyncio ---------------------------------------------------------------------------------------


def test_publish_async_takes_its_place_at_the_call(bus: TestBus) -> None:
    async def main() -> tuple[pc.Receipt, pc.Receipt]:
        first, second = bus.publish_async(Talk()), bus.publish_async(Talk())
        later = await second
        return await first, later

    first, second = asyncio.run(main())
    assert first.position < second.position


def test_publish_async_that_has_to_wait_for_room_keeps_its_place(live: pc.Bus) -> None:
    got: list[int] = []
    sub = live.subscribe(
        Talk, lambda talk: got.append(talk.number), queue=1, overflow="block", block_for=5
    )
    sub.pause()
    live.publish(Talk(number=0))  # fills the queue

    async def main() -> None:
        first = live.publish_async(Talk(number=1))
        sub.resume()
        await asyncio.to_thread(live.flush, 10)
        second = live.publish_async(Talk(number=2))
        await asyncio.gather(first, second)

    asyncio.run(main())
    live.flush(10)
    assert got == [0, 1, 2]


def test_publish_async_called_after_close_is_refused() -> None:
    bus = pc.Bus()
    bus.close()

    async def main() -> None:
        await bus.publish_async(Talk())

    with pytest.raises(pc.BusClosedError):
        asyncio.run(main())


def test_publish_async_does_not_block_the_loop_while_a_queue_is_full(live: pc.Bus) -> None:
    sub = live.subscribe(Talk, lambda talk: None, queue=1, overflow="block", block_for=5)
    sub.pause()
    live.publish(Talk())

    async def main() -> pc.Receipt:
        waiting = asyncio.ensure_future(live.publish_async(Talk()))
        await asyncio.sleep(0)  # reached only if the loop goes on
        sub.resume()
        return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(main()).position


# -- order across threads ------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_each_thread_keeps_its_own_order(live: pc.Bus, dispatch: str) -> None:
    seen: list[tuple[int, int]] = []
    live.subscribe(Talk, lambda talk: seen.append((talk.title, talk.number)), dispatch=dispatch)

    def publish(name: str) -> None:
        for number in range(200):
            live.publish(Talk(name, number))

    threads = [threading.Thread(target=publish, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    live.flush(10)
    by_thread = {name: [n for t, n in seen if t == name] for name in "0123"}
    assert by_thread == {name: list(range(200)) for name in "0123"}


def test_all_subscribers_see_one_total_order(live: pc.Bus) -> None:
    seen: dict[str, list[int]] = {"pool": [], "other": [], "inline": [], "subtype": []}
    live.subscribe(Talk, lambda t, d: seen["pool"].append(d.position))
    live.subscribe(object, lambda t, d: seen["other"].append(d.position))
    live.subscribe(Talk, lambda t, d: seen["inline"].append(d.position), dispatch="inline")
    live.subscribe(Lecture, lambda t, d: seen["subtype"].append(d.position))

    def publish() -> None:
        for number in range(100):
            live.publish(Talk() if number % 2 else Lecture())

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    live.flush(10)
    assert all(each == sorted(set(each)) for each in seen.values())
    assert seen["pool"] == seen["other"] == seen["inline"]


def test_append_times_never_decrease(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    for _ in range(3):
        bus.publish(Talk())
        bus.clock.advance(1)
    bus.run_until_idle()
    times = [each.time for each in seen.deliveries]
    assert times == sorted(times)
    assert times[0].tzinfo is not None
