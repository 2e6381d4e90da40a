"""Catching up: a durable subscriber that was absent while very much was published.

Beside it a bare `SELECT` of the same rows by the same index, each record and its event decoded by
msgspec, and a function called: what a program that keeps no promise would do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec
from durable_setting import (
    Alarm,
    Order,
    Parcel,
    Plan,
    Refund,
    Report,
    Sale,
    Visit,
    megabytes,
    most_resident,
    resident,
    url_of,
)
from measure import apart, duration, figures
from tables import Table

import polycast as pc
from polycast.events import Record
from polycast.typesystem import describe

PATIENCE = 1_000.0  # seconds after which something must be wrong
RARE = 10_000  # one in so many is rare
TOGETHER = 1_000  # published with one call
WANTED: dict[str, type[Order]] = {"common: every second": Sale, f"rare: 1 in {RARE:,}": Alarm}
_OTHERS = (Refund, Visit, Parcel)


@dataclass(frozen=True, slots=True)
class Filling:
    """What it took to publish it all."""

    events: int
    seconds: float
    bytes: int
    wanted: dict[str, int]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """One round: seconds of both, and by how much memory grew."""

    seconds: float
    bare: float
    memory: int
    bare_memory: int


Results = tuple[Filling, dict[str, list[CaughtUp]]]


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Fill a log, then let each kind of subscriber come back, and a bare reader after it."""
    path = folder / "absent.db"
    report(f"publishing {plan.log:,} events")
    filling = apart(_fill, path, plan)
    found: dict[str, list[CaughtUp]] = {kind: [] for kind in WANTED}
    for number in range(plan.catching_up):
        for kind in WANTED:
            report(f"catching up, {kind}, round {number + 1}")
            wanted = filling.wanted[kind]
            seconds, memory = apart(_catch_up, path, kind, number, wanted)
            bare, bare_memory = apart(_read_bare, path, kind, wanted)
            found[kind].append(CaughtUp(seconds, bare, memory, bare_memory))
    return filling, found


def _class_of(number: int) -> type[Order]:
    if number % RARE == RARE // 2:
        return Alarm
    return Sale if number % 2 == 0 else _OTHERS[number // 2 % len(_OTHERS)]


def _orders(first: int, count: int) -> list[Order]:
    return [_class_of(n)(n, "tea", 4.5, 2, "Eugster") for n in range(first, first + count)]


def _fill(path: Path, plan: Plan) -> Filling:
    wanted = dict.fromkeys(WANTED, 0)
    with pc.Bus(url_of(path)) as bus:
        for kind, name in _durables(plan):
            bus.subscribe(WANTED[kind], print, durable=name).detach()
        spent = 0.0
        for first in range(0, plan.log, TOGETHER):
            events = _orders(first, TOGETHER)
            for kind, cls in WANTED.items():
                wanted[kind] += sum(type(event) is cls for event in events)
            start = time.monotonic()
            bus.publish_many(events)
            spent += time.monotonic() - start
    return Filling(plan.log, spent, path.stat().st_size, wanted)


def _durables(plan: Plan) -> Iterator[tuple[str, str]]:
    for kind in WANTED:
        for number in range(plan.catching_up):
            yield kind, _name(kind, number)


def _name(kind: str, number: int) -> str:
    return f"{kind.partition(':')[0]}-{number}"


def _catch_up(path: Path, kind: str, number: int, wanted: int) -> tuple[float, int]:
    left, done = [wanted], threading.Event()

    def handle(order: Order) -> None:  # in order, so by one thread at a time
        left[0] -= 1
        if left[0] == 0:
            done.set()

    with pc.Bus(url_of(path)) as bus:
        before = resident()
        start = time.monotonic()
        bus.subscribe(WANTED[kind], handle, durable=_name(kind, number))
        if not done.wait(PATIENCE):
            raise AssertionError(f"{left[0]:,} of {wanted:,} events did not come")
        spent = time.monotonic() - start
        grown = most_resident() - before
    if left[0] != 0:
        raise AssertionError(f"{-left[0]} events more than the {wanted:,} wanted came")
    return spent, grown


def _read_bare(path: Path, kind: str, wanted: int) -> tuple[float, int]:
    cls, count = WANTED[kind], 0
    decode = msgspec.msgpack.Decoder(Record).decode
    decode_event = msgspec.msgpack.Decoder(cls).decode

    def handle(order: Order) -> None:
        nonlocal count
        count += 1

    with closing(apsw.Connection(str(path))) as connection:
        before = resident()
        start = time.monotonic()
        rows = connection.execute(
            "SELECT body FROM log WHERE type = (SELECT number FROM types WHERE name = ?) "
            "ORDER BY position",
            (describe(cls).name,),
        )
        for (body,) in rows:
            handle(decode_event(decode(body[1:-4]).payload))  # version byte, checksum
        spent = time.monotonic() - start
    if count != wanted:
        raise AssertionError(f"{count:,} rows were read, {wanted:,} are wanted")
    return spent, most_resident() - before


def tables(results: Results) -> list[Table]:
    """One row for each kind of subscriber."""
    filling, found = results
    rows = []
    for kind, rounds in found.items():
        best, bare = min(each.seconds for each in rounds), min(each.bare for each in rounds)
        wanted = filling.wanted[kind]
        rows.append(
            (
                kind,
                f"{wanted:,}",
                duration(best),
                f"{filling.events / best:,.0f}",
                f"{wanted / best:,.0f}",
                duration(bare),
                figures(best / bare),
                megabytes(max(each.memory for each in rounds)),
            )
        )
    columns = (
        "wanted",
        "events",
        "caught up in",
        "looked at, events/s",
        "handled, events/s",
        "bare SELECT",
        "time over bare",
        "memory grew by at most",
    )
    note = (
        f"{filling.events:,} events of {len(_OTHERS) + len(WANTED)} types, "
        f"{megabytes(filling.bytes)}, published in {duration(filling.seconds)} by calls of "
        f"{TOGETHER:,}: {filling.events / filling.seconds:,.0f} events/s. Best of the rounds."
    )
    return [Table("An absent durable subscriber catches up", columns, rows, note=note)]


def plain(results: Results) -> dict[str, object]:
    """For the file of results."""
    filling, found = results
    return {
        "filling": msgspec.to_builtins(filling),
        "rounds": {kind: msgspec.to_builtins(rounds) for kind, rounds in found.items()},
    }
