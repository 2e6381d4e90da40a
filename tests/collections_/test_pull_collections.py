"""Pull collections: a buffer that fills by itself."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import TestBus

EIGHT: list[Any] = [
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


def filled(bus: pc.Bus, pull: Any, kind: Any = pc.DAStrongSet, **options: Any) -> Any:
    """A pull collection with three events."""
    inbox = kind(Talk, bus, pull=pull, **options)
    for number in range(3):
        bus.publish(Talk(number))
    return inbox


def drained(inbox: Any) -> list[int]:
    """All that get() gives."""
    got = []
    while (talk := inbox.get()) is not None:
        got.append(talk.number)
    return got


# -- getting ---------------------------------------------------------------------------------------


@each
def test_fifo_gives_the_oldest_first(bus: TestBus, kind: Any) -> None:
    assert drained(filled(bus, "fifo", kind)) == [0, 1, 2]


@each
def test_lifo_gives_the_newest_first(bus: TestBus, kind: Any) -> None:
    assert drained(filled(bus, "lifo", kind)) == [2, 1, 0]


@each
def test_get_gives_none_when_there_is_nothing(bus: TestBus, kind: Any) -> None:
    assert kind(Talk, bus, pull="fifo").get() is None


def test_the_buffer_is_full_before_publish_returns() -> None:
    with pc.Bus() as bus:
        inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
        inbox.add(Talk(1))
        assert inbox.get() == Talk(1)


def test_the_buffer_begins_when_the_collection_is_made(bus: TestBus) -> None:
    bus.publish(Talk(0))
    inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
    bus.publish(Talk(1))
    assert drained(inbox) == [1]


def test_get_with_a_timeout_waits_for_an_event() -> None:
    with pc.Bus() as bus:
        inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
        timer = threading.Timer(0.02, inbox.add, [Talk(5)])
        timer.start()
        got = inbox.get(timeout=10)
        timer.join(10)
    assert got == Talk(5)


def test_get_with_a_timeout_gives_none_when_nothing_came() -> None:
    with pc.Bus() as bus:
        assert pc.DAStrongSet(Talk, bus, pull="fifo").get(timeout=0.01) is None


def test_events_are_taken_once_by_many_threads() -> None:
    with pc.Bus() as bus:
        inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
        got: list[int] = []

        def take() -> None:
            while (talk := inbox.get(timeout=0.2)) is not None:
                got.append(talk.number)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(300):
            inbox.add(Talk(number))
        for thread in threads:
            thread.join(10)
    assert sorted(got) == list(range(300))


@pytest.mark.parametrize("timeout", [-1, True, "1", object()])
def test_a_timeout_that_is_none_is_refused(bus: TestBus, timeout: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="seconds"):
        pc.DAStrongSet(Talk, bus, pull="fifo").get(timeout=timeout)


# -- looking ---------------------------------------------------------------------------------------


def test_len_is_what_waits(bus: TestBus) -> None:
    inbox = filled(bus, "fifo")
    before = len(inbox)
    inbox.get()
    assert (before, len(inbox)) == (3, 2)


def test_iteration_looks_and_does_not_take(bus: TestBus) -> None:
    inbox = filled(bus, "fifo")
    assert [talk.number for talk in inbox] == [0, 1, 2]
    assert len(inbox) == 3


def test_iteration_over_a_stack_is_newest_first(bus: TestBus) -> None:
    assert [talk.number for talk in filled(bus, "lifo")] == [2, 1, 0]


def test_in_compares_with_equality(bus: TestBus) -> None:
    inbox = filled(bus, "fifo")
    assert Talk(1) in inbox
    assert Talk(9) not in inbox
    assert "text" not in inbox


@pytest.mark.parametrize("pull", [None, "fifo", "lifo"])
def test_a_collection_is_always_true(bus: TestBus, pull: Any) -> None:
    assert bool(pc.DAStrongSet(Talk, bus, pull=pull)) is True


def test_clear_purges_the_buffer(bus: TestBus) -> None:
    inbox = filled(bus, "fifo")
    inbox.clear()
    inbox.add(Talk(9))
    assert drained(inbox) == [9]


def test_an_expired_event_cannot_be_got(bus: TestBus) -> None:
    inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
    inbox.add(Talk(1), expires=10)
    inbox.add(Talk(2))
    bus.advance(10)
    assert drained(inbox) == [2]


PULLING: dict[str, Any] = {
    "get": lambda talks: talks.get(),
    "len": len,
    "iteration": list,
    "in": lambda talks: Talk() in talks,
    "clear": lambda talks: talks.clear(),
    "ack": lambda talks: talks.ack(),
    "close": lambda talks: talks.close(),
}


@pytest.mark.parametrize("use", PULLING.values(), ids=PULLING)
def test_without_pull_it_is_an_error_that_says_so(bus: TestBus, use: Any) -> None:
    with pytest.raises(pc.NotAPullCollectionError, match="pull='fifo'"):
        use(pc.DAStrongSet(Talk, bus))


# -- what comes in ---------------------------------------------------------------------------------


def test_a_buffer_takes_a_filter(bus: TestBus) -> None:
    assert drained(filled(bus, "fifo", where=lambda talk: talk.number > 0)) == [1, 2]


def test_a_buffer_takes_subtypes(bus: TestBus) -> None:
    inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
    bus.publish_many([Talk(1), Lecture(2)])
    assert drained(inbox) == [1, 2]


def test_a_buffer_can_leave_subtypes_out(bus: TestBus) -> None:
    inbox = pc.DAStrongSet(Talk, bus, pull="fifo", subtypes=False)
    bus.publish_many([Talk(1), Lecture(2)])
    assert drained(inbox) == [1]


def test_a_buffer_of_a_topic_takes_any_value(bus: TestBus) -> None:
    inbox = pc.DAStrongSet("/Chat", bus, pull="fifo")
    bus.publish("text", topic="/Chat")
    bus.publish(7, topic="/Chat/Insomnia")
    assert list(inbox) == ["text", 7]


def test_two_buffers_each_get_the_event(bus: TestBus) -> None:
    one, other = (pc.DAStrongSet(Talk, bus, pull="fifo") for _ in range(2))
    bus.publish(Talk(1))
    assert (drained(one), drained(other)) == ([1], [1])


@pytest.mark.parametrize("kind", [pc.DAWeakBag, pc.DAWeakSet])
def test_a_weak_buffer_drops_the_oldest(bus: TestBus, kind: Any) -> None:
    assert drained(filled(bus, "fifo", kind, queue=2)) == [1, 2]


@pytest.mark.parametrize("kind", EIGHT[2:], ids=lambda kind: kind.__name__)
def test_a_strong_buffer_that_is_full_is_cut_off_and_loses_nothing_silently(
    bus: TestBus, kind: Any
) -> None:
    inbox = filled(bus, "fifo", kind, queue=2)
    with pytest.raises(pc.CutOffError):
        inbox.get()
    assert [letter.event.number for letter in bus.dead_letters()] == [0, 1, 2]


def test_a_closed_buffer_collects_no_more(bus: TestBus) -> None:
    inbox = pc.DAStrongSet(Talk, bus, pull="fifo")
    inbox.close()
    bus.publish(Talk())
    with pytest.raises(pc.SubscriptionCancelledError):
        inbox.get()


# -- durable ---------------------------------------------------------------------------------------


def durable(bus: TestBus, **options: Any) -> Any:
    """The durable inbox, attached once more."""
    return pc.DAStrongSet(Talk, bus, pull="fifo", durable="inbox", **options)


@pytest.mark.parametrize("how", ["get", "ack", "close"])
def test_a_durable_delivery_is_acknowledged_by_the_next_get_ack_or_close(
    bus: TestBus, how: str
) -> None:
    inbox = durable(bus)
    bus.publish(Talk(0))
    inbox.get()
    before = bus.health().counts.delivered
    getattr(inbox, how)()
    assert (before, bus.health().counts.delivered) == (0, 1)


def test_what_a_durable_inbox_did_not_take_is_there_the_next_time(bus: TestBus) -> None:
    inbox = durable(bus)
    bus.publish_many([Talk(0), Talk(1)])
    inbox.get()
    inbox.close()
    bus.publish(Talk(2))
    assert drained(durable(bus)) == [1, 2]


def test_what_was_not_acknowledged_comes_to_who_attaches_next(bus: TestBus) -> None:
    inbox = durable(bus)
    bus.publish_many([Talk(0), Talk(1)])
    inbox.get()
    assert drained(durable(bus)) == [0, 1]


def test_a_second_attachment_ends_the_first(bus: TestBus) -> None:
    first = durable(bus)
    durable(bus)
    bus.publish(Talk(0))
    with pytest.raises(pc.TakenOverError):
        first.get()


def test_a_durable_inbox_with_another_definition_is_refused(bus: TestBus) -> None:
    durable(bus)
    with pytest.raises(pc.DurableChangedError):
        durable(bus, subtypes=False)


def test_a_durable_inbox_keeps_more_than_its_queue(bus: TestBus) -> None:
    inbox = durable(bus, queue=2)
    bus.publish_many(Talk(number) for number in range(5))
    assert drained(inbox) == [0, 1, 2, 3, 4]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pull", ["queue", True, 5])
def test_pull_is_fifo_or_lifo(bus: TestBus, pull: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="'fifo', 'lifo'"):
        pc.DAStrongSet(Talk, bus, pull=pull)


@pytest.mark.parametrize("option", [{"where": bool}, {"durable": "x"}, {"subtypes": False}])
def test_options_of_the_buffer_need_a_buffer(bus: TestBus, option: dict[str, Any]) -> None:
    with pytest.raises(pc.BadOptionError, match="pull='fifo'"):
        pc.DAStrongSet(Talk, bus, **option)


@pytest.mark.parametrize("what", [5, "Chat", list[int], None])
def test_a_collection_is_of_a_type_or_topic(bus: TestBus, what: Any) -> None:
    with pytest.raises(pc.NotATypeError, match="Accepted"):
        pc.DAStrongSet(what, bus)


@pytest.mark.parametrize("bus", ["memory:", None, 5])
def test_a_collection_is_on_a_bus(bus: Any) -> None:
    with pytest.raises(pc.PolycastError, match="bus"):
        pc.DAStrongSet(Talk, bus)


def test_nothing_can_be_added_to_a_wildcard(bus: TestBus) -> None:
    with pytest.raises(pc.BadTopicError, match="wildcard"):
        pc.DAStrongSet("/Chat/*", bus).add("text")
