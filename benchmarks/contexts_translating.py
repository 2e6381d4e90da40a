"""Translating an event: generated code, the same by hand, and by reflection."""

from __future__ import annotations

from collections.abc import Callable

from contexts_references import compiled, interpreted, reflective
from contexts_shapes import SHAPES, Shape, Translate, make_federation
from measure import Effort, Samples, apart, cpu_time, duration, figures, race
from tables import Table

BY_HAND, COMPILED, REFLECTIVE = "by hand", "compiled", "reflective"
THROUGH, INTERPRETED = "federation.translate", "reflective, decided before"
SLOWEST_GOAL, FASTEST_GOAL = 1.15, 10.0

Results = dict[str, Samples]
Report = Callable[[str], None]


def measure(effort: Effort, report: Report) -> Results:
    """All shapes, each in a process of its own."""
    found = {}
    for number, shape in enumerate(SHAPES):
        report(f"translating, {shape.name}")
        found[shape.name] = apart(_measured, number, effort)
    return found


def _measured(number: int, effort: Effort) -> Samples:
    shape = SHAPES[number]
    federation, us = make_federation()
    ways = {
        BY_HAND: shape.by_hand,
        COMPILED: compiled(federation, shape.event),
        THROUGH: lambda event: federation.translate(event, target=us),
        INTERPRETED: interpreted(federation, shape.event),
        REFLECTIVE: reflective(us),
    }
    _check(shape, ways)
    return race({name: _repeated(way, shape.event) for name, way in ways.items()}, effort)


def _check(shape: Shape, ways: dict[str, Translate]) -> None:
    """All ways give the same, or a comparison would mean nothing."""
    wanted = shape.by_hand(shape.event)
    for name, way in ways.items():
        if way(shape.event) != wanted:
            raise SystemExit(f"{name}, {shape.name}: {way(shape.event)} and not {wanted}")


def _repeated(way: Translate, event: object) -> Callable[[int], float]:
    def run(repeats: int) -> float:
        began = cpu_time()
        for _ in range(repeats):
            way(event)
        return cpu_time() - began

    return run


def tables(found: Results) -> list[Table]:
    """What was measured, and against the goals."""
    times = [
        [
            name,
            *(duration(samples[way].best) for way in samples),
            figures(samples[INTERPRETED].over(samples[COMPILED]).median),
        ]
        for name, samples in found.items()
    ]
    ways = list(next(iter(found.values())))
    return [
        Table(
            "Translating one event, in Python alone",
            ["shape of the event", *ways, "decided before over compiled"],
            times,
        ),
        Table(
            "Against the goals",
            ["shape of the event", "compared", "goal", "median of rounds", "best of each", "met?"],
            [row for name, samples in found.items() for row in _goals(name, samples)],
        ),
    ]


def _goals(name: str, samples: Samples) -> list[list[str]]:
    hand, code, slow = (samples[way] for way in (BY_HAND, COMPILED, REFLECTIVE))
    over, times = code.over(hand), slow.over(code)
    return [
        [
            name,
            "compiled over by hand",
            f"at most {SLOWEST_GOAL}",
            str(over),
            figures(code.best / hand.best),
            "met" if over.median <= SLOWEST_GOAL else "not met",
        ],
        [
            name,
            "reflective over compiled",
            f"at least {FASTEST_GOAL:g}",
            str(times),
            figures(slow.best / code.best),
            "met" if times.median >= FASTEST_GOAL else "not met",
        ],
    ]
