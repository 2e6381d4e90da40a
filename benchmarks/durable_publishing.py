"""How many events a second a bus over a file takes, side by side with bare apsw.

Bare apsw writes into the same table with the same indexes, made by a store, in the same sync mode:
once rows that were made before the clock ran, once rows whose body is the event in MessagePack,
which is the least that any program has to do. Neither has an envelope, an identity to keep unique
over processes, or a checksum to compute.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec
from durable_setting import ORDER, Plan, Report, url_of
from measure import Run, Samples, apart, figures, race, wall_time
from tables import Table

import polycast as pc
from polycast.events import Identity, Record, encode_record
from polycast.stores import open_store
from polycast.typesystem import describe

OURS = "polycast"
READY = "bare apsw, ready rows"
ENCODING = "bare apsw, encoding"
GOAL = 1.3
TOGETHER = 100  # events per call, where several publish in batches
GOAL_FROM = 100  # events per call: what counts as batched

Prepare = Callable[[int], Callable[[], None]]
"""Make ready for so many calls, which the function returned then makes."""

_INSERT = "INSERT INTO log(type, epoch, sequence, time, body) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many publish at once, how many events with each call, and by which method."""

    publishers: int
    batch: int
    method: str = "publish_many"

    @property
    def events(self) -> int:
        """Published when each publisher has made one call."""
        return self.publishers * self.batch


Results = dict[Scenario, Samples]


# -- contenders ------------------------------------------------------------------------------------


def _ours(bus: pc.Bus, scenario: Scenario) -> Prepare:
    events = [ORDER] * scenario.batch
    what: object = ORDER if scenario.method == "publish" else events
    publish: Callable[[object], object] = getattr(bus, scenario.method)

    def prepare(calls: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(calls):
                publish(what)

        return work

    return prepare


class Bare:
    """One connection to a file that a store has made; who writes has it alone."""

    def __init__(self, path: Path) -> None:
        open_store(path).close()
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA synchronous = FULL")
        self._lock = threading.Lock()
        self._sequence = itertools.count(1)

    def close(self) -> None:
        self._connection.close()

    def ready(self, batch: int) -> Prepare:
        """Rows with the body that a store would write, all made before the clock runs."""
        body, moment = _body(), time.time()

        def prepare(calls: int) -> Callable[[], None]:
            groups = [
                [(1, 1, next(self._sequence), moment, body) for _ in range(batch)]
                for _ in range(calls)
            ]

            def work() -> None:
                for rows in groups:
                    self._insert(rows)

            return work

        return prepare

    def encoding(self, batch: int) -> Prepare:
        """Rows made of events while the clock runs."""
        events, encode = [ORDER] * batch, msgspec.msgpack.encode

        def prepare(calls: int) -> Callable[[], None]:
            def work() -> None:
                for _ in range(calls):
                    now, sequence = time.time(), self._sequence
                    self._insert([(1, 1, next(sequence), now, encode(each)) for each in events])

            return work

        return prepare

    def _insert(self, rows: list[tuple[object, ...]]) -> None:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, rows)
            self._connection.execute("COMMIT")


def _body() -> bytes:
    """What a store writes for the event."""
    described = describe(type(ORDER))
    identity = Identity("bus-0123456789ab", 1, 1)
    payload = msgspec.msgpack.encode(ORDER)
    name, version = described.name, described.version
    record = Record(name, version, described.hash, identity, time.time(), "msgpack", payload)
    return encode_record(record)


def _by(publishers: int, prepare: Prepare) -> Run:
    """Each publisher makes so many calls; the seconds until the last has made its last."""

    def run(repeats: int) -> float:
        works = [prepare(repeats) for _ in range(publishers)]
        if publishers == 1:
            start = wall_time()
            works[0]()
            return wall_time() - start
        gate = threading.Barrier(publishers + 1)
        threads = [threading.Thread(target=_behind, args=(gate, work)) for work in works]
        for thread in threads:
            thread.start()
        gate.wait()
        start = wall_time()
        for thread in threads:
            thread.join()
        return wall_time() - start

    return run


