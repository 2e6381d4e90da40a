"""How long it takes from publishing until an event is routed, and until it is handled; open loop.

A process of its own publishes by a schedule that was fixed before, and a latency counts from when
an event should have been published: a publisher that is held up hides nothing. An event is routed
when the sink's transaction that has it is synced. It is handled when a callback is called, in a
third process with some subscriptions that the pipeline routes for.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from bisect import bisect_right
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from durable_setting import url_of
from measure import apart, duration
from pipeline_running import PATIENCE, Kept, Run, Shaped, spark_on
from pipeline_setting import Plan, Report
from pipeline_shapes import MATCH, STUB
from tables import Table

TOGETHER = 100  # events of one call
HANDLING = 20.0  # seconds for the callbacks after all is routed
WATCHED = 3  # subscriptions with a callback, each of which wants one event in a hundred
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
GOAL = 0.4  # seconds, p99
WAYS = {STUB: "matcher of 1 µs", MATCH: "Python matcher"}


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds from when events should have been published."""

    subscriptions: int
    published: list[float]  # until the call has returned
    routed: list[float]  # until the sink has kept them
    handled: list[float]  # until a callback was called
    batch: float  # events in a batch, in the mean

    def of(self, name: str, what: str) -> Any:
        """A percentile in seconds; None where nothing came, as a stub may find others."""
        ordered = sorted(getattr(self, what))
        if not ordered:
            return None
        return ordered[min(len(ordered) - 1, int(PERCENTILES[name] * len(ordered)))]


Results = dict[str, Latencies]


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """With the stub and with the Python matcher, in one session."""
    report(f"latency at {plan.rate:,} events/s")
    return apart(_all, plan, folder)


def _all(plan: Plan, folder: Path) -> Results:
    ways = [MATCH] if plan.is_quick else [*WAYS]
    with spark_on(2) as spark:
        return {way: _measured(spark, way, plan, folder / f"latency-{way}.db") for way in ways}


def _measured(spark: Any, way: str, plan: Plan, path: Path) -> Latencies:
    size = min(plan.sizes)
    apart(_make, path, size)
    spawn = multiprocessing.get_context("spawn")
    handling, handler = _started(spawn, _handle, path)
    publishing, publisher = _started(spawn, _publish, path, plan)
    run = Run()
    calls = int((plan.warming + plan.lasting) * plan.rate / TOGETHER)
    end = 1 + calls * TOGETHER
    try:
        publishing.recv(), handling.recv()  # they are ready
        with Shaped(path, way, run, lambda kept: None, spark=spark):
            _wait_for(run, 1 + TOGETHER)  # Python workers have started
            publishing.send("begin")
            due, returned = publishing.recv()
            _wait_for(run, end)
            handling.send(end - 1)
            handled = handling.recv()
    finally:
        publishing.close(), handling.close()
        for process in (handler, publisher):
            process.join(PATIENCE)
    return _latencies(size, plan, run, due, returned, handled)


def _make(path: Path, size: int) -> None:
    from pipeline_sales import make_store  # here: see pipeline_setting

    make_store(path, size, 0)


def _started(spawn: Any, function: Any, *about: Any) -> tuple[Connection, Any]:
    here, there = spawn.Pipe()
    process = spawn.Process(target=function, args=(there, *about))
    process.start()
    there.close()
    return here, process


