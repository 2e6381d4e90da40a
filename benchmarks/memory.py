"""The memory that one more subscription takes."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import blinker
import bubus
from measure import Effort, apart
from peers import BubusTalk, Talk
from pubsub.core import Publisher
from pyventus.events import EventLinker
from tables import Table

import polycast as pc

Subscribe = Callable[[Callable[..., Any]], object]


def _polycast(**options: Any) -> Callable[[], Subscribe]:
    def make() -> Subscribe:
        bus = pc.Bus()
        return lambda callback: bus.subscribe(Talk, callback, **options)

    return make


def _blinker() -> Subscribe:
    signal = blinker.Signal()
    return lambda callback: signal.connect(callback, sender=Talk)


def _pypubsub() -> Subscribe:
    publisher = Publisher()
    return lambda callback: publisher.subscribe(callback, "event.talk")


def _pyventus() -> Subscribe:
    class Linker(EventLinker):
        """Registers are class-wide."""

    return lambda callback: Linker.subscribe(Talk, event_callback=callback)


def _bubus() -> Subscribe:
    bus = bubus.EventBus()
    return lambda callback: bus.on(BubusTalk, callback)


WAYS: dict[str, Callable[[], Subscribe]] = {
    "polycast, in line": _polycast(dispatch="inline"),
    "polycast, in line, one shared filter": _polycast(
        dispatch="inline", where=lambda talk: talk.stars > 3
    ),
    "polycast, pool": _polycast(),
    "blinker": _blinker,
    "PyPubSub": _pypubsub,
    "pyventus": _pyventus,
    "bubus": _bubus,
}


def measure(effort: Effort, report: Callable[[str], None]) -> dict[str, float]:
    """Bytes per subscription, without the callback itself."""
    report("memory per subscription")
    count = 100 if effort.is_quick else 500
    return apart(_measured, count)


def _measured(count: int) -> dict[str, float]:
    return asyncio.run(_all(count))


async def _all(count: int) -> dict[str, float]:
    return {name: _bytes(make(), count) for name, make in WAYS.items()}


def _bytes(subscribe: Subscribe, count: int) -> float:
    callbacks = [_callback(number) for number in range(count + 10)]
    kept = [subscribe(callback) for callback in callbacks[:10]]
    gc.collect()
    tracemalloc.start()
    kept += [subscribe(callback) for callback in callbacks[10:]]
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return used / count


def _callback(number: int) -> Callable[[Any], None]:
    def handle(event: Any) -> None:
        pass

    handle.__name__ = f"handle_{number}"
    return handle


def tables(found: dict[str, float]) -> list[Table]:
    """One row for each way."""
    rows = [(name, f"{used:,.0f}") for name, used in found.items()]
    note = "By tracemalloc, without the callback, with what subscribing returns."
    return [Table("Memory per subscription", ("way", "bytes"), rows, note=note)]
