"""What subscriptions to other types cost: when publishing, subscribing, and compiling a route."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, make_dataclass

from measure import Effort, Run, Samples, apart, cpu_time, duration, quiet_gc, race
from peers import TALK, Talk
from tables import Table

import polycast as pc

COUNTS = (0, 10, 1_000, 10_000)


@dataclass(frozen=True, slots=True)
class Unrelated:
    """What was measured with so many subscriptions to unrelated types."""

    subscriptions: int
    subscribing: float | None  # seconds per subscription
    first_publish: float  # seconds, right after another subscription to its type
    unchanged: float  # seconds, after another subscription to another type


def ignore(event: object) -> None:
    """Subscribes to everything."""


def unrelated_types(count: int) -> list[type]:
    """So many classes that have nothing to do with each other."""
    return [make_dataclass(f"Unrelated{number}", [("n", int)]) for number in range(count)]


def measure(
    effort: Effort, report: Callable[[str], None]
) -> tuple[dict[int, Unrelated], dict[int, Samples]]:
    """Publishing is raced between buses that differ in their unrelated subscriptions only."""
    report("unrelated subscriptions")
    return apart(_measured, effort)


def _measured(effort: Effort) -> tuple[dict[int, Unrelated], dict[int, Samples]]:
    counts = COUNTS[:-1] if effort.is_quick else COUNTS
    types = unrelated_types(counts[-1] + 200)
    found: dict[int, Unrelated] = {}
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        for count in counts:
            bus = stack.enter_context(pc.Bus())
            found[count] = _prepared(bus, types[:count], types[count : count + 100])
            runs[str(count)] = _publishing(bus)
        raced = race(runs, effort)
    return found, {int(name): {"publish": sample} for name, sample in raced.items()}


def _prepared(bus: pc.Bus, others: list[type], more: list[type]) -> Unrelated:
    bus.subscribe(Talk, ignore, dispatch="inline")
    start = cpu_time()
    with quiet_gc():
        for other in others:
            bus.subscribe(other, ignore, dispatch="inline")
        spent = cpu_time() - start
        first = [_first_publish(bus, Talk) for _ in range(25)]
        unchanged = [_first_publish(bus, other) for other in more[:25]]
    return Unrelated(
        len(others),
        spent / len(others) if others else None,
        statistics.median(first),
        statistics.median(unchanged),
    )


def _first_publish(bus: pc.Bus, subscribed: type) -> float:
    """Seconds of the first publish after a subscription, which is taken back afterwards."""
    bus.publish(TALK)
    subscription = bus.subscribe(subscribed, ignore, dispatch="inline")
    start = cpu_time()
    bus.publish(TALK)
    spent = cpu_time() - start
    subscription.cancel()
    return spent


def _publishing(bus: pc.Bus) -> Run:
    publish = bus.publish

    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            publish(TALK)
        return cpu_time() - start

    return run


def tables(found: dict[int, Unrelated], raced: dict[int, Samples]) -> list[Table]:
    """One row for each number of unrelated subscriptions."""
    alone = raced[0]["publish"]
    rows = [
        (
            f"{count:,}",
            duration(raced[count]["publish"].median),
            str(raced[count]["publish"].over(alone)),
            "-" if each.subscribing is None else duration(each.subscribing),
            duration(each.first_publish),
            duration(each.unchanged),
        )
        for count, each in found.items()
    ]
    columns = (
        "unrelated subscriptions",
        "publish",
        "over that with none",
        "subscribe, each",
        "first publish after subscribing to its type",
        "to another type",
    )
    note = "One in-line subscriber without filter wants the event. Goal: publish does not grow."
    return [Table("Subscriptions to unrelated types", columns, rows, note=note)]


def plain(found: dict[int, Unrelated], raced: dict[int, Samples]) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {
            "subscriptions": count,
            "publish": list(raced[count]["publish"].times),
            "subscribing": each.subscribing,
            "first_publish": each.first_publish,
            "first_publish_unchanged": each.unchanged,
        }
        for count, each in found.items()
    ]
