"""`polycast bench`: how fast a store or a broker is, measured from here with events of its own."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.formatting import count, duration, size, table
from polycast.cli.targets import place_of
from polycast.cli.terminal import Refused
from polycast.errors import StoreError
from polycast.matching import topic as on_topic
from polycast.plain_text import plain
from polycast.typesystem import event

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from polycast.bus.bus import Bus
    from polycast.cli.terminal import Terminal

__all__ = ["Probe", "bench"]

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


class Round(msgspec.Struct, frozen=True):
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


def bench(given: Namespace, terminal: Terminal) -> int:
    """Publish events of a type and on a topic of its own, and measure how they arrive."""
    if not given.events or not given.subscribers:
        raise Refused("--events and --subscribers are at least 1")
    place, topic = place_of(given), f"/polycast/bench/{uuid.uuid4().hex[:12]}"
    collectors = [Collector() for _ in range(given.subscribers)]
    with ExitStack() as opened:
        publisher = opened.enter_context(place.bus())
        subscriber = opened.enter_context(place.bus())
        for each in collectors:
            what = on_topic(topic, Probe)
            opened.enter_context(subscriber.subscribe(what, each.take, queue=given.events + SINGLE))
        rounds = {
            f"batches of {BATCH}": _many(given, publisher, topic, collectors),
            "one by one": _single(given, publisher, topic, collectors),
        }
    left = sum(each.events for each in rounds.values())
    data = {
        "place": place.text,
        "left": left,
        "events": given.events,
        "size": given.size,
        "subscribers": given.subscribers,
        "rounds": {name: msgspec.to_builtins(each) for name, each in rounds.items()},
    }
    _show(given, data, rounds, terminal)
    if not terminal.as_json:
        terminal.note(
            f"{count(left, 'event')} of this stay in the log until its retention lets go of them; "
            f"nobody gets them after {EXPIRES / 60:g} minutes"
        )
    return 0


def _many(given: Namespace, bus: Bus, topic: str, collectors: Sequence[Collector]) -> Round:
    padding, began = "x" * given.size, time.perf_counter()
    for at in range(0, given.events, BATCH):
        now = time.perf_counter()
        probes = [Probe(now, padding) for _ in range(min(BATCH, given.events - at))]
        bus.publish_many(probes, topic=topic, expires=EXPIRES)
    published = time.perf_counter() - began
    return _measured(collectors, given.events, 0, began, published)


def _single(given: Namespace, bus: Bus, topic: str, collectors: Sequence[Collector]) -> Round:
    """Each is published when the one before it has come."""
    many, padding, began = min(SINGLE, given.events), "x" * given.size, time.perf_counter()
    publishing = 0.0
    for number in range(many):
        now = time.perf_counter()
        bus.publish(Probe(now, padding), topic=topic, expires=EXPIRES)
        publishing += time.perf_counter() - now
        for each in collectors:
            each.wait_for(given.events + number + 1)
    return _measured(collectors, many, given.events, began, publishing)


def _measured(
    collectors: Sequence[Collector], many: int, before: int, began: float, published: float
) -> Round:
    for each in collectors:
        each.wait_for(before + many)
    delivered = time.perf_counter() - began
    took = sorted(each for one in collectors for each in one.took[before : before + many])
    latency = {f"p{part}": took[(len(took) - 1) * part // 100] for part in (50, 90, 99)}
    latency["max"] = took[-1]
    return Round(many, len(took), many / published, len(took) / delivered, latency)


# -- showing ---------------------------------------------------------------------------------------

_HEADS = ("round", "events", "published/s", "delivered/s", "p50", "p90", "p99", "max")


def _show(
    given: Namespace, data: dict[str, Any], rounds: dict[str, Round], terminal: Terminal
) -> None:
    of = f"of {size(given.size)}" if given.size else "without padding"
    title = (
        f"{given.store}: {count(given.events, 'event')} {of}, "
        f"{count(given.subscribers, 'subscriber')}"
    )
    rows = [
        (
            name,
            each.events,
            round(each.published_per_second),
            round(each.delivered_per_second),
            *(duration(value) for value in each.latency.values()),
        )
        for name, each in rounds.items()
    ]
    if sys.stdout.isatty() and not terminal.as_json:
        with suppress(ImportError):  # plain lines will do
            _draw(title, rows)
            return
    terminal.show(data, [title, "", *table(_HEADS, rows)])


def _draw(title: str, rows: Sequence[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(plain(title)), title_justify="left")
    for head in _HEADS:
        drawn.add_column(head, justify="left" if head == "round" else "right")
    for row in rows:
        drawn.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console().print(drawn)
