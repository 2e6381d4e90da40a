"""Publishing to 1, 10, 100 and 1,000 subscribers, side by side with the peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from measure import Effort, Samples, apart, duration, race
from peers import BY_NAME_ONLY, CONTENDERS, POLYCAST, WITH_HISTORY, Filtering, Scenario
from tables import Table

COUNTS = (1, 10, 100, 1000)
FILTERINGS: tuple[Filtering, ...] = ("none", "true", "false")
SLOW = 1000  # bubus takes seconds per publish from here on: it is measured in one scenario only


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio that is aimed for."""

    scenario: Scenario
    ours: str
    peer: str
    least: float

    def met_in(self, results: Results) -> tuple[str, ...]:
        """A row: what, the goal, what was measured, the verdict."""
        samples = results[self.scenario]
        ratio = samples[self.peer].over(samples[self.ours])
        verdict = "met" if ratio.median >= self.least else "not met"
        return (str(self.scenario), self.ours, self.peer, f"{self.least:g}", str(ratio), verdict)


Results = dict[Scenario, Samples]
ONE = Scenario(1, "true", by_base=True)
ONE_EXACT = Scenario(1, "true", by_base=False)
GOALS = (
    Goal(ONE, POLYCAST, "blinker", 5),
    Goal(ONE_EXACT, POLYCAST, "blinker", 5),
    Goal(ONE, WITH_HISTORY, "blinker", 2),
    Goal(ONE_EXACT, WITH_HISTORY, "blinker", 2),
    Goal(ONE_EXACT, POLYCAST, "pyventus", 10),
    Goal(ONE_EXACT, POLYCAST, "bubus", 10),
    *(
        Goal(Scenario(1000, filtering, by_base=False), POLYCAST, "blinker", 1)
        for filtering in FILTERINGS
    ),
)


def scenarios(counts: tuple[int, ...] = COUNTS) -> Iterator[Scenario]:
    """All of them, with so many subscribers."""
    for by_base in (False, True):
        for filtering in FILTERINGS:
            for count in counts:
                yield Scenario(count, filtering, by_base)


def contenders_for(scenario: Scenario) -> list[str]:
    """Who can do it, in bearable time."""
    names = [name for name in CONTENDERS if not (scenario.by_base and name in BY_NAME_ONLY)]
    if scenario.subscribers >= SLOW and scenario.filtering != "true":
        names = [name for name in names if name != "bubus"]
    return names


def measure_scenario(scenario: Scenario, effort: Effort, *, collecting: bool = False) -> Samples:
    """One race of all contenders."""
    with ExitStack() as stack:
        runs = {
            name: stack.enter_context(CONTENDERS[name](scenario))
            for name in contenders_for(scenario)
        }
        return race(runs, effort, collecting=collecting)


def measure(effort: Effort, report: Callable[[str], None]) -> tuple[Results, Samples]:
    """All scenarios, and the first goal's once more with the garbage collector on."""
    results: Results = {}
    for scenario in scenarios(COUNTS[:-1] if effort.is_quick else COUNTS):
        report(f"publish to {scenario}")
        results[scenario] = apart(measure_scenario, scenario, effort)
    report("the same with garbage collection")
    return results, apart(measure_scenario, ONE_EXACT, effort, collecting=True)


def tables(results: Results, collecting: Samples) -> list[Table]:
    """What is shown: times, ratios, goals."""
    return [
        *(_times(results, by_base) for by_base in (False, True)),
        *(_ratios(results, by_base) for by_base in (False, True)),
        _collected(collecting),
        Table(
            "Goals: the peer's time over polycast's",
            ("scenario", "polycast's form", "peer", "goal", "measured", "verdict"),
            [goal.met_in(results) for goal in GOALS if goal.scenario in results],
        ),
    ]


def _chosen(results: Results, by_base: bool) -> list[Scenario]:
    return [scenario for scenario in results if scenario.by_base == by_base]


def _names(by_base: bool) -> list[str]:
    return [name for name in CONTENDERS if not (by_base and name in BY_NAME_ONLY)]


def _kind(by_base: bool) -> str:
    return "a base class is subscribed" if by_base else "the exact class is subscribed"


def _times(results: Results, by_base: bool) -> Table:
    names = _names(by_base)
    rows = [
        (
            f"{scenario.subscribers:,}",
            scenario.filtering,
            *(_time(results[scenario], name) for name in names),
        )
        for scenario in _chosen(results, by_base)
    ]
    title = f"Time per publish until handled; {_kind(by_base)} (median of the rounds)"
    return Table(title, ("subscribers", "filter", *names), rows)


def _time(samples: Samples, name: str) -> str:
    return duration(samples[name].median) if name in samples else "-"


def _ratios(results: Results, by_base: bool) -> Table:
    names = [name for name in _names(by_base) if name != POLYCAST]
    rows = [
        (
            f"{scenario.subscribers:,}",
            scenario.filtering,
            *(_ratio(results[scenario], name) for name in names),
        )
        for scenario in _chosen(results, by_base)
    ]
    title = f"Time over polycast's (history=0) in the same round; {_kind(by_base)}"
    note = (
        "Median, and in brackets what eight in ten rounds lie between. Above 1: polycast is faster."
    )
    return Table(title, ("subscribers", "filter", *names), rows, note=note)


def _ratio(samples: Samples, name: str) -> str:
    return str(samples[name].over(samples[POLYCAST])) if name in samples else "-"


def _collected(samples: Samples) -> Table:
    rows = [
        (name, duration(each.median), str(each.over(samples[POLYCAST])))
        for name, each in samples.items()
    ]
    title = f"With the garbage collector on: {ONE_EXACT}"
    return Table(title, ("contender", "time per publish", "over polycast's"), rows)


def plain(results: Results, collecting: Samples) -> list[dict[str, object]]:
    """For the file of results."""
    everything = [*((s, samples, False) for s, samples in results.items())]
    everything.append((ONE_EXACT, collecting, True))
    return [
        {
            "subscribers": scenario.subscribers,
            "filter": scenario.filtering,
            "by_base": scenario.by_base,
            "garbage_collection": collected,
            "seconds": {name: list(each.times) for name, each in samples.items()},
        }
        for scenario, samples, collected in everything
    ]
