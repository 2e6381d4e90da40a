"""Contexts on a bus: what translation adds to publishing (FOS figures 4a and 4b).

All happens in the publisher's thread, so that the figures are of the work and not of threads.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contexts_references import use_reflection
from contexts_shapes import NESTED, Invoice, USInvoice, make_federation
from measure import Effort, Samples, apart, cpu_time, duration, figures, quiet_gc, race
from tables import Table

import polycast as pc

FORWARD, CONTENT = "no access", "content-based"
COMPILED, REFLECTIVE, BY_HAND = "compiled", "reflective", "by hand"
SETUPS = (FORWARD, CONTENT, COMPILED, BY_HAND, REFLECTIVE)
CONSUMERS = (1, 2, 5, 10, 20, 50, 100)
RATES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 150_000, 200_000, 300_000)
SHOWN = (1_000, 2_000, 10_000, 50_000, 100_000, 200_000)
PERCENTILES = {"p50": 0.5, "p99": 0.99}
STALLED = 0.02  # seconds: who is that late at half of the events is not asked for more

Report = Callable[[str], None]
Callback = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Percentiles of the seconds from when an event was due until it was handled."""

    p50: float
    p99: float


Latency = dict[str, dict[int, Latencies]]


def ignore(event: object) -> None:
    """Where an event ends."""


def subscribe(
    setup: str, bus: pc.Bus, us: pc.Context, done: Callback = ignore, **options: Any
) -> None:
    """One consumer, in one of the five ways; all but the first want dear invoices, in dollars."""
    match setup:
        case "no access":
            bus.subscribe(object, done, **options)
        case "content-based":
            bus.subscribe(Invoice, done, where=lambda e: e.total.amount > 5.0, **options)
        case "by hand":
            by_hand = NESTED.by_hand

            def translate(event: Invoice) -> None:
                mine = by_hand(event)
                if mine.total.amount > 5.0:
                    done(mine)

            bus.subscribe(Invoice, translate, **options)
        case _:
            view = bus.within(us)
            view.subscribe(USInvoice, done, where=lambda e: e.total.amount > 5.0, **options)


@contextmanager
def opened(
    setup: str, *, consumers: int = 1, done: Callback = ignore, url: str | None = None
) -> Iterator[pc.Bus]:
    """A bus with its consumers."""
    federation, us = make_federation()
    if setup == REFLECTIVE:
        use_reflection(federation, us)
    arguments = [] if url is None else [url]
    with pc.Bus(*arguments, federation=federation) as bus:
        for _ in range(consumers):
            subscribe(setup, bus, us, done, dispatch="inline")
        yield bus


# -- throughput, and consumers per producer --------------------------------------------------------


def measure_throughput(effort: Effort, report: Report) -> Samples:
    """The time per publish of all setups, taken in turns."""
    report("publishing in five ways")
    return apart(_raced, SETUPS, 1, effort)


def measure_consumers(effort: Effort, report: Report) -> dict[int, Samples]:
    """Translated once for a context, or by each consumer."""
    found = {}
    for count in CONSUMERS:
        report(f"{count} consumers")
        found[count] = apart(_raced, (CONTENT, COMPILED, BY_HAND), count, effort)
    return found


def _raced(setups: tuple[str, ...], consumers: int, effort: Effort) -> Samples:
    buses = {setup: opened(setup, consumers=consumers) for setup in setups}
    try:
        return race(
            {setup: _publishing(bus.__enter__()) for setup, bus in buses.items()},
            effort,
        )
    finally:
        for bus in buses.values():
            bus.__exit__(None, None, None)


def _publishing(bus: pc.Bus) -> Callable[[int], float]:
    event = NESTED.event

    def run(repeats: int) -> float:
        publish = bus.publish
        began = cpu_time()
        for _ in range(repeats):
            publish(event)
        return cpu_time() - began

    return run


# -- over a file -----------------------------------------------------------------------------------


