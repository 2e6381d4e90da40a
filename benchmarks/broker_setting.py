"""What the benchmarks of the broker share: READY's events, how much of everything, processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from measure import QUICK as QUICK_EFFORT
from measure import Effort

Report = Callable[[str], None]

PATIENCE = 60.0  # seconds after which something must be wrong
BROKER_CORES, CLIENT_CORES = {0}, {1}
READY_HIGHEST = 200  # announcements a second, in figures 3 and 4 of the READY paper
GOAL = 10 * READY_HIGHEST
MOST = 50  # consumers, in the same figures

ONE, ALL = "wanted by one of N", "wanted by all N"
KINDS = (ONE, ALL)


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event of READY's experiments: a string, a counter, random numbers."""

    field_0: str
    field_1: int
    field_2: float  # when it was published, by the monotonic clock of this machine
    field_3: int
    field_4: float
    field_5: int
    field_6: float
    field_7: int
    field_8: float
    field_9: int


_draw = random.Random(9)
_REST = [
    tuple(_draw.randrange(2**31) if n % 2 else _draw.random() for n in range(3, 10))
    for _ in range(97)
]
_TEXTS = ["x" * _draw.randint(28, 40) for _ in range(97)]


def announcements(first: int, count: int) -> list[Announcement]:
    """The next so many, as of now."""
    now = time.monotonic()
    return [
        Announcement(_TEXTS[n % 97], n, now, *_REST[n % 97])  # type: ignore[arg-type]
        for n in range(first, first + count)
    ]


# -- how much --------------------------------------------------------------------------------------


EFFORT = Effort(rounds=12, slice=0.25, longest=30.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    kinds: tuple[str, ...] = KINDS
    consumers: tuple[int, ...] = (1, 2, 5, 10, 20, 50)
    rates: tuple[int, ...] = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000)
    warming: float = 0.5  # seconds before the first point
    lasting: float = 3.0  # seconds of each point
    tries: int = 3  # for a point that is below the line, in case the machine was busy
    latency: float = 6.0  # seconds
    rounds: int = 5  # of a few events a second
    effort: Effort = EFFORT

    @property
    def is_quick(self) -> bool:
        return self.effort.is_quick


QUICK = Plan(
    kinds=(ALL,),
    consumers=(MOST,),
    rates=(200,),
    warming=0.1,
    lasting=0.2,
    tries=1,
    latency=0.2,
    rounds=1,
    effort=QUICK_EFFORT,
)


# -- processes -------------------------------------------------------------------------------------


class Child:
    """An object in another process, whose methods are called from here."""

    def __init__(self, make: Callable[..., Any], about: tuple[Any, ...], cores: set[int]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, there = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(there, make, about, cores), daemon=True)
        self._process.start()
        there.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def ask(self, method: str, *about: Any) -> Any:
        """Call a method, and wait for its result."""
        self.tell(method, *about)
        return self.result()

    def tell(self, method: str, *about: Any) -> None:
        """Call a method; `result` waits for it."""
        self._pipe.send((method, about))

    def result(self) -> Any:
        if not self._pipe.poll(PATIENCE):
            raise AssertionError("a process of the benchmark does not answer")
        found = self._pipe.recv()
        if isinstance(found, Exception):
            raise found
        return found

    def end(self) -> None:
        self._pipe.close()
        self._process.join(10.0)
        if self._process.is_alive():
            self._process.kill()


@contextmanager
def child(make: Callable[..., Any], *about: Any, cores: set[int]) -> Iterator[Child]:
    """A process of its own, which has ended afterwards; what `make` makes may have a `close`."""
    made = Child(make, about, cores)
    try:
        made.result()
        yield made
    finally:
        made.end()


def _serve(pipe: Connection, make: Callable[..., Any], about: Any, cores: set[int]) -> None:
    if cores <= os.sched_getaffinity(0):
        os.sched_setaffinity(0, cores)
    try:
        served = make(*about)
    except Exception as error:
        pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
        return
    pipe.send("ready")
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            break
        try:
            pipe.send(getattr(served, method)(*given))
        except Exception as error:
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
    getattr(served, "close", lambda: None)()


def processor_time(pid: int) -> float:
    """Seconds that a process has computed so far, in all its threads."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    ticks = text.rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


# -- both sides ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """What a publisher is to do."""

    rate: int  # events a second
    seconds: float
    every: float = 0.005  # seconds; all that is due by then is published in one call


def offer(publish: Callable[[int, int], None], first: int, what: Offer) -> list[tuple[float, int]]:
    """Publish at a rate, however late the last call has returned: when, and how many by then."""
    begin = time.monotonic()
    steps, done = [(begin, 0)], 0
    total = round(what.rate * what.seconds)
    tick = 0
    while done < total:
        tick += 1
        left = begin + tick * what.every - time.monotonic()
        if left > 0:
            time.sleep(left)
        due = min(total, int((time.monotonic() - begin) * what.rate))
        if due > done:
            publish(first + done, due - done)
            done = due
            steps.append((time.monotonic(), done))
        if time.monotonic() - begin > 2 * what.seconds:  # it is hopeless
            break
    return steps


def within(steps: list[tuple[float, int]], begin: float, end: float) -> float:
    """How many were published in a time, where calls take theirs."""
    return _upto(steps, end) - _upto(steps, begin)


def _upto(steps: list[tuple[float, int]], moment: float) -> float:
    at = bisect_left(steps, (moment, 0))
    if at == 0 or at == len(steps):
        return steps[min(at, len(steps) - 1)][1]
    (early, few), (late, many) = steps[at - 1], steps[at]
    return few + (many - few) * (moment - early) / (late - early)


@dataclass(slots=True)
class Tally:
    """Counts arrivals, by thousandths of a second, and remembers latencies if it is asked to."""

    buckets: dict[int, int] = field(default_factory=dict)
    total: int = 0
    latencies: list[float] = field(default_factory=list)
    remembers: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, count: int, now: float) -> None:
        """In any thread."""
        at = int(now * 1_000)
        with self._lock:
            self.total += count
            self.buckets[at] = self.buckets.get(at, 0) + count

    def take(self, event: Announcement) -> None:
        """A callback."""
        now = time.monotonic()
        if self.remembers:
            self.latencies.append(now - event.field_2)  # which is atomic
        self.took(1, now)

    def remember(self) -> None:
        """From now on."""
        self.latencies, self.remembers = [], True

    def remembered(self) -> list[float]:
        """What was remembered, and no more."""
        self.remembers = False
        return self.latencies

    def between(self, begin: float, end: float) -> int:
        first, last = int(begin * 1_000), int(end * 1_000)
        with self._lock:
            return sum(count for at, count in self.buckets.items() if first <= at < last)
