"""Routes that come, change and go while a pipeline runs, and what plain Python says of them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from proof_events import TYPES
from proof_pipeline_filters import is_even
from proof_workers import Listening

import polycast as pc
from polycast.config import level_named
from polycast.matching import Interest, definition_of, selector_for
from polycast.routing import decode_recipients
from polycast.stores import (
    Store,
    Stored,
    StoredRoute,
    StoredSubscription,
    Stretch,
    Transaction,
    open_store,
)
from polycast.typesystem import Registry

__all__ = ["Pair", "Plan", "Takings", "judge", "true_pairs", "wanted_by"]

Pair = tuple[int, int]
"""A position, and the number of a route that takes what is there."""

NAMES = [f"r{n}" for n in range(8)]
# Nobody reads what these take: so nothing that is found out is ever dropped.
LASTING: dict[str, Callable[[Any], object] | None] = {"all": None, "even": is_even}
FILTERS: list[Callable[[Any], object] | None] = [
    None,
    lambda e: e.size > 30,
    lambda e: e.size > 60 and e.key.endswith("7"),
    lambda e: e.size % 3 == 0,
    lambda e: not e.key.startswith("p1") or e.size == 50,
    is_even,
]


def interest_of(kind: str, where: Callable[[Any], object] | None, *, exact: bool) -> Interest:
    selector = selector_for(TYPES[kind], exact=exact)
    return Interest(selector, where and pc.lift(where), level_named("sorted_set"))


class Plan:
    """Adds, replaces and cancels subscriptions, and remembers from when to when each held."""

    def __init__(self, path: Path, *, seed: int, pace: float = 1.0) -> None:
        self._store: Store = open_store(str(path))
        self._pace = pace  # 1 is about twelve changes a second
        self._dice = random.Random(seed)
        self._registry = Registry()
        for cls in TYPES.values():
            self._registry.bind(cls)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._change_often, daemon=True)
        self._current: dict[str, int] = {}
        self.interests: dict[int, Interest] = {}  # with the positions in which they hold
        self.failure: BaseException | None = None
        for name, where in LASTING.items():
            self._put(name, interest_of("Event", where, exact=False))

    def start(self) -> None:
        """Change again and again."""
        self._thread.start()

    def stop(self) -> None:
        """Change no more."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(60)
        self._store.close()

    def _change_often(self) -> None:
        try:
            while not self._stopping.wait(self._dice.uniform(0.01, 0.15) / self._pace):
                self.change()
        except BaseException as error:
            self.failure = error

    def change(self) -> None:
        """Add or replace one, or cancel it."""
        name = self._dice.choice(NAMES)
        if name in self._current and self._dice.random() < 0.4:
            self._remove(name)
            return
        kind, where = self._dice.choice(list(TYPES)), self._dice.choice(FILTERS)
        self._put(name, interest_of(kind, where, exact=self._dice.random() < 0.3))

    def _put(self, name: str, interest: Interest) -> None:
        """What a bus does for `engine="spark"`, and nobody is attached then."""
        definition = definition_of(interest, engine="spark").encoded()

        def write(tx: Transaction) -> StoredRoute:
            for each in self._registry.descriptions():
                tx.describe(each)
            start = tx.newest() + 1
            tx.save(StoredSubscription(name, definition, start, start))
            return tx.begin_route(name, definition)

        route = self._store.write(write).result(60)
        self._end(name, route.start)
        self._current[name] = route.number
        self.interests[route.number] = interest.starting(route.start)

    def _remove(self, name: str) -> None:
        def write(tx: Transaction) -> int:
            tx.remove(name)
            return tx.newest() + 1

        self._end(name, self._store.write(write).result(60))

    def _end(self, name: str, at: int) -> None:
        number = self._current.pop(name, None)
        if number is not None:
            self.interests[number] = replace(self.interests[number], until=at)


def wanted_by(mine: Listening, route: StoredRoute) -> Interest:
    """What the route of a subscriber wants."""
    where = {-1: None, 30: lambda e: e.size > 30, 60: lambda e: e.size > 60}[mine.above]
    return interest_of(mine.type, where, exact=False).starting(route.start)


# -- the judgement ---------------------------------------------------------------------------------


@dataclass
class Takings:
    """What a pipeline has found out, against what is true."""

    events: int = 0
    pairs: int = 0
    lost: list[Pair] = field(default_factory=list)
    wrong: list[Pair] = field(default_factory=list)
    duplicated: list[Pair] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def told(self) -> list[str]:
        """What is wrong, in lines; empty if nothing is."""
        found = [(name, getattr(self, name)) for name in ("lost", "wrong", "duplicated")]
        lines = [f"{len(pairs)} pairs {name}: {pairs[:5]}" for name, pairs in found if pairs]
        return [*self.broken, *lines]


def judge(path: Path, interests: dict[int, Interest]) -> Takings:
    """Compare what is kept with a plain look at every event and every route in effect at it."""
    with closing(open_store(str(path))) as store:
        with store.view() as view:
            kept = view.stretches(0, limit=1 << 31)
        takings = Takings()
        takings.broken = list(_misfits(kept, store.newest() + 1))
        found = Counter(_pairs(kept))
        true = set(true_pairs(store, interests))
        takings.events = store.newest()
    takings.pairs = len(found)
    takings.lost = sorted(true - found.keys())
    takings.wrong = sorted(found.keys() - true)
    takings.duplicated = sorted(pair for pair, times in found.items() if times > 1)
    return takings


def _misfits(kept: list[Stretch], end: int) -> Iterator[str]:
    at = 1
    for each in kept:
        if each.low != at:
            yield f"a stretch begins at {each.low}, and all before {at} is routed"
        at = each.high
    if at != end:
        yield f"all before {at} is routed, and the log ends at {end}"


def _pairs(kept: list[Stretch]) -> Iterator[Pair]:
    for stretch in kept:
        takers = decode_recipients(stretch.low, stretch.takers)
        assert not takers.unsure, "every function is there"
        for position, numbers in takers:
            assert stretch.low <= position < stretch.high
            yield from ((position, number) for number in numbers)


def true_pairs(store: Store, interests: dict[int, Interest]) -> Iterator[Pair]:
    """Who takes what, found out one by one."""
    for stored in _log(store):
        event = _event(stored)
        for number, interest in interests.items():
            if interest.in_effect(stored.position) and interest.wants(event, stored.record.topic):
                yield stored.position, number


def _log(store: Store) -> Iterator[Stored]:
    at = 1
    while entries := store.read(at, limit=1_000).entries:
        yield from entries
        at = entries[-1].position + 1


def _event(stored: Stored) -> object:
    """Made without what the pipeline makes it with."""
    record = stored.record
    assert record.codec == "msgpack"
    return TYPES[record.name.rpartition(".")[2]](**msgspec.msgpack.decode(record.payload))
