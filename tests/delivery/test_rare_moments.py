"""What happens in moments that are rare: interrupts, races, endings, bounds."""

from __future__ import annotations

import asyncio
import gc
import threading
from abc import ABC
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.routing import publish_codegen
from polycast.testing import Recorder, TestBus


class Interrupt(BaseException):
    """As Ctrl-C."""


@dataclass(frozen=True)
class Tick:
    number: int = 0


@dataclass(frozen=True)
class Other:
    number: int = 0


def numbers(recorder: Recorder[Tick]) -> list[int]:
    return [tick.number for tick in recorder.events]


def test_an_event_with_expiry_published_inside_keeps_its_place() -> None:
    seen: list[int] = []

    def callback(tick: Tick) -> None:
        seen.append(tick.number)
        if tick.number == 0:
            for number in (1, 2, 3, 4):
                options: Any = {"expires": 60} if number % 2 else {}
                bus.publish(Tick(number), **options)

    with pc.Bus() as bus:
        bus.subscribe(Tick, callback, dispatch="inline")
        bus.publish(Tick(0))
    assert seen == [0, 1, 2, 3, 4]


def test_many_interrupts_inside_leave_the_bus_usable() -> None:
    seen: list[int] = []

    def callback(tick: Tick) -> None:
        seen.append(tick.number)
        if tick.number == 0:
            for number in range(1, 2_000):
                bus.publish(Tick(number))
        elif tick.number < 2_000:
            raise Interrupt

    with pc.Bus() as bus:
        bus.subscribe(Tick, callback, dispatch="inline", level="weak_set")
        with pytest.raises(Interrupt):
            bus.publish(Tick(0))
        bus.publish(Tick(5_000))
    assert seen == [*range(2_000), 5_000]


def test_an_interrupt_of_one_does_not_keep_the_event_from_the_next() -> None:
    seen: list[int] = []

    def interrupted(tick: Tick) -> None:
        raise Interrupt

    with pc.Bus() as bus:
        bus.subscribe(Tick, interrupted, dispatch="inline")
        bus.subscribe(Tick, lambda tick: seen.append(tick.number), dispatch="inline")
        with pytest.raises(Interrupt):
            bus.publish(Tick(7))
    assert seen == [7]


def test_a_class_registered_after_its_route_was_made_is_received() -> None:
    class Marked(ABC):  # noqa: B024
        pass

    class Plain:
        pass

    seen: list[object] = []
    with pc.Bus() as bus:
        bus.publish(Plain())
        bus.subscribe(Marked, seen.append, dispatch="inline")
        Marked.register(Plain)
        bus.publish(Plain())
    assert len(seen) == 1


def test_who_waits_for_room_when_the_bus_closes_is_refused() -> None:
    entered, release = threading.Event(), threading.Event()
    outcome: list[object] = []

    def hang(tick: Tick) -> None:
        entered.set()
        release.wait(20)

    def publish() -> None:
        try:
            outcome.append(bus.publish(Tick(3)))
        except pc.BusClosedError as error:
            outcome.append(error)

    bus = pc.Bus()
    bus.subscribe(Tick, hang, queue=1, overflow="block", block_for=20)
    bus.publish(Tick(1))
    assert entered.wait(10)
    bus.publish(Tick(2))
    waiting = threading.Thread(target=publish)
    waiting.start()
    bus.close(0.05)
    release.set()
    waiting.join(10)
    assert [type(each) for each in outcome] == [pc.BusClosedError]


def test_other_subscriptions_that_come_and_go_do_not_make_a_publisher_ask_again() -> None:
    asked: list[int] = []

    def where(tick: Tick) -> bool:
        asked.append(tick.number)
        bus.subscribe(Other, print).cancel()
        return True

    with pc.Bus() as bus:
        bus.subscribe(Tick, lambda tick: None, where=where)
        bus.publish(Tick(1), headers={"slow": "path"})
        bus.flush(5)
    assert asked == [1]


def test_an_attempt_that_never_began_does_not_count() -> None:
    with TestBus() as bus:
        for _ in range(5):
            sub = bus.subscribe(Tick, print, durable="desk", attempts=3)
            bus.publish(Tick())
            sub.detach()
        seen: Recorder[Tick] = Recorder()
        bus.subscribe(Tick, seen, durable="desk", attempts=3)
        bus.run_until_idle()
        assert {delivery.count for delivery in seen.deliveries} == {1}


def test_a_name_made_by_the_bus_is_not_a_durable_name() -> None:
    with TestBus() as bus:
        first = bus.subscribe(Tick, print)
        bus.subscribe(Tick, print, durable=first.name)
        assert first.state == "active"


def test_a_member_of_a_group_gets_nothing_after_its_lease() -> None:
    with TestBus() as bus:
        seen: Recorder[Tick] = Recorder()
        bus.subscribe(Tick, seen, group="crew", lease=10)
        bus.publish(Tick())
        bus.clock.advance(11)
        bus.run_until_idle()
        assert seen.events == []


def test_an_interrupt_while_history_is_filtered_leaves_no_subscription() -> None:
    def where(tick: Tick) -> bool:
        raise KeyboardInterrupt

    with TestBus(history=10) as bus:
        bus.publish(Tick())
        with pytest.raises(KeyboardInterrupt):
            bus.subscribe(Tick, print, where=where, since="beginning")
        assert bus.health().subscriptions == ()


