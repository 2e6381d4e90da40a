"""One connection: publishing and receiving through a broker, against a bus over the same file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import broker_jetstream
from broker_clients import Brokering
from broker_setting import PATIENCE, Announcement, Plan, Report, announcements, child
from broker_systems import JETSTREAM
from durable_setting import url_of
from measure import Effort, Run, Samples, apart, duration, race, wall_time
from tables import Table

import polycast as pc

LOCAL, REMOTE = "bus over a file", "bus through a broker"
SYNCED = JETSTREAM.name  # NATS, which syncs each event to a file as well
ALL_CORES = {0, 1}
TOGETHER = 100  # events in a call, where they are received
LOG = 20_000  # events that somebody catches up with
BATCHES = (1, 10, 100, 1_000)

Results = dict[str, tuple[int, Samples]]
"""By what is done: how many events that is each time, and the seconds that it took."""


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """All in one process, so that both sides have the same moments."""
    report("one connection")
    return apart(_measured, plan.effort, folder)


def _measured(effort: Effort, folder: Path) -> Results:
    found: Results = {}
    with opened(folder) as urls, ExitStack() as open_:
        buses = {name: open_.enter_context(pc.Bus(url)) for name, url in urls.items()}
        for size in BATCHES:
            name = "publish, one by one" if size == 1 else f"publish_many of {size:,}"
            runs = {side: publishing(bus, size) for side, bus in buses.items()}
            if size == 1 and not JETSTREAM.missing:
                runs[SYNCED] = open_.enter_context(publishing_synced(folder))
            found[name] = size, race(runs, effort)
        runs = {side: delivering(bus) for side, bus in buses.items()}
        found[f"publish_many of {TOGETHER} until handled"] = TOGETHER, race(runs, effort)
    log = LOG // 10 if effort.is_quick else LOG
    with opened(folder) as urls:
        for url in urls.values():
            with pc.Bus(url) as bus:
                for first in range(0, log, 1_000):
                    bus.publish_many(announcements(first, 1_000))
        again = Effort(rounds=effort.rounds, slice=1e-6, longest=effort.longest)
        runs = {side: catching_up(url, log) for side, url in urls.items()}
        found[f"catching up with {log:,}"] = log, race(runs, again)
    return found


@contextmanager
def opened(folder: Path) -> Iterator[dict[str, str]]:
    """Two files of their own on one disk, one of them with a broker."""
    mark = time.monotonic_ns()
    here, there = (url_of(folder / f"{name}-{mark}.db") for name in ("local", "remote"))
    with child(Brokering, there, cores=ALL_CORES) as broker:
        yield {LOCAL: here, REMOTE: broker.ask("url")}


def publishing(bus: pc.Bus, size: int) -> Run:
    """Calls that return when all is synced."""
    events = announcements(0, size)

    def run(calls: int) -> float:
        start = wall_time()
        for _ in range(calls):
            if size == 1:
                bus.publish(events[0])
            else:
                bus.publish_many(events)
        return wall_time() - start

    return run


@contextmanager
def publishing_synced(folder: Path) -> Iterator[Run]:
    """Publish one by one to NATS JetStream, each synced before its publisher hears of it."""
    store = url_of(folder / f"synced-{time.monotonic_ns()}.db")
    with child(broker_jetstream.Serving, store, cores=ALL_CORES) as server:
        line = broker_jetstream.OneByOne(server.ask("url"))

        def run(calls: int) -> float:
            start = wall_time()
            line.publish(calls)
            return wall_time() - start

        yield run
        line.close()


def delivering(bus: pc.Bus) -> Run:
    """Publish some, and wait until all of them have been handled."""
    counter = Counter()
    bus.subscribe(Announcement, counter.take)
    events = announcements(0, TOGETHER)

    def run(calls: int) -> float:
        counter.expect(calls * TOGETHER)
        start = wall_time()
        for _ in range(calls):
            bus.publish_many(events)
        counter.wait()
        return wall_time() - start

    return run


def catching_up(url: str, log: int) -> Run:
    """Subscribe from the beginning of the log, and wait until all of it has been handled."""

    def run(calls: int) -> float:
        spent = 0.0
        for _ in range(calls):
            counter = Counter()
            counter.expect(log)
            with pc.Bus(url) as bus:
                start = wall_time()
                bus.subscribe(Announcement, counter.take, since="beginning")
                counter.wait()
                spent += wall_time() - start
        return spent

    return run


class Counter:
    """Counts callbacks."""

    def __init__(self) -> None:
        self._left = 0
        self._all = threading.Event()

    def expect(self, count: int) -> None:
        self._left = count
        self._all.clear()

    def take(self, event: object) -> None:
        """One thread at a time calls it."""
        del event
        self._left -= 1
        if self._left == 0:
            self._all.set()

    def wait(self) -> None:
        if not self._all.wait(PATIENCE):
            raise AssertionError(f"{self._left} events did not come")


# -- showing ---------------------------------------------------------------------------------------


def tables(found: Results) -> list[Table]:
    """Times per call, events a second, ratios."""
    shown = [
        Table(
            "One connection",
            ("one connection", LOCAL, "events/s", REMOTE, "events/s there", "times as long"),
            [(name, *_row(size, samples)) for name, (size, samples) in found.items()],
        )
    ]
    synced = [(name, samples) for name, (_, samples) in found.items() if SYNCED in samples]
    if synced:
        columns = ("one connection, each event synced", REMOTE, SYNCED, "its rate to theirs")
        rows = [
            (
                name,
                duration(samples[REMOTE].median),
                duration(samples[SYNCED].median),
                str(samples[SYNCED].over(samples[REMOTE])),
            )
            for name, samples in synced
        ]
        shown.append(Table("One publisher beside NATS JetStream", columns, rows))
    return shown


def _row(size: int, samples: Samples) -> tuple[str, ...]:
    local, remote = samples[LOCAL], samples[REMOTE]
    rate: Callable[[float], str] = lambda seconds: f"{size / seconds:,.0f}"  # noqa: E731
    return (
        duration(local.median),
        rate(local.median),
        duration(remote.median),
        rate(remote.median),
        str(remote.over(local)),
    )


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return {
        name: {"events": size, **{side: list(each.times) for side, each in samples.items()}}
        for name, (size, samples) in found.items()
    }