def measure_stored(effort: Effort, report: Report) -> Samples:
    """The processor's time per event, in batches of a hundred, until its consumer has it."""
    report("publishing in five ways, over a file")
    short = Effort(rounds=max(3, effort.rounds // 4), slice=effort.slice * 10)
    with TemporaryDirectory() as folder:
        return apart(_stored, Path(folder), short)


def _stored(folder: Path, effort: Effort) -> Samples:
    buses = {
        setup: opened(setup, url=f"sqlite:///{folder / str(number)}.db")
        for number, setup in enumerate(SETUPS)
    }
    try:
        return race({setup: _storing(bus.__enter__()) for setup, bus in buses.items()}, effort)
    finally:
        for bus in buses.values():
            bus.__exit__(None, None, None)


def _storing(bus: pc.Bus) -> Callable[[int], float]:
    batch = [NESTED.event] * 100

    def run(repeats: int) -> float:
        batches = max(1, repeats // 100)
        began = time.process_time()  # of all threads; waiting for the disk is not in it
        for _ in range(batches):
            bus.publish_many(batch)
        bus.flush()
        return (time.process_time() - began) * repeats / (batches * 100)

    return run


# -- latency against rate, open loop ---------------------------------------------------------------


def measure_latency(effort: Effort, report: Report) -> Latency:
    """The best of some short runs at each rate, the setups taking turns."""
    report("latency against rate")
    return apart(_latency, effort)


def _latency(effort: Effort) -> Latency:
    rates = RATES[::3] if effort.is_quick else RATES
    tries, seconds = (1, 0.1) if effort.is_quick else (5, 0.25)
    found: dict[str, dict[int, list[Latencies]]] = {setup: {} for setup in SETUPS}
    for number in range(tries):
        for rate in rates:
            for setup in SETUPS:
                before = [each for known, each in found[setup].items() if known < rate]
                if not any(_best(each).p50 > STALLED for each in before):
                    each = _open_loop(setup, rate, seconds, seed=number)
                    found[setup].setdefault(rate, []).append(each)
    return {
        setup: {rate: _best(each) for rate, each in by_rate.items()}
        for setup, by_rate in found.items()
    }


def _best(found: list[Latencies]) -> Latencies:
    return Latencies(min(each.p50 for each in found), min(each.p99 for each in found))


def _open_loop(setup: str, rate: int, seconds: float, *, seed: int) -> Latencies:
    """Events come at random times that were fixed before; who is late does not hide it.

    The clock is the thread's own: it stands still while another process has the processor.
    """
    chance = random.Random(seed)
    due, at = [], 0.0
    while at < seconds:
        due.append(at)
        at += chance.expovariate(rate)
    handled: list[float] = []
    now = cpu_time
    with opened(setup, done=lambda event: handled.append(now())) as bus, quiet_gc():
        for _ in range(20):
            bus.publish(NESTED.event)
        handled.clear()
        gc.collect()
        began = now() + 0.001
        for each in due:
            when = began + each
            while now() < when:
                pass  # sleeping would be late by more than what is measured
            bus.publish(NESTED.event)
    spans = sorted(end - began - each for end, each in zip(handled, due, strict=True))
    return Latencies(*(spans[int(part * (len(spans) - 1))] for part in PERCENTILES.values()))


# -- what a person sees ----------------------------------------------------------------------------


def tables(
    throughput: Samples, stored: Samples, latency: Latency, consumers: dict[int, Samples]
) -> list[Table]:
    """FOS figures 4a and 4b in figures."""
    shown = [rate for rate in latency[FORWARD] if rate in SHOWN]
    return [
        Table(
            "Five ways to get invoices to a consumer (FOS figure 4a)",
            ["setup", "in memory", "events/s", "over by hand", "over a file", "over by hand, file"],
            [_setup_row(setup, throughput, stored) for setup in SETUPS],
        ),
        Table(
            "Latency against rate, p50 / p99",
            ["events per second", *SETUPS],
            [
                [f"{rate:,}", *(_pair(latency[setup].get(rate)) for setup in SETUPS)]
                for rate in shown or list(latency[FORWARD])
            ],
        ),
        Table(
            "Consumers per producer (FOS figure 4b)",
            [
                "consumers",
                "nobody translates",
                "once for the context",
                "by each consumer",
                "each over once",
            ],
            [
                [
                    str(count),
                    *(duration(samples[way].best) for way in (CONTENT, COMPILED, BY_HAND)),
                    str(samples[BY_HAND].over(samples[COMPILED])),
                ]
                for count, samples in consumers.items()
            ],
        ),
    ]


def _setup_row(setup: str, throughput: Samples, stored: Samples) -> list[str]:
    mine, written = throughput[setup], stored[setup]
    return [
        setup,
        duration(mine.best),
        f"{1 / mine.best:,.0f}",
        figures(mine.over(throughput[BY_HAND]).median),
        duration(written.best),
        figures(written.over(stored[BY_HAND]).median),
    ]


def _pair(found: Latencies | None) -> str:
    if found is None:
        return "stalled"
    return f"{duration(found.p50)} / {duration(found.p99)}"
