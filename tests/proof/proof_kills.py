"""Publishers and subscribers in processes that are killed, paused, started again, and judged."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from proof_checker import Expected, Violation, check, doubted_in_vain
from proof_history import Op, Payload, merged, read_history
from proof_workers import GATE, Listening, PublisherJob, SubscriberJob, effects_table

from polycast.events import Identity, Record
from polycast.stores import Store
from polycast.stores.sqlite import SqliteStore

__all__ = ["CAST", "Troupe", "Verdict", "Worker", "careless", "expected_of", "flooded"]

WORKERS = Path(__file__).with_name("proof_workers.py")
DEADLINE = 60.0  # only a broken program reaches it
LEASE = 1.0  # seconds for which a member of a group may be silent before others have its events
SUBTYPES = {
    "Event": {"Event", "Talk", "Keynote", "Panel"},
    "Talk": {"Talk", "Keynote"},
    "Panel": {"Panel"},
}

CAST: dict[str, list[Listening]] = {
    "s1": [
        Listening("sorted", "Talk", "sorted_set"),
        Listening("listed", "Event", "list", above=30),
    ],
    "s2": [
        Listening("bag", "Event", "strong_bag", transactional=False, failing=0.05),
        Listening("array", "Talk", "array", transactional=False),
        Listening("sorted bag", "Event", "sorted_bag", transactional=False, failing=0.02),
        Listening("set", "Panel", "strong_set", above=60, failing=0.05),
    ],
    **{
        f"m{n}": [Listening(f"member {n}", "Talk", "strong_set", group="crew", slow=0.01)]
        for n in range(1, 4)
    },
}


@dataclass
class Verdict:
    """What a run has shown."""

    violations: list[Violation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def told(self) -> str:
        """What is wrong, in lines; empty if nothing is."""
        return "\n".join([*self.problems, *map(str, self.violations[:20])])


@dataclass
class Worker:
    """One name, and the process that has it now."""

    name: str
    job: Callable[[int], msgspec.Struct]
    folder: Path
    script: Path = WORKERS
    life: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin another life."""
        self.life += 1
        text = msgspec.json.encode(self.job(self.life)).decode()
        with self._out().open("wb") as out, self._errors().open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(self.script), text], stdout=out, stderr=errors
            )

    def is_ready(self) -> bool:
        """Whether its work has begun."""
        return self.told().startswith("ready")

    def told(self) -> str:
        """What it has written to its standard output in this life."""
        return self._out().read_text()

    def is_alive(self) -> bool:
        """Whether nobody has ended it, itself included."""
        return self.process is not None and self.process.poll() is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self) -> int:
        """How it ended; it must do so in time."""
        assert self.process is not None
        try:
            return self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return 999

    def memory(self) -> tuple[int, int]:
        """Its size when its work began and at its largest, in KiB."""
        words = self.told().split()
        return int(words[1]), int(words[3])

    def complaint(self) -> str:
        """The last that it wrote to its standard error."""
        return self._errors().read_text()[-2_000:]

    def _out(self) -> Path:
        return self.folder / f"{self.name}.out"

    def _errors(self) -> Path:
        return self.folder / f"{self.name}.err"


