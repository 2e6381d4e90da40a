"""The rounds of `polycast bench`: events of a type of its own, and how they arrive."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from polycast.cli.formatting import TextTable, duration
from polycast.errors import StoreError
from polycast.typesystem import event

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from polycast.bus.bus import Bus

__all__ = [
    "BATCH",
    "EXPIRES",
    "SINGLE",
    "Collector",
    "Probe",
    "batches",
    "one_by_one",
    "round_table",
]

BATCH = 100  # events in one call of the first round
SINGLE = 200  # events of the second round, at most
PATIENCE = 60.0  # seconds without any progress after which it is given up
EXPIRES = 300.0  # seconds; nobody is to get them later


@event(name="polycast.BenchProbe")
@dataclass(frozen=True)
class Probe:
    """What is published to measure; it means nothing to anybody."""

    sent: float
    padding: str = ""


class BenchRound(msgspec.Struct, frozen=True):
    """One round: as much as possible at once, or one event after the other."""

    events: int
    delivered: int
    published_per_second: float
    delivered_per_second: float
    latency: dict[str, float]
    """Seconds from before an event is published to the callback: p50, p90, p99 and max."""


class Collector:
    """One subscriber: it notes how long each event has taken."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._changed = threading.Condition()

    def take(self, probe: Probe) -> None:
        """One more event has come."""
        took = time.perf_counter() - probe.sent
        with self._changed:
            self.took.append(took)
            self._changed.notify_all()

    def wait_for(self, many: int) -> None:
        """Wait until so many have come."""
        with self._changed:
            while len(self.took) < many:
                before = len(self.took)
                if not self._changed.wait(PATIENCE) and len(self.took) == before:
                    raise StoreError(
                        f"{before:,} of {many:,} events have come, and then none for "
                        f"{PATIENCE:g} s; `polycast doctor` may tell why"
                    )


def batches(given: Namespace, bus: Bus, topic: str, collectors: Sequence[Collector]) -> BenchRound:
    """As many as possible at once, in batches."""
    padding, began = "x" * given.size, time.perf_counter()
    for at in range(0, given.events, BATCH):
        now = time.perf_counter()
        probes = [Probe(now, padding) for _ in range(min(BATCH, given.events - at))]
        bus.publish_many(probes, topic=topic, expires=EXPIRES)
    published = time.perf_counter() - began
    return _measured(collectors, given.events, 0, began, published)


def one_by_one(
    given: Namespace, bus: Bus, topic: str, collectors: Sequence[Collector]
) -> BenchRound:
    """Each is published when the one before it has come."""
    many, padding, began = min(SINGLE, given.events), "x" * given.size, time.perf_counter()
    publishing = 0.0
    for number in range(many):
        now = time.perf_counter()
        bus.publish(Probe(now, padding), topic=topic, expires=EXPIRES)
        publishing += time.perf_counter() - now
        for collector in collectors:
            collector.wait_for(given.events + number + 1)
    return _measured(collectors, many, given.events, began, publishing)


def _measured(
    collectors: Sequence[Collector], many: int, before: int, began: float, published: float
) -> BenchRound:
    for collector in collectors:
        collector.wait_for(before + many)
    delivered = time.perf_counter() - began
    took = sorted(
        seconds for collector in collectors for seconds in collector.took[before : before + many]
    )
    latency = {f"p{part}": took[(len(took) - 1) * part // 100] for part in (50, 90, 99)}
    latency["max"] = took[-1]
    return BenchRound(many, len(took), many / published, len(took) / delivered, latency)


_HEADS = ("round", "events", "published/s", "delivered/s", "p50", "p90", "p99", "max")


def round_table(rounds: dict[str, BenchRound]) -> TextTable:
    """A row for each round."""
    rows = [
        (
            name,
            figures.events,
            round(figures.published_per_second),
            round(figures.delivered_per_second),
            *(duration(seconds) for seconds in figures.latency.values()),
        )
        for name, figures in rounds.items()
    ]
    return TextTable(_HEADS, rows)
