"""What came out of a run: the numbers, each with what it means."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from supply_chain.parties import PARTIES
from supply_chain.programs import Job
from supply_chain.recount import Received, Verdict

PERCENTILES = (50, 90, 99, 100)
Numbers = Any  # an array of floats


@dataclass(slots=True)
class Run:
    """What was seen while it ran, by the wall clock."""

    job: Job
    phases: dict[str, float] = field(default_factory=dict)  # when each began
    batches: list[tuple[float, int]] = field(default_factory=list)  # when, all before a position
    changes: list[tuple[float, str]] = field(default_factory=list)  # when, what
    matched: int = 0  # pairs that Spark found
    pictures: list[tuple[str, dict[str, str]]] = field(default_factory=list)  # of one event


@dataclass(slots=True)
class Times:
    """When each delivery happened, and how long after the event was published."""

    sent: Numbers  # of each event, by position
    came: Numbers  # of each delivery
    took: Numbers  # of each delivery, in seconds
    routed: Numbers  # of each event in the log, how long it took until it was routed
    steady: Numbers  # which deliveries belong to the steady stream

    def percentiles(self, which: Numbers) -> dict[int, float]:
        some = which if len(which) else np.zeros(1)
        return dict(zip(PERCENTILES, np.percentile(some, PERCENTILES).tolist(), strict=True))


def times_of(run: Run, positions: Numbers, moments: Numbers, received: Received) -> Times:
    sent = np.zeros(int(positions.max()) + 1)
    sent[positions] = moments
    where = np.concatenate(list(received.positions.values()))
    came = np.concatenate(list(received.moments.values()))
    known = where < len(sent)  # the recount tells of any other
    where, came = where[known], came[known]
    began, ended = run.phases["steady"], run.phases["rush"]
    steady = (sent[where] >= began) & (sent[where] < ended)
    routed = np.zeros(0)
    if run.batches:
        ends = np.array([position for _, position in run.batches])
        at = np.array([moment for moment, _ in run.batches])
        places = np.sort(positions)
        index = np.searchsorted(ends, places, side="right").clip(max=len(at) - 1)
        own = (sent[places] >= began) & (sent[places] < ended)
        routed = (at[index] - sent[places])[own]
    return Times(sent, came, came - sent[where], routed, steady)


def side_by_side(received: Received) -> list[tuple[str, dict[str, str]]]:
    """One shipment as it came to headquarters, to a US supermarket and to a UK supplier."""
    wanted = (("hq", "auditor"), ("us", "SM"), ("uk", "SP"))
    albums = [
        {at: each for at, each in received.pictures[party].items() if each[0].startswith(who)}
        for party, who in wanted
    ]
    common = sorted(set.intersection(*map(set, albums)))
    # One that none of the three has sent is best: all of them see it in translation.
    best = [at for at in common if albums[0][at][1]["region"].startswith("eu")] or common
    return [(album[best[0]][0], album[best[0]][1]) for album in albums] if best else []


def summary(run: Run, verdict: Verdict, times: Times) -> list[tuple[str, str, str]]:
    """The rows that a person reads: what, how many, what that means."""
    job, phases = run.job, run.phases
    span = phases["delivered"] - phases["rush"]
    rushed = job.events - int((times.sent[1:] < phases["rush"]).sum())
    in_rush = int((times.came - times.took >= phases["rush"]).sum())
    took = times.percentiles(times.took[times.steady])
    rows = [
        ("published", f"{job.events:,}", "events, each stored once, synced to disk"),
        ("subscriptions", f"{verdict.subscriptions:,}", "durable, each to a class, with a filter"),
    ]
    if run.matched:
        # What was on its way to one that cancelled or changed its filter was matched in vain.
        rows.append(("matched", f"{run.matched:,}", "by Spark; some then cancelled or changed"))
    rows += [
        ("delivered", f"{verdict.delivered:,}", "calls, one for each event and subscription"),
        ("to be delivered", f"{verdict.wanted:,}", "by an independent recount in plain Python"),
        ("lost", f"{verdict.lost:,}", "should have come, and did not"),
        ("duplicated", f"{verdict.duplicated:,}", "came more than once"),
        ("unwanted", f"{verdict.unwanted:,}", "came, and should not have"),
        ("wrong", f"{verdict.different:,}", f"of {verdict.compared:,} compared in every attribute"),
        ("out of order", f"{verdict.out_of_order:,}", "came after one that was published later"),
        *(_row_of(party, verdict) for party in PARTIES),
        ("steady stream", f"{job.rate:,.0f}/s", "events; from making one to the callback"),
        ("   half within", f"{1000 * took[50]:,.0f} ms", "of all deliveries of the steady stream"),
        ("   90 % within", f"{1000 * took[90]:,.0f} ms", ""),
        ("   99 % within", f"{1000 * took[99]:,.0f} ms", "all programs share this machine"),
        ("rush", f"{rushed / span:,.0f}/s", "events, from the first to the last callback"),
        ("", f"{in_rush / span:,.0f}/s", "deliveries, in the same time"),
    ]
    return rows


def _row_of(party: str, verdict: Verdict) -> tuple[str, str, str]:
    total = sum(n for (_, there), n in verdict.between.items() if there == party)
    published, translated = verdict.published_in[party], verdict.translated[party]
    text = f"deliveries; {published:,} events published there, {translated:,} translated to it"
    return PARTIES[party], f"{total:,}", text


def save_numbers(path: Path, run: Run, verdict: Verdict, times: Times) -> None:
    """The same for a program."""
    took = times.percentiles(times.took[times.steady])
    routed = times.percentiles(times.routed)
    numbers = {
        "events": run.job.events,
        "subscriptions": verdict.subscriptions,
        "matched": run.matched,
        "delivered": verdict.delivered,
        "wanted": verdict.wanted,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "unwanted": verdict.unwanted,
        "compared": verdict.compared,
        "different": verdict.different,
        "out_of_order": verdict.out_of_order,
        "published_in": verdict.published_in,
        "translated": verdict.translated,
        "between": {f"{one} to {other}": n for (one, other), n in verdict.between.items()},
        "latency_ms": {f"p{p}": round(1000 * each, 1) for p, each in took.items()},
        "until_routed_ms": {f"p{p}": round(1000 * each, 1) for p, each in routed.items()},
        "phases": run.phases,
        "batches": run.batches,
        "changes": run.changes,
        "wrong": verdict.wrong,
    }
    path.write_text(json.dumps(numbers) + "\n", encoding="utf-8")
