"""What a worker costs without Spark: reading, decoding, matching, encoding, and a profile."""

from __future__ import annotations

import cProfile
import importlib
import pstats
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import apart, duration
from pipeline_setting import Plan, Report, store_of
from pipeline_shapes import MATCH, worker_for
from tables import Table

from polycast.events.codec import codec_for
from polycast.pipeline.code_distribution import CodeBundle
from polycast.pipeline.route_stream import SLICE, RouteRange, Worker
from polycast.routing import encode_recipients

SALES = "pipeline_sales"
STEPS = ("read", "decode", "match", "encode")

# CPU time of the process: what else runs on the machine does not count.
clock = time.process_time


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds for each event, but for what is paid once."""

    subscriptions: int
    what: str  # the class of the events: made, or imported
    building: float  # the plan, all of it
    first: float  # all steps, in the first slice
    steps: dict[str, float]  # later
    whole: float  # what the worker itself takes

    @property
    def summed(self) -> float:
        return sum(self.steps.values())


@dataclass(frozen=True, slots=True)
class Results:
    """All that is measured without Spark."""

    costs: list[Cost]
    profiles: dict[int, dict[str, float]]  # by number of subscriptions and group, parts of all


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Each in a process of its own."""
    costs, profiles = [], {}
    for size in plan.sizes:
        report(f"a worker without Spark, {size:,} subscriptions")
        path = store_of(folder, size)
        costs.append(apart(_cost, path, size, plan.alone, imported=False))
        profiles[size] = apart(_profile, path, plan.alone)
    size = min(plan.sizes)
    costs.append(apart(_cost, store_of(folder, size), size, plan.alone, imported=True))
    return Results(costs, profiles)


def _cost(path: Path, size: int, count: int, *, imported: bool) -> Cost:
    if imported:
        importlib.import_module(SALES)
    worker = Worker(str(path), CodeBundle())
    piece = _piece(worker, count)
    begin = clock()
    worker.follow(piece)
    building = clock() - begin
    first = sum(_steps(worker, 1).values())
    lows = range(1 + SLICE, 1 + count, SLICE)
    half = len(lows) // 2  # an index is at full speed when it has seen a few thousand events
    for low in lows[:half]:
        _steps(worker, low)
    spent: Counter[str] = Counter()
    for low in lows[half:]:
        spent.update(_steps(worker, low))
    events = len(lows[half:]) * SLICE
    begin = clock()
    for low in lows[half:]:
        worker.routed(low, low + SLICE)
    whole = (clock() - begin) / events
    steps = {name: spent[name] / events for name in STEPS}
    what = "imported" if imported else "made"
    return Cost(size, what, building, first / SLICE, steps, whole)


def _piece(worker: Worker, count: int) -> RouteRange:
    with worker.store.view() as view:
        return RouteRange(1, 1 + count, *view.in_effect(1))


def _steps(worker: Any, low: int) -> dict[str, float]:
    """The steps of a slice, one after the other."""
    times = [clock()]
    entries = worker.store.read(low, limit=SLICE, until=low + SLICE).entries
    times.append(clock())
    routes, first = worker.plan.routes, entries[0].record
    index = routes.indexes[None, None]
    names = index.projection(routes.types.class_of(first), first.topic).names
    decode = codec_for(first.codec).glance(first, names, registry=routes.registry)
    events = [decode(each.record) for each in entries]
    times.append(clock())
    found = index.matcher.match_batch(events)
    times.append(clock())
    encode_recipients(low, [each.position for each in entries], found)
    times.append(clock())
    return {name: times[n + 1] - times[n] for n, name in enumerate(STEPS)}


# -- the profile -----------------------------------------------------------------------------------

GROUPS = {  # the first whose text is in the name of a function's file is its group
    "stores/sqlite/row_format": "records checked",
    "events/record": "records checked",
    "stores": "rows from SQLite",
    "apsw": "rows from SQLite",
    "events": "events decoded",
    "routing/recipients": "takers encoded",
    "matching": "matching",
    "filters": "matching",
    "<": "matching",  # code that the index has made
    "routing": "the plan around it",
    "pipeline/route": "the plan around it",
}
REST = "the rest"


def _profile(path: Path, count: int) -> dict[str, float]:
    worker = worker_for(MATCH, str(path))
    piece = _piece(worker, count)
    half = 1 + count // 2 // SLICE * SLICE
    for _ in worker.reports([piece._replace(high=half)]):
        pass
    profile = cProfile.Profile(clock)
    profile.enable()
    for _ in worker.reports([piece._replace(low=half)]):
        pass
    profile.disable()
    return _grouped(pstats.Stats(profile).stats)  # type: ignore[attr-defined]


def _grouped(stats: dict[Any, Any]) -> dict[str, float]:
    """The part of the time that each group spends itself; what is written in C is its caller's."""
    spent: Counter[str] = Counter()
    for function, (_, _, own, _, callers) in stats.items():
        if function[0] != "~" or not callers:
            spent[_group(function)] += own
            continue
        for caller, (_, _, part, _) in callers.items():
            spent[_group(caller)] += part
    whole = sum(spent.values())
    return {name: seconds / whole for name, seconds in spent.most_common()}


def _group(function: tuple[str, int, str]) -> str:
    file = function[0].replace("\\", "/").rpartition("polycast/")[2]
    return next((group for part, group in GROUPS.items() if part in file), REST)


# -- showing ---------------------------------------------------------------------------------------


def tables(found: Results) -> list[Table]:
    """Costs, and the profile."""
    columns = (
        "subscriptions",
        "class",
        *STEPS,
        "sum",
        "the worker itself",
        "events/s of one core",
        "plan built in",
        "first 10,000, each",
    )
    rows = [
        (
            f"{each.subscriptions:,}",
            each.what,
            *(duration(each.steps[name]) for name in STEPS),
            duration(each.summed),
            duration(each.whole),
            f"{1 / each.whole:,.0f}",
            duration(each.building),
            duration(each.first),
        )
        for each in found.costs
    ]
    note = "CPU time per event. 'made': the class is made from its description."
    costs = Table("A worker without Spark", columns, rows, note=note)
    groups = list(dict.fromkeys(g for each in found.profiles.values() for g in each))
    order = [*(g for g in dict.fromkeys(GROUPS.values()) if g in groups), REST]
    profile = Table(
        "Where a worker's time goes, by profiler",
        ("subscriptions", *order),
        [
            (f"{size:,}", *(f"{each.get(group, 0):.0%}" for group in order))
            for size, each in found.profiles.items()
        ],
        note="A profiler makes calls dearer, so what has many small functions has too much.",
    )
    return [costs, profile]


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return {
        "costs": [
            {
                "subscriptions": each.subscriptions,
                "class": each.what,
                "building": each.building,
                "first": each.first,
                "steps": each.steps,
                "whole": each.whole,
            }
            for each in found.costs
        ],
        "profiles": {str(size): each for size, each in found.profiles.items()},
    }
