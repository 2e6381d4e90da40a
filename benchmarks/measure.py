"""Timing on a noisy machine: contenders take turns, and ratios are taken within a round."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Run = Callable[[int], float]
"""Publish so many times; the seconds it took until all of them were handled."""

# Where everything happens in one thread, its CPU time is taken: what else runs on the machine
# does not count then. Where threads wait for each other, only the time on the wall is meaningful.
cpu_time = time.thread_time
wall_time = time.perf_counter

PEERS = ("blinker", "pypubsub", "pyventus", "bubus")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int = 25
    slice: float = 0.015  # seconds per contender and round
    longest: float = 2.0  # seconds that one contender may take in all, after its third round

    @property
    def is_quick(self) -> bool:
        return self.rounds < 10


QUICK = Effort(rounds=2, slice=0.0002, longest=0.02)
"""Whether everything runs; the figures say nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The seconds per publish of one contender, round by round."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def best(self) -> float:
        return min(self.times)

    def over(self, other: Sample) -> Ratio:
        """How many times as long as the other, compared within each round."""
        pairs = zip(self.times, other.times, strict=False)
        return Ratio.of([mine / theirs for mine, theirs in pairs])


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds, and what the middle eight in ten of them lie between."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: list[float]) -> Ratio:
        ordered = sorted(ratios)
        cut = len(ordered) // 10
        return cls(statistics.median(ordered), ordered[cut], ordered[-1 - cut])

    def __str__(self) -> str:
        return f"{figures(self.median)} ({figures(self.low)}-{figures(self.high)})"


def figures(number: float) -> str:
    """A number as a person would write it: two or three figures."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{figures(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection while the clock runs: for all contenders alike, as timeit does."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def race(contenders: Mapping[str, Run], effort: Effort, *, collecting: bool = False) -> Samples:
    """Let all contenders run in each round, each time beginning with another one.

    A contender that is very slow drops out after three rounds; its ratios are of those.
    """
    gc.collect()
    repeats = {name: _calibrated(run, effort.slice) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(effort.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            spent = sum(times[name]) * repeats[name]
            if number >= 3 and spent > effort.longest:
                continue
            times[name].append(_timed(contenders[name], repeats[name], collecting) / repeats[name])
    return {name: Sample(tuple(each)) for name, each in times.items()}


Samples = dict[str, Sample]


def _timed(run: Run, repeats: int, collecting: bool) -> float:
    if collecting:
        return run(repeats)
    with quiet_gc():
        return run(repeats)


def _calibrated(run: Run, slice_: float) -> int:
    """How many publishes fill a slice; finding out is the warm-up."""
    repeats = 1
    while True:
        with quiet_gc():
            spent = run(repeats)
        if spent >= slice_ / 2 or repeats > 1_000_000:
            return max(1, round(repeats * slice_ / spent))
        repeats = max(repeats * 2, int(repeats * slice_ / 2 / max(spent, 1e-7)) // 2)


def apart(function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """Call in a process of its own, so that nobody inherits the heap that others have scattered.

    What is only tried out shares one, as starting them is most of what that takes.
    """
    if any(getattr(each, "is_quick", False) for each in args):  # an effort or a plan
        return _shared_child().submit(function, *args, **options).result()
    with _child() as child:
        return child.submit(function, *args, **options).result()


def _child() -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=spawn, initializer=_silence)


@cache
def _shared_child() -> ProcessPoolExecutor:
    return _child()


def _silence() -> None:
    logging.disable(logging.CRITICAL)  # bubus tells about every event


def setting() -> dict[str, object]:
    """What the figures depend on, found out when they are taken."""
    return {
        "cores": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: version(name) for name in ("polycast", *PEERS)},
    }
