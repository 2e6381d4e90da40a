"""The independent recount: who should have received what, by plain Python alone.

It makes the same events again from the seed, and asks each filter about each event of its type by
calling it as the function that it is. Nothing of polycast decides here.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import numpy as np

from supply_chain.changes import changes
from supply_chain.events import Event
from supply_chain.participants import World
from supply_chain.programs import Job
from supply_chain.wishes import Wish, wishes
from supply_chain.workload import Workload

ANY_TIME = datetime(2025, 3, 3, tzinfo=UTC)
Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class Received:
    """What the subscribers have noted."""

    positions: dict[str, Positions] = field(default_factory=dict)
    moments: dict[str, Any] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    out_of_order: int = 0
    dead_letters: int = 0


@dataclass(slots=True)
class Verdict:
    """What is right, what is wrong, and how it was spread."""

    subscriptions: int = 0
    wanted: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    unwanted: int = 0
    out_of_order: int = 0
    dead_letters: int = 0
    published_as: Counter[tuple[str, str]] = field(default_factory=Counter)  # role, type
    delivered_as: Counter[tuple[str, str]] = field(default_factory=Counter)  # type, role
    received_by: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.wrong


def load_received(job: Job) -> Received:
    """What all programs of subscribers have saved."""
    found = Received()
    for part in range(job.parts):
        with np.load(f"{job.folder}/received-{part}.npz") as saved:
            about = json.loads(str(saved["about"]))
            ends = np.cumsum(saved["sizes"])[:-1]
            found.positions |= zip(about["names"], np.split(saved["positions"], ends), strict=True)
            found.moments |= zip(about["names"], np.split(saved["moments"], ends), strict=True)
            found.starts |= zip(about["names"], about["starts"], strict=True)
            found.history += about["history"]
            found.out_of_order += about["out_of_order"]
            found.dead_letters = about["dead_letters"]  # of the store, which they share
    return found


class Asked:
    """All filters, each asked about each event of its type."""

    def __init__(self, definitions: list[Wish]) -> None:
        self._definitions = definitions
        self._by_type: dict[type[Event], list[tuple[Any, list[int]]]] = {}
        self.found: list[list[int]] = [[] for _ in definitions]

    def about(self, event: Event, position: int) -> None:
        asked = self._by_type.get(type(event))
        if asked is None:
            asked = self._by_type[type(event)] = [
                (wish.where, positions)
                for wish, positions in zip(self._definitions, self.found, strict=True)
                if isinstance(event, wish.type)
            ]
        for where, positions in asked:
            if where is None or where(event):
                positions.append(position)


def recount(job: Job, positions: Positions, received: Received) -> Verdict:
    """Compare what should have come with what came, as sets."""
    world = World(job.seed, job.subscriptions)
    first = wishes(world, job.seed, job.subscriptions)
    later = [change.wish for change in changes(job)][: len(received.history)]
    asked, verdict = Asked([*first, *later]), Verdict()
    kinds = np.zeros(int(positions.max(initial=0)) + 1, np.int16)
    names: dict[str, int] = {}
    events = Workload(world, job.seed, now=lambda: ANY_TIME)
    for event, position in zip(islice(events, job.events), positions.tolist(), strict=True):
        asked.about(event, position)
        name = type(event).__name__
        verdict.published_as[event.sender[:2], name] += 1
        kinds[position] = names.setdefault(name, len(names))
    _check_places(verdict, positions)
    found = [np.sort(np.array(each, np.int64)) for each in asked.found]
    wanted = {wish.name: each for wish, each in zip(first, found[: len(first)], strict=True)}
    after = found[len(first) :]
    _check_all(verdict, received, wanted, after)
    _count_kinds(verdict, received, kinds, list(names))
    return verdict


def _check_places(verdict: Verdict, positions: Positions) -> None:
    """Each event has a place of its own in the log, and the log has no others."""
    if not np.array_equal(np.sort(positions), np.arange(1, len(positions) + 1)):
        verdict.wrong.append("the events do not fill the log without a gap")


def _check_all(
    verdict: Verdict,
    received: Received,
    wanted: dict[str, Positions],
    after: list[Positions],
) -> None:
    cancelled = {}
    for fact, found in zip(received.history, after, strict=True):
        name = fact["name"]
        if fact["kind"] == "cancel":
            cancelled[name] = fact["until"]
        elif fact["kind"] == "add":
            wanted[name] = found[found >= fact["start"]]
        else:
            old = wanted[name]
            wanted[name] = np.concatenate([old[old < fact["start"]], found[found >= fact["start"]]])
    verdict.subscriptions = len(wanted)
    for name, expected in wanted.items():
        came = received.positions.get(name, np.zeros(0, np.int64))
        expected = expected[expected >= received.starts.get(name, 1)]
        if name in cancelled:
            # What was on its way when it was cancelled is not delivered: it got a beginning.
            expected = expected[expected < cancelled[name]][: len(came)]
        _check(verdict, name, expected, came)
    verdict.out_of_order, verdict.dead_letters = received.out_of_order, received.dead_letters
    for what in ("out_of_order", "dead_letters"):
        if getattr(verdict, what):
            verdict.wrong.append(f"{getattr(verdict, what)} {what.replace('_', ' ')}")


def _check(verdict: Verdict, name: str, expected: Positions, came: Positions) -> None:
    once = np.unique(came)
    lost = np.setdiff1d(expected, once, assume_unique=True)
    unwanted = np.setdiff1d(once, expected, assume_unique=True)
    twice = len(came) - len(once)
    verdict.wanted += len(expected)
    verdict.delivered += len(came)
    verdict.lost += len(lost)
    verdict.duplicated += twice
    verdict.unwanted += len(unwanted)
    verdict.received_by[name] = len(came)
    for what, positions in (("lost", lost), ("got without having asked for it", unwanted)):
        if len(positions):
            some = ", ".join(map(str, positions[:5].tolist()))
            verdict.wrong.append(f"{name} {what}: {len(positions)} events, at positions {some}")
    if twice:
        verdict.wrong.append(f"{name} got {twice} events twice")


def _count_kinds(verdict: Verdict, received: Received, kinds: Any, names: list[str]) -> None:
    """How many events of each type went to each role."""
    for name, came in received.positions.items():
        if len(came):
            role = "HQ" if name.startswith("auditor") else name[:2]
            known = came[came < len(kinds)]
            for kind, count in enumerate(np.bincount(kinds[known], minlength=len(names))):
                verdict.delivered_as[names[kind], role] += int(count)
