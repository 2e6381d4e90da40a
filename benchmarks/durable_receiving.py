"""Subscribers that note when they were called, in this process or in another one."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from durable_setting import url_of

import polycast as pc

PATIENCE = 120.0  # seconds after which something must be wrong


class Receiver(Protocol):
    """Some subscribers that are watched."""

    def expect(self, events: int) -> None:
        """Count anew; each subscriber is about to get so many events."""

    def arrivals(self) -> list[float]:
        """When events came, by the monotonic clock of this machine, once all have come."""


@dataclass(slots=True)
class Tally:
    """Counts in the process of the subscribers."""

    subscribers: int
    _times: list[float] = field(default_factory=list)
    _wanted: int = 0
    _all: threading.Event = field(default_factory=threading.Event)

    def take(self, event: object) -> None:
        """The callback of them all."""
        del event
        times = self._times
        times.append(time.monotonic())  # appending is atomic
        if len(times) >= self._wanted:
            self._all.set()

    def expect(self, events: int) -> None:
        self._all.clear()
        self._wanted = events * self.subscribers
        self._times = []

    def arrivals(self) -> list[float]:
        if not self._all.wait(PATIENCE):
            raise AssertionError(f"{len(self._times)} of {self._wanted} events came")
        return sorted(self._times)


def subscribed(bus: pc.Bus, what: Any, count: int, **options: Any) -> Tally:
    """A tally of so many subscribers on a bus."""
    tally = Tally(count)
    for _ in range(count):
        bus.subscribe(what, tally.take, **options)
    return tally


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A tally in another process, asked over a pipe."""

    _pipe: Connection

    def expect(self, events: int) -> None:
        self._ask("expect", events)

    def arrivals(self) -> list[float]:
        found: list[float] = self._ask("arrivals")
        return found

    def _ask(self, *question: object) -> Any:
        self._pipe.send(question)
        return self._pipe.recv()


@contextmanager
def elsewhere(path: Path, what: Any, count: int, **options: Any) -> Iterator[Receiver]:
    """So many subscribers in another process over the same file."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(there, path, what, count, options))
    process.start()
    there.close()
    try:
        here.recv()  # it is subscribed
        yield Elsewhere(here)
    finally:
        here.close()
        process.join(PATIENCE)


def _serve(pipe: Connection, path: Path, what: Any, count: int, options: dict[str, Any]) -> None:
    with pc.Bus(url_of(path)) as bus:
        tally = subscribed(bus, what, count, **options)
        answers: dict[str, Callable[..., object]] = {
            "expect": tally.expect,
            "arrivals": tally.arrivals,
        }
        pipe.send("ready")
        while True:
            try:
                question, *about = pipe.recv()
            except EOFError:
                return
            pipe.send(answers[question](*about))
