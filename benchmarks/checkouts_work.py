"""What `checkouts.py` has done over and over: a worker, run with the interpreter of each checkout.

It reads how many times from each line that it gets, and writes the seconds which that took. Only
what every checkout has is used.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from contexts_shapes import NESTED, make_federation
from durable_setting import ORDER, Order
from measure import Run, cpu_time, quiet_gc, wall_time

import polycast as pc
from polycast.events import MSGPACK
from polycast.typesystem import Registry

PATIENCE = 60.0  # seconds after which something must be wrong
TOGETHER = 100  # published with one call, or matched
FILTERS = 1_000


def timed(once: Callable[[], object], clock: Callable[[], float] = cpu_time) -> Run:
    """Call it so many times."""

    def run(count: int) -> float:
        begin = clock()
        for _ in range(count):
            once()
        return clock() - begin

    return run


class Awaited:
    """A callback, and waiting until it was called so many times more."""

    def __init__(self) -> None:
        self._seen, self._wanted, self._there = 0, 0, threading.Event()

    def __call__(self, event: object) -> None:
        self._seen += 1
        if self._seen >= self._wanted:
            self._there.set()

    def after(self, publish: Callable[[], object], events: int) -> Run:
        """Publish so many times, until all events have come."""

        def run(count: int) -> float:
            self._wanted = self._seen + count * events
            self._there.clear()
            begin = wall_time()
            for _ in range(count):
                publish()
            if not self._there.wait(PATIENCE):
                raise AssertionError(f"only {self._seen} of {self._wanted} events have come")
            return wall_time() - begin

        return run


# -- in memory -------------------------------------------------------------------------------------


@contextmanager
def inline(folder: Path, *, subscribers: int, filtered: bool) -> Iterator[Run]:
    with pc.Bus() as bus:
        for number in range(subscribers):
            where = _numbered(number) if filtered else None
            bus.subscribe(Order, lambda _: None, where=where, dispatch="inline")
        yield timed(lambda: bus.publish(ORDER))


def _numbered(number: int) -> Callable[[Order], bool]:
    return lambda order: order.number == number


@contextmanager
def pooled(folder: Path) -> Iterator[Run]:
    seen = Awaited()
    with pc.Bus() as bus:
        bus.subscribe(Order, seen, dispatch="pool", overflow="block")
        yield seen.after(lambda: bus.publish(ORDER), 1)


@contextmanager
def matching(folder: Path, *, native: bool, at_once: bool) -> Iterator[Run]:
    draw = random.Random(7)
    matcher: pc.Matcher[int] = pc.Matcher(native=native)
    for number in range(FILTERS):
        matcher.add(number, Order, _priced(draw.uniform(0, 1000), number % 9))
    orders = [Order(n, "tea", draw.uniform(0, 1000), n % 9, "Eugster") for n in range(TOGETHER)]
    if at_once:
        yield timed(lambda: matcher.match_batch(orders))
    else:
        yield timed(lambda: [matcher.match(each) for each in orders])


def _priced(low: float, count: int) -> Callable[[Order], bool]:
    return lambda order: low < order.price < low + 5 and order.count == count


LANGUAGES = {
    "etcl": "$.price > 3 and $.item == 'tea' and $.count < 4",
    "xpath": "/Order[price > 3 and item = 'tea' and count < 4]",
}


@contextmanager
def asked(folder: Path, *, language: Any) -> Iterator[Run]:
    found = pc.parse_filter(LANGUAGES[language], language)
    yield timed(lambda: found(ORDER))


@contextmanager
def parsed(folder: Path, *, language: Any) -> Iterator[Run]:
    yield timed(lambda: pc.parse_filter(LANGUAGES[language], language))


@contextmanager
def translated(folder: Path) -> Iterator[Run]:
    federation, us = make_federation()
    with pc.Bus(federation=federation) as bus:
        bus.within(us).subscribe(NESTED.target, lambda _: None, dispatch="inline")
        yield timed(lambda: bus.publish(NESTED.event))


@contextmanager
def coded(folder: Path) -> Iterator[Run]:
    known, event = Registry(), NESTED.event
    yield timed(lambda: MSGPACK.decode(MSGPACK.encode(event, registry=known), registry=known))


# -- over a file and a broker ----------------------------------------------------------------------


WAYS: dict[str, dict[str, Any]] = {
    "received": {},
    "durable": {"durable": "kept"},
    "group": {"group": "all"},
    "acknowledged one by one": {"durable": "kept", "ack": "manual"},
}


@contextmanager
def kept(url: str, *, ways: str) -> Iterator[Run]:
    with pc.Bus(url) as bus, pc.Bus(url) as other:
        seen = Awaited()
        many = [ORDER] * TOGETHER
        if ways == "one by one":
            yield timed(lambda: bus.publish(ORDER), wall_time)
        elif ways == "together":
            yield timed(lambda: bus.publish_many(many), wall_time)
        else:
            callback = acknowledged(seen) if "ack" in WAYS[ways] else seen
            other.subscribe(Order, callback, **WAYS[ways])
            yield seen.after(lambda: bus.publish_many(many), TOGETHER)


def acknowledged(seen: Awaited) -> Callable[[Order, Any], None]:
    """Acknowledge each event by itself, and wait until that is kept."""

    def callback(order: Order, delivery: Any) -> None:
        delivery.ack()
        seen(order)

    return callback


@contextmanager
def file(folder: Path, *, ways: str) -> Iterator[Run]:
    with kept(f"sqlite:///{folder / 'events.db'}", ways=ways) as run:
        yield run


@contextmanager
def broker(folder: Path, *, ways: str) -> Iterator[Run]:
    command = [sys.executable, "-m", "polycast", "serve", "--listen", "127.0.0.1:0"]
    store = f"sqlite:///{folder / 'served.db'}"
    with subprocess.Popen(
        [*command, "--store", store], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            told = re.search(r"polycast://[\d.]+:\d+", serving.stdout.readline())
            assert told is not None
            with kept(told[0], ways=ways) as run:
                yield run
        finally:
            serving.terminate()


WORK: dict[str, Callable[[Path], Any]] = {
    "in memory, in-line, 1 subscriber": partial(inline, subscribers=1, filtered=False),
    "in memory, in-line, 100 subscribers": partial(inline, subscribers=100, filtered=False),
    "in memory, in-line, 100 filters": partial(inline, subscribers=100, filtered=True),
    "in memory, pool": pooled,
    "matching, one by one, kernel": partial(matching, native=True, at_once=False),
    "matching, batches, kernel": partial(matching, native=True, at_once=True),
    "matching, one by one, Python": partial(matching, native=False, at_once=False),
    "matching, batches, Python": partial(matching, native=False, at_once=True),
    **{f"asking, {each}": partial(asked, language=each) for each in LANGUAGES},
    **{f"parsing, {each}": partial(parsed, language=each) for each in LANGUAGES},
    "translating, nested": translated,
    "MessagePack, there and back": coded,
    "file, one by one": partial(file, ways="one by one"),
    "file, 100 together": partial(file, ways="together"),
    "file, received": partial(file, ways="received"),
    "file, durable": partial(file, ways="durable"),
    "file, group": partial(file, ways="group"),
    "file, acknowledged one by one": partial(file, ways="acknowledged one by one"),
    "broker, one by one": partial(broker, ways="one by one"),
    "broker, 100 together": partial(broker, ways="together"),
    "broker, received": partial(broker, ways="received"),
    "broker, durable": partial(broker, ways="durable"),
    "broker, group": partial(broker, ways="group"),
    "broker, acknowledged one by one": partial(broker, ways="acknowledged one by one"),
}


def main() -> None:
    """Do some work as often as each line says."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    with WORK[name](folder) as run, quiet_gc(), suppress(BrokenPipeError):
        run(1)  # what is loaded or compiled at the first time is no part of the work
        for line in sys.stdin:
            print(run(int(line)), flush=True)


if __name__ == "__main__":
    main()
