"""A pipeline in a process of its own, which can be told to die at a certain moment.

`python proof_pipeline_driver.py '{"url": ...}'` runs one until SIGTERM, or until it is killed.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from polycast.errors import BadCheckpointError, PipelineError
from polycast.pipeline import Pipeline
from polycast.pipeline.route_stream import Sink
from polycast.stores import Store, Transaction

__all__ = ["FAILED", "MOMENTS", "REFUSED", "DriverJob", "batches"]

T = TypeVar("T")
REFUSED, FAILED = 3, 4  # exit statuses
POLL = 0.000_2
IMPORTS = ("proof_events", "proof_pipeline_filters")
# It lives for seconds: what is compiled well comes too late.
SMALL = (
    "--driver-memory 512m "
    '--conf "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" '
    "pyspark-shell"
)

MOMENTS = {
    "unplanned": "before the offsets of a batch are written",
    "planned": "when they have just been written",
    "asked": "before the batch is run",
    "routed": "when its rows are there, before the sink writes",
    "written": "inside the transaction of the sink",
    "kept": "after that, before Spark's commit log",
    "committed": "when that has just been written",
}
"""When a driver may be told to die."""


class DriverJob(msgspec.Struct, frozen=True):
    """What a driver does."""

    url: str
    checkpoint: str
    log: str
    batch: int
    moment: str = ""  # one of `MOMENTS`, or never
    after: int = 1  # the how-manieth time in its life
    whole: bool = True  # with the JVM at once; else that has to notice by itself


class Aim:
    """Knows when it is time to die."""

    def __init__(self, job: DriverJob) -> None:
        self._job, self._left = job, job.after

    def at(self, moment: str) -> None:
        """It is that moment."""
        if moment != self._job.moment:
            return
        self._left -= 1
        if self._left <= 0:
            self.die()

    def die(self) -> None:
        """Without a last word."""
        if self._job.whole:
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class AimedStore:
    """The part of a store that a sink needs."""

    def __init__(self, store: Store, aim: Aim) -> None:
        self._store, self._aim = store, aim

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Write, and perhaps die before it is committed."""

        def aimed(tx: Transaction) -> T:
            found = work(tx)
            self._aim.at("written")
            return found

        return self._store.write(aimed)


class AimedSink(Sink):
    """A sink in which one may die."""

    aim: ClassVar[Aim]

    def __init__(self, store: Any, *rest: Any) -> None:
        super().__init__(AimedStore(store, self.aim), *rest)  # type: ignore[arg-type]

    def __call__(self, batch: Any, number: int) -> None:
        self.aim.at("asked")
        super().__call__(batch, number)

    def keep(self, number: int, rows: Any) -> None:
        self.aim.at("routed")
        super().keep(number, rows)
        self.aim.at("kept")


class AimedPipeline(Pipeline):
    """A pipeline with such a sink."""

    sink = AimedSink


def batches(folder: Path) -> set[int]:
    """The numbers of the batches that Spark has written something about."""
    names = os.listdir(folder) if folder.is_dir() else ()
    return {int(name) for name in names if name.isdecimal()}


def watch(job: DriverJob, aim: Aim, started: threading.Event) -> None:
    """Look at what Spark writes down."""
    part = {"planned": "offsets", "unplanned": "offsets", "committed": "commits"}.get(job.moment)
    if part is None:
        return
    pause, folder = threading.Event(), Path(job.checkpoint) / part
    known = batches(folder)
    if job.moment == "unplanned":
        started.wait()
        pause.wait(0.3 * job.after)
        if batches(folder) <= known:
            aim.die()
        # It was faster. The next are not planned yet at the moment at which one is committed.
        folder = Path(job.checkpoint) / "commits"
        known = batches(folder)
    while True:
        now = batches(folder)
        if now - known:
            known |= now
            aim.at(job.moment)
        pause.wait(POLL)


def main(text: str) -> int:
    """Run a pipeline; the exit status."""
    faulthandler.enable()
    job = msgspec.json.decode(text, type=DriverJob)
    stopping, started = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    aim = AimedSink.aim = Aim(job)
    os.environ["PYSPARK_SUBMIT_ARGS"] = SMALL
    threading.Thread(target=watch, args=(job, aim, started), daemon=True).start()
    pipeline = AimedPipeline(
        job.url,
        checkpoint=job.checkpoint,
        imports=IMPORTS,
        master="local[2]",
        batch=job.batch,
        log=job.log,
    )
    parent = os.getppid()
    try:
        pipeline.start()
        started.set()
        print("ready", flush=True)
        while not stopping.is_set() and os.getppid() == parent:
            pipeline.wait(0.2)
    except BadCheckpointError as error:
        print("refused", error, flush=True)
        return REFUSED
    except PipelineError as error:
        print("failed", error, flush=True)
        return FAILED
    finally:
        pipeline.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
