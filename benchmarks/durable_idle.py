"""What durable subscriptions cost while nothing comes for them: absent ones, and attached ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec
from durable_setting import (
    ORDER,
    Order,
    Plan,
    Report,
    Visit,
    megabytes,
    most_resident,
    resident,
    url_of,
)
from measure import apart, duration
from tables import Table

import polycast as pc
from polycast.config import level_named
from polycast.matching import Interest, definition_of, selector_for
from polycast.stores import StoredSubscription, Transaction, open_store, retain

T = TypeVar("T")

TOGETHER = 5_000  # subscriptions saved in one transaction
PUBLISHED = 100  # of which the median is taken


@dataclass(frozen=True, slots=True)
class Absent:
    """A bus over a store with so many subscriptions, none of them its own."""

    subscriptions: int
    file: int
    opening: float
    publish: float
    publish_live: float  # with a subscriber of its own
    attaching: float  # one of those in the store
    retention: float  # one look at what may be let go, as a bus does every ten seconds
    resident: int  # bytes more than before opening, after all but the last
    peak: int


@dataclass(frozen=True, slots=True)
class Attached:
    """A bus with so many durable subscriptions of its own, to which nothing comes."""

    subscriptions: int
    subscribing: float  # seconds each
    resident: float  # bytes each
    publish: float
    closing: float


Results = tuple[list[Absent], list[Attached]]


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """None, then many."""
    absent, attached = [], []
    for count in (0, plan.idle):
        path = folder / f"idle-{count}.db"
        report(f"{count:,} absent subscriptions")
        apart(_fill, path, count)
        absent.append(apart(_open, path, count))
    for count in (0, plan.attached):
        report(f"{count:,} attached subscriptions")
        attached.append(apart(_attach, folder / f"attached-{count}.db", count))
    return absent, attached


def _fill(path: Path, count: int) -> None:
    """Keep subscriptions as a bus does that attaches to them and lets them go."""
    interest = Interest(selector_for(Visit), None, level_named("sorted_set"), durable="idle")
    definition = definition_of(interest).encoded()

    def save(tx: Transaction, numbers: range) -> None:
        for number in numbers:
            tx.save(StoredSubscription(_name(number), definition, 1, 1, token=number + 1))

    with closing(open_store(path)) as store:
        for first in range(0, count, TOGETHER):
            numbers = range(first, min(first + TOGETHER, count))
            store.write(lambda tx, numbers=numbers: save(tx, numbers)).result()


def _name(number: int) -> str:
    return f"subscriber-{number:08}"


def _open(path: Path, count: int) -> Absent:
    with pc.Bus():  # what any bus needs is not counted
        pass
    open_store(path).close()  # nor is SQLite itself
    before = resident()
    opening, bus = _timed(lambda: pc.Bus(url_of(path)))
    with bus:
        publish = _publishing(bus)
        attaching, _ = _timed(lambda: bus.subscribe(Visit, print, durable=_name(0)))
        live = bus.subscribe(Order, lambda order: None)
        publish_live = _publishing(bus)
        bus.flush()
        live.cancel()
        grown = resident() - before
        with closing(open_store(path)) as store:
            file = store.size()
            retention, _ = _timed(lambda: retain(store, time.time()))
    peak = most_resident() - before
    return Absent(count, file, opening, publish, publish_live, attaching, retention, grown, peak)


def _attach(path: Path, count: int) -> Attached:
    def handle(visit: Visit) -> None:
        pass

    with pc.Bus(url_of(path)) as bus:
        bus.subscribe(Visit, handle, durable="first")
        before = resident()
        each, _ = _timed(
            lambda: [bus.subscribe(Visit, handle, durable=_name(n)) for n in range(count)]
        )
        grown = resident() - before
        publish = _publishing(bus)
        ending, _ = _timed(bus.close)
    return Attached(count, each / max(count, 1), grown / max(count, 1), publish, ending)


def _publishing(bus: pc.Bus) -> float:
    """Seconds of one publish, of which there were some before."""
    for _ in range(10):
        bus.publish(ORDER)
    return median(_timed(lambda: bus.publish(ORDER))[0] for _ in range(PUBLISHED))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.monotonic()
    result = work()
    return time.monotonic() - start, result


def tables(results: Results) -> list[Table]:
    """Absent ones, then attached ones."""
    absent, attached = results
    none, many = absent
    file = (many.file - none.file) / many.subscriptions
    memory = (many.resident - none.resident) / many.subscriptions
    return [
        Table(
            "Durable subscriptions in the store that nobody is attached to",
            (
                "idle durable subscriptions",
                "file",
                "opening a bus",
                "publish",
                "publish, one subscriber",
                "attaching to one",
                "looking what may go",
                "memory of the bus",
                "peak with that look",
                "bytes each: file, memory",
            ),
            [(*_absent_row(none), "-"), (*_absent_row(many), f"{file:,.0f}, {memory:,.0f}")],
            note="Memory is what opening, publishing, attaching to one and one subscriber add.",
        ),
        Table(
            "Durable subscriptions that a bus is attached to, and nothing comes for them",
            (
                "attached durable subscriptions",
                "subscribe, each",
                "memory, bytes each",
                "publish something else",
                "closing the bus",
            ),
            [_attached_row(each) for each in attached],
            note="Each is kept, with a sync, before subscribe returns.",
        ),
    ]


def _absent_row(each: Absent) -> tuple[str, ...]:
    return (
        f"{each.subscriptions:,}",
        megabytes(each.file),
        duration(each.opening),
        duration(each.publish),
        duration(each.publish_live),
        duration(each.attaching),
        duration(each.retention),
        megabytes(each.resident),
        megabytes(each.peak),
    )


def _attached_row(each: Attached) -> tuple[str, ...]:
    known = each.subscriptions > 0
    return (
        f"{each.subscriptions:,}",
        duration(each.subscribing) if known else "-",
        f"{each.resident:,.0f}" if known else "-",
        duration(each.publish),
        duration(each.closing),
    )


def plain(results: Results) -> dict[str, object]:
    """For the file of results."""
    absent, attached = results
    return {"absent": msgspec.to_builtins(absent), "attached": msgspec.to_builtins(attached)}
