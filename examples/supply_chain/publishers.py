"""The program of those who publish: all participants, each role on a bus of its own.

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
from supply_chain.events import Event
from supply_chain.participants import ROLES, World
from supply_chain.programs import Job, commands, job, say
from supply_chain.workload import Workload

AT_ONCE = 500  # events published together when it has to be fast
TICK = 0.04  # seconds between two batches of the steady stream
EVERY = 0.2  # seconds between two words to the demo


class Publishers:
    """The buses, and where each event has its place."""

    def __init__(self, job: Job, buses: dict[str, pc.Bus]) -> None:
        self._job, self._buses = job, buses
        self._events = iter(Workload(World(job.seed, job.subscriptions), job.seed))
        self.positions = np.zeros(job.events, np.int64)
        self.moments = np.zeros(job.events)
        self.done = 0
        self._told = 0.0

    def steadily(self, upto: int) -> None:
        for count in _due(upto - self.done, self._job.rate):
            self._publish(count)

    def at_once(self, upto: int) -> None:
        while self.done < upto:
            self._publish(min(AT_ONCE, upto - self.done))

    def _publish(self, count: int) -> None:
        """The next events; those of one role in one commit."""
        batch = list(enumerate(islice(self._events, count), self.done))
        for role, bus in self._buses.items():
            self._publish_as(bus, [pair for pair in batch if pair[1].sender.startswith(role)])
        self.done += count
        if time.monotonic() - self._told > EVERY:
            self._told = time.monotonic()
            say(published=self.done)

    def _publish_as(self, bus: pc.Bus, events: list[tuple[int, Event]]) -> None:
        if events:
            receipts = bus.publish_many([event for _, event in events])
            for (number, event), receipt in zip(events, receipts, strict=True):
                self.positions[number] = receipt.position
                self.moments[number] = event.sent.timestamp()


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
        buses = {role: stack.enter_context(pc.Bus(wanted.url, publisher=role)) for role in ROLES}
        publishers = Publishers(wanted, buses)
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
                np.savez(path, positions=publishers.positions, moments=publishers.moments)
            say(published=publishers.done, done=command)


if __name__ == "__main__":
    main()
