"""Making the code of a context, and replacing it while events flow (FOS figures 5 and 6)."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

from contexts_shapes import NESTED, USInvoice, make_federation
from measure import Effort, Samples, apart, cpu_time, duration, figures, race
from tables import Table

import polycast as pc
from polycast.contexts.resolve.inheritance import settle
from polycast.contexts.run.translator import Translator

ATTRIBUTES = 40
"""Of each event."""
SIZES = (40, 100, 200, 400, 700, 1_000)
SELECTIVITIES = (0.1, 0.5, 1.0)
RATE, SECONDS = 2_000, 3.0
CHANGES = (1.0, 2.0)
"""Seconds at which the context is replaced."""
RUNS = 8
AROUND = 0.05
"""Seconds after a change that are told apart from the rest."""

Report = Callable[[str], None]
Generation = dict[float, dict[int, Samples]]
Series = tuple[list[float], list[float], list[tuple[float, float]]]
"""When each event was due, how long it took, and from when to when each change lasted."""

GENERATED, CHECKED = "generate", "check"


def scale(value: float) -> float:
    return value * 2.0


# -- figure 5 --------------------------------------------------------------------------------------


def make_context(rules: int, selectivity: float) -> tuple[pc.Context, type]:
    """A context with so many rules, of which a part is for the attributes of one event."""
    names = [f"a{number}" for number in range(ATTRIBUTES)]
    mine = round(ATTRIBUTES * selectivity)
    others = -(-(rules - mine) // ATTRIBUTES)
    fields: list[Any] = [(name, float) for name in names]
    measured = make_dataclass("Measured", fields, frozen=True)
    local = make_dataclass("LocalMeasured", fields, frozen=True)
    more = [make_dataclass(f"Other{n}", fields, frozen=True) for n in range(others)]
    root = pc.Context("root", types=[measured, *more])
    context = pc.Context("local", parent=root, types=[local])
    context.map(measured, local, "?")
    for name in names[:mine]:
        context.rule(f"Measured.{name}", scale)
    for number in range(rules - mine):
        context.rule(f"Other{number // ATTRIBUTES}.{names[number % ATTRIBUTES]}", scale)
    return context, measured


def measure_generation(effort: Effort, report: Report) -> Generation:
    """The time to make one function, against the number of rules."""
    found: Generation = {}
    sizes = SIZES[::3] if effort.is_quick else SIZES
    for selectivity in SELECTIVITIES:
        report(f"generating, {selectivity:.0%} of the attributes")
        found[selectivity] = {size: apart(_generated, size, selectivity, effort) for size in sizes}
    return found


def _generated(size: int, selectivity: float, effort: Effort) -> Samples:
    context, measured = make_context(size, selectivity)
    settled = settle(context)

    def generate() -> None:
        Translator(settled, "?", lambda finding: None).code(measured)

    def check() -> None:
        context.check()

    return race({GENERATED: _repeated(generate), CHECKED: _repeated(check)}, effort)


def _repeated(work: Callable[[], None]) -> Callable[[int], float]:
    def run(repeats: int) -> float:
        began = cpu_time()
        for _ in range(repeats):
            work()
        return cpu_time() - began

    return run


def line(found: dict[int, Samples], what: str) -> tuple[float, float, float]:
    """The straight line through the times: what it starts at, each rule, and how well it fits."""
    sizes, times = list(found), [samples[what].best for samples in found.values()]
    slope, start = statistics.linear_regression(sizes, times)
    return start, slope, statistics.correlation(sizes, times) ** 2


# -- figure 6 --------------------------------------------------------------------------------------


def measure_change(effort: Effort, report: Report) -> Series:
    """How long each event takes around a change of its context: the quietest of some runs."""
    report("replacing a context while events flow")
    if effort.is_quick:
        return apart(_changed, 0.2)
    return min((apart(_changed, 1.0) for _ in range(RUNS)), key=_unrest)


def _unrest(series: Series) -> float:
    """What others on the machine do to the events that no change is near."""
    return sorted(_told_apart(series)[1])[-len(series[0]) // 50]


def _changed(pace: float) -> Series:
    federation, us = make_federation()
    handled: list[float] = []
    now = time.perf_counter
    due = [number / RATE for number in range(round(RATE * SECONDS * pace))]
    changes: list[tuple[float, float]] = []
    with pc.Bus(federation=federation) as bus:
        view = bus.within(us)
        view.subscribe(USInvoice, lambda event: handled.append(now()), dispatch="inline")
        for _ in range(50):
            bus.publish(NESTED.event)
        handled.clear()
        began = now() + 0.05

        def change() -> None:
            for moment in CHANGES:
                time.sleep(max(0.0, began + moment * pace - now()))
                start = now()
                federation.replace(us.copy())
                changes.append((start - began, now() - began))

        changing = threading.Thread(target=change)
        changing.start()
        for each in due:
            while (left := began + each - now()) > 0:
                time.sleep(0 if left < 0.0003 else left - 0.0002)  # lets the other thread work
            bus.publish(NESTED.event)
        changing.join()
    spans = [end - began - each for end, each in zip(handled, due, strict=True)]
    return due, spans, changes


# -- what a person sees ----------------------------------------------------------------------------


def tables(generation: Generation, series: Series) -> list[Table]:
    """FOS figures 5 and 6 in figures."""
    sizes = list(next(iter(generation.values())))
    return [
        Table(
            "Making the function of one event of 40 attributes (FOS figure 5)",
            [
                "attributes with a rule",
                *(f"{size:,} rules" for size in sizes),
                "each rule",
                "fit of a line",
            ],
            [
                row
                for selectivity, found in generation.items()
                for row in (_generation_row(f"{selectivity:.0%}", found, GENERATED),)
            ],
        ),
        Table(
            "Checking the whole context",
            [
                "checked, with a rule for",
                *(f"{size:,} rules" for size in sizes),
                "each rule",
                "fit of a line",
            ],
            [_generation_row(f"{each:.0%}", found, CHECKED) for each, found in generation.items()],
        ),
        Table(
            "Latency around a change (FOS figure 6)",
            ["events that were due", "events", "p50", "p99", "longest"],
            _change_rows(series),
        ),
    ]


def _generation_row(name: str, found: dict[int, Samples], what: str) -> list[str]:
    _, slope, fit = line(found, what)
    times = (duration(samples[what].best) for samples in found.values())
    return [name, *times, duration(max(slope, 0.0)), figures(fit)]


def _told_apart(series: Series) -> tuple[list[float], list[float]]:
    """How long events took that were due around a change, and all others."""
    due, spans, changes = series
    near: list[float] = []
    far: list[float] = []
    for when, span in zip(due, spans, strict=True):
        is_near = any(start <= when <= end + AROUND for start, end in changes)
        (near if is_near else far).append(span)
    return near, far


def _change_rows(series: Series) -> list[list[str]]:
    near, far = _told_apart(series)
    lasted = statistics.median(end - start for start, end in series[2])
    return [
        _spans_row(f"in a change ({duration(lasted)}) or within 50 ms after it", near),
        _spans_row("at any other time", far),
    ]


def _spans_row(name: str, spans: list[float]) -> list[str]:
    ordered = sorted(spans)
    middle, high = ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))]
    return [name, f"{len(ordered):,}", duration(middle), duration(high), duration(ordered[-1])]
