"""Closing a bus: it drains, says what it could not deliver, and refuses from then on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus

Wait = Callable[[Callable[[], object]], None]
WAIT = 10.0


@dataclass
class Note:
    number: int = 0


def test_close_delivers_what_is_there() -> None:
    bus, got = pc.Bus(), []
    bus.subscribe(Note, lambda note: got.append(note.number))
    for number in range(200):
        bus.publish(Note(number))
    bus.close(WAIT)
    assert got == list(range(200))


def test_close_delivers_to_async_callbacks_too() -> None:
    bus, got = pc.Bus(), []

    async def callback(note: Note) -> None:
        await asyncio.sleep(0)
        got.append(note.number)

    bus.subscribe(Note, callback)
    bus.publish_many(Note(number) for number in range(50))
    bus.close(WAIT)
    assert got == list(range(50))


def test_leaving_the_with_block_closes() -> None:
    with pc.Bus() as bus:
        pass
    with pytest.raises(pc.BusClosedError):
        bus.publish(Note())


def test_leaving_the_async_with_block_closes() -> None:
    async def main() -> pc.Bus:
        async with pc.Bus() as bus:
            bus.subscribe(Note, print)
        return bus

    assert asyncio.run(main()).health().state == "closed"


def test_close_has_nothing_to_report_if_all_was_delivered() -> None:
    bus = pc.Bus()
    bus.subscribe(Note, lambda note: None)
    bus.publish(Note())
    assert bus.close(WAIT) == ()


def test_close_tries_again_what_failed() -> None:
    bus, attempts = pc.Bus(), []

    def callback(note: Note) -> None:
        attempts.append(note)
        if len(attempts) == 1:
            raise OSError("not yet")

    bus.subscribe(Note, callback, backoff=0.01)
    bus.publish(Note())
    bus.close(WAIT)
    assert len(attempts) == 2


# -- what could not be delivered -------------------------------------------------------------------


def test_close_names_what_a_hanging_callback_left() -> None:
    bus, gate = pc.Bus(), threading.Event()
    sub = bus.subscribe(Note, lambda note: gate.wait(WAIT))
    bus.publish_many([Note()] * 3)
    (left,) = bus.close(0.05)
    gate.set()
    assert (left.subscription, left.events) == (sub.name, 3)


def test_close_names_what_a_hanging_async_callback_left() -> None:
    bus, begun = pc.Bus(), threading.Event()

    async def hang(note: Note) -> None:
        begun.set()
        await asyncio.Event().wait()

    bus.subscribe(Note, hang)
    bus.publish(Note())
    assert begun.wait(WAIT)
    (left,) = bus.close(0.05)
    assert left.events == 1


def test_close_names_what_a_paused_subscription_left(bus: TestBus) -> None:
    bus.subscribe(Note, print).pause()
    bus.publish_many([Note()] * 2)
    (left,) = bus.close()
    assert (left.events, "paused" in left.why) == (2, True)


def test_close_names_what_a_detached_durable_left(bus: TestBus) -> None:
    bus.subscribe(Note, print, durable="billing").detach()
    bus.publish(Note())
    (left,) = bus.close()
    assert (left.subscription, left.events) == ("billing", 1)


def test_close_names_what_nobody_pulled(bus: TestBus) -> None:
    pc.DAStrongSet(Note, bus, pull="fifo").add(Note())
    (left,) = bus.close()
    assert (left.events, "pulled" in left.why) == (1, True)


def test_close_names_what_was_not_acknowledged(bus: TestBus) -> None:
    bus.subscribe(Note, Recorder(), ack="manual")
    bus.publish(Note())
    (left,) = bus.close()
    assert left.events == 1


def test_close_logs_what_it_names(bus: TestBus, caplog: pytest.LogCaptureFixture) -> None:
    bus.subscribe(Note, print).pause()
    bus.publish(Note())
    bus.close()
    assert "without delivering 1 for" in caplog.text


def test_a_hanging_callback_does_not_keep_what_others_have_from_being_delivered() -> None:
    bus, gate, got = pc.Bus(), threading.Event(), []
    bus.subscribe(Note, lambda note: gate.wait(WAIT))
    bus.subscribe(Note, got.append)
    bus.publish_many([Note()] * 20)
    bus.close(0.5)
    gate.set()
    assert len(got) == 20


# -- afterwards ------------------------------------------------------------------------------------


REFUSED: dict[str, Callable[[pc.Bus], object]] = {
    "publish": lambda bus: bus.publish(Note()),
    "publish on a topic": lambda bus: bus.publish(Note(), topic="/a"),
    "publish with headers": lambda bus: bus.publish(Note(), headers={}),
    "publish_many": lambda bus: bus.publish_many([Note()]),
    "subscribe": lambda bus: bus.subscribe(Note, print),
    "on": lambda bus: bus.on(Note)(print),
    "advertise": lambda bus: bus.advertise(Note),
    "collection": lambda bus: pc.DAStrongSet(Note, bus).add(Note()),
    "contains": lambda bus: pc.DAStrongSet(Note, bus).contains(print),
}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_a_closed_bus_refuses_to_be_used(use: Callable[[pc.Bus], object]) -> None:
    bus = pc.Bus()
    bus.publish(Note())
    bus.publish(Note(), topic="/a")
    bus.close()
    with pytest.raises(pc.BusClosedError, match="open another"):
        use(bus)


def test_closing_twice_is_closing_once() -> None:
    bus = pc.Bus()
    bus.subscribe(Note, print).pause()
    bus.publish(Note())
    first = bus.close(0.05)
    assert (len(first), bus.close()) == (1, ())


def test_subscriptions_of_a_closed_bus_are_closed() -> None:
    bus = pc.Bus()
    sub = bus.subscribe(Note, print)
    bus.close()
    assert sub.state == "closed"
    with pytest.raises(pc.SubscriptionEndedError, match=r"bus was closed|too late"):
        sub.pause()


def test_dead_letters_of_a_closed_bus_can_be_listed() -> None:
    bus = pc.Bus()
    bus.subscribe(Note, lambda note: 1 / 0, attempts=1)
    bus.publish(Note(7))
    bus.close(WAIT)
    assert [letter.event for letter in bus.dead_letters()] == [Note(7)]


def test_flush_of_a_closed_bus_returns_at_once() -> None:
    bus = pc.Bus()
    bus.close()
    assert bus.flush(WAIT)


def test_who_is_called_back_while_the_bus_drains_may_still_publish() -> None:
    bus, gate, got = pc.Bus(), threading.Event(), []

    def callback(note: Note) -> None:
        if note.number == 0:
            gate.wait(WAIT)
            bus.publish(Note(1))
        got.append(note.number)

    bus.subscribe(Note, callback)
    bus.publish(Note(0))
    closing = threading.Thread(target=bus.close, args=(WAIT,))
    closing.start()
    while True:
        try:
            bus.publish("are you still open?")
        except pc.BusClosedError:
            break
    gate.set()
    closing.join(WAIT)
    assert got == [0, 1]


def test_a_blocked_publisher_is_let_go_by_close() -> None:
    bus = pc.Bus()
    bus.subscribe(Note, print, queue=1, overflow="block", block_for=3600).pause()
    bus.publish(Note())
    outcome: list[object] = []

    def publish() -> None:
        try:
            outcome.append(bus.publish(Note()))
        except pc.PolycastError as error:
            outcome.append(error)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    bus.close(0.05)
    thread.join(WAIT)
    assert len(outcome) == 1


def test_who_waits_in_get_is_let_go_by_close() -> None:
    bus = pc.Bus()
    inbox = pc.DAStrongSet(Note, bus, pull="fifo")
    outcome: list[object] = []

    def get() -> None:
        try:
            outcome.append(inbox.get(timeout=3600))
        except pc.PolycastError as error:
            outcome.append(error)

    thread = threading.Thread(target=get, daemon=True)
    thread.start()
    bus.close(0.05)
    thread.join(WAIT)
    assert len(outcome) == 1


def test_close_ends_all_threads(eventually: Wait) -> None:
    before = set(threading.enumerate())
    bus = pc.Bus()

    async def callback(note: Note) -> None: ...

    bus.subscribe(Note, lambda note: None, lease=3600)
    bus.subscribe(Note, callback)
    bus.publish(Note())
    bus.close(WAIT)
    eventually(lambda: set(threading.enumerate()) <= before)


def test_two_threads_may_close_at_once() -> None:
    bus = pc.Bus()
    bus.subscribe(Note, lambda note: None)
    bus.publish_many([Note()] * 100)
    threads = [threading.Thread(target=bus.close, args=(WAIT,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert bus.health().state == "closed"
