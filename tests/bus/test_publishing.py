"""Publishing: receipts, identities, the order of the log, all or nothing."""

from __future__ import annotations

import itertools
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


def test_an_identity_that_this_opening_has_yet_to_give_is_refused(bus: TestBus) -> None:
    own = bus.publish(Talk()).identity
    with pytest.raises(pc.BadOptionError, match="identity"):
        bus.publish(Talk(), identity=pc.Identity(own.publisher, own.epoch, own.sequence + 3))


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
    gaps = {b.position - a.position for run in runs for a, b in itertools.pairwise(run)}
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
    with pytest.raises(pc.NameClashError):
        bus.publish_many([Talk(), clashing(first=False)()])
    bus.run_until_idle()
    assert not any(isinstance(event, Talk) for event in seen.events)


def test_publish_many_that_meets_a_full_queue_publishes_nothing(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    full = bus.subscribe(Lecture, print, queue=1, overflow="block", block_for=0.01)
    full.pause()
    with pytest.raises(pc.QueueFullError):
        bus.publish_many([Talk(), Lecture(), Lecture()])
    bus.run_until_idle()
    assert seen.events == []


def test_publish_many_takes_no_identity(bus: TestBus) -> None:
    with pytest.raises(pc.BadOptionError, match="one event"):
        bus.publish_many([Talk(), Talk()], identity=pc.Identity("p", 1, 1))


def test_publish_many_gives_all_of_them_the_options(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe("/room", seen)
    bus.publish_many([Talk(), Talk()], topic="/room", headers={"from": "me"})
    bus.run_until_idle()
    assert [dict(each.headers) for each in seen.deliveries] == [{"from": "me"}] * 2
