"""What each of the eight collections promises about loss, duplicates and order."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus

EIGHT: list[type[Any]] = [
    pc.DAWeakBag,
    pc.DAWeakSet,
    pc.DAStrongBag,
    pc.DAStrongSet,
    pc.DAArray,
    pc.DAList,
    pc.DASortedBag,
    pc.DASortedSet,
]
WEAK = [pc.DAWeakBag, pc.DAWeakSet]
STRONG = [kind for kind in EIGHT if kind not in WEAK]
SETS = [pc.DAWeakSet, pc.DAStrongSet, pc.DAList, pc.DASortedSet]
FIFO = [pc.DAArray, pc.DAList]
TOTAL = [pc.DASortedBag, pc.DASortedSet]
ORDERED = FIFO + TOTAL
UNORDERED = [pc.DAStrongBag, pc.DAStrongSet]

each = pytest.mark.parametrize("kind", EIGHT, ids=lambda kind: kind.__name__)


def only(kinds: list[Any]) -> Any:
    """The tests of some of them."""
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)


@dataclass
class Talk:
    number: int = 0


@dataclass
class Lecture(Talk):
    pass


def numbers(seen: Recorder[Any]) -> list[int]:
    """What was handled, in order."""
    return [event.number for event in seen.events]


# -- loss ------------------------------------------------------------------------------------------


@only(WEAK)
def test_a_weak_collection_does_not_try_again(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder(fail=lambda talk: OSError("no"))
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.add(Talk())
    bus.run_until_idle()
    bus.advance(100)
    assert (len(seen.deliveries), len(bus.dead_letters())) == (1, 0)


@only(STRONG)
def test_a_strong_collection_tries_again(bus: TestBus, kind: Any) -> None:
    failures = iter([OSError("once")])
    seen: Recorder[Talk] = Recorder(fail=lambda talk: next(failures, None))
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.add(Talk(3))
    bus.run_until_idle()
    bus.advance(100)
    assert numbers(seen) == [3]


@only(STRONG)
def test_a_strong_collection_loses_nothing_without_a_dead_letter(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder(fail=lambda t: OSError() if t.number % 3 == 0 else None)
    talks = kind(Talk, bus)
    talks.contains(seen, attempts=2)
    for number in range(9):
        talks.add(Talk(number))
    for _ in range(20):
        bus.advance(10)
    dead = sorted(letter.event.number for letter in bus.dead_letters())
    assert (sorted(numbers(seen) + dead), dead) == (list(range(9)), [0, 3, 6])


@only(STRONG)
def test_a_strong_collection_loses_nothing_under_many_publishers(kind: Any) -> None:
    got: list[int] = []
    with pc.Bus() as bus:
        talks = kind(Talk, bus)
        talks.contains(lambda talk: got.append(talk.number))

        def publish(begin: int) -> None:
            for number in range(begin, begin + 100):
                talks.add(Talk(number))

        threads = [threading.Thread(target=publish, args=(n * 100,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        bus.flush(10)
    assert sorted(got) == list(range(400))


# -- duplicates ------------------------------------------------------------------------------------


@each
def test_one_event_is_handled_once_if_nothing_fails(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains_all(seen)
    for number in range(5):
        talks.add(Lecture(number))
    bus.run_until_idle()
    assert sorted(numbers(seen)) == list(range(5))


@only(SETS)
def test_a_set_completes_one_invocation_for_each_identity(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen)
    receipt = talks.add(Talk(1))
    talks.add(Talk(1), identity=receipt.identity)
    bus.run_until_idle()
    assert numbers(seen) == [1]


@only(SETS)
def test_a_set_takes_an_equal_object_twice(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.add(Talk(1))
    talks.add(Talk(1))
    bus.run_until_idle()
    assert numbers(seen) == [1, 1]


# -- order -----------------------------------------------------------------------------------------


@only(ORDERED)
def test_an_ordered_collection_holds_back_behind_a_failure(bus: TestBus, kind: Any) -> None:
    failures = iter([OSError("once")])
    seen: Recorder[Talk] = Recorder(fail=lambda talk: next(failures, None))
    talks = kind(Talk, bus)
    talks.contains(seen)
    for number in range(4):
        talks.add(Talk(number), priority=number)
    bus.run_until_idle()
    bus.advance(10)
    assert numbers(seen) == [0, 1, 2, 3]


@only(UNORDERED)
def test_an_unordered_collection_goes_on_behind_a_failure(bus: TestBus, kind: Any) -> None:
    failures = iter([OSError("once")])
    seen: Recorder[Talk] = Recorder(fail=lambda talk: next(failures, None))
    talks = kind(Talk, bus)
    talks.contains(seen)
    for number in range(4):
        talks.add(Talk(number))
    bus.run_until_idle()
    bus.advance(10)
    assert numbers(seen) == [1, 2, 3, 0]


@only(TOTAL)
def test_all_subscribers_of_a_sorted_collection_see_one_order(kind: Any) -> None:
    orders: list[list[int]] = [[], [], []]
    with pc.Bus() as bus:
        talks = kind(Talk, bus)
        for order in orders:
            talks.contains(lambda talk, delivery, mine=order: mine.append(delivery.position))

        def publish() -> None:
            for _ in range(100):
                talks.add(Talk())

        threads = [threading.Thread(target=publish) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        bus.flush(10)
    assert orders[0] == orders[1] == orders[2] == sorted(orders[0])


@only(FIFO)
def test_remove_of_a_fifo_collection_has_one_event_of_a_publisher_out_at_a_time(
    bus: TestBus, kind: Any
) -> None:
    workers: list[Recorder[Talk]] = [Recorder(), Recorder()]
    talks = kind(Talk, bus)
    for worker in workers:
        talks.remove(worker, ack="manual")
    talks.add(Talk(0))
    talks.add(Talk(1))
    bus.run_until_idle()
    assert sum(len(worker.deliveries) for worker in workers) == 1


@only(TOTAL)
def test_remove_of_a_sorted_collection_has_one_active_member(bus: TestBus, kind: Any) -> None:
    workers: list[Recorder[Talk]] = [Recorder(), Recorder()]
    talks = kind(Talk, bus)
    for worker in workers:
        talks.remove(worker)
    for number in range(4):
        talks.add(Talk(number))
        bus.run_until_idle()
    assert sorted(map(numbers, workers)) == [[], [0, 1, 2, 3]]


@only(STRONG)
def test_a_member_that_fails_passes_the_event_to_the_next(bus: TestBus, kind: Any) -> None:
    bad: Recorder[Talk] = Recorder(fail=lambda talk: OSError("no"))
    good: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.remove(bad)
    talks.remove(good)
    talks.add(Talk(1))
    bus.run_until_idle()
    assert numbers(good) == [1]
