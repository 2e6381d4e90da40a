"""What a bus keeps alive, and what it does not."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import TestBus

Wait = Callable[[Callable[[], object]], None]


@dataclass
class Kept:
    number: int = 0


def local_class() -> type:
    """A class that nobody but the caller knows."""

    @dataclass
    class Local(Kept):
        more: int = 0

    return Local


def collected(reference: weakref.ref[Any]) -> bool:
    """Whether it goes away in a full collection or two."""
    for _ in range(3):
        gc.collect()
    return reference() is None


USES: dict[str, Callable[[TestBus, type], object]] = {
    "published": lambda bus, cls: bus.publish(cls()),
    "published on a topic": lambda bus, cls: bus.publish(cls(), topic="/a"),
    "published with headers": lambda bus, cls: bus.publish(cls(), headers={"a": "b"}),
    "published many": lambda bus, cls: bus.publish_many([cls(), cls()]),
    "subscribed and cancelled": lambda bus, cls: bus.subscribe(cls, print).cancel(),
    "explained": lambda bus, cls: bus.subscribe(Kept, print).explain(cls()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_class_that_was_used_can_go_while_the_bus_lives(
    bus: TestBus, use: Callable[[TestBus, type], object]
) -> None:
    bus.subscribe(Kept, lambda event: None)
    bus.subscribe(Kept, lambda event: None, dispatch="inline")
    cls = local_class()
    use(bus, cls)
    bus.run_until_idle()
    reference = weakref.ref(cls)
    del cls
    assert collected(reference)


def test_an_event_that_was_delivered_can_go(bus: TestBus) -> None:
    bus.subscribe(Kept, lambda event: None)
    event = Kept()
    bus.publish(event)
    bus.run_until_idle()
    reference = weakref.ref(event)
    del event
    assert collected(reference)


def test_an_event_that_was_delivered_by_threads_can_go(live: pc.Bus) -> None:
    live.subscribe(Kept, lambda event: None)
    event = Kept()
    live.publish(event)
    live.flush(10)
    reference = weakref.ref(event)
    del event
    assert collected(reference)


def test_a_callback_can_go_after_cancel(bus: TestBus) -> None:
    class Desk:
        def take(self, event: Kept) -> None: ...

    desk = Desk()
    sub = bus.subscribe(Kept, desk.take)
    bus.publish(Kept())
    bus.run_until_idle()
    sub.cancel()
    del sub
    reference = weakref.ref(desk)
    del desk
    assert collected(reference)


def test_a_callback_in_line_can_go_after_cancel(bus: TestBus) -> None:
    class Desk:
        def take(self, event: Kept) -> None: ...

    desk = Desk()
    sub = bus.subscribe(Kept, desk.take, dispatch="inline")
    bus.publish(Kept())
    sub.cancel()
    del sub
    reference = weakref.ref(desk)
    del desk
    assert collected(reference)


def test_a_subscription_lives_without_its_handle(bus: TestBus) -> None:
    got: list[Kept] = []
    bus.subscribe(Kept, got.append)
    gc.collect()
    bus.publish(Kept())
    bus.run_until_idle()
    assert got == [Kept()]


def test_a_full_collection_while_the_bus_works_loses_nothing(bus: TestBus) -> None:
    got: list[int] = []
    bus.subscribe(Kept, lambda event: got.append(event.number), dispatch="inline")
    for number in range(20):
        bus.publish(Kept(number))
        gc.collect()
    assert got == list(range(20))


def test_a_bus_that_is_dropped_is_collected() -> None:
    bus = pc.Bus()
    bus.subscribe(Kept, lambda event: None)
    bus.publish(Kept())
    bus.flush(10)
    reference = weakref.ref(bus)
    del bus
    assert collected(reference)


def test_a_bus_that_is_dropped_ends_its_threads(eventually: Wait) -> None:
    before = set(threading.enumerate())

    async def callback(event: Kept) -> None: ...

    bus = pc.Bus()
    bus.subscribe(Kept, lambda event: None, lease=3600)
    bus.subscribe(Kept, callback)
    bus.publish(Kept())
    bus.flush(10)
    started = set(threading.enumerate()) - before
    assert started
    del bus
    gc.collect()
    eventually(lambda: not any(thread.is_alive() for thread in started))


def test_a_bus_that_does_nothing_has_no_threads() -> None:
    before = set(threading.enumerate())
    with pc.Bus() as bus:
        bus.subscribe(Kept, lambda event: None, dispatch="inline")
        bus.publish(Kept())
        assert set(threading.enumerate()) == before
