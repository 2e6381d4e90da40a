"""The program of those who publish: all participants, each party on a bus in its own context.

Each writes down in the types of its party what happens, and publishes that; polycast adds what it
is in the reference types. Half-way through the steady stream the US replace their context by one
with another rate, for what they receive and for what they publish.

A few events come first, so that everything is up and warm. Then a steady stream shows how long an
event takes; and then the rest comes as fast as it goes, which shows how much the system can do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

import numpy as np

import polycast as pc
from polycast.stores.doctor import open_readonly
from supply_chain import us
from supply_chain.byhand import handwork
from supply_chain.events import Event, root
from supply_chain.participants import World
from supply_chain.parties import PARTIES, context_of
from supply_chain.programs import Job, commands, job, say
from supply_chain.workload import Workload

AT_ONCE = 500  # events published together when it has to be fast
TICK = 0.04  # seconds between two batches of the steady stream
EVERY = 0.2  # seconds between two words to the demo


class Publishers:
    """The buses, and where each event has its place."""

    def __init__(self, job: Job, stack: ExitStack) -> None:
        self._job = job
        self._world = World(job.seed, job.subscriptions)
        self._events = iter(Workload(self._world, job.seed))
        self._federations = {party: pc.Federation(root) for party in PARTIES}
        self._buses = {
            party: stack.enter_context(
                pc.Bus(job.url, publisher=party, context=context_of(party), federation=federation)
            )
            for party, federation in self._federations.items()
        }
        self.positions = np.zeros(job.events, np.int64)
        self.moments = np.zeros(job.events)
        self.done, self.turned = 0, 0
        self._told = 0.0

    def steadily(self, upto: int) -> None:
        for count in _due(upto - self.done, self._job.rate):
            self._publish(count)

    def at_once(self, upto: int) -> None:
        while self.done < upto:
            self._publish(min(AT_ONCE, upto - self.done))

    def _publish(self, count: int) -> None:
        """The next events; those of one party in one commit."""
        if self.done >= self._job.turn and not self.turned:
            self._turn()
        batch: dict[str, list[tuple[int, Event]]] = {party: [] for party in PARTIES}
        for number, event in enumerate(islice(self._events, count), self.done):
            batch[self._world.by_name[event.sender].party].append((number, event))
        for party, events in batch.items():
            self._publish_as(party, events)
        self.done += count
        if time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            say(published=self.done)

    def _publish_as(self, party: str, events: list[tuple[int, Event]]) -> None:
        own = handwork(party)
        written = [event if own is None else own.seen(event) for _, event in events]
        receipts = self._buses[party].publish_many(written) if written else ()
        for (number, event), receipt in zip(events, receipts, strict=True):
            self.positions[number] = receipt.position
            self.moments[number] = event.sent.timestamp()

    def _turn(self) -> None:
        """The US have a new rate; the store says from which position on."""
        self._federations["us"].replace(us.new_quarter)
        with open_readonly(self._job.url.removeprefix("sqlite:///")) as store, store.view() as view:
            self.turned = [context.start for context in view.contexts() if context.name == "us"][-1]
        rates = f"{us.DOLLARS_FOR_A_EURO} to {us.IN_THE_NEW_QUARTER} dollars for a euro"
        say(changed=f"the US replace their context: from {rates}, from position {self.turned:,} on")


def _due(events: int, rate: float) -> Iterator[int]:
    """How many events are due now, at so many a second, until there are enough."""
    began, done = time.monotonic(), 0
    while done < events:
        time.sleep(TICK)
        wanted = min(events, int((time.monotonic() - began) * rate))
        if wanted > done:
            yield wanted - done
            done = wanted


def main() -> None:
    wanted = job()
    with ExitStack() as stack:
        publishers = Publishers(wanted, stack)
        say(ready=True)
        for command in commands():
            if command == "warm":
                publishers.at_once(wanted.warm)
            elif command == "steady":
                publishers.steadily(wanted.steady)
            elif command == "rush":
                publishers.at_once(wanted.events)
            elif command == "save":
                path = f"{wanted.folder}/published.npz"
                np.savez(
                    path,
                    positions=publishers.positions,
                    moments=publishers.moments,
                    turned=publishers.turned,
                )
            say(published=publishers.done, done=command)


if __name__ == "__main__":
    main()
