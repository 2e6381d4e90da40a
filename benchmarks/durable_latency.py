"""How long it takes from publishing to a callback at half load, open loop.

The times at which events are sent are fixed before, and a latency counts from the intended time: a
publisher that is held up does not hide what its later events had to wait (coordinated omission).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durable_receiving import Receiver, elsewhere, subscribed
from durable_setting import ORDER, Order, Plan, Report, url_of
from measure import apart, duration
from tables import Table

import polycast as pc

HERE, ELSEWHERE = "same process", "another process"
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Where the one subscriber is, and whether its place is kept in the store."""

    place: str
    durable: bool
    dispatch: str = "pool"

    def __str__(self) -> str:
        name = f"{self.place}, durable" if self.durable else self.place
        return name if self.dispatch == "pool" else f"{name}, in line"


SCENARIOS = (
    Scenario(HERE, durable=False),
    Scenario(HERE, durable=False, dispatch="inline"),
    Scenario(HERE, durable=True),
    Scenario(ELSEWHERE, durable=False),
    Scenario(ELSEWHERE, durable=False, dispatch="inline"),
    Scenario(ELSEWHERE, durable=True),
)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds from when an event should have been sent, at some events per second."""

    load: float
    handled: list[float]
    returned: list[float]

    def of(self, name: str, *, returned: bool = False) -> float:
        """A percentile of one of them."""
        ordered = sorted(self.returned if returned else self.handled)
        return ordered[min(len(ordered) - 1, int(PERCENTILES[name] * len(ordered)))]


Results = dict[Scenario, Latencies]


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """All of them, each with a file of its own."""
    found = {}
    for number, scenario in enumerate(SCENARIOS):
        report(f"latency, subscriber: {scenario}")
        found[scenario] = apart(_measured, scenario, plan, folder / f"latency-{number}.db")
    return found


def _measured(scenario: Scenario, plan: Plan, path: Path) -> Latencies:
    with pc.Bus(url_of(path)) as bus, _receiver(scenario, bus, path) as receiver:
        receiver.expect(1)
        bus.publish(ORDER)  # the first event of a class takes longer, wherever it comes
        receiver.arrivals()
        full = _full_load(bus, receiver, plan.finding_out)
        return _half_load(bus, receiver, full / 2, max(20, int(full / 2 * plan.lasting)))


@contextmanager
def _receiver(scenario: Scenario, bus: pc.Bus, path: Path) -> Iterator[Receiver]:
    options: dict[str, Any] = {"dispatch": scenario.dispatch}
    if scenario.durable:
        options["durable"] = "receiver"
    if scenario.place == HERE:
        yield subscribed(bus, Order, 1, **options)
        return
    with elsewhere(path, Order, 1, **options) as receiver:
        yield receiver


def _full_load(bus: pc.Bus, receiver: Receiver, seconds: float) -> float:
    """Events a second that one publisher reaches when it waits for nothing but publish."""
    least = 50
    receiver.expect(least)
    begin = time.monotonic()
    for _ in range(least):
        bus.publish(ORDER)
    receiver.arrivals()
    count = max(least, int(seconds * least / (time.monotonic() - begin)))
    receiver.expect(count)
    begin = time.monotonic()
    for _ in range(count):
        bus.publish(ORDER)
    receiver.arrivals()  # what is published but never handled is no load that can be borne
    return count / (time.monotonic() - begin)


def _half_load(bus: pc.Bus, receiver: Receiver, load: float, count: int) -> Latencies:
    receiver.expect(count)
    begin = time.monotonic() + 0.05
    due = [begin + number / load for number in range(count)]
    returned = []
    for moment in due:
        left = moment - time.monotonic()
        if left > 0:
            time.sleep(left)
        bus.publish(ORDER)
        returned.append(time.monotonic() - moment)
    # One publisher, one subscriber in log order: the n-th to arrive is the n-th that was sent.
    handled = [at - moment for at, moment in zip(receiver.arrivals(), due, strict=True)]
    return Latencies(load, handled, returned)


def tables(found: Results) -> list[Table]:
    """Percentiles of both ends."""
    columns = (
        "subscriber",
        "events/s",
        *PERCENTILES,
        *(f"publish returns, {name}" for name in ("p50", "p99")),
    )
    rows = [
        (
            str(scenario),
            f"{each.load:,.0f}",
            *(duration(each.of(name)) for name in PERCENTILES),
            *(duration(each.of(name, returned=True)) for name in ("p50", "p99")),
        )
        for scenario, each in found.items()
    ]
    note = "From the intended time of sending to the callback, and until publish has returned."
    return [Table("Latency over a file at half load, open loop", columns, rows, note=note)]


def plain(found: Results) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {
            "subscriber": str(scenario),
            "load": each.load,
            "handled": {name: each.of(name) for name in PERCENTILES},
            "returned": {name: each.of(name, returned=True) for name in PERCENTILES},
            "events": len(each.handled),
        }
        for scenario, each in found.items()
    ]
