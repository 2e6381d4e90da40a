"""How long an event takes from the call that publishes it to a callback, at the goal's rate."""

from __future__ import annotations

from pathlib import Path

from broker_setting import GOAL, MOST, Plan, Report
from broker_systems import SYSTEMS, running
from measure import duration
from tables import Table

WATCHED = 2  # consumers that are clients, each in its own process; the others only count
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Results = dict[tuple[str, str], list[float]]
"""Seconds in order, by kind and system."""


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Each system that is installed, with both kinds."""
    found: Results = {}
    for kind in plan.kinds:
        for system in SYSTEMS[:1] if plan.is_quick else SYSTEMS:
            if system.missing:
                continue
            report(f"latency, {system.name}, {kind}")
            with running(system, kind, MOST, folder, clients=WATCHED) as experiment:
                clients = experiment.consumers[:WATCHED]
                experiment.latencies(GOAL, plan.warming, clients)
                found[kind, system.name] = experiment.latencies(GOAL, plan.latency, clients)
    return found


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- showing ---------------------------------------------------------------------------------------


def tables(found: Results) -> list[Table]:
    """Percentiles."""
    rows = [
        (
            kind,
            system,
            *(duration(percentile(each, share)) for share in PERCENTILES.values()),
            f"{len(each):,}",
        )
        for (kind, system), each in found.items()
        if each
    ]
    columns = (f"{GOAL:,}/s, {MOST} consumers", "system", *PERCENTILES, "measured")
    return [Table("From the call that publishes to a callback", columns, rows)]


def plain(found: Results) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {
            "kind": kind,
            "system": system,
            "measured": len(each),
            **{name: percentile(each, share) for name, share in PERCENTILES.items()},
        }
        for (kind, system), each in found.items()
        if each
    ]
