"""Events a second through Spark: shapes of the work, numbers of subscriptions, sizes of batches."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipeline_plain
from measure import apart, duration
from pipeline_running import Run, run_shape, spark_on
from pipeline_setting import Plan, Report, store_of
from pipeline_shapes import DECODE, MATCH, READ, STUB, STUB_ARROW
from tables import Table

GOAL, GOAL_OVER_PLAIN = 150_000, 10.0
CORES = (1, 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the workers do, for how many subscriptions."""

    what: str
    subscriptions: int

    def __str__(self) -> str:
        return NAMES[self.what].format(f"{self.subscriptions:,}")


NAMES = {
    READ: "read only",
    DECODE: "read, decode",
    STUB: "all, matcher of 1 µs",
    STUB_ARROW: "all, matcher of 1 µs, in mapInArrow",
    MATCH: "all, Python matcher, {} subscriptions",
}


@dataclass(frozen=True, slots=True)
class Results:
    """By number of cores, shape and round; by size of batches; and the plain way."""

    shapes: dict[int, dict[Shape, list[Run]]]
    batches: dict[int, Run]
    plain: pipeline_plain.Results

    def best(self, cores: int, shape: Shape) -> Run:
        return max(self.shapes[cores][shape], key=lambda run: run.rate)


def shapes_of(plan: Plan) -> list[Shape]:
    """Those that are compared."""
    least = min(plan.sizes)
    small = (STUB,) if plan.is_quick else (READ, DECODE, STUB, STUB_ARROW)
    return [
        *(Shape(what, least) for what in small),
        *(Shape(MATCH, size) for size in plan.sizes),
    ]


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Each number of cores in a process of its own, since a session has one."""
    pipeline_plain.prepare(plan, folder)
    shapes = {}
    for cores in CORES[-1:] if plan.is_quick else CORES:
        report(f"through Spark, cores: {cores}")
        shapes[cores] = apart(_shapes, cores, plan, folder)
    report("sizes of batches, and the plain way")
    batches, peers = apart(_batches_and_peers, CORES[-1], plan, folder)
    found = Results(shapes, batches, peers)
    _compare(found, plan)
    return found


def _shapes(cores: int, plan: Plan, folder: Path) -> dict[Shape, list[Run]]:
    wanted = shapes_of(plan)
    found: dict[Shape, list[Run]] = {shape: [] for shape in wanted}
    with spark_on(cores) as spark:
        if not plan.is_quick:
            _run(spark, Shape(STUB, min(plan.sizes)), plan, folder)  # the JVM has to warm up
        for number in range(plan.rounds):
            for shape in wanted if number % 2 == 0 else reversed(wanted):
                found[shape].append(_run(spark, shape, plan, folder))
    return found


def _run(spark: Any, shape: Shape, plan: Plan, folder: Path, *, batch: int | None = None) -> Run:
    path = store_of(folder, shape.subscriptions)
    return run_shape(spark, path, shape.what, batch=batch or plan.batch, longest=plan.longest)


def _batches_and_peers(
    cores: int, plan: Plan, folder: Path
) -> tuple[dict[int, Run], pipeline_plain.Results]:
    shape = Shape(STUB, min(plan.sizes))
    with spark_on(cores) as spark:
        if not plan.is_quick:
            _run(spark, shape, plan, folder)
        found = {size: _run(spark, shape, plan, folder, batch=size) for size in plan.batches}
        return found, pipeline_plain.measure(spark, plan, folder)


def _compare(found: Results, plan: Plan) -> None:
    """The plain way has to find as many pairs in the same events."""
    run = found.shapes[CORES[-1]][Shape(MATCH, min(plan.sizes))][0]
    for name, peer in found.plain.items():
        pairs, events = 0, 0
        for batch in run.batches:
            if batch.high - 1 <= peer.events:
                pairs, events = pairs + batch.pairs, events + batch.events
        if (events, pairs) != (peer.events, peer.pairs):
            theirs, ours = f"{peer.pairs:,} pairs", f"{pairs:,} in {events:,} events"
            raise AssertionError(f"{name}: {theirs}, polycast finds {ours}")


# -- showing ---------------------------------------------------------------------------------------


def tables(found: Results) -> list[Table]:
    """Throughput, where a batch's time goes, sizes, the plain way, goals."""
    return [
        _throughput(found),
        _parts(found),
        _processor(found),
        _sizes(found),
        pipeline_plain.table(found.plain, _ours(found).rate),
        _goals(found),
    ]


def _ours(found: Results) -> Run:
    shapes = found.shapes[CORES[-1]]
    least = min(shape.subscriptions for shape in shapes)
    return found.best(CORES[-1], Shape(MATCH, least))


def _throughput(found: Results) -> Table:
    most = max(found.shapes)
    read = found.best(most, next(iter(found.shapes[most])))
    rows = []
    for shape in found.shapes[most]:
        rates = {cores: found.best(cores, shape).rate for cores in found.shapes}
        one = rates.get(CORES[0])
        several = [f"{run.rate:,.0f}" for run in found.shapes[most][shape]]
        rows.append(
            (
                str(shape),
                "-" if one is None else f"{one:,.0f}",
                f"{rates[most]:,.0f}",
                "-" if one is None else f"{rates[most] / one:.2f}",
                f"{rates[most] / read.rate:.0%}",
                ", ".join(several),
            )
        )
    return Table(
        "Events a second through Spark, exactly once",
        (
            "workers do",
            "one core",
            "two cores",
            "two over one",
            "of read only",
            "rounds, two cores",
        ),
        rows,
        note="The best round; the first batches of each run do not count.",
    )


