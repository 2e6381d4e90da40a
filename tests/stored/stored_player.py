"""Plays the pipeline, plainly: asks each route in effect at a position, one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polycast as pc
from polycast.errors import NotDecodableError
from polycast.events import codec_for
from polycast.matching import Definition, Interest, definition_of
from polycast.routing.recipients import encode_recipients
from polycast.stores import Flight, Store, Stored, StoredRoute, Stretch, open_store
from polycast.typesystem import Registry

__all__ = ["Player"]


class Player:
    """Routes the log of a store for the subscriptions it is told about."""

    def __init__(self, path: Path) -> None:
        self.store: Store = open_store(path)
        self._registry = Registry()
        self._interests: dict[bytes, Interest] = {}
        self.token = self.take()

    def take(self) -> int:
        """Run the pipeline from now on."""
        return self.store.write(lambda tx: tx.take_routing()).result().token

    def learn(self, *subscriptions: pc.Subscription[Any]) -> None:
        """What the definitions of these mean."""
        for each in subscriptions:
            self.learn_interest(each.interest)

    def learn_interest(self, interest: Interest) -> None:
        """What its definition means."""
        self._interests[definition_of(interest, engine="spark").encoded()] = interest

    def high(self) -> int:
        """All before this is routed."""
        with self.store.view() as view:
            return view.routed().high

    def behind(self) -> int:
        """How much of the log is not routed."""
        return self.store.newest() + 1 - self.high()

    def play(self, most: int = 1_000_000, cut: Callable[[], int] = lambda: 100) -> None:
        """Route so many events at most, in stretches of some lengths."""
        low, end = self.high(), self.store.newest() + 1
        end = min(end, low + most)
        stretches = []
        while low < end:
            high = min(end, low + max(1, cut()))
            stretches.append(self._stretch(low, high))
            low = high
        kept = self.store.write(lambda tx: tx.advance(stretches, token=self.token)).result()
        assert kept

    def play_nonsense(self) -> None:
        """Keep what nobody can read for all that is in the log."""
        stretch = Stretch(self.high(), self.store.newest() + 1, b"nonsense")
        assert self.store.write(lambda tx: tx.advance([stretch], token=self.token)).result()

    def _stretch(self, low: int, high: int) -> Stretch:
        with self.store.view() as view:
            for each in view.descriptions():
                self._registry.add(each)
            routes = {at: view.routes(at=at) for at in range(low, high)}
        taken, unsure = {}, set()
        for stored in self.store.read(low, limit=high - low, until=high).entries:
            numbers = [r.number for r in routes[stored.position] if self._takes(r, stored)]
            unsure.update(r.number for r in routes[stored.position] if self._is_partial(r))
            if numbers:
                taken[stored.position] = numbers
        data = encode_recipients(low, list(taken), list(taken.values()), unsure)
        return Stretch(low, high, data)

    def _is_partial(self, route: StoredRoute) -> bool:
        return Definition.decoded(route.definition).partial

    def _takes(self, route: StoredRoute, stored: Stored) -> bool:
        interest, record = self._interests[route.definition], stored.record
        try:
            event = codec_for(record.codec).decode(record, registry=self._registry)
        except NotDecodableError:
            cls = self._registry.class_for(record.name, record.version, record.hash)
            return interest.selector.covers(cls, record.topic)
        if self._is_partial(route):
            return interest.selector.covers(type(event), record.topic)
        return interest.wants(event, record.topic)

    def stretches(self) -> list[tuple[int, int]]:
        """Where the stretches that are kept begin and end."""
        with self.store.view() as view:
            return [(each.low, each.high) for each in view.stretches(1, limit=1_000_000)]

    def drop(self, before: int) -> None:
        """Forget stretches."""
        self.store.write(lambda tx: tx.drop_stretches(before)).result()

    def routes(self) -> list[StoredRoute]:
        """What it routes for."""
        with self.store.view() as view:
            return view.routes()

    def flights(self, name: str) -> list[Flight]:
        """What is in flight for a subscription."""
        with self.store.view() as view:
            return view.flights(name)

    def cursors(self, names: Iterable[str]) -> list[int]:
        """Where subscriptions are, as the store knows."""
        with self.store.view() as view:
            found = [view.subscription(name) for name in names]
        return [each.cursor for each in found if each is not None]
