"""A publisher or a subscriber in a process of its own, written against the public interface.

`python proof_workers.py '{"role": ...}'` runs one until SIGTERM, or until it is killed.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from proof_events import TYPES, Event
from proof_history import History, digest

import polycast as pc
from polycast.errors import BrokerUnreachableError

__all__ = ["GATE", "Listening", "PublisherJob", "SubscriberJob", "effects_table", "peak_memory"]

CHANCES = 1 << 32
PLANNED = "planned"
GATE = "go-on"
OPENING = 30.0  # seconds in which a broker must have come back


class Listening(msgspec.Struct, frozen=True):
    """One subscription of a subscriber."""

    name: str
    type: str
    level: str = "sorted_set"
    above: int = -1  # the filter: only what is larger
    group: str = ""
    transactional: bool = True
    slow: float = 0.0  # seconds per event
    stops_after: int = 0  # events; then it handles nothing until there is the file `GATE`
    failing: float = 0.0  # how often the first attempt fails
    queue: int = 10_000
    engine: str = "direct"
    durable: bool = True

    @property
    def kept_as(self) -> str:
        """The name under which the bus knows it."""
        return self.group or self.name


class PublisherJob(msgspec.Struct, frozen=True, tag_field="role", tag="publisher"):
    """What a publisher does."""

    url: str
    name: str
    life: int  # the how-manieth life of this publisher
    folder: str
    seed: int
    events: int = 1_000_000
    at_once: int = 3
    pause: float = 0.02
    size: int = 40


class SubscriberJob(msgspec.Struct, frozen=True, tag_field="role", tag="subscriber"):
    """What a subscriber does."""

    url: str
    name: str
    life: int
    folder: str
    subscriptions: list[Listening]
    ack_timeout: float = 120.0
    heartbeat_timeout: float = 10.0


def main(text: str) -> None:
    """Do a job."""
    faulthandler.enable()  # should the interpreter itself crash, the driver tells where
    job = msgspec.json.decode(text, type=PublisherJob | SubscriberJob)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    history = History(Path(job.folder) / f"{job.name}.history", job.name)
    if isinstance(job, PublisherJob):
        publish(job, history, stopping)
    else:
        subscribe(job, history, stopping)
    history.close()
    print("peak", peak_memory(), flush=True)


def ready() -> None:
    """Tell the driver that the work begins."""
    print("ready", peak_memory(), flush=True)


def peak_memory() -> int:
    """The largest size this process has had, in KiB.

    Not from `getrusage`: there a process begins with the size of the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def opened(url: str, **options: Any) -> pc.Bus:
    """A bus; the brokers that it names may all be down just then."""
    deadline, pause = time.monotonic() + OPENING, threading.Event()
    while True:
        try:
            return pc.Bus(url, **options)
        except BrokerUnreachableError:
            if time.monotonic() > deadline:
                raise
            pause.wait(0.05)


# -- publishing ----------------------------------------------------------------------------------


def publish(job: PublisherJob, history: History, stopping: threading.Event) -> None:
    """Publish one by one and several at once; what is unknown is tried again."""
    dice = random.Random(job.seed)
    with opened(job.url, publisher=job.name) as bus:
        ready()
        number = 0
        driver = os.getppid()
        while number < job.events and os.getppid() == driver:
            if stopping.wait(job.pause * dice.random()):
                break
            events = [
                _event(job, number + n, dice) for n in range(dice.choice((1, 1, job.at_once)))
            ]
            number += len(events)
            for event in events:
                kind = type(event).__name__
                history.write("attempted", key=event.key, type=kind, payload=asdict(event))
            _publish(bus, events, history)


