"""The independent recount: who should have received what, by plain Python alone.

It makes the same events again from the seed, translates them by hand for every party, and asks each
filter about each event of its type by calling it as the function that it is. Of some events it also
compares all that is in them. Nothing of polycast decides here.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import numpy as np

from supply_chain.byhand import handwork
from supply_chain.changes import changes
from supply_chain.digests import EVERY, digest
from supply_chain.events import Event
from supply_chain.participants import World
from supply_chain.parties import PARTIES
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
    digests: dict[str, tuple[Positions, Any]] = field(default_factory=dict)  # of which, and what
    parties: dict[str, str] = field(default_factory=dict)  # of each subscription
    pictures: dict[str, dict[int, Any]] = field(default_factory=dict)  # of each party
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
    compared: int = 0
    different: int = 0
    out_of_order: int = 0
    dead_letters: int = 0
    published_as: Counter[tuple[str, str]] = field(default_factory=Counter)  # role, type
    delivered_as: Counter[tuple[str, str]] = field(default_factory=Counter)  # type, role
    published_in: Counter[str] = field(default_factory=Counter)  # party
    translated: Counter[str] = field(default_factory=Counter)  # party: events, seen otherwise there
    between: Counter[tuple[str, str]] = field(default_factory=Counter)  # parties: deliveries
    received_by: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.wrong


def load_received(job: Job) -> Received:
    """What all programs of subscribers have saved."""
    found = Received()
    for party in PARTIES:
        with np.load(f"{job.folder}/received-{party}.npz") as saved:
            about = json.loads(str(saved["about"]))
            names = about["names"]
            places = np.split(saved["positions"], np.cumsum(saved["sizes"])[:-1])
            some = [place[place % EVERY == 0] for place in places]
            digests = np.split(saved["digests"], np.cumsum([len(each) for each in some])[:-1])
            moments = np.split(saved["moments"], np.cumsum(saved["sizes"])[:-1])
        found.positions |= zip(names, places, strict=True)
        found.moments |= zip(names, moments, strict=True)
        found.digests |= zip(names, zip(some, digests, strict=True), strict=True)
        found.starts |= zip(names, about["starts"], strict=True)
        found.parties |= dict.fromkeys(names, party)
        found.pictures[party] = {int(at): each for at, each in about["pictures"].items()}
        found.history += about["history"]
        found.out_of_order += about["out_of_order"]
        found.dead_letters = about["dead_letters"]  # of the store, which they share
    found.history.sort(key=lambda fact: fact["number"])
    return found


class Asked:
    """All filters, each asked about each event of its type, as its party sees it."""

    def __init__(self, definitions: list[Wish]) -> None:
        self._definitions = definitions
        self._by_type: dict[tuple[str, type[Event]], list[tuple[Any, list[int]]]] = {}
        self.found: list[list[int]] = [[] for _ in definitions]

    def about(self, event: Event, position: int, party: str) -> None:
        asked = self._by_type.get((party, type(event)))
        if asked is None:
            asked = self._by_type[party, type(event)] = [
                (wish.where, positions)
                for wish, positions in zip(self._definitions, self.found, strict=True)
                if wish.party == party and isinstance(event, wish.type)
            ]
        for where, positions in asked:
            if where is None or where(event):
                positions.append(position)


class Seen:
    """What each event looks like to each party, by its position."""

    def __init__(self, last: int) -> None:
        self.kinds: list[str] = []
        self.kind = np.zeros(last + 1, np.int16)
        self.source = np.zeros(last + 1, np.int8)
        self.otherwise = {party: np.zeros(last + 1, np.bool_) for party in PARTIES}
        self.digests = {party: np.zeros(last + 1, np.int64) for party in PARTIES}

    def note(self, event: Event, position: int, views: dict[str, Event], source: str) -> None:
        name = type(event).__name__
        if name not in self.kinds:
            self.kinds.append(name)
        self.kind[position] = self.kinds.index(name)
        self.source[position] = list(PARTIES).index(source)
        for party, view in views.items():
            self.otherwise[party][position] = type(view) is not type(views[source])
            if position % EVERY == 0:
                self.digests[party][position] = digest(view)


def views_of(event: Event, source: str, *, later: bool) -> dict[str, Event]:
    """What happened, as each party sees it: written down there, told in the root, seen here."""
    own = handwork(source)
    written = told = event
    if own is not None:
        written = own.seen(event)
        told = handwork(source, later=later).told(written)
    return {
        party: written if party == source else told if there is None else there.seen(told)
        for party in PARTIES
        for there in (handwork(party, later=later),)
    }


def recount(job: Job, positions: Positions, turned: int, received: Received) -> Verdict:
    """Compare what should have come with what came, as sets. The US changed where it is told."""
    world = World(job.seed, job.subscriptions)
    first = wishes(world, job.seed, job.subscriptions)
    known = changes(job)
    later = [known[fact["number"]].wish for fact in received.history]
    asked, verdict = Asked([*first, *later]), Verdict()
    seen = Seen(int(positions.max(initial=0)))
    events = Workload(world, job.seed, now=lambda: ANY_TIME)
    for event, position in zip(islice(events, job.events), positions.tolist(), strict=True):
        source = world.by_name[event.sender].party
        views = views_of(event, source, later=bool(turned) and position >= turned)
        for party, view in views.items():
            asked.about(view, position, party)
        seen.note(event, position, views, source)
        verdict.published_as[event.sender[:2], type(event).__name__] += 1
        verdict.published_in[source] += 1
    _check_places(verdict, positions)
    found = [np.sort(np.array(each, np.int64)) for each in asked.found]
    wanted = {wish.name: each for wish, each in zip(first, found[: len(first)], strict=True)}
    after = found[len(first) :]
    _check_all(verdict, received, wanted, after)
    _compare(verdict, received, seen)
    _count(verdict, received, seen)
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


def _compare(verdict: Verdict, received: Received, seen: Seen) -> None:
    """Of some events: whether all that is in them is as it should be."""
    for name, (places, digests) in received.digests.items():
        known = places < len(seen.kind)
        expected = seen.digests[received.parties[name]][places[known]]
        different = places[known][digests[known] != expected]
        verdict.compared += len(expected)
        verdict.different += len(different)
        if len(different):
            some = ", ".join(map(str, different[:5].tolist()))
            text = f"{name} saw {len(different)} events otherwise than it should, at {some}"
            verdict.wrong.append(text)


def _count(verdict: Verdict, received: Received, seen: Seen) -> None:
    """How many events of each type went to each role, and from each party to each."""
    parties = list(PARTIES)
    came_to: dict[str, list[Positions]] = {party: [] for party in parties}
    for name, came in received.positions.items():
        role, party = "HQ" if name.startswith("auditor") else name[:2], received.parties[name]
        known = came[came < len(seen.kind)]
        came_to[party].append(known)
        kinds = np.bincount(seen.kind[known], minlength=len(seen.kinds))
        for kind, count in zip(seen.kinds, kinds.tolist(), strict=True):
            verdict.delivered_as[kind, role] += count
        sources = np.bincount(seen.source[known], minlength=len(parties))
        for source, count in zip(parties, sources.tolist(), strict=True):
            verdict.between[source, party] += count
    for party, some in came_to.items():
        once = np.unique(np.concatenate(some)) if some else np.zeros(0, np.int64)
        verdict.translated[party] = int(seen.otherwise[party][once].sum())
