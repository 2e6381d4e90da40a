"""The program of one party that subscribes: each participant notes what it gets, and when.

The program has the types and functions of its own party, and of no other. Of one event in so many,
all that is in it is noted, too.
"""

from __future__ import annotations

import json
import threading
import time
from array import array
from typing import Any

import numpy as np

import polycast as pc
from polycast.stores.doctor import open_readonly
from supply_chain.changes import Change, changes
from supply_chain.digests import EVERY, digest, picture
from supply_chain.events import Event, Shipment, root
from supply_chain.participants import World
from supply_chain.parties import context_of, module_of
from supply_chain.programs import Job, commands, job, say
from supply_chain.wishes import Wish, wishes

OFTEN = 0.2  # seconds between two words to the demo
SHOWN = ("au", "SM", "SP")  # whose pictures are shown: the auditor, supermarkets, suppliers
PATIENCE = 120.0


class Album:
    """Some shipments as they came, to be shown side by side with what others saw of them."""

    SIZE = 4_000

    def __init__(self) -> None:
        self.pictures: dict[int, tuple[str, dict[str, str]]] = {}

    def look(self, position: int, event: Event, name: str) -> None:
        shown = isinstance(event, Shipment) and hasattr(event, "origin") and name[:2] in SHOWN
        if shown and position not in self.pictures and len(self.pictures) < self.SIZE:
            self.pictures[position] = (name, picture(event))


class Desk:
    """Where the events of one subscription arrive."""

    __slots__ = ("_album", "_name", "digests", "moments", "out_of_order", "positions")

    def __init__(self, name: str, album: Album) -> None:
        self._name, self._album = name, album
        self.positions, self.moments = array("q"), array("d")
        self.digests = array("q")  # of each event whose position says so
        self.out_of_order = 0

    def take(self, event: Event, delivery: pc.Delivery) -> None:
        """What a subscriber does with an event would stand here."""
        position = delivery.position
        if self.positions and position <= self.positions[-1]:
            self.out_of_order += 1  # it came twice, or too late
        self.positions.append(position)
        self.moments.append(time.time())
        if position % EVERY == 0:
            self.digests.append(digest(event))
            self._album.look(position, event, self._name)


class Subscribers:
    """The subscriptions of this program, and what the store says about the changes to them."""

    def __init__(self, job: Job, bus: pc.Bus, store: Any) -> None:
        self._job, self._bus, self._store = job, bus, store
        self.desks: dict[str, Desk] = {}
        self._album = Album()
        self._subscriptions: dict[str, pc.Subscription[Any]] = {}
        self.history: list[dict[str, Any]] = []

    def subscribe(self, wish: Wish, *, replace: bool = False) -> None:
        desk = self.desks.setdefault(wish.name, Desk(wish.name, self._album))
        self._subscriptions[wish.name] = self._bus.subscribe(
            wish.type,
            desk.take,
            where=wish.where,
            durable=wish.name,
            replace=replace,
            engine=self._job.engine,
        )

    def change(self, number: int, change: Change) -> None:
        """Do it, and note from which position of the log on it counts."""
        name = change.wish.name
        facts: dict[str, Any] = {"number": number, "kind": change.kind, "name": name}
        if change.kind == "add":
            self.subscribe(change.wish)
            facts["start"] = self._kept(name).start
        elif change.kind == "replace":
            # The new filter is for all that the old one has not handled.
            before = self._subscriptions[name]
            before.pause()
            while before.mailbox.settlement.in_flight:
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
            kept = {subscription.name: subscription.start for subscription in view.subscriptions()}
        about = {
            "names": list(self.desks),
            "starts": [kept.get(name, 1) for name in self.desks],
            "out_of_order": sum(desk.out_of_order for desk in desks),
            "dead_letters": len(self._bus.dead_letters()),
            "history": self.history,
            "pictures": self._album.pictures,
        }
        np.savez(
            path,
            about=json.dumps(about),
            sizes=[len(desk.positions) for desk in desks],
            positions=np.concatenate([np.array(desk.positions, np.int64) for desk in desks]),
            moments=np.concatenate([np.array(desk.moments) for desk in desks]),
            digests=np.concatenate([np.array(desk.digests, np.int64) for desk in desks]),
        )


def _tell(subscribers: Subscribers, over: threading.Event) -> None:
    while not over.wait(OFTEN):
        say(delivered=subscribers.received())


def _obey(subscribers: Subscribers, bus: pc.Bus, wanted: Job) -> None:
    for command in commands():
        if command.startswith("change"):
            number = int(command.split()[1])
            subscribers.change(number, changes(wanted)[number])
        elif command == "flush":
            say(caught_up=bus.flush(timeout=PATIENCE), delivered=subscribers.received())
        elif command == "save":
            subscribers.save(f"{wanted.folder}/received-{wanted.party}.npz")
            say(saved=True)


def main() -> None:
    wanted = job()
    party, path = wanted.party, wanted.url.removeprefix("sqlite:///")
    world = World(wanted.seed, wanted.subscriptions)
    everybody = wishes(world, wanted.seed, wanted.subscriptions)
    ours = [wish for wish in everybody if wish.party == party]
    # The context of a party may be replaced by another one: of its module, and of no other.
    federation = pc.Federation(root, imports=[module_of(party)])
    own: dict[str, Any] = {"publisher": f"subscribers-{party}", "context": context_of(party)}
    own |= {"federation": federation}
    with pc.Bus(wanted.url, **own) as bus, open_readonly(path) as store:
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