def _wait_for(run: Run, end: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while not run.batches or run.batches[-1].high < end:
        if time.monotonic() > deadline:
            raise AssertionError(f"routed up to {run.batches[-1].high if run.batches else 1:,}")
        time.sleep(0.05)


def _publish(pipe: Connection, path: Path, plan: Plan) -> None:
    """The process that publishes: some events at once, each time when it is due."""
    from pipeline_sales import events

    import polycast as pc

    calls = int((plan.warming + plan.lasting) * plan.rate / TOGETHER)
    every = TOGETHER / plan.rate
    stream = list(events(calls * TOGETHER))
    groups = [stream[at : at + TOGETHER] for at in range(0, len(stream), TOGETHER)]
    gc.freeze()
    with pc.Bus(url_of(path)) as bus:
        bus.publish_many(groups[0])  # whatever has to start begins with it
        pipe.send("ready")
        pipe.recv()
        begin = time.monotonic()
        returned = [begin]
        for number, group in enumerate(groups[1:], 1):
            left = begin + number * every - time.monotonic()
            if left > 0:
                time.sleep(left)
            bus.publish_many(group)
            returned.append(time.monotonic())
        pipe.send(([begin + number * every for number in range(calls)], returned))


def _handle(pipe: Connection, path: Path) -> None:
    """The process with callbacks; told the number of the last event, it says when which came."""
    from pipeline_sales import REGIONS, Sale

    import polycast as pc

    came: list[tuple[int, float]] = []

    def note(sale: Sale) -> None:
        came.append((sale.number, time.monotonic()))

    with pc.Bus(url_of(path)) as bus:
        kept = [
            bus.subscribe(
                Sale,
                note,
                where=pc.Filter(_wanted(kind, REGIONS[0])),
                durable=f"watched-{kind}",
                engine="spark",
            )
            for kind in range(WATCHED)
        ]
        pipe.send("ready")
        pipe.recv()
        deadline, before = time.monotonic() + HANDLING, -1
        while (before < len(came) or not came) and time.monotonic() < deadline:  # until all came
            before = len(came)
            time.sleep(1.0)
        pipe.send(came)
        del kept


def _wanted(kind: int, region: str) -> Any:
    return lambda sale: sale.kind == kind and sale.region == region


def _latencies(
    size: int,
    plan: Plan,
    run: Run,
    due: list[float],
    returned: list[float],
    handled: list[tuple[int, float]],
) -> Latencies:
    """What belongs to calls that were due after the warm-up."""
    first = int(plan.warming * plan.rate / TOGETHER)
    highs = [each.high for each in run.batches]

    def kept(call: int) -> Kept:
        last = (call + 1) * TOGETHER  # the position of its last event: the log begins with 1
        return run.batches[bisect_right(highs, last)]

    calls = range(first, len(due))
    counting = [each for each in run.batches if each.high > first * TOGETHER]
    return Latencies(
        size,
        [returned[call] - due[call] for call in calls],
        [kept(call).ended - due[call] for call in calls],
        [at - due[n // TOGETHER] for n, at in handled if n >= first * TOGETHER],
        sum(each.events for each in counting) / len(counting),
    )


# -- showing ---------------------------------------------------------------------------------------


def _told(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def tables(found: Results) -> list[Table]:
    """Percentiles, and the goal."""
    rows = []
    for way, each in found.items():
        for what, name in (
            ("published", "publish has returned"),
            ("routed", "routed, synced"),
            ("handled", "handled by a callback"),
        ):
            rows.append(
                (
                    f"{name}, {WAYS[way]}",
                    *(_told(each.of(point, what)) for point in PERCENTILES),
                    f"{len(getattr(each, what)):,}",
                    f"{each.batch:,.0f}",
                )
            )
    columns = ("from the intended time until", *PERCENTILES, "measured", "events in a batch")
    shown = [Table("Latency at 20,000 events/s offered, open loop, two cores", columns, rows)]
    goals = [
        (
            f"p99 until routed, {WAYS[way]}",
            duration(GOAL),
            duration(each.of("p99", "routed")),
            "met" if each.of("p99", "routed") < GOAL else "not met",
        )
        for way, each in found.items()
    ]
    columns = ("latency", "goal", "measured", "verdict")
    return [*shown, Table("The pipeline's goal for latency", columns, goals)]


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return {
        WAYS[way]: {
            "subscriptions": each.subscriptions,
            "batch": each.batch,
            **{
                what: {name: each.of(name, what) for name in PERCENTILES}
                for what in ("published", "routed", "handled")
            },
        }
        for way, each in found.items()
    }
