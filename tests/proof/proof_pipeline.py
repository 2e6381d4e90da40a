"""A pipeline that is killed at every step, with publishers, subscribers and changes of plan."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from proof_kills import DEADLINE, Troupe, Verdict, pause, until
from proof_pipeline_driver import FAILED, MOMENTS, REFUSED, DriverJob, batches
from proof_pipeline_filters import CULL, HOME
from proof_pipeline_plan import Plan, Takings, judge, wanted_by
from proof_workers import Listening

from polycast.matching import Interest
from polycast.pipeline.checkpoint import MARK
from polycast.stores.sqlite.readonly_store import open_readonly

__all__ = ["AIMED", "CAST", "TREATMENTS", "Works"]

DRIVER = Path(__file__).with_name("proof_pipeline_driver.py")
AIMED = tuple(MOMENTS)
JVM, PLANNER = "bin/java", "python_streaming_source_runner"
PARTS = {JVM: "the JVM", PLANNER: "the process that plans"}

CAST: dict[str, list[Listening]] = {
    "s1": [
        Listening("sorted", "Talk", "sorted_set", engine="spark"),
        Listening("listed", "Event", "list", above=30, engine="spark"),
    ],
    "s2": [
        Listening("bag", "Event", "strong_bag", transactional=False, failing=0.02, engine="spark"),
        Listening("direct", "Panel", "strong_set", above=60),
    ],
    **{
        f"m{n}": [Listening(f"member {n}", "Talk", "strong_set", group="crew", engine="spark")]
        for n in (1, 2)
    },
}


# -- what may become of a checkpoint while nobody runs ---------------------------------------------


def _last(folder: Path, part: str) -> Path | None:
    numbers = batches(folder / part)
    return folder / part / str(max(numbers)) if numbers else None


def _leave(folder: Path, dice: random.Random) -> bool | None:
    return False


def _remove(folder: Path, dice: random.Random) -> bool | None:
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _tear(folder: Path, dice: random.Random) -> bool | None:
    found = [folder / "metadata", folder / MARK, _last(folder, "offsets"), _last(folder, "commits")]
    there = [file for file in found if file is not None and file.exists()]
    if not there:
        return None
    file = dice.choice(there)
    os.truncate(file, dice.randrange(file.stat().st_size // 2))
    return True


def _lose_metadata(folder: Path, dice: random.Random) -> bool | None:
    if not batches(folder / "offsets"):
        return None
    (folder / dice.choice(("metadata", MARK))).unlink()
    return True


def _lose_last_commit(folder: Path, dice: random.Random) -> bool | None:
    """As if it had died a little earlier."""
    file = _last(folder, "commits")
    if file is None:
        return None
    file.unlink()
    return not batches(folder / "commits") and len(batches(folder / "offsets")) > 1


def _lose_a_batch(folder: Path, dice: random.Random) -> bool | None:
    numbers = sorted(batches(folder / "commits"))
    if len(numbers) < 2:
        return None
    (folder / dice.choice(("offsets", "commits")) / str(dice.choice(numbers[:-1]))).unlink()
    return True


Treatment = Callable[[Path, random.Random], bool | None]
TREATMENTS: dict[str, Treatment] = {
    "left as it is": _leave,
    "removed": _remove,
    "torn": _tear,
    "without metadata": _lose_metadata,
    "without its last commit": _lose_last_commit,
    "without one of its batches": _lose_a_batch,
}
"""What is done to a checkpoint; whether it must be refused then, or None if it cannot be done."""


# -- the processes ---------------------------------------------------------------------------------


def relatives(home: Path) -> dict[int, str]:
    """The processes of a pipeline: drivers, JVMs, daemons, workers; and how they were started."""
    mark, found = f"{HOME}={home}".encode(), {}
    for each in Path("/proc").iterdir():
        if not each.name.isdecimal():
            continue
        try:
            if mark in (each / "environ").read_bytes().split(b"\0"):
                command = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(each.name)] = command
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


class Works(Troupe):
    """The processes of a run, with a pipeline that has many lives."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        cast: dict[str, list[Listening]] = CAST,
        publishers: int = 1,
        batch: int = 2_000,
        pace: float = 1.0,
    ) -> None:
        publishing = {"at_once": 8, "pause": 0.05 / pace}
        super().__init__(folder, seed=seed, cast=cast, publishers=publishers, publishing=publishing)
        self.home, self._batch = folder / "pipeline", batch
        self.home.mkdir()
        self._store = folder / "bus.db"
        self._folders = 0
        self.checkpoint = self._another()
        self.plan = Plan(self._store, seed=seed, pace=pace)
        self.process: subprocess.Popen[bytes] | None = None
        self.refusable: bool | None = False

    def __enter__(self) -> Works:
        super().__enter__()
        self.plan.start()
        return self

    def __exit__(self, *rest: object) -> None:
        super().__exit__(*rest)
        self.plan.stop()
        self.rest()
        for number in relatives(self.home):  # told as wrong, and not left behind
            os.kill(number, signal.SIGKILL)

    def _wrong(self, what: str) -> None:
        self.verdict.problems.append(what)

    # -- lives of the driver -----------------------------------------------------------------------

    def begin(self, moment: str = "") -> subprocess.Popen[bytes]:
        """Start a driver, to die at a moment; a checkpoint that it refuses is removed."""
        self.rest()
        while True:
            process = self._start(moment)
            self._await_word(process)
            is_refused = self._said().startswith("refused")
            if self.refusable is not None and is_refused != self.refusable:
                told = f"{'refused' if is_refused else 'not refused'}: {self._said()}"
                self._wrong(f"a checkpoint was {told}")
            self.refusable = False
            if not is_refused:
                return process
            self._ended(process, how=REFUSED)
            if "nothing is lost by that" not in self._said():
                self._wrong(f"it is not told what to do: {self._said()}")
            self.verdict.figures["refused"] += 1
            shutil.rmtree(self.checkpoint)

    def _start(self, moment: str) -> subprocess.Popen[bytes]:
        self.verdict.figures["lives"] += 1
        job = DriverJob(
            self.url,
            str(self.checkpoint),
            str(self.home / "spark.log"),
            self._batch,
            moment,
            after=self.dice.randint(1, 3),
            whole=self.dice.random() < 0.5,
        )
        text = msgspec.json.encode(job).decode()
        with self._out().open("wb") as out, (self.home / "err").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), text],
                stdout=out,
                stderr=errors,
                env={**os.environ, HOME: str(self.home)},
                start_new_session=True,
            )
        return self.process

    def _out(self) -> Path:
        return self.home / f"{self.verdict.figures['lives']}.out"

    def _await_word(self, process: subprocess.Popen[bytes]) -> None:
        if not until(lambda: self._said() or process.poll() is not None):
            self._wrong(f"a driver does not begin: {self._complaint()}")

    def _said(self) -> str:
        return self._out().read_text()

    def _complaint(self) -> str:
        return self._said() + (self.home / "err").read_text()[-2_000:]

    def _ended(self, process: subprocess.Popen[bytes], *, how: int | None) -> None:
        """It ends in time, and so; and nobody is left over."""
        try:
            code = process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._wrong(f"a driver does not end: {self._complaint()}")
            process.kill()
            code = process.wait()
        if how is not None and code != how:
            self._wrong(f"a driver ended with {code}, not {how}: {self._complaint()}")
        if not self._all_gone():
            self._wrong(f"there are left {relatives(self.home)}")

    def _all_gone(self) -> bool:
        return until(lambda: not relatives(self.home))

    # -- ways to die -------------------------------------------------------------------------------

    def die_at(self, moment: str) -> None:
        """A life that ends at a certain moment."""
        process = self.begin(moment)
        self._ended(process, how=-signal.SIGKILL)
        self._killed(moment)
        self._see_where_it_was(moment)

    def die_at_random(self) -> None:
        """A life that ends whenever it does."""
        self.begin()
        pause(self.dice.uniform(0.0, 8.0))
        self.rest()

    def die_early(self) -> None:
        """A life that ends before it has begun: what the checkpoint is then, nobody knows."""
        self.rest()
        self._start("")
        pause(self.dice.uniform(0.2, 6.0))
        self.rest()
        self.refusable = None

    def is_running(self) -> bool:
        """Whether somebody runs the pipeline."""
        return self.process is not None and self.process.poll() is None

    def rest(self) -> None:
        """Nobody runs the pipeline."""
        process = self.process
        if process is not None and process.poll() is None:
            whole = self.dice.random() < 0.5
            (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
            self._ended(process, how=-signal.SIGKILL)
            self._killed("at random")

    def lose_workers(self, count: int) -> None:
        """Workers die in the midst of a batch, and the driver goes on as if nothing had been."""
        process = self.begin()
        for _ in range(count):
            (self.home / CULL).touch()
            if not until(lambda: not (self.home / CULL).exists()):
                self._wrong("no worker has died")
            self._killed("a worker")
            self._await_routed(process)

    def lose_a_worker_too_often(self) -> None:
        """All workers die, until the driver gives up."""
        process = self.begin()
        until(lambda: (self.home / CULL).touch() or process.poll() is not None)
        self._ended(process, how=FAILED)
        (self.home / CULL).unlink(missing_ok=True)
        self._killed("every worker")

    def lose(self, what: str) -> None:
        """A process of Spark's dies, named by a part of its command, and the driver notices."""
        process = self.begin()
        self._await_routed(process)
        found = [number for number, how in relatives(self.home).items() if what in how]
        if not found:
            self._wrong(f"no process {what} among {relatives(self.home)}")
        for number in found:
            os.kill(number, signal.SIGKILL)
        self._ended(process, how=FAILED)
        self._killed(PARTS[what])

    def be_taken_over(self) -> None:
        """Another is started, and the first notices."""
        first = self.begin()
        self._await_routed(first)
        told, self.process = self._out(), None
        self.move()
        second = self.begin()
        self._await_routed(second)
        try:
            code = first.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            first.kill()
            code = first.wait()
        if code != FAILED or "another pipeline was started" not in told.read_text():
            self._wrong(f"one that was taken over ended with {code}: {told.read_text()}")
        self.verdict.figures["taken over"] += 1

    def _killed(self, how: str) -> None:
        self.verdict.figures["kills"] += 1
        self.verdict.figures[f"killed: {how}"] += 1

    def _see_where_it_was(self, moment: str) -> None:
        """What the checkpoint and the store say about the moment of its death."""
        planned, committed = (batches(self.checkpoint / part) for part in ("offsets", "commits"))
        high, under_way = self.routed(), planned - committed
        seen = "between batches"
        if under_way:
            text = (self.checkpoint / "offsets" / str(max(planned))).read_text()
            end = msgspec.json.decode(text.splitlines()[-1])["position"]
            seen = "in a batch that is kept" if high >= end else "in a batch that is not kept"
        self.verdict.figures[f"found: {seen}"] += 1
        expected = {"kept": "in a batch that is kept"}
        expected |= dict.fromkeys(("asked", "routed", "written"), "in a batch that is not kept")
        if seen != expected.get(moment, seen):
            self._wrong(f"it died at {moment!r}, and the checkpoint is {seen}")

    # -- what becomes of the checkpoint ------------------------------------------------------------

    def treat(self, name: str) -> None:
        """Do something to the checkpoint of a pipeline that does not run."""
        verdict = TREATMENTS[name](self.checkpoint, self.dice)
        if verdict is not None:
            self.refusable = verdict
            self.verdict.figures[f"checkpoint {name}"] += 1

    def move(self) -> None:
        """Go on with another folder."""
        self.checkpoint, self.refusable = self._another(), False
        self.verdict.figures["checkpoint elsewhere"] += 1

    def _another(self) -> Path:
        self._folders += 1
        return self.home / f"checkpoint-{self._folders}"

    # -- the end -----------------------------------------------------------------------------------

    def routed(self) -> int:
        """All before this is routed."""
        with open_readonly(self._store) as store, store.view() as view:
            return view.routed().high

    def _await_routed(self, process: subprocess.Popen[bytes]) -> None:
        """All that is there now is routed."""
        with open_readonly(self._store) as store:
            end = store.newest() + 1
        until(lambda: self.routed() >= end or process.poll() is not None)
        if process.poll() is not None:
            self._wrong(f"a driver ended by itself: {self._complaint()}")

    def finish(self) -> Verdict:
        """Route all that is there, and judge."""
        process = self.process
        if process is None or process.poll() is not None:
            process = self.begin()
        self.plan.stop()
        if self.plan.failure is not None:
            self._wrong(f"the plan could not be changed: {self.plan.failure!r}")
        super().finish()
        self._await_routed(process)
        process.terminate()
        self._ended(process, how=0)
        takings = judge(self._store, {**self.plan.interests, **self._cast_routes()})
        self._add_up(takings)
        return self.verdict

    def _cast_routes(self) -> dict[int, Interest]:
        wanted = {each.kept_as: each for mine in self.cast.values() for each in mine}
        with open_readonly(self._store) as store, store.view() as view:
            routes = [each for each in view.routes() if each.name in wanted]
        return {each.number: wanted_by(wanted[each.name], each) for each in routes}

    def _add_up(self, takings: Takings) -> None:
        self.verdict.problems += takings.told()
        figures = self.verdict.figures
        figures["events"] += takings.events
        figures["pairs"] += takings.pairs
        figures["routes"] += len(self.plan.interests)
        for name in ("lost", "wrong", "duplicated"):
            figures[name] += len(getattr(takings, name))
