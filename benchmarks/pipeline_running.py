"""Runs the pipeline in one of its shapes for a while, and tells what it reached."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_setting import url_of
from pipeline_setting import copied
from pipeline_shapes import SOURCES, STUB_ARROW, in_arrow

from polycast.errors import PipelineError
from polycast.pipeline import Pipeline, session
from polycast.pipeline.route_stream import COLUMNS, Sink, reports_in
from polycast.pipeline.spark_session import LEAN
from polycast.stores.sqlite.readonly_store import open_readonly

HERE = Path(__file__).parent
PATIENCE = 300.0  # seconds after which something must be wrong
WARMING = 2  # batches of each run that do not count


@dataclass(slots=True)
class Kept:
    """What the sink saw of one batch, in seconds of the monotonic clock."""

    events: int
    pairs: int
    high: int
    begun: float
    found: float  # the workers are done
    ended: float  # it is in the store, synced


@dataclass(slots=True)
class Run:
    """What one run reached."""

    batches: list[Kept] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)  # Spark's own, seconds for each batch
    used: list[tuple[int, dict[str, float]]] = field(default_factory=list)  # batches, CPU seconds

    def steady(self) -> list[Kept]:
        """The batches that count; the last may be a small one."""
        counting = self.batches[WARMING:]
        most = max((each.events for each in counting), default=0)
        return [each for each in counting if each.events == most]

    @property
    def seconds(self) -> float:
        counting = self.steady()
        before = self.batches[self.batches.index(counting[0]) - 1]
        return counting[-1].ended - before.ended

    @property
    def rate(self) -> float:
        """Events a second, from the end of one batch to the end of another."""
        counting = self.steady()
        return sum(each.events for each in counting) / self.seconds if counting else 0.0

    def parts(self) -> dict[str, float]:
        """Where the time of a batch goes, in seconds: medians."""
        counting = self.steady()
        whole = self.seconds / len(counting)
        working = statistics.median(each.found - each.begun for each in counting)
        writing = statistics.median(each.ended - each.found for each in counting)
        return {"workers": working, "store": writing, "Spark": whole - working - writing}

    def processor(self) -> dict[str, float]:
        """Seconds of CPU time for each event after the warm-up, by kind of process."""
        if len(self.used) < 2:
            return {}
        (begin, before), (end, after) = self.used[0], self.used[-1]
        events = sum(each.events for each in self.batches[begin:end])
        return {name: (after[name] - before.get(name, 0.0)) / events for name in after}


class TimedSink(Sink):
    """The sink, with a watch."""

    def __init__(self, *about: Any, run: Run, seen: Any, arrow: Any = None) -> None:
        super().__init__(*about)
        self._run, self._seen, self._arrow = run, seen, arrow

    def __call__(self, batch: Any, number: int) -> None:
        """Keep a batch, and note when."""
        begun = time.monotonic()
        if self._arrow is not None:
            batch = batch.mapInArrow(self._arrow, COLUMNS)
        rows = reports_in(batch)
        found = time.monotonic()
        try:
            self.keep(number, rows)
        except Exception as error:
            self.failure = error
            raise
        if rows:
            events, pairs = sum(each.events for each in rows), sum(each.pairs for each in rows)
            kept = Kept(events, pairs, rows[-1].high, begun, found, time.monotonic())
            self._run.batches.append(kept)
            self._seen(kept)


class Shaped(Pipeline):
    """A pipeline whose workers do what a shape says."""

    def __init__(self, path: Path, shape: str, run: Run, seen: Any, **options: Any) -> None:
        super().__init__(url_of(path), **options)
        self.source = SOURCES[shape]
        arrow = in_arrow(shape, str(path)) if shape == STUB_ARROW else None
        self.sink: Any = lambda *about: TimedSink(*about, run=run, seen=seen, arrow=arrow)

    def phases(self) -> dict[str, float]:
        """How long Spark says that the parts of a batch took, in seconds: medians."""
        told = [each.durationMs for each in self.progress() if each.numInputRows][WARMING:]
        names = {name for each in told for name in each}
        return {name: statistics.median(each.get(name, 0) for each in told) / 1e3 for name in names}


def processor_times() -> dict[str, float]:
    """CPU seconds so far of this process and those below it, by kind; empty where not told."""
    found: dict[int, tuple[int, str, float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            about = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text().replace("\0", " ")
            ticks = int(about[11]) + int(about[12])
            found[int(folder.name)] = int(about[1]), command, ticks / os.sysconf("SC_CLK_TCK")
    times: dict[str, float] = {}
    for number, (_, command, seconds) in found.items():
        if _is_below(number, os.getpid(), found):
            name = _kind(number, command)
            times[name] = times.get(name, 0.0) + seconds
    return times


def _is_below(number: int, top: int, found: dict[int, tuple[int, str, float]]) -> bool:
    while number in found and number != top:
        number = found[number][0]
    return number == top


def _kind(number: int, command: str) -> str:
    if number == os.getpid():
        return "driver"
    if "java" in command.partition(" ")[0]:
        return "JVM"
    return "workers" if "pyspark.worker" in command else "planner"


@contextmanager
def spark_on(cores: int) -> Iterator[Any]:
    """A session of this process on so many cores, whose workers can import the shapes."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    spark = session(f"local[{cores}]", settings=LEAN)  # as a pipeline makes its own
    try:
        yield spark
    finally:
        spark.stop()


def _ended(pipeline: Pipeline) -> bool:
    """Whether it has; why it has failed is said so that another process can be told."""
    try:
        return pipeline.wait(0.001)
    except PipelineError as error:
        raise AssertionError(str(error)) from None


def run_shape(
    spark: Any, path: Path, shape: str, *, batch: int, longest: float, least: int = 2
) -> Run:
    """Run the pipeline anew, until the end of the log or until the time is up."""
    with copied(path) as copy:
        return _run_shape(spark, copy, shape, batch, longest, least)


def _run_shape(spark: Any, path: Path, shape: str, batch: int, longest: float, least: int) -> Run:
    run, done = Run(), threading.Event()
    with open_readonly(str(path)) as store:
        end = store.newest() + 1

    def seen(kept: Kept) -> None:
        if len(run.batches) == WARMING:
            run.used.append((len(run.batches), processor_times()))
        counting = run.batches[WARMING - 1 :]
        is_over = len(counting) > least and counting[-1].ended - counting[0].ended > longest
        if (kept.high >= end or is_over) and not done.is_set():
            run.used.append((len(run.batches), processor_times()))
            done.set()

    pipeline = Shaped(path, shape, run, seen, spark=spark, batch=batch)
    with pipeline:
        deadline = time.monotonic() + PATIENCE
        while not done.wait(0.2):
            if _ended(pipeline) or time.monotonic() > deadline:
                raise AssertionError(f"{shape}: no end after {len(run.batches)} batches")
        run.phases = pipeline.phases()
    return run
