"""The tables of matching.py: speed, its ratio to the scan, what else it costs, and the goals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ready10
from measure import duration, figures
from tables import Table

if TYPE_CHECKING:
    import matching

SCAN = "scan of lambdas"
HOWS = ("one by one", "batches of objects", "batches of Arrow")
ENGINES = ("python", "native")
WAYS = tuple(f"{engine}: {how}" for engine in ENGINES for how in HOWS)
MILLION = 1_000_000

GOALS = {  # events per second at a rate of 0.11 %, with 1,000, 10,000 and 100,000 subscriptions
    "python: one by one": (100_000, 40_000, 5_000),
    "python: batches of objects": (500_000, 70_000, 5_000),
    "python: batches of Arrow": (500_000, 70_000, 5_000),
    "native: one by one": (2 * MILLION, 900_000, 150_000),
    "native: batches of objects": (3 * MILLION, 1_200_000, 200_000),
    "native: batches of Arrow": (3 * MILLION, 1_200_000, 200_000),
}
SIZES = (1_000, 10_000, 100_000)


def tables(results: matching.Results, memory: matching.Memory) -> list[Table]:
    """Speed, its ratio to the scan, what else it costs, and the goals last."""
    every = [(rate, found) for rate, sizes in results.items() for found in sizes.values()]
    shown = [
        Table(title, ("match rate", "subscriptions", *cells), _rows(every, cells), note)
        for title, cells, note in CELLS
    ]
    shown += [
        Table(title, ("match rate", "subscriptions", "engine", *cells), _each(every, cells), note)
        for title, cells, note in COSTS
    ]
    if memory:
        shown.append(_memories(memory))
    return [*shown, _goals(results.get(ready10.USUAL.name, {}))]


Cell = Callable[..., str]
Cells = dict[str, Cell]


def _rows(every: list[tuple[str, Any]], cells: Cells) -> list[tuple[str, ...]]:
    return [
        (rate, f"{found.size:,}", *(cell(found) for cell in cells.values()))
        for rate, found in every
    ]


def _each(every: list[tuple[str, Any]], cells: Cells) -> list[tuple[str, ...]]:
    return [
        (rate, f"{found.size:,}", engine, *(cell(found, engine) for cell in cells.values()))
        for rate, found in every
        for engine in found.start
    ]


def _speed(name: str) -> Cell:
    return lambda f: figures(1 / f.samples[name].median) if name in f.samples else "-"


def _over(name: str) -> Cell:
    return lambda f: str(f.samples[SCAN].over(f.samples[name])) if name in f.samples else "-"


SPEEDS: Cells = {
    **{name: _speed(name) for name in (SCAN, *WAYS)},
    "events in a batch": lambda f: f"{f.batch:,}",
    "matches per event": lambda f: figures(f.matches),
}
RATIOS: Cells = {f"scan over {name}": _over(name) for name in WAYS}
STARTING: Cells = {
    "filter, each": lambda f, e: duration(f.start[e].lifting),
    "add, each": lambda f, e: duration(f.start[e].building),
    "first event": lambda f, e: duration(f.start[e].first),
    "warm-up": lambda f, e: f"{duration(f.start[e].warming)}, {f.start[e].warmed:,} events",
    "event while warming up": lambda f, e: duration(f.start[e].warming / f.start[e].warmed),
    "event when warm": lambda f, e: duration(f.changes[e].event_before),
    "first batch": lambda f, e: duration(f.first_batch[e]),
}
CHANGING: Cells = {
    "add one": lambda f, e: duration(f.changes[e].adding),
    "event after it": lambda f, e: duration(f.changes[e].after_adding),
    "remove it": lambda f, e: duration(f.changes[e].removing),
    "event after that": lambda f, e: duration(f.changes[e].after_removing),
    "the same again": lambda f, e: duration(f.changes[e].again),
    "any event, before 100 changes": lambda f, e: duration(f.changes[e].event_before),
    "after them": lambda f, e: duration(f.changes[e].event_after),
}
CELLS = (
    ("Matching: events per second", SPEEDS, None),
    (
        "Matching: times faster than a scan of compiled lambdas",
        RATIOS,
        "The time of the scan over that of the matcher, in the same round.",
    ),
)
COSTS = (
    ("Matching: before it is at full speed", STARTING, None),
    ("Matching: changing a full index", CHANGING, "Means of 100 changes."),
)


def _memories(memory: matching.Memory) -> Table:
    rows = [
        (
            engine,
            f"{size:,}",
            *(f"{each:,.0f}" for each in found.values()),
            f"{sum(found.values()):,.0f}",
        )
        for engine, sizes in memory.items()
        for size, found in sizes.items()
    ]
    first = next(iter(next(iter(memory.values())).values()))
    columns = ("engine", "subscriptions", *first, "all")
    note = "By tracemalloc; what the kernel in C holds is added."
    return Table("Matching: bytes per subscription", columns, rows, note)


def _goals(sizes: dict[int, Any]) -> Table:
    rows = []
    for name, goals in GOALS.items():
        for size, goal in zip(SIZES, goals, strict=True):
            if size not in sizes or name not in sizes[size].samples:
                continue
            speed = 1 / sizes[size].samples[name].median
            verdict = "met" if speed >= goal else "missed"
            rows.append((name, f"{size:,}", f"{goal:,}", figures(speed), verdict))
    columns = ("way", "subscriptions", "goal, events/s", "measured", "verdict")
    note = "The goals are of a machine of about this speed; the ratios to the scan carry over."
    return Table(f"Matching at {ready10.USUAL.name}, against the goals", columns, rows, note)
