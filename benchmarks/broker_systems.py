"""What is compared, and the same experiment with each: a broker, one publisher, some consumers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import broker_clients as ours
import broker_jetstream as jetstream
import broker_peers as nats
from broker_setting import (
    ALL,
    BROKER_CORES,
    CLIENT_CORES,
    Child,
    Offer,
    child,
    processor_time,
    within,
)
from durable_setting import url_of

PROCESSES = 2  # that all consumers are in


@dataclass(frozen=True, slots=True)
class System:
    """A broker with its clients; each is a class that is made in a process of its own."""

    name: str
    broker: Callable[[str], Any]
    publisher: Callable[[str, str, int], Any]
    consumer: Callable[[str, str, list[int], int], Any]
    counter: Callable[[str, str, list[int], int], Any]
    needs: tuple[str, ...] = ()  # modules besides polycast's
    in_memory: bool = False

    @property
    def missing(self) -> str | None:
        """What is not installed of it, if so."""
        return nats.missing(*self.needs) if self.needs else None


FILE = System("polycast, file", ours.Brokering, ours.Publisher, ours.Buses, ours.Counting)
SHARED = replace(FILE, consumer=ours.OneBus)
MEMORY = System(
    "polycast, memory", ours.Brokering, ours.Publisher, ours.Buses, ours.Counting, in_memory=True
)
NATS = System("NATS, nats-py", nats.Serving, nats.Publisher, nats.Clients, nats.Counting, ("nats",))
FASTSTREAM = System(
    "NATS, FastStream",
    nats.Serving,
    nats.FastPublisher,
    nats.FastClients,
    nats.Counting,
    ("nats", "faststream"),
)
JETSTREAM = System(
    "NATS JetStream",
    jetstream.Serving,
    jetstream.Publisher,
    jetstream.Clients,
    nats.Counting,
    ("nats",),
)
SYSTEMS = (FILE, MEMORY, NATS, FASTSTREAM)


@dataclass(frozen=True, slots=True)
class Point:
    """What came of an offered rate, all of it a second."""

    offered: int
    announced: float
    notified: float
    ideal: float  # of both together
    broker: float  # of a core

    @property
    def reached(self) -> float:
        """Which part of the ideal."""
        return (self.announced + self.notified) / self.ideal


class Experiment:
    """All sides of a system, running."""

    def __init__(self, kind: str, consumers: int, sides: tuple[Child, Child, list[Child]]) -> None:
        self.broker, self.publisher, self.consumers = sides
        self._takers = consumers if kind == ALL else 1
        self._broker = self.broker.ask("pid")

    def point(self, rate: int, lasting: float) -> Point:
        """Offer events at a rate; what is announced and notified until the time is over.

        All of it counts, from the first event on: who falls behind and catches up later does not
        get above the ideal by that.
        """
        before, spent = self._total(), processor_time(self._broker)
        steps = self.publisher.ask("offer", Offer(rate, lasting))
        spent = processor_time(self._broker) - spent
        begin, end = steps[0][0], steps[0][0] + lasting
        self._drain(before + steps[-1][1] * self._takers)
        notified = sum(each.ask("between", begin, end) for each in self.consumers)
        return Point(
            rate,
            within(steps, begin, end) / lasting,
            notified / lasting,
            rate * (1 + self._takers),
            spent / max(steps[-1][0] - begin, lasting),
        )

    def latencies(self, rate: int, seconds: float, clients: list[Child]) -> list[float]:
        """Seconds from the call that published an event until the callback, of some consumers."""
        before = self._total()
        for each in clients:
            each.ask("remember")
        steps = self.publisher.ask("offer", Offer(rate, seconds, every=0.002))
        self._drain(before + steps[-1][1] * self._takers)
        return sorted(found for each in clients for found in each.ask("latencies"))

    def _total(self) -> int:
        return sum(each.ask("total") for each in self.consumers)

    def _drain(self, total: int, *, within: float = 20.0) -> None:
        """What was published before must not count for what comes next."""
        deadline = time.monotonic() + within
        while self._total() < total and time.monotonic() < deadline:
            time.sleep(0.05)


@contextmanager
def running(
    system: System, kind: str, consumers: int, folder: Path, *, clients: int | None = None
) -> Iterator[Experiment]:
    """The sides of a system; so many consumers are real clients, and the others only count."""
    real = consumers if clients is None else min(clients, consumers)
    numbers = list(range(consumers))
    parts = [
        *((system.consumer, numbers[:real][at::PROCESSES]) for at in range(PROCESSES)),
        (system.counter, numbers[real:]),
    ]
    with ExitStack() as sides:
        path = folder / f"broker-{time.monotonic_ns()}.db"
        store = "memory:" if system.in_memory else url_of(path)
        broker = sides.enter_context(child(system.broker, store, cores=BROKER_CORES))
        url = broker.ask("url")
        about = (url, kind, consumers)
        publisher = sides.enter_context(child(system.publisher, *about, cores=CLIENT_CORES))
        takers = [
            sides.enter_context(child(make, url, kind, some, consumers, cores=CLIENT_CORES))
            for make, some in parts
            if some
        ]
        yield Experiment(kind, consumers, (broker, publisher, takers))
