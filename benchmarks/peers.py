"""The contenders of publishing in the publisher's thread, each used as its users use it.

A contender is a context manager that yields a `Run`. No peer has filters: where a filter is asked
for, the peer's subscriber tests the condition itself, which spares it the call of a predicate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import blinker
import bubus
from measure import Run, cpu_time
from pubsub.core import Publisher
from pyventus.core.processing.asyncio import AsyncIOProcessingService
from pyventus.events import AsyncIOEventEmitter, EventLinker

import polycast as pc

Filtering = Literal["none", "true", "false"]


@dataclass(frozen=True)
class Event:
    """The base class."""

    stars: int


@dataclass(frozen=True)
class Talk(Event):
    """What is published."""

    title: str


class BubusTalk(bubus.BaseEvent):  # type: ignore[type-arg]
    """The same for bubus, whose events are pydantic models of its own."""

    stars: int
    title: str


TALK = Talk(5, "Type-based publish/subscribe")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who subscribes to what."""

    subscribers: int
    filtering: Filtering
    by_base: bool  # subscribed to the base class of what is published

    def __str__(self) -> str:
        kind = "base class" if self.by_base else "exact class"
        plural = "" if self.subscribers == 1 else "s"
        return f"{self.subscribers:,} subscriber{plural}, filter: {self.filtering}, {kind}"


Contender = Callable[[Scenario], Any]


def limit_of(scenario: Scenario) -> int:
    """The filter is `stars > limit`."""
    return 3 if scenario.filtering == "true" else 9


# -- polycast -------------------------------------------------------------------------------------


def polycast_with(history: int) -> Contender:
    """polycast in line, keeping so many events."""

    @contextmanager
    def contender(scenario: Scenario) -> Iterator[Run]:
        with pc.Bus(history=history) as bus:
            for _ in range(scenario.subscribers):
                _subscribe(bus, scenario)
            publish = bus.publish

            def run(repeats: int) -> float:
                start = cpu_time()
                for _ in range(repeats):
                    publish(TALK)
                return cpu_time() - start

            yield run

    return contender


def _subscribe(bus: pc.Bus, scenario: Scenario) -> None:
    def handle(talk: Event) -> None:
        pass

    limit = limit_of(scenario)
    where = None if scenario.filtering == "none" else (lambda talk: talk.stars > limit)
    if scenario.by_base:
        bus.subscribe(Event, handle, where=where, dispatch="inline")
    else:
        bus.subscribe(Talk, handle, where=where, dispatch="inline", exact=True)


# -- blinker --------------------------------------------------------------------------------------


@contextmanager
def blinker_usual(scenario: Scenario) -> Iterator[Run]:
    """`signal.send(Talk, event=talk)`: the class is the sender, the event a keyword.

    It has no base classes: who wants all events connects to any sender.
    """
    signal = blinker.Signal()
    sender = blinker.ANY if scenario.by_base else Talk
    receivers = [_keyword_receiver(scenario) for _ in range(scenario.subscribers)]
    for receiver in receivers:  # which it holds weakly, as is its default
        signal.connect(receiver, sender=sender)
    send = signal.send

    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            send(Talk, event=TALK)
        return cpu_time() - start

    yield run
    del receivers


@contextmanager
def blinker_bare(scenario: Scenario) -> Iterator[Run]:
    """`signal.send(talk)`: the event is the sender, the least that blinker can be asked to do."""
    signal = blinker.Signal()
    receivers = [_receiver(scenario) for _ in range(scenario.subscribers)]
    for receiver in receivers:
        signal.connect(receiver)
    send = signal.send

    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            send(TALK)
        return cpu_time() - start

    yield run
    del receivers


def _keyword_receiver(scenario: Scenario) -> Callable[..., None]:
    limit = limit_of(scenario)

    def handle(sender: object, event: Event) -> None:
        pass

    def handle_some(sender: object, event: Event) -> None:
        if event.stars > limit:
            pass

    return handle if scenario.filtering == "none" else handle_some


def _receiver(scenario: Scenario) -> Callable[[Any], None]:
    limit = limit_of(scenario)

    def handle(event: Any) -> None:
        pass

    def handle_some(event: Any) -> None:
        if event.stars > limit:
            pass

    return handle if scenario.filtering == "none" else handle_some


# -- PyPubSub -------------------------------------------------------------------------------------


@contextmanager
def pypubsub(scenario: Scenario) -> Iterator[Run]:
    """`sendMessage("event.talk", event=talk)`; a base class is a topic above."""
    publisher = Publisher()
    topic = "event" if scenario.by_base else "event.talk"
    receivers = [_receiver(scenario) for _ in range(scenario.subscribers)]
    for receiver in receivers:  # held weakly
        publisher.subscribe(receiver, topic)
    send = publisher.sendMessage

    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            send("event.talk", event=TALK)
        return cpu_time() - start

    yield run
    del receivers


# -- the asynchronous ones, measured until all subscribers have returned --------------------------


@contextmanager
def pyventus(scenario: Scenario) -> Iterator[Run]:
    """Inside a running loop, which is its fast way: without one, each emit starts a loop."""

    class Linker(EventLinker):
        """Registers are class-wide, so each scenario has a class."""

    for _ in range(scenario.subscribers):
        Linker.subscribe(Talk, event_callback=_receiver(scenario))
    emit = AsyncIOEventEmitter(event_linker=Linker, debug=False).emit
    burst = max(1, 200 // scenario.subscribers)

    async def publish(repeats: int) -> float:
        start = cpu_time()
        for first in range(0, repeats, burst):
            for _ in range(min(burst, repeats - first)):
                emit(TALK)
            await asyncio.gather(*AsyncIOProcessingService.all_tasks())
        return cpu_time() - start

    with asyncio.Runner() as runner:
        yield lambda repeats: runner.run(publish(repeats))


@contextmanager
def bubus_bus(scenario: Scenario) -> Iterator[Run]:
    """`await bus.dispatch(event)`; its events are used up, so they are made before the clock."""
    with asyncio.Runner() as runner:
        bus = runner.run(_bubus_with(scenario))

        async def publish(repeats: int) -> float:
            events = [BubusTalk(stars=5, title=TALK.title) for _ in range(repeats)]
            start = cpu_time()
            for event in events:
                await bus.dispatch(event)
            return cpu_time() - start

        yield lambda repeats: runner.run(publish(repeats))
        runner.run(bus.stop())


async def _bubus_with(scenario: Scenario) -> bubus.EventBus:
    bus = bubus.EventBus()
    for number in range(scenario.subscribers):
        receiver = _receiver(scenario)
        receiver.__name__ = f"handle_{number}"  # it warns about equal names
        bus.on(BubusTalk, receiver)
    return bus


POLYCAST, WITH_HISTORY = "polycast", "polycast, history=1000"
CONTENDERS: dict[str, Contender] = {
    POLYCAST: polycast_with(0),
    WITH_HISTORY: polycast_with(1000),
    "blinker": blinker_usual,
    "blinker, barest": blinker_bare,
    "PyPubSub": pypubsub,
    "pyventus": pyventus,
    "bubus": bubus_bus,
}
BY_NAME_ONLY = frozenset({"pyventus", "bubus"})  # a subscription to a base class does not exist