class Troupe:
    """The processes of a run, over one store file, in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        cast: dict[str, list[Listening]] = CAST,
        publishers: int = 3,
        publishing: dict[str, Any] | None = None,
    ) -> None:
        self.folder, self.seed = folder, seed
        self.dice = random.Random(seed)
        self.url = f"sqlite:///{folder / 'bus.db'}"
        self.cast, self.verdict = cast, Verdict()
        self._publishing = publishing or {}
        self.subscribers = [self._subscriber(name) for name in cast]
        self.publishers = [self._publisher(f"p{n}") for n in range(1, publishers + 1)]

    def url_of(self, name: str) -> str:
        """What somebody opens the bus with."""
        del name
        return self.url

    def _subscriber(self, name: str) -> Worker:
        def job(life: int) -> SubscriberJob:
            mine = self.cast[name]
            folder, shared = str(self.folder), any(each.group for each in mine)
            return SubscriberJob(
                self.url_of(name),
                name,
                life,
                folder,
                mine,
                heartbeat_timeout=LEASE if shared else 10.0,
            )

        return Worker(name, job, self.folder)

    def _publisher(self, name: str) -> Worker:
        def job(life: int) -> PublisherJob:
            seed = self.seed * 10_000 + life * 10 + int(name[1:])
            folder = str(self.folder)
            return PublisherJob(self.url_of(name), name, life, folder, seed, **self._publishing)

        return Worker(name, job, self.folder)

    # -- the run -----------------------------------------------------------------------------------

    def __enter__(self) -> Troupe:
        for workers in (self.subscribers, self.publishers):
            for worker in workers:
                worker.start()
            self._wait_ready(workers)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._everybody():
            if worker.is_alive():
                worker.kill()
                worker.ended()

    def _everybody(self) -> list[Worker]:
        return [*self.publishers, *self.subscribers]

    def disturb(self) -> None:
        """Kill or pause somebody at a random moment, and let the show go on."""
        pause(self.dice.uniform(0.0, 0.25))
        what = self.dice.choices(
            ("publisher", "subscriber", "both", "all", "paused", "closed"), (30, 30, 15, 5, 10, 15)
        )[0]
        if what == "paused":
            self.pause_a_member()
        elif what == "closed":
            self.send_away(self.dice.choice(self.subscribers))
        else:
            self.kill(self._victims(what))
        self.verdict.figures[what] += 1

    def _victims(self, what: str) -> list[Worker]:
        if what == "all":
            return self._everybody()
        chosen = []
        if what in ("publisher", "both"):
            chosen.append(self.dice.choice(self.publishers))
        if what in ("subscriber", "both"):
            chosen.append(self.dice.choice(self.subscribers))
        return chosen

    def kill(self, victims: list[Worker], *, counted_as: str = "kills") -> None:
        """Kill some and start them again under their names."""
        for worker in victims:
            self._expect_alive(worker)
            worker.kill()
        for worker in victims:
            worker.ended()
            self.verdict.figures[counted_as] += 1
            worker.start()
        if self.dice.random() < 0.7:  # else the next may be killed while it opens
            self._wait_ready(victims)

    def send_away(self, worker: Worker) -> None:
        """Let one close its bus in the middle of its work, and begin again."""
        self._wait_ready([worker])
        self._end([worker])
        worker.start()

    def pause_a_member(self) -> None:
        """Stop one past its lease, and let it go on as if nothing had been."""
        members = [each for each in self.subscribers if self.cast[each.name][0].group]
        if not members:
            return
        worker = self.dice.choice(members)
        self._expect_alive(worker)
        worker.kill(signal.SIGSTOP)
        pause(LEASE * self.dice.uniform(1.5, 3.0))
        worker.kill(signal.SIGCONT)

    def _expect_alive(self, worker: Worker) -> None:
        """Tell if one has died by itself; it lives again, so that the rest can still be judged."""
        assert worker.process is not None
        code = worker.process.poll()
        if code:
            told = f"{worker.name} ended by itself with {code}: {worker.complaint()}"
            self.verdict.problems.append(told)
            worker.start()

    def _wait_ready(self, workers: list[Worker]) -> None:
        for worker in workers:
            if not until(lambda each=worker: each.is_ready() or not each.is_alive()):
                self.verdict.problems.append(f"{worker.name} does not begin")
            self._expect_alive(worker)

    def await_ready(self) -> None:
        """Wait until everybody is at work."""
        self._wait_ready(self._everybody())

    def finish(self) -> Verdict:
        """End the publishers, wait until all is handled, end the subscribers, and judge."""
        self._end(self.publishers)
        log = list(read_log(self.folder / "bus.db"))
        expected = [one for name in self.cast for one in map(expected_of, self.cast[name])]
        self._wait_ready(self.subscribers)
        before = -1
        while not until(lambda: self._all_handled(log, expected)):
            done = sum(op.kind == "effect" for op in self._history())
            if done == before:
                self.verdict.problems.append(f"nothing was handled for {DEADLINE:g} s")
                break
            before = done  # it is slow, and not stuck
        self._end(self.subscribers)
        self._judge(log, expected)
        return self.verdict

    def _end(self, workers: list[Worker]) -> None:
        for worker in workers:
            self._expect_alive(worker)
            if not until(lambda each=worker: each.is_ready() or not each.is_alive()):
                self.verdict.problems.append(f"{worker.name} does not begin")
            if worker.is_alive():
                worker.kill(signal.SIGTERM)
        for worker in workers:
            code = worker.ended()
            if code:
                told = f"{worker.name} ended with {code}: {worker.complaint()}"
                self.verdict.problems.append(told)

    # -- the judgement -----------------------------------------------------------------------------

    def _history(self) -> list[Op]:
        written = [read_history(path) for path in sorted(self.folder.glob("*.history"))]
        kept = [list(read_effects(path)) for path in sorted(self.folder.glob("*.effects"))]
        return merged([*written, *kept])

    def _all_handled(self, log: list[Op], expected: list[Expected]) -> bool:
        pause(0.2)
        buried = {(op.subscription, op.position) for op in read_letters(self.folder / "bus.db")}
        done: dict[str, set[int]] = {}
        for op in self._history():
            if op.kind == "effect":
                done.setdefault(op.subscription, set()).add(op.position)
        for unit in {each.group or each.name for each in expected}:
            mine = [each for each in expected if unit in (each.group, each.name)]
            have = set().union(*(done.get(each.name, set()) for each in mine))
            have |= {position for name, position in buried if name == unit}
            due = {op.position for op in log if any(each.covers(op) for each in mine)}
            if due - have:
                return False
        return True

    def _judge(self, log: list[Op], expected: list[Expected]) -> None:
        happened, buried = self._history(), list(read_letters(self.folder / "bus.db"))
        ops = merged([happened, log, buried])
        self.verdict.violations = check(ops, expected, seed=self.seed)
        figures = self.verdict.figures
        for op in ops:
            figures[op.kind] += 1
        unique = {(op.subscription, op.identity) for op in ops if op.kind == "effect"}
        figures["repeated effects"] = figures["effect"] - len(unique)
        figures["doubted"] = doubted_in_vain(ops, expected)
        figures["maybe"] = figures["attempted"] - figures["accepted"]
        figures["handed over"] = handed_over(ops, expected)
        told = [path.read_text() for path in self.folder.glob("*.err")]
        figures["counted as dead"] = sum(each.count("counted as dead") for each in told)


def handed_over(ops: list[Op], expected: list[Expected]) -> int:
    """How many events of a group were begun by one member, and then by another."""
    members = {each.name for each in expected if each.group}
    begun: dict[Identity | None, set[str]] = {}
    for op in ops:
        if op.kind == "begun" and op.subscription in members:
            begun.setdefault(op.identity, set()).add(op.process)
    return sum(len(processes) > 1 for processes in begun.values())


def expected_of(mine: Listening) -> Expected:
    """What a subscription should match, as a plain predicate."""

    def wants(kind: str, payload: Payload) -> bool:
        return kind in SUBTYPES[mine.type] and payload["size"] > mine.above

    return Expected(mine.name, wants, level=mine.level, group=mine.group)


def read_log(path: Path) -> Iterator[Op]:
    """The log as operations."""
    with closing(open_again(path)) as store:
        start = store.oldest()
        while entries := store.read(start).entries:
            for stored in entries:
                yield _logged(stored.position, stored.record)
            start = entries[-1].position + 1


def _logged(position: int, record: Record) -> Op:
    decode = msgspec.json.decode if record.codec == "json" else msgspec.msgpack.decode
    payload = decode(record.payload)
    return Op(
        "log",
        "",
        0,
        key=payload["key"],
        type=record.name.rpartition(".")[2],
        payload=payload,
        identity=record.identity,
        position=position,
    )


def read_letters(path: Path) -> Iterator[Op]:
    """The dead letters as operations."""
    with closing(open_again(path)) as store, store.view() as view:
        for letter in view.letters():
            yield Op(
                "buried",
                "",
                0,
                subscription=letter.subscription,
                identity=letter.record.identity,
                position=letter.position,
            )


def open_again(path: Path) -> Store:
    """The store of a run, from the driver."""
    return SqliteStore(str(path))


def read_effects(path: Path) -> Iterator[Op]:
    """What a subscriber has in its own database."""
    with closing(effects_table(path)) as database:
        database.row_factory = sqlite3.Row
        for row in database.execute("SELECT * FROM effects ORDER BY number"):
            yield Op(
                "effect",
                row["process"],
                row["at"],
                subscription=row["subscription"],
                key=row["key"],
                identity=Identity(row["publisher"], row["epoch"], row["sequence"]),
                position=row["position"],
                count=row["count"],
                token=row["token"],
                digest=row["digest"],
            )


def pause(seconds: float) -> None:
    """Let the processes run for a while."""
    threading.Event().wait(seconds)


def until(condition: Callable[[], object]) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause(0.005)
    return True


# -- the flood -----------------------------------------------------------------------------------

FLOOD: dict[str, list[Listening]] = {
    "slow": [
        Listening("flooded", "Event", "sorted_set", transactional=False, stops_after=50, queue=200)
    ]
}
CEILING = 24 * 1024  # KiB that a process may grow by; far more than that is published
FASTER = 10  # times as fast as the subscriber handles them the events come, at least


def flooded(
    folder: Path,
    *,
    seed: int,
    events: int,
    size: int,
    played_by: type[Troupe] = Troupe,
    ceiling: int = CEILING,
) -> Verdict:
    """One publisher at full speed; the subscriber stops handling, and goes on when all is there."""
    assert events * size > 2 * ceiling * 1024, "what fits under the ceiling shows nothing"
    publishing = {"events": events, "size": size, "pause": 0.0, "at_once": 50}
    with played_by(folder, seed=seed, cast=FLOOD, publishers=1, publishing=publishing) as troupe:
        (publisher,) = troupe.publishers
        until(lambda: not publisher.is_alive())
        (folder / GATE).touch()
        verdict = troupe.finish()
    accepted = [op.at for op in read_history(folder / "p1.history") if op.kind == "accepted"]
    handled = [op.at for op in read_history(folder / "slow.history") if op.kind == "effect"]
    meanwhile = sum(at < accepted[-1] for at in handled)
    verdict.figures["times as fast"] = round(len(accepted) / max(meanwhile, 1))
    if meanwhile * FASTER > len(accepted):
        verdict.problems.append(f"no flood: {meanwhile} of {len(accepted)} were handled meanwhile")
    for worker in (*troupe.publishers, *troupe.subscribers):
        before, peak = worker.memory()
        verdict.figures[f"{worker.name} grew by KiB"] = peak - before
        if peak - before > ceiling:
            verdict.problems.append(f"{worker.name} grew by {peak - before} KiB")
    return verdict


# -- whether the run can fail ----------------------------------------------------------------------

CARELESS: dict[str, list[Listening]] = {
    "s1": [Listening("careless", "Event", "strong_set", transactional=False)]
}


def careless(folder: Path, seed: int) -> int:
    """Kill a subscriber that keeps its effects without a transaction: how often C3 is broken."""
    busy = {"pause": 0.001, "at_once": 20}  # so that it is killed in the midst of its work
    with Troupe(folder, seed=seed, cast=CARELESS, publishers=2, publishing=busy) as troupe:
        for _ in range(8):
            troupe.kill(troupe.subscribers)
            troupe.await_ready()
            pause(0.15)
        verdict = troupe.finish()
    return sum(each.rule == "C3" for each in verdict.violations)
