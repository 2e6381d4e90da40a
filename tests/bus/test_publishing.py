"""Publishing: receipts, identities, the order of the log, all or nothing."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
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


def clashing(first: bool) -> type:
    """Two different classes under one wire name."""
    if first:

        @pc.event(name="tests.publishing.Clash")
        @dataclass
        class One:
            a: int = 0

        return One

    @pc.event(name="tests.publishing.Clash")
    @dataclass
    class Other:
        b: str = ""

    return Other


# -- receipts and identities ---------------------------------------------------------------------


def test_positions_are_the_total_order_across_types_and_topics(bus: TestBus) -> None:
    receipts = [bus.publish(Talk()), bus.publish("text", topic="/a"), bus.publish(Lecture())]
    positions = [each.position for each in receipts]
    assert positions == sorted(set(positions))


def test_an_identity_is_publisher_epoch_and_sequence() -> None:
    with TestBus(publisher="till-7") as bus:
        identity = bus.publish(Talk()).identity
    assert (identity.publisher, identity.sequence) == ("till-7", 1)


def test_the_sequence_grows_with_each_call(bus: TestBus) -> None:
    identities = [bus.publish(Talk()).identity for _ in range(5)]
    assert identities == sorted(set(identities))


def test_each_opening_of_a_named_publisher_is_a_new_epoch() -> None:
    with pc.Bus(publisher="till-7") as first:
        before = first.publish(Talk()).identity
    with pc.Bus(publisher="till-7") as second:
        after = second.publish(Talk()).identity
    assert after.epoch > before.epoch


def test_an_identity_of_an_earlier_opening_is_not_mistaken_for_one_of_this() -> None:
    with pc.Bus(publisher="till-7") as first:
        unsure = first.publish(Talk("old")).identity
    seen: Recorder[Talk] = Recorder()
    with TestBus(publisher="till-7") as second:
        second.subscribe(Talk, seen)
        second.publish(Talk("new"))
        second.publish(Talk("old"), identity=unsure)
        second.run_until_idle()
    assert [talk.title for talk in seen.events] == ["new", "old"]


def test_two_buses_without_a_name_are_different_publishers(bus: TestBus) -> None:
    with pc.Bus() as one, pc.Bus() as other:
        assert one.publish(Talk()).identity.publisher != other.publish(Talk()).identity.publisher


def test_an_event_in_memory_is_not_durable(bus: TestBus) -> None:
    assert bus.publish(Talk()).durable is False


def test_the_delivery_tells_the_same_place_as_the_receipt(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    receipt = bus.publish(Talk())
    bus.run_until_idle()
    delivery = seen.deliveries[0]
    assert (delivery.position, delivery.identity) == (receipt.position, receipt.identity)


def test_subscribers_get_the_very_object(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    talk = Talk("mine")
    bus.publish(talk)
    bus.run_until_idle()
    assert seen.events[0] is talk


def test_buses_in_memory_are_separate(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    with TestBus() as other:
        other.subscribe(Talk, seen)
        bus.publish(Talk())
        other.run_until_idle()
    assert seen.events == []


def test_publishing_an_equal_object_twice_is_two_events(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    bus.publish(Talk("same"))
    bus.publish(Talk("same"))
    bus.run_until_idle()
    assert len(seen.events) == 2


# -- retrying with an identity -------------------------------------------------------------------


def test_a_retry_with_the_same_identity_is_delivered_once(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    receipt = bus.publish(Talk())
    bus.publish(Talk(), identity=receipt.identity)
    bus.run_until_idle()
    assert len(seen.events) == 1


def test_a_retry_gets_the_first_receipt(bus: TestBus) -> None:
    identity = pc.Identity("elsewhere", 3, 9)
    first = bus.publish(Talk(), identity=identity)
    again = bus.publish(Talk(), identity=identity)
    assert (again.position, again.identity) == (first.position, identity)


def test_an_event_keeps_the_identity_it_was_given(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    bus.publish(Talk(), identity=pc.Identity("elsewhere", 3, 9))
    bus.run_until_idle()
    assert seen.deliveries[0].identity == pc.Identity("elsewhere", 3, 9)


def test_an_identity_stays_unique_when_its_number_is_reached_later(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    own = bus.publish(Talk()).identity
    bus.publish(Talk(), identity=pc.Identity(own.publisher, own.epoch, own.sequence + 3))
    for _ in range(5):
        bus.publish(Talk())
    bus.run_until_idle()
    counted = Counter(str(each.identity) for each in seen.deliveries)
    assert [name for name, times in counted.items() if times > 1] == []


def test_two_threads_that_retry_one_identity_store_it_once(live: pc.Bus) -> None:
    barrier, seen = threading.Barrier(2), []

    def both_are_there(talk: Talk) -> bool:
        try:
            barrier.wait(0.3)  # passes at once if both are let in, which they must not be
        except threading.BrokenBarrierError:
            pass
        return True

    live.subscribe(Talk, seen.append, where=both_are_there)
    identity = pc.Identity("elsewhere", 1, 1)
    threads = [
        threading.Thread(target=live.publish, args=(Talk(),), kwargs={"identity": identity})
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    live.flush(10)
    assert len(seen) == 1


# -- several at once -------------------------------------------------------------------------------


def test_publish_many_is_one_run_of_positions(bus: TestBus) -> None:
    positions = [each.position for each in bus.publish_many([Talk(), Lecture(), Talk()])]
    assert positions == list(range(positions[0], positions[0] + 3))


def test_publish_many_is_one_run_also_between_threads(live: pc.Bus) -> None:
    runs: list[list[pc.Receipt]] = []

    def publish() -> None:
        for _ in range(50):
            runs.append(live.publish_many([Talk()] * 4))
            live.publish(Talk())

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    gaps = {b.position - a.position for run in runs for a, b in zip(run, run[1:], strict=False)}
    assert gaps == {1}


def test_publish_many_delivers_in_the_order_given(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    bus.publish_many(Talk(number=number) for number in range(10))
    bus.run_until_idle()
    assert [talk.number for talk in seen.events] == list(range(10))


def test_publish_many_of_nothing_publishes_nothing(bus: TestBus) -> None:
    assert bus.publish_many([]) == []


def test_publish_many_whose_source_fails_publishes_nothing(bus: TestBus) -> None:
    def source() -> object:
        yield Talk()
        raise OSError("gone")

    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    with pytest.raises(OSError, match="gone"):
        bus.publish_many(source())  # type: ignore[arg-type]
    bus.run_until_idle()
    assert seen.events == []


def test_publish_many_with_one_refused_event_publishes_nothing(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe(object, seen)
    bus.publish(clashing(first=True)())
    bus.run_until_idle()
    with pytest.raises(pc.NameClash):
        bus.publish_many([Talk(), clashing(first=False)()])
    bus.run_until_idle()
    assert not any(isinstance(event, Talk) for event in seen.events)


def test_publish_many_that_meets_a_full_queue_publishes_nothing(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    full = bus.subscribe(Lecture, print, queue=1, overflow="block", block_for=0.01)
    full.pause()
    with pytest.raises(pc.QueueFull):
        bus.publish_many([Talk(), Lecture(), Lecture()])
    bus.run_until_idle()
    assert seen.events == []


def test_publish_many_takes_no_identity(bus: TestBus) -> None:
    with pytest.raises(pc.BadOption, match="one event"):
        bus.publish_many([Talk(), Talk()], identity=pc.Identity("p", 1, 1))


def test_publish_many_gives_all_of_them_the_options(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe("/room", seen)
    bus.publish_many([Talk(), Talk()], topic="/room", headers={"from": "me"})
    bus.run_until_idle()
    assert [dict(each.headers) for each in seen.deliveries] == [{"from": "me"}] * 2


# -- asyncio ---------------------------------------------------------------------------------------


def test_publish_async_takes_its_place_at_the_call(bus: TestBus) -> None:
    async def main() -> tuple[pc.Receipt, pc.Receipt]:
        first, second = bus.publish_async(Talk()), bus.publish_async(Talk())
        later = await second
        return await first, later

    first, second = asyncio.run(main())
    assert first.position < second.position


def test_publish_async_that_has_to_wait_for_room_keeps_its_place(live: pc.Bus) -> None:
    begun, go_on, order = threading.Event(), threading.Event(), []

    def slow(talk: Talk) -> None:
        begun.set()
        go_on.wait(10)
        order.append(talk.number)

    live.subscribe(Talk, slow, queue=1, overflow="block", block_for=5)
    live.publish(Talk(number=0))
    assert begun.wait(10)
    live.publish(Talk(number=1))  # fills the queue

    async def main() -> None:
        second = asyncio.ensure_future(live.publish_async(Talk(number=2)))
        await asyncio.sleep(0)
        third = asyncio.ensure_future(live.publish_async(Talk(number=3)))
        go_on.set()
        await asyncio.gather(second, third)

    asyncio.run(main())
    live.flush(10)
    assert order == [0, 1, 2, 3]


def test_publish_async_called_after_close_is_refused() -> None:
    bus = pc.Bus()
    bus.close()

    async def main() -> None:
        await bus.publish_async(Talk())

    with pytest.raises(pc.BusClosed):
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
