"""The program of those who subscribe: each notes what it is called with, and when."""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

import polycast as pc
from polycast.stores.doctor.looking import looking
from supply_chain.changes import Change, changes
from supply_chain.events import Event
from supply_chain.participants import World
from supply_chain.programs import Job, commands, job, say
from supply_chain.wishes import Wish, wishes

EVERY = 0.2  # seconds between two words to the demo
PATIENCE = 120.0


class Desk:
    """Where the events of one subscription arrive."""

    __slots__ = ("moments", "out_of_order", "positions")

    def __init__(self) -> None:
        self.positions, self.moments = array("q"), array("d")
        self.out_of_order = 0

    def take(self, event: Event, delivery: pc.Delivery) -> None:
        """What a subscriber does with an event would stand here."""
        position = delivery.position
        if self.positions and position <= self.positions[-1]:
            self.out_of_order += 1  # it came twice, or too late
        self.positions.append(position)
        self.moments.append(time.time())


class Subscribers:
    """The subscriptions of this program, and what the store says about the changes to them."""

    def __init__(self, job: Job, bus: pc.Bus, store: Any) -> None:
        self._job, self._bus, self._store = job, bus, store
        self.desks: dict[str, Desk] = {}
        self._subscriptions: dict[str, pc.Subscription[Any]] = {}
        self.history: list[dict[str, Any]] = []

    def subscribe(self, wish: Wish, *, replace: bool = False) -> None:
        desk = self.desks.setdefault(wish.name, Desk())
        self._subscriptions[wish.name] = self._bus.subscribe(
            wish.type,
            desk.take,
            where=wish.where,
            durable=wish.name,
            replace=replace,
            engine=self._job.engine,
        )

    def change(self, change: Change) -> None:
        """Do it, and note from which position of the log on it counts."""
        name = change.wish.name
        facts: dict[str, Any] = {"kind": change.kind, "name": name}
        if change.kind == "add":
            self.subscribe(change.wish)
            facts["start"] = self._kept(name).start
        elif change.kind == "replace":
            # The new filter is for all that the old one has not handled.
            before = self._subscriptions[name]
            before.pause()
            while before.mailbox.in_flight:
                time.sleep(0.001)
            before.detach()
            facts["start"] = self._kept(name).cursor
            self.subscribe(change.wish, replace=True)
        else:
            self._subscriptions[name].cancel()
            facts["until"] = self._newest() + 1
        self.history.append(facts)
        say(changed=change.in_words())

    def _kept(self, name: str) -> Any:
        with self._store.view() as view:
            return view.subscription(name)

    def _newest(self) -> int:
        with self._store.view() as view:
            return int(view.newest())

    def received(self) -> int:
        return sum(len(desk.positions) for desk in self.desks.values())

    def save(self, path: str) -> None:
        desks = self.desks.values()
        with self._store.view() as view:
            kept = {each.name: each.start for each in view.subscriptions()}
        about = {
            "names": list(self.desks),
            "starts": [kept.get(name, 1) for name in self.desks],
            "out_of_order": sum(desk.out_of_order for desk in desks),
            "dead_letters": len(self._bus.dead_letters()),
            "history": self.history,
        }
        np.savez(
            path,
            about=json.dumps(about),
            sizes=[len(desk.positions) for desk in desks],
            positions=np.concatenate([np.array(desk.positions, np.int64) for desk in desks]),
            moments=np.concatenate([np.array(desk.moments) for desk in desks]),
        )


def _tell(subscribers: Subscribers, over: threading.Event) -> None:
    while not over.wait(EVERY):
        say(delivered=subscribers.received())


def _obey(subscribers: Subscribers, bus: pc.Bus, wanted: Job) -> None:
    coming: Iterator[Change] = iter(changes(wanted))
    for command in commands():
        if command == "change":
            subscribers.change(next(coming))
        elif command == "flush":
            say(caught_up=bus.flush(timeout=PATIENCE), delivered=subscribers.received())
        elif command == "save":
            subscribers.save(f"{wanted.folder}/received-{wanted.part}.npz")
            say(saved=True)


def main() -> None:
    wanted = job()
    world = World(wanted.seed, wanted.subscriptions)
    ours = wishes(world, wanted.seed, wanted.subscriptions)[wanted.part :: wanted.parts]
    path = wanted.url.removeprefix("sqlite:///")
    with pc.Bus(wanted.url, publisher=f"subscribers-{wanted.part}") as bus, looking(path) as store:
        subscribers = Subscribers(wanted, bus, store)
        for number, wish in enumerate(ours, 1):
            subscribers.subscribe(wish)
            if number % 20 == 0:
                say(subscribed=number)
        say(subscribed=len(ours), ready=True)
        over = threading.Event()
        threading.Thread(target=_tell, args=(subscribers, over), daemon=True).start()
        _obey(subscribers, bus, wanted)
        over.set()


if __name__ == "__main__":
    main()
