"""What each of the eight collections promises, by its own name."""

from __future__ import annotations

import collections.abc
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

each = pytest.mark.parametrize("kind", EIGHT, ids=lambda kind: kind.__name__)


@dataclass
class Talk:
    number: int = 0


@dataclass
class Lecture(Talk):
    pass


def numbers(seen: Recorder[Any]) -> list[int]:
    """What was handled, in order."""
    return [event.number for event in seen.events]


# -- adding and asking -----------------------------------------------------------------------------


@each
def test_adding_publishes(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    receipt = kind(Talk, bus).add(Talk(7))
    bus.run_until_idle()
    assert (receipt.position, seen.events) == (1, [Talk(7)])


@each
def test_what_is_published_is_in_the_collection(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    kind(Talk, bus).contains(seen)
    bus.publish(Talk(7))
    bus.run_until_idle()
    assert seen.events == [Talk(7)]


@each
def test_adding_takes_the_options_of_publish(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.add(Talk(), headers={"a": "b"})
    bus.run_until_idle()
    assert dict(seen.deliveries[0].headers) == {"a": "b"}


@each
def test_contains_leaves_subtypes_out_and_contains_all_takes_them(bus: TestBus, kind: Any) -> None:
    exactly: Recorder[Talk] = Recorder()
    below: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(exactly)
    talks.contains_all(below)
    talks.add(Talk(1))
    talks.add(Lecture(2))
    bus.run_until_idle()
    assert (numbers(exactly), numbers(below)) == ([1], [1, 2])


@each
def test_contains_leaves_subtopics_out_and_contains_all_takes_them(bus: TestBus, kind: Any) -> None:
    exactly: Recorder[Any] = Recorder()
    below: Recorder[Any] = Recorder()
    chat = kind("/Chat", bus)
    chat.contains(exactly)
    chat.contains_all(below)
    chat.add("a")
    kind("/Chat/Insomnia", bus).add("b")
    kind("/Chatter", bus).add("c")
    bus.run_until_idle()
    assert (exactly.events, below.events) == (["a"], ["a", "b"])


@each
def test_a_filter_is_the_second_argument(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen, lambda talk: talk.number > 1)
    for number in range(4):
        talks.add(Talk(number))
    bus.run_until_idle()
    assert numbers(seen) == [2, 3]


@each
def test_remove_is_one_of_n(bus: TestBus, kind: Any) -> None:
    workers: list[Recorder[Talk]] = [Recorder() for _ in range(3)]
    talks = kind(Talk, bus)
    for worker in workers:
        talks.remove(worker)
    for number in range(6):
        talks.add(Talk(number))
        bus.run_until_idle()
    assert sorted(n for worker in workers for n in numbers(worker)) == list(range(6))


@each
def test_all_removes_of_one_type_form_one_group(bus: TestBus, kind: Any) -> None:
    one: Recorder[Talk] = Recorder()
    other: Recorder[Talk] = Recorder()
    third: Recorder[Talk] = Recorder()
    kind(Talk, bus).remove(one)
    kind(Talk, bus).remove_all(other)
    pc.DAStrongSet(Talk, bus).remove(third)
    bus.publish_many(Talk(number) for number in range(6))
    bus.run_until_idle()
    assert sorted(numbers(one) + numbers(other) + numbers(third)) == list(range(6))


@each
def test_removes_of_one_topic_form_one_group(bus: TestBus, kind: Any) -> None:
    one: Recorder[Any] = Recorder()
    other: Recorder[Any] = Recorder()
    kind("/Chat", bus).remove(one)
    kind("/Chat", bus).remove_all(other)
    for number in range(4):
        bus.publish(number, topic="/Chat")
    bus.run_until_idle()
    assert sorted(one.events + other.events) == [0, 1, 2, 3]


@each
def test_removes_of_different_types_are_different_groups(bus: TestBus, kind: Any) -> None:
    talks: Recorder[Talk] = Recorder()
    lectures: Recorder[Talk] = Recorder()
    kind(Talk, bus).remove_all(talks)
    kind(Lecture, bus).remove_all(lectures)
    bus.publish(Lecture(1))
    bus.run_until_idle()
    assert (numbers(talks), numbers(lectures)) == ([1], [1])


@each
def test_remove_does_not_take_from_contains(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.remove(Recorder())
    talks.add(Talk(1))
    bus.run_until_idle()
    assert numbers(seen) == [1]


@each
def test_clear_unsubscribes_a_callback(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    other: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.contains_all(seen)
    talks.contains(other)
    talks.clear(seen)
    talks.add(Talk(1))
    bus.run_until_idle()
    assert (numbers(seen), numbers(other)) == ([], [1])


@each
def test_clear_of_a_callback_nobody_subscribed_does_nothing(bus: TestBus, kind: Any) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = kind(Talk, bus)
    talks.contains(seen)
    talks.clear(print)
    talks.add(Talk(1))
    bus.run_until_idle()
    assert numbers(seen) == [1]


@each
def test_options_of_subscribe_are_taken(bus: TestBus, kind: Any) -> None:
    sub = kind(Talk, bus).contains_all(print, durable="billing", lease=60, ack_timeout=30)
    bus.advance(60)
    assert (sub.name, sub.state) == ("billing", "expired")


@each
def test_level_and_exact_are_the_collections_own(bus: TestBus, kind: Any) -> None:
    for option in ({"level": "weak_bag"}, {"exact": True}):
        with pytest.raises(pc.BadOptionError, match="decide"):
            kind(Talk, bus).contains(print, **option)


@each
def test_it_is_an_abstract_collection(bus: TestBus, kind: Any) -> None:
    assert isinstance(kind(Talk, bus), collections.abc.Collection)


@each
def test_adding_what_does_not_conform_is_refused(bus: TestBus, kind: Any) -> None:
    with pytest.raises(pc.NotATypeError, match="Talk"):
        kind(Talk, bus).add("text")