def _parts(found: Results) -> Table:
    most = max(found.shapes)
    rows = []
    for shape in found.shapes[most]:
        run = found.best(most, shape)
        parts, size = run.parts(), run.steady()[0].events
        rows.append(
            (
                str(shape),
                duration(sum(parts.values())),
                *(duration(parts[name]) for name in ("workers", "store", "Spark")),
                duration(parts["workers"] / size),
                f"{parts['workers'] / sum(parts.values()):.0%}",
            )
        )
    return Table(
        "Where the time of a batch goes, on two cores",
        (
            "workers did",
            "a batch",
            "workers",
            "store, synced",
            "Spark around it",
            "each event",
            "at work",
        ),
        rows,
    )


KINDS = {
    "workers": "workers",
    "JVM": "Spark's JVM",
    "planner": "process that plans",
    "driver": "driver with the sink",
}


def _processor(found: Results) -> Table:
    most = max(found.shapes)
    rows = []
    for shape in found.shapes[most]:
        used = found.best(most, shape).processor()
        if used:
            whole = sum(used.values())
            kinds = (duration(used.get(name, 0.0)) for name in KINDS)
            rows.append((str(shape), *kinds, duration(whole), f"{most / whole:,.0f}"))
    columns = ("in workers", *KINDS.values(), "all", "events/s if both cores were busy")
    note = "CPU time for each event: what else runs on the machine does not count."
    return Table("What the processor does, on two cores", columns, rows, note=note)


def _sizes(found: Results) -> Table:
    rows = [
        (
            f"{size:,}",
            f"{run.rate:,.0f}",
            duration(sum(run.parts().values())),
            *(duration(run.parts()[name]) for name in ("workers", "store", "Spark")),
            f"{len(run.steady())}",
        )
        for size, run in found.batches.items()
    ]
    columns = (
        "rows per micro-batch",
        "events/s",
        "a batch takes",
        "workers",
        "store",
        "Spark",
        "batches",
    )
    return Table("Rows per micro-batch, matcher of 1 µs, two cores", columns, rows)


def _goals(found: Results) -> Table:
    most = max(found.shapes)
    stub = next(shape for shape in found.shapes[most] if shape.what == STUB)
    rate = found.best(most, stub).rate
    ratio = _ours(found).rate / max(each.rate for each in found.plain.values() if each.is_plain)
    rows = [
        ("events/s, matcher of 1 µs", f"{GOAL:,}", f"{rate:,.0f}", _verdict(rate >= GOAL)),
        (
            "times the plain way, 100 subscriptions",
            f"{GOAL_OVER_PLAIN:g}",
            f"{ratio:.1f}",
            _verdict(ratio >= GOAL_OVER_PLAIN),
        ),
    ]
    return Table(
        "The pipeline's goals, on two cores", ("what", "goal", "measured", "verdict"), rows
    )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "not met"


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return {
        "shapes": [
            {"cores": cores, "shape": str(shape), "rounds": [_plain_run(run) for run in runs]}
            for cores, shapes in found.shapes.items()
            for shape, runs in shapes.items()
        ],
        "batches": {str(size): _plain_run(run) for size, run in found.batches.items()},
        "plain": pipeline_plain.plain(found.plain),
    }


def _plain_run(run: Run) -> dict[str, object]:
    return {
        "rate": run.rate,
        "batches": len(run.steady()),
        "events": run.steady()[0].events,
        "takers": statistics.fmean(each.pairs / each.events for each in run.steady()),
        "parts": run.parts(),
        "phases": run.phases,
        "processor": run.processor(),
    }


def draw(written: dict[str, Any], folder: Path) -> None:
    """A bar for each shape, as the file of results has it: what an event costs, and what of it."""
    import plots  # here, so that the processes that measure do not load it

    most = max(each["cores"] for each in written["shapes"])
    chosen = [each for each in written["shapes"] if each["cores"] == most]
    runs = [max(each["rounds"], key=lambda run: run["rate"]) for each in chosen]
    names = {"workers": "workers", "Spark": "Spark around them", "store": "store, synced"}
    with plots.mpl.rc_context(plots.STYLE):
        figure, axes = plots.plt.subplots(figsize=(9.0, 4.2))
        left = [0.0] * len(runs)
        for (name, label), colour in zip(names.items(), plots.COLOURS[::2], strict=False):
            wide = [run["parts"][name] / run["events"] * 1e6 for run in runs]
            axes.barh(range(len(runs)), wide, left=left, label=label, color=colour)
            left = [a + b for a, b in zip(left, wide, strict=True)]
        for place, (end, run) in enumerate(zip(left, runs, strict=True)):
            text = f" {round(run['rate'], -3):,.0f} events/s"
            axes.annotate(text, (end, place), va="center", fontsize=9)
        axes.set_yticks(range(len(runs)), [each["shape"] for each in chosen])
        axes.invert_yaxis()
        axes.set_axisbelow(True)
        axes.set_xlim(0, max(left) * 1.25)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("time on the wall for each event (µs), on two cores")
        axes.set_title("Where the time of the pipeline goes: mostly into the workers")
        axes.legend(loc="upper right")
        plots.save(figure, folder / "pipeline.png")
