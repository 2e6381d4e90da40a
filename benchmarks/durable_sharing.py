"""What it costs that each subscriber has an object of its own, where somebody could change it.

The same five attributes in a class that is frozen, of which all have one object, and in one that is
not. Over a file, and in memory where the object is handed over or copied.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durable_setting import ORDER, Order, Plan, Report, url_of
from measure import Effort, Run, Sample, Samples, apart, duration, race
from tables import Table

import polycast as pc

PATIENCE = 120.0  # seconds after which something must be wrong
TOGETHER = 100  # published with one call
FROZEN, OPEN = "nobody can change it", "anybody could"
FILE, MEMORY, COPIES = "file", "memory", 'memory, isolation="copy"'
WAYS = (FILE, MEMORY, COPIES)


@dataclass
class OpenOrder:
    """The same as an order, and not frozen."""

    number: int
    item: str
    price: float
    count: int
    customer: str


EVENTS: dict[str, object] = {FROZEN: ORDER, OPEN: OpenOrder(7, "tea", 4.5, 2, "Eugster")}
Results = dict[str, dict[int, Samples]]
"""By way and number of subscribers."""


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Both events in turn, for each way and number of subscribers."""
    found: Results = {}
    for number, way in enumerate(WAYS):
        found[way] = {}
        for count in plan.sharing:
            report(f"{count} subscribers to what can be changed: {way}")
            path = folder / f"sharing-{number}-{count}.db"
            found[way][count] = apart(_raced, way, count, path, plan.effort)
    return found


def _raced(way: str, count: int, path: Path, effort: Effort) -> Samples:
    with ExitStack() as opened:
        runs = {
            kind: opened.enter_context(_opened(way, path.with_stem(f"{path.stem}-{kind}"), event))
            for kind, event in zip(("frozen", "open"), EVENTS.values(), strict=True)
        }
        contenders = dict(zip(EVENTS, (each(count) for each in runs.values()), strict=True))
        return race(contenders, effort)


@contextmanager
def _opened(way: str, path: Path, event: object) -> Iterator[Callable[[int], Run]]:
    url = url_of(path) if way == FILE else "memory:"
    with pc.Bus(url, isolation="copy" if way == COPIES else "none") as bus:
        yield lambda count: _publishing(bus, event, count)


def _publishing(bus: pc.Bus, event: object, count: int) -> Run:
    """The processor's time per event, until all subscribers have had all of them."""
    left, done = [0], threading.Semaphore(0)
    lock = threading.Lock()

    def handle(given: Any) -> None:
        del given
        with lock:
            left[0] -= 1
            if left[0] == 0:
                done.release()

    for _ in range(count):
        bus.subscribe(type(event), handle)

    def run(repeats: int) -> float:
        began = time.process_time()
        for first in range(0, repeats, TOGETHER):
            events = [event] * min(TOGETHER, repeats - first)
            with lock:
                left[0] = len(events) * count
            bus.publish_many(events)
            if not done.acquire(timeout=PATIENCE):
                raise AssertionError(f"{left[0]} events did not come")
        return time.process_time() - began

    return run


def tables(results: Results) -> list[Table]:
    """One row for each way and number of subscribers."""
    rows = []
    for way, counts in results.items():
        for count, samples in counts.items():
            shared, own = samples[FROZEN], samples[OPEN]
            each = (own.median - shared.median) / count
            rows.append(
                (
                    way,
                    f"{count}",
                    *(duration(sample.median) for sample in (shared, own)),
                    str(own.over(shared)),
                    duration(each) if each > 0 else "-",
                )
            )
    columns = ("over", "subscribers", FROZEN, OPEN, "times", "more for each subscriber")
    note = (
        f"The processor's time per event, published {TOGETHER} at a time, until all have had it; "
        f"an order has {len(Order.__dataclass_fields__)} attributes."
    )
    return [Table("An object for all, or one for each subscriber", columns, rows, note=note)]


def plain(results: Results) -> dict[str, object]:
    """For the file of results."""

    def times(sample: Sample) -> list[float]:
        return list(sample.times)

    return {
        way: {
            str(count): {kind: times(sample) for kind, sample in samples.items()}
            for count, samples in counts.items()
        }
        for way, counts in results.items()
    }
