"""`polycast bench`: how fast a store or a broker is, measured from here with events of its own."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.command_line import add_command, whole
from polycast.cli.formatting import TextTable, count, duration, size
from polycast.cli.operands import place_of
from polycast.cli.terminal import Terminal, UsageError
from polycast.errors import StoreError
from polycast.matching import topic as on_topic
from polycast.typesystem import event

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from polycast.bus.bus import Bus


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "bench polycast://127.0.0.1:7788 --events 10000 --subscribers 4"
    more = "The events it publishes stay in the log until retention removes them."
    command = add_command(commands, "bench", run, what, example, more=more)
    command.take_place()
    command.take("--events N", "the number of events (10,000)", type=whole, default=10_000)
    command.take("--size BYTES", "the size of each event (100)", type=whole, default=100)
    command.take("--subscribers K", "the number of subscribers (1)", type=whole, default=1)


def run(given: Namespace, terminal: Terminal) -> int:
    """Publish events of a type and on a topic of its own, and measure how they arrive."""
    if not given.events or not given.subscribers:
        raise UsageError("--events and --subscribers are at least 1")
    rounds = _rounds(given)
    left = sum(figures.events for figures in rounds.values())
    data = {
        "place": given.store,
        "left": left,
        "events": given.events,
        "size": given.size,
        "subscribers": given.subscribers,
        "rounds": {name: msgspec.to_builtins(figures) for name, figures in rounds.items()},
    }
    of = f"of {size(given.size)}" if given.size else "without padding"
    title = (
        f"{given.store}: {count(given.events, 'event')} {of}, "
        f"{count(given.subscribers, 'subscriber')}"
    )
    terminal.show(data, [title, "", round_table(rounds)])
    if not terminal.as_json:
        terminal.note(
            f"{count(left, 'event')} of this stay in the log until its retention lets go of them; "
            f"nobody gets them after {EXPIRES / 60:g} minutes"
        )
    return 0


def _rounds(given: Namespace) -> dict[str, Any]:
    """Measure both rounds, with buses and subscriptions that end with them."""
    place, topic = place_of(given), f"/polycast/bench/{uuid.uuid4().hex[:12]}"
    collectors = [Collector() for _ in range(given.subscribers)]
    with ExitStack() as opened:
        publisher = opened.enter_context(place.bus())
        subscriber = opened.enter_context(place.bus())
        for collector in collectors:
            what, queue = on_topic(topic, Probe), given.events + SINGLE
            opened.enter_context(subscriber.subscribe(what, collector.take, queue=queue))
        return {
            f"batches of {BATCH}": batches(given, publisher, topic, collectors),
            "one by one": one_by_one(given, publisher, topic, collectors),
        }


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