def _behind(gate: threading.Barrier, work: Callable[[], None]) -> None:
    gate.wait()
    work()


# -- measuring -------------------------------------------------------------------------------------


def scenarios(plan: Plan) -> Iterator[Scenario]:
    """One publisher with all sizes of calls, then several."""
    for batch in plan.batches:
        yield Scenario(1, batch)
    for publishers in plan.publishers:
        yield Scenario(publishers, 1, "publish")
        if publishers > 1:
            yield Scenario(publishers, TOGETHER)


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """All contenders in turn, in each scenario, with new files."""
    found: Results = {}
    for number, scenario in enumerate(scenarios(plan)):
        report(f"{scenario.publishers} publishers, {scenario.batch:,} events per call")
        below = folder / f"publishing-{number}"
        below.mkdir()
        found[scenario] = apart(_measured, scenario, plan, below)
        shutil.rmtree(below)
    return found


def _measured(scenario: Scenario, plan: Plan, folder: Path) -> Samples:
    with _contenders(scenario, folder) as contenders:
        runs = {name: _by(scenario.publishers, each) for name, each in contenders.items()}
        return race(runs, plan.effort)


@contextmanager
def _contenders(scenario: Scenario, folder: Path) -> Iterator[dict[str, Prepare]]:
    with (
        pc.Bus(url_of(folder / "ours.db")) as bus,
        closing(Bare(folder / "ready.db")) as ready,
        closing(Bare(folder / "encoding.db")) as encoding,
    ):
        yield {
            OURS: _ours(bus, scenario),
            READY: ready.ready(scenario.batch),
            ENCODING: encoding.encoding(scenario.batch),
        }


# -- showing ---------------------------------------------------------------------------------------

_NAMES = (OURS, READY, ENCODING)
_RATIOS = ("time over ready rows", "time over encoding")


def tables(found: Results) -> list[Table]:
    """Events a second, ratios, goals."""
    alone = [each for each in found if each.publishers == 1 and each.method == "publish_many"]
    several = [each for each in found if each.method == "publish" or each.batch == TOGETHER]
    note = "Events/s of the best round. Ratios within a round: below 1, polycast is faster."
    return [
        Table(
            "Publishing to a file: one publisher",
            ("events per call", *_NAMES, *_RATIOS),
            [(f"{each.batch:,}", *_cells(each, found[each])) for each in alone],
            note=note,
        ),
        Table(
            "Publishing to a file: several publishers at once, in threads of one process",
            ("publishers", "events per call", *_NAMES, *_RATIOS),
            [
                (str(each.publishers), str(each.batch), *_cells(each, found[each]))
                for each in sorted(several, key=lambda each: (each.batch, each.publishers))
            ],
            note=f"{note} The bare connection is shared under a lock, one transaction per call.",
        ),
        Table(
            "Publishing to a file: goals",
            ("publishers, events per call", "against", "goal", "rounds", "best rounds", "verdict"),
            [row for scenario, each in found.items() for row in _goals(scenario, each)],
            note="How many times the bare time is taken, when batched.",
        ),
    ]


def _cells(scenario: Scenario, samples: Samples) -> tuple[str, ...]:
    ours = samples[OURS]
    return (
        *(f"{scenario.events / samples[name].best:,.0f}" for name in _NAMES),
        *(str(ours.over(samples[name])) for name in _NAMES[1:]),
    )


def _goals(scenario: Scenario, samples: Samples) -> Iterator[tuple[str, ...]]:
    if scenario.batch < GOAL_FROM:
        return
    ours = samples[OURS]
    for name in _NAMES[1:]:
        ratio, best = ours.over(samples[name]), ours.best / samples[name].best
        verdict = "met" if ratio.median <= GOAL else "not met"
        what = f"{scenario.publishers}, {scenario.batch:,}"
        yield what, name, f"{GOAL:g}", str(ratio), figures(best), verdict


def plain(found: Results) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {
            "publishers": scenario.publishers,
            "batch": scenario.batch,
            "method": scenario.method,
            "seconds": {name: list(each.times) for name, each in samples.items()},
        }
        for scenario, samples in found.items()
    ]
