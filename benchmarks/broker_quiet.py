"""A few events a second to 50 whole clients, beside NATS JetStream, which syncs each event, too.

Both systems take turns, and the ratios are those of each round: whatever else the machine does,
it does to both.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from broker_setting import ALL, MOST, Plan, Report
from broker_systems import FILE, JETSTREAM, running
from measure import Ratio, duration
from tables import Table

RATE = 40  # events a second
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Results = dict[str, list[dict[str, float]]]
"""By system, the percentiles of each round, in seconds."""


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Rounds in which each system that is installed has its turn."""
    systems = [system for system in (FILE, JETSTREAM) if not system.missing]
    rounds: Results = {system.name: [] for system in systems}
    for number in range(plan.rounds):
        for system in systems if number % 2 else reversed(systems):
            report(f"{RATE} a second, {system.name}, round {number + 1}")
            with running(system, ALL, MOST, folder) as experiment:
                consumers = experiment.consumers
                experiment.latencies(RATE, plan.warming, consumers)
                ordered = experiment.latencies(RATE, plan.latency, consumers)
            rounds[system.name].append(
                {name: ordered[int(share * len(ordered))] for name, share in SHARES.items()}
            )
    return rounds


def tables(found: Results) -> list[Table]:
    """The median of the rounds, and how often as long as JetStream in the same round."""
    ours, theirs = found[FILE.name], found.get(JETSTREAM.name)
    rows = [
        (name, *(duration(statistics.median(at[share] for at in rounds)) for share in SHARES))
        for name, rounds in found.items()
    ]
    if theirs is not None:
        rows.append(("times as long", *(str(_ratio(ours, theirs, share)) for share in SHARES)))
    columns = (f"{RATE}/s, {MOST} clients", *SHARES)
    return [Table("A few events to many clients, each event synced", columns, rows)]


def _ratio(ours: list[dict[str, float]], theirs: list[dict[str, float]], share: str) -> Ratio:
    return Ratio.of([mine[share] / other[share] for mine, other in zip(ours, theirs, strict=True)])


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return dict(found)
