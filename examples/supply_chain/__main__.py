"""The main job: python -m supply_chain, in the folder examples.

This program runs the pipeline and shows how it goes. The publishers and the subscribers are
programs of their own; all that they share is the file of the store.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import polycast as pc
from polycast.pipeline import Pipeline, Status
from supply_chain.changes import Change, changes
from supply_chain.parties import MODULES, PARTIES
from supply_chain.programs import Job, Program
from supply_chain.recount import Verdict, load_received, recount
from supply_chain.report import write_report
from supply_chain.results import Run, Times, save_numbers, side_by_side, summary, times_of
from supply_chain.view import Progressing, View, pictures_of, table_of

PATIENCE = 300.0  # seconds that any step may take
LOOK = 0.1  # seconds between two looks
MOST_COMPLAINTS = 50  # lines of what programs complained of, shown when something is wrong

# Ctrl-C is looked at between two looks, so that it does not break off a word with Spark.
interrupted = threading.Event()


class Demo:
    """The stream from its first event to its last delivery."""

    def __init__(self, job: Job, view: View, stack: ExitStack) -> None:
        self._job, self._view, self._stack = job, view, stack
        self._at = Progressing()
        self._subscribers = [
            self._program("supply_chain.subscribers", party, self._hear_subscriber)
            for party in PARTIES
        ]
        self._publishers = self._program("supply_chain.publishers", "", self._hear_publisher)
        self._pipeline: Pipeline | None = None
        self.run = Run(job)

    def _program(self, module: str, party: str, hear: Callable[[dict[str, Any]], None]) -> Program:
        program = Program(module, msgspec.structs.replace(self._job, party=party), hear)
        return self._stack.enter_context(program)

    def _start_pipeline(self) -> None:
        folder = Path(self._job.folder)
        pipeline = Pipeline(
            self._job.url,
            checkpoint=folder / "checkpoint",
            imports=MODULES,
            log=folder / "spark.log",
            on_batch=self._hear_pipeline,
        )
        self._stack.callback(pipeline.stop)
        with ThreadPoolExecutor(1) as elsewhere:  # it takes a while, and somebody watches
            starting = elsewhere.submit(pipeline.start)
            self._until(starting.done)
            self._pipeline = starting.result()

    # -- what is told by others --------------------------------------------------------------------

    def _hear_publisher(self, facts: dict[str, Any]) -> None:
        self._at.published = facts.get("published", self._at.published)
        self._hear_change(facts)

    def _hear_subscriber(self, facts: dict[str, Any]) -> None:
        self._at.subscribed = self._sum("subscribed")
        self._at.delivered = self._sum("delivered")
        self._hear_change(facts)

    def _hear_change(self, facts: dict[str, Any]) -> None:
        if "changed" in facts:
            self.run.changes.append((time.time(), facts["changed"]))
            self._view.note(facts["changed"])

    def _sum(self, what: str) -> int:
        return sum(subscriber.heard.get(what, 0) for subscriber in self._subscribers)

    def _hear_pipeline(self, status: Status) -> None:
        self._at.routed, self._at.matched = status.position - 1, status.pairs
        self.run.batches.append((time.time(), status.position))

    # -- the steps ---------------------------------------------------------------------------------

    def play(self) -> None:
        job, step = self._job, self._view.step
        also = " and Spark" if job.engine == "spark" else ""
        step(f"Setting up {job.subscriptions:,} durable subscriptions in four contexts{also}")
        if job.engine == "spark":
            self._start_pipeline()
        self._until(lambda: all(program.heard.get("ready") for program in self._programs()))
        step("Warming up: the first events")
        self._publish("warm")
        self._catch_up()
        step(f"A steady stream of {job.rate:,.0f} events a second; some change their mind")
        self._publish("steady", changing=changes(job))
        step("A rush: the rest as fast as it goes")
        self._publish("rush")
        step("All is published; the last events are routed and delivered")
        self._catch_up()
        self.run.phases["delivered"] = time.time()
        self._save()

    def complaints(self) -> list[str]:
        """What the programs wrote to their standard error."""
        return [line for program in self._programs() for line in program.complaints]

    def _programs(self) -> list[Program]:
        return [*self._subscribers, self._publishers]

    def _publish(self, phase: str, changing: Sequence[Change] = ()) -> None:
        """One phase, with some changes spread over it."""
        self.run.phases[phase] = time.time()
        first, last, asked = self._job.warm, self._job.steady, 0
        self._publishers.send(phase)

        def done() -> bool:
            nonlocal asked
            part = (self._at.published - first) / max(1, last - first)
            ended = bool(self._publishers.heard.get("done") == phase)
            while asked < len(changing) and (ended or part * (len(changing) + 1) > asked + 1):
                party = list(PARTIES).index(changing[asked].wish.party)
                self._subscribers[party].send(f"change {asked}")
                asked += 1
            return ended

        self._until(done)

    def _catch_up(self) -> None:
        """Until all that is published is routed, and all that is routed is delivered."""
        if self._pipeline is not None:
            self._until(lambda: self._at.routed >= self._at.published)
        for each in self._subscribers:
            each.heard.pop("caught_up", None)
            each.send("flush")
        self._until(
            lambda: all("caught_up" in subscriber.heard for subscriber in self._subscribers)
        )
        if not all(subscriber.heard["caught_up"] for subscriber in self._subscribers):
            raise RuntimeError("the subscribers did not catch up; see the store with `polycast`")

    def _save(self) -> None:
        if self._pipeline is not None:
            self.run.matched = self._pipeline.status().pairs
        for program in self._programs():
            program.send("save")
        self._until(lambda: self._publishers.heard.get("done") == "save")
        self._until(lambda: all(subscriber.heard.get("saved") for subscriber in self._subscribers))

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if interrupted.is_set():
                raise KeyboardInterrupt
            self._view.show(self._at)
            for program in self._programs():
                program.check()
            if self._pipeline is not None and self._pipeline.wait(LOOK):
                raise RuntimeError("the pipeline has ended before its time; see spark.log")
            if self._pipeline is None:
                time.sleep(LOOK)
            if time.monotonic() > deadline:
                raise RuntimeError(f"that took more than {PATIENCE:.0f} s; giving up")


def judge(run: Run, view: View) -> tuple[Verdict, Times]:
    """Recount what should have happened."""
    view.step("Recounting in plain Python who should have received what")
    received = load_received(run.job)
    with np.load(f"{run.job.folder}/published.npz") as saved:
        positions, moments, turned = saved["positions"], saved["moments"], int(saved["turned"])
    run.pictures = side_by_side(received)
    verdict = recount(run.job, positions, turned, received)
    return verdict, times_of(run, positions, moments, received)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="supply_chain", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1_500.0, help="events a second, at first")
    parser.add_argument("--engine", choices=("spark", "direct"), default="spark")
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    return parser.parse_args()


def make_folder(folder: Path) -> None:
    """Make it anew; what somebody else has put there is not touched."""
    mark = folder / "made-by-the-demo"
    if mark.exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} has something in it that is not of an earlier run; use another")
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()


def main() -> int:
    given = options()
    folder = given.out.resolve()
    make_folder(folder)
    url = f"sqlite:///{folder / 'chain.db'}"
    pc.Bus(url).close()  # makes the store
    size = (given.events, given.subscriptions, given.seed)
    job = Job(url, str(folder), *size, given.engine, given.rate)
    view = View(events=job.events, subscriptions=job.subscriptions, routed=job.engine == "spark")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    try:
        with view, ExitStack() as stack:
            demo = Demo(job, view, stack)
            demo.play()
        complaints = demo.complaints()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # nothing is running any more
        verdict, times = judge(demo.run, view)
    except KeyboardInterrupt:
        view.console.print("\nStopped, with all programs that were started.")
        return 130
    except (RuntimeError, pc.PolycastError) as error:
        view.console.print(f"\nIt did not work: {error}", markup=False)
        return 1
    rows = summary(demo.run, verdict, times)
    report = folder / "report.html"
    save_numbers(folder / "numbers.json", demo.run, verdict, times)
    write_report(report, demo.run, verdict, times, rows)
    if not verdict.is_right:
        view.console.print("".join(complaints[:MOST_COMPLAINTS]), markup=False)
    return tell(view, demo.run, verdict, rows, report)


def tell(
    view: View, run: Run, verdict: Verdict, rows: list[tuple[str, str, str]], report: Path
) -> int:
    """The end, for a person."""
    if run.pictures:
        view.console.print("\nOne and the same shipment, as it came to three who asked for it:\n")
        view.console.print(pictures_of(run.pictures))
    view.console.print()
    view.console.print(table_of(rows))
    view.console.print()
    for wrong in verdict.wrong[:20]:
        view.console.print(f"[red bold]wrong:[/] {wrong}")
    if verdict.is_right:
        view.console.print(
            "[green bold]Every subscriber received exactly what it asked for, in its own types.[/]"
        )
    view.console.print(f"The report with pictures: {report}", soft_wrap=True)
    return 0 if verdict.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