def _event(job: PublisherJob, number: int, dice: random.Random) -> Event:
    cls = TYPES[dice.choice(("Talk", "Keynote", "Panel"))]
    size = dice.randint(0, 100)
    filling = f"{dice.getrandbits(64):016x}" * (job.size // 16 + 1)
    return cls(f"{job.name}.{job.life}.{number}", size, filling)


def _publish(bus: pc.Bus, events: list[Event], history: History) -> None:
    if len(events) > 1:
        try:
            receipts = bus.publish_many(events)
        except pc.PublishUnknownError:
            return  # maybe
        for event, receipt in zip(events, receipts, strict=True):
            _accepted(history, event, receipt)
        return
    (event,), identity = events, None
    while True:
        try:
            _accepted(history, event, bus.publish(event, identity=identity))
            return
        except pc.PublishUnknownError as error:
            identity = error.identity
            history.write("unknown", key=event.key, identity=identity)


def _accepted(history: History, event: Event, receipt: pc.Receipt) -> None:
    history.write("accepted", key=event.key, identity=receipt.identity, position=receipt.position)


# -- subscribing ---------------------------------------------------------------------------------


def subscribe(job: SubscriberJob, history: History, stopping: threading.Event) -> None:
    """Attach all subscriptions, and handle what comes until told to stop."""
    with opened(job.url, publisher=job.name, heartbeat_timeout=job.heartbeat_timeout) as bus:
        for mine in job.subscriptions:
            options: dict[str, object] = {"level": mine.level, "ack_timeout": job.ack_timeout}
            options |= {"engine": mine.engine}
            if mine.durable:
                options["durable"] = mine.kept_as
            if mine.group:
                options["group"] = mine.group
            history.write("subscribed", subscription=mine.name)
            bus.subscribe(
                TYPES[mine.type],
                _handler(job, mine, history),
                where=_filters(mine.above),
                attempts=20,
                queue=mine.queue,
                **options,  # type: ignore[arg-type]
            )
        ready()
        driver = os.getppid()
        while not stopping.wait(1.0) and os.getppid() == driver:
            pass  # nobody would end it if the driver were killed
    for mine in job.subscriptions:
        history.write("detached", subscription=mine.name)


def _filters(above: int) -> Callable[[Event], object] | None:
    return None if above < 0 else {30: lambda e: e.size > 30, 60: lambda e: e.size > 60}[above]


def _handler(
    job: SubscriberJob, mine: Listening, history: History
) -> Callable[[Event, pc.Delivery], None]:
    path = Path(job.folder) / f"{mine.kept_as}.effects"
    local, pause = threading.local(), threading.Event()
    gate, handled = Path(job.folder) / GATE, itertools.count(1)

    def handle(event: Event, delivery: pc.Delivery) -> None:
        seen = {
            "subscription": mine.name,
            "key": event.key,
            "identity": delivery.identity,
            "position": delivery.position,
            "count": delivery.count,
            "token": delivery.token,
        }
        history.write("begun", **seen)
        try:
            attempt(event, delivery, seen)
        except Exception as error:
            history.write("failed", **seen, why=f"{type(error).__name__}: {error}")
            raise

    def attempt(event: Event, delivery: pc.Delivery, seen: dict[str, object]) -> None:
        if delivery.count == 1 and crc32(event.key.encode()) < mine.failing * CHANCES:
            raise RuntimeError(PLANNED)
        if mine.slow:
            pause.wait(mine.slow)
        if mine.stops_after and next(handled) > mine.stops_after:
            while not gate.exists():
                pause.wait(0.02)
        marked = digest(asdict(event))
        if not mine.transactional:
            history.write("effect", **seen, digest=marked)
            return
        if not hasattr(local, "database"):
            local.database = effects_table(path)
        with delivery.transaction(local.database) as fresh:
            if fresh:
                row = (job.name, mine.name, event.key, *_identity(delivery), delivery.position)
                row += (delivery.count, delivery.token, marked, time.monotonic_ns())
                local.database.execute(INSERT, row)

    return handle


def _identity(delivery: pc.Delivery) -> tuple[str, int, int]:
    identity = delivery.identity
    return identity.publisher, identity.epoch, identity.sequence


TABLE = """CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY AUTOINCREMENT, process, subscription, key,
    publisher, epoch, sequence, position, count, token, digest, at)"""
INSERT = """INSERT INTO effects (process, subscription, key, publisher, epoch, sequence, position,
    count, token, digest, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


def effects_table(path: Path) -> sqlite3.Connection:
    """The database in which a subscriber keeps its effects; others may have it open, too."""
    database = sqlite3.connect(path, timeout=60)
    database.execute("PRAGMA synchronous = OFF")  # a kill is not a loss of power
    database.execute(TABLE)
    database.commit()
    return database


if __name__ == "__main__":
    main(sys.argv[1])