def test_the_truth_of_a_filters_answer_is_asked_where_it_may_publish() -> None:
    class Answer:
        def __bool__(self) -> bool:
            bus.publish(Other())
            return True

    with TestBus() as bus:
        seen: Recorder[Tick] = Recorder()
        bus.subscribe(Tick, seen, where=lambda tick: Answer())
        bus.publish(Tick(1))
        bus.run_until_idle()
        assert numbers(seen) == [1]


def test_what_waits_for_another_attempt_counts_against_the_bound() -> None:
    with TestBus() as bus:
        sub = bus.subscribe(
            Tick, Recorder(fail=lambda tick: OSError()), level="strong_set", queue=10
        )
        for number in range(50):
            bus.publish(Tick(number))
            bus.run_until_idle()
        assert sub.state == "cut off"


def test_deadlines_of_what_is_acknowledged_are_forgotten() -> None:
    with TestBus() as bus:
        bus.subscribe(Tick, lambda tick: None, ack_timeout=3_600)
        for number in range(1_000):
            bus.publish(Tick(number))
        bus.run_until_idle()
        assert len(bus._services.timers._heap) < 300


def test_drop_oldest_lets_go_of_the_lowest_priority_first() -> None:
    with TestBus() as bus:
        inbox = pc.DAWeakSet(Tick, bus, pull="fifo", queue=3)
        inbox.add(Tick(1), priority=-1)
        for number in (2, 3, 4):
            inbox.add(Tick(number))
        assert [tick.number for tick in inbox] == [2, 3, 4]


def test_a_reservation_is_over_once_the_event_is_accepted() -> None:
    def callback(tick: Tick) -> None:
        if tick.number == 0:
            bus.publish(Tick(1))

    with TestBus() as bus:
        seen: Recorder[Tick] = Recorder()
        bus.subscribe(Tick, seen, queue=2, overflow="block").pause()
        bus.subscribe(Tick, callback, dispatch="inline")
        bus.publish(Tick(0))
        assert bus.health().subscriptions[0].waiting == 2


def test_replaying_to_a_group_asks_who_wants_it() -> None:
    ticks: Recorder[Tick] = Recorder(fail=lambda tick: OSError())
    others: Recorder[Other] = Recorder()
    with TestBus() as bus:
        member = bus.subscribe(Tick, ticks, group="crew", attempts=1)
        bus.subscribe(Other, others, group="crew")
        bus.publish(Tick())
        bus.run_until_idle()
        member.cancel()
        replayed = bus.dead_letters().replay()
        bus.run_until_idle()
        assert (replayed, others.events, len(bus.dead_letters())) == (0, [], 1)


def test_a_cancelled_task_does_not_end_an_async_subscription() -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        async def callback(tick: Tick) -> None:
            seen.append(tick.number)

        async with pc.Bus() as bus:
            bus.subscribe(Tick, callback, backoff=0.01)
            bus.publish(Tick(1))
            await asyncio.sleep(0)
            [task] = asyncio.all_tasks() - {asyncio.current_task()}
            task.cancel()
            bus.publish(Tick(2))
            await asyncio.to_thread(_until, lambda: len(seen) == 2)
        return seen

    assert asyncio.run(main()) == [1, 2]


def _until(claim: Any) -> None:
    waiting = threading.Event()
    for _ in range(1_000):
        if claim():
            return
        waiting.wait(0.01)


def test_a_stream_that_nobody_reads_any_more_ends() -> None:
    async def main() -> bool:
        async with pc.Bus() as bus:
            stream = bus.stream(Tick)
            bus.publish(Tick(1))
            await asyncio.sleep(0)
            del stream
            gc.collect()  # it ends in a thread: whoever drops it may hold any lock
            await asyncio.to_thread(_until, lambda: not bus.health().subscriptions)
            return not bus.health().subscriptions

    assert asyncio.run(main())


def test_many_subscriptions_with_queues_share_their_code() -> None:
    with TestBus() as bus:
        for number in range(200):
            bus.subscribe(Tick, print, where=lambda tick, number=number: tick.number == number)
            bus.publish(Tick(-1))
        assert len(publish_codegen._codes) < 150


def test_nothing_is_lost_or_done_twice_while_members_come_and_go() -> None:
    done: list[int] = []
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            bus.subscribe(Tick, lambda tick: done.append(tick.number), group="crew").cancel()

    with pc.Bus() as bus:
        bus.subscribe(Tick, lambda tick: done.append(tick.number), group="crew", queue=10**6)
        threads = [threading.Thread(target=come_and_go) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(3_000):
            bus.publish(Tick(number))
        stop.set()
        for thread in threads:
            thread.join(20)
        assert bus.flush(30)
    assert sorted(done) == list(range(3_000))


def test_a_durable_name_attached_while_another_cancels_it_is_alive() -> None:
    dead: list[str] = []

    def attach() -> None:
        for _ in range(300):
            sub = bus.subscribe(Tick, lambda tick: None, durable="desk")
            if sub.state in ("cancelled", "closed"):
                dead.append(sub.state)
            sub.cancel()

    with pc.Bus() as bus:
        threads = [threading.Thread(target=attach) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert dead == []
