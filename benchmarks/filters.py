"""Figures 5, 18b, 21a and 21b of the paper on type-based publish/subscribe, measured here.

The same filters are run in three ways. *Dynamic with look-up* is the interpreter: it walks the tree
and gets each method by its name, for each event. *Dynamic without look-up* is a tree of closures
that got the methods once, from the class. *Static* is the function that polycast generates. A
lambda written by hand is the yardstick. Figure 5 also has closures that do look up, since closures
alone are faster than an interpreter.

python benchmarks/filters.py             # two minutes
python benchmarks/filters.py --quick     # tries it out; nothing is written
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import singledispatch
from itertools import cycle, islice
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from measure import QUICK, Effort, Run, Samples, apart, cpu_time, duration, figures, race, setting
from tables import Table, show

import polycast as pc
from polycast.filters.tree import nodes
from polycast.filters.tree.operators import COMPARISONS

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "filters.json"
IMAGES = HERE.parent / "docs" / "images"

ARGUMENTS = tuple(range(10))  # figure 5
SUBSCRIBERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)  # figures 18b and 21a
RATES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # figure 21b, with so many subscribers:
CONSTANT = 100
GOAL = 5.0

WITH_LOOKUP = "dynamic with look-up"
WITHOUT_LOOKUP = "dynamic without look-up"
STATIC = "static"
BY_HAND = "lambda by hand"
CLOSURES = "closures with look-up"  # figure 5 only
WAYS = (WITH_LOOKUP, WITHOUT_LOOKUP, STATIC, BY_HAND)

ALONE = "filters alone"
ON_A_BUS = "publishing on a bus"
LAYERS = (ALONE, ON_A_BUS)

Test = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Message:
    """As in the paper: it encapsulates a number."""

    value: int

    def get_value(self) -> int:
        return self.value

    def pick(self, *objects: object) -> int:
        """A method that takes any number of arguments."""
        return self.value


# -- the ways to run a filter ----------------------------------------------------------------------


@singledispatch
def resolved(node: nodes.Node, cls: type | None) -> Test:
    """A tree of closures; with a class, its methods are looked up now, not for each event."""
    raise TypeError(f"{type(node).__name__} is not in these filters")


@resolved.register
def _(node: nodes.Constant, cls: type | None) -> Test:
    value = node.value
    return lambda event: value


@resolved.register
def _(node: nodes.Call, cls: type | None) -> Test:
    if not isinstance(node.of, nodes.Event):
        raise TypeError("only methods of the event are called in these filters")
    values, name = [_constant(each) for each in node.arguments], node.method
    if cls is None:
        return lambda event: getattr(event, name)(*values)
    method: Test = getattr(cls, name)
    return (lambda event: method(event, *values)) if values else method


@resolved.register
def _(node: nodes.Compare, cls: type | None) -> Test:
    ((sign, operand),) = node.rest
    compare, left, right = COMPARISONS[sign], resolved(node.first, cls), resolved(operand, cls)
    return lambda event: compare(left(event), right(event))


def _constant(node: nodes.Node) -> object:
    if not isinstance(node, nodes.Constant):
        raise TypeError("arguments are constants in these filters")
    return node.value


def _tests(tree: nodes.Node, by_hand: Test) -> dict[str, Test]:
    """One filter in all ways; they agree."""
    made = pc.Filter[Message](tree)
    ways = {
        WITH_LOOKUP: made.interpret,
        CLOSURES: resolved(tree, None),
        WITHOUT_LOOKUP: resolved(tree, Message),
        STATIC: made.function,
        BY_HAND: by_hand,
    }
    for value in range(4):
        if len({test(Message(value)) for test in ways.values()}) != 1:
            raise AssertionError(f"{made} differs on {value}")
    return ways


def _equals(wanted: int) -> dict[str, Test]:
    """The filter of the paper's figure 19: a getter's result is the value that is wanted."""
    getter = nodes.Call(nodes.Event(), "get_value")
    tree = nodes.Compare(getter, (("==", nodes.Constant(wanted)),))
    return _tests(tree, lambda message: message.get_value() == wanted)


# -- figure 5 --------------------------------------------------------------------------------------


def _picks(count: int) -> dict[str, Test]:
    """A filter that calls a method with so many objects."""
    objects = [f"object {number}" for number in range(count)]
    names = [f"object_{number}" for number in range(count)]
    call = nodes.Call(nodes.Event(), "pick", tuple(nodes.Constant(each) for each in objects))
    tree = nodes.Compare(call, (("==", nodes.Constant(1)),))
    source = f"lambda message: message.pick({', '.join(names)}) == 1"
    return _tests(tree, _compiled(source, dict(zip(names, objects, strict=True))))


def _compiled(source: str, names: dict[str, Any]) -> Test:
    module = compile(source, "<by hand>", "exec")
    (code,) = (const for const in module.co_consts if isinstance(const, CodeType))
    return FunctionType(code, names)


def _asking(test: Test) -> Run:
    message = Message(1)

    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            test(message)
        return cpu_time() - start

    return run


def measure_arguments(effort: Effort, report: Callable[[str], None]) -> dict[int, Samples]:
    """Figure 5: the latency of one filter, against the arguments of its method."""
    found = {}
    for count in ARGUMENTS:
        report(f"figure 5: {count} arguments")
        found[count] = apart(_arguments, count, effort)
    return found


def _arguments(count: int, effort: Effort) -> Samples:
    return race({name: _asking(test) for name, test in _picks(count).items()}, effort)


# -- figures 18b, 21a, 21b -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scenario:
    """So many subscribers, of whom this part wants a message."""

    layer: str
    rate: float
    subscribers: int

    def messages(self) -> list[Message]:
        """Every value is as likely as another; one of so many is what a subscriber wants."""
        draw = random.Random(21)
        return [Message(draw.randint(1, self._values)) for _ in range(1_000)]

    def wanted(self) -> Iterator[int]:
        """What each subscriber wants."""
        values = range(1, self._values + 1) if self.rate else (0,)
        return islice(cycle(values), self.subscribers)

    @property
    def _values(self) -> int:
        return round(1 / self.rate) if self.rate else 1


def _filtering(tests: list[Test], messages: list[Message]) -> Run:
    """All filters for each message, and nothing else."""
    stream = cycle(messages)

    def run(repeats: int) -> float:
        start = cpu_time()
        for message in islice(stream, repeats):
            for test in tests:
                try:
                    test(message)
                except Exception:  # noqa: S112  (what fails does not match, in all ways alike)
                    continue
        return cpu_time() - start

    return run


def ignore(message: Message) -> None:
    """What every subscriber does."""


def _publishing(publish: Callable[[Message], object], messages: list[Message]) -> Run:
    stream = cycle(messages)

    def run(repeats: int) -> float:
        start = cpu_time()
        for message in islice(stream, repeats):
            publish(message)
        return cpu_time() - start

    return run


def _by_hand(tests: list[Test]) -> Callable[[Message], None]:
    """The least that can be done: no types, no receipts, no turns."""
    subscribers = [(test, ignore) for test in tests]

    def publish(message: Message) -> None:
        for test, handle in subscribers:
            try:
                if test(message):
                    handle(message)
            except Exception:  # noqa: S112  (as above)
                continue

    return publish


def _on_bus(bus: pc.Bus, tests: list[Test]) -> Callable[[Message], object]:
    for test in tests:
        bus.subscribe(Message, ignore, where=test, dispatch="inline")
    return bus.publish


def _scenario(scenario: Scenario, effort: Effort) -> Samples:
    filters = [_equals(each) for each in scenario.wanted()]
    columns = {name: [each[name] for each in filters] for name in WAYS}
    messages = scenario.messages()
    if scenario.layer == ALONE:
        return race({name: _filtering(tests, messages) for name, tests in columns.items()}, effort)
    # A bus looks into a lambda, so it is given the filter; the dynamic ways stay opaque to it.
    columns[STATIC] = [pc.Filter(test) for test in columns[BY_HAND]]
    with ExitStack() as stack:
        publishers = {
            name: _on_bus(stack.enter_context(pc.Bus()), columns[name])
            for name in (WITH_LOOKUP, WITHOUT_LOOKUP, STATIC)
        }
        publishers[BY_HAND] = _by_hand(columns[BY_HAND])
        runs = {name: _publishing(publish, messages) for name, publish in publishers.items()}
        return race(runs, effort)


def scenarios(effort: Effort) -> list[Scenario]:
    """Those of the figures; each is measured once."""
    counts = SUBSCRIBERS[::3] if effort.is_quick else SUBSCRIBERS
    rates = RATES[::3] if effort.is_quick else RATES
    return [
        *(Scenario(layer, rate, n) for layer in LAYERS for rate in (0.5, 0.25) for n in counts),
        *(
            Scenario(layer, rate, CONSTANT)
            for layer in LAYERS
            for rate in rates
            if rate not in (0.5, 0.25) or CONSTANT not in counts
        ),
    ]


Found = dict[Scenario, Samples]


def measure(effort: Effort, report: Callable[[str], None]) -> Found:
    """Figures 18b, 21a and 21b: throughput against subscribers, and against the matching rate."""
    found = {}
    for each in scenarios(effort):
        report(f"{each.layer}: {each.subscribers} subscribers, {each.rate:.0%} match")
        found[each] = apart(_scenario, each, effort)
    return found


def by_subscribers(found: Found, layer: str, rate: float) -> dict[int, Samples]:
    """One panel of figure 18b or 21a."""
    return {
        each.subscribers: samples
        for each, samples in found.items()
        if (each.layer, each.rate) == (layer, rate)
    }


def by_rate(found: Found, layer: str) -> dict[float, Samples]:
    """One panel of figure 21b."""
    chosen = {
        each.rate: samples
        for each, samples in found.items()
        if (each.layer, each.subscribers) == (layer, CONSTANT)
    }
    return dict(sorted(chosen.items()))


# -- what is shown ---------------------------------------------------------------------------------


def tables(arguments: dict[int, Samples], found: Found) -> list[Table]:
    """The figures in numbers; the goal comes last."""
    return [_latencies(arguments), _throughput(found), _by_rates(found), _goals(found)]


OVER_STATIC = ("with look-up over static", "without look-up over static")


def _over_static(samples: Samples) -> list[str]:
    return [str(samples[name].over(samples[STATIC])) for name in (WITH_LOOKUP, WITHOUT_LOOKUP)]


def _speeds(samples: Samples) -> list[str]:
    return [figures(1 / samples[name].median) for name in WAYS]


def _latencies(arguments: dict[int, Samples]) -> Table:
    names = next(iter(arguments.values()))
    rows = [
        (str(count), *(duration(each.median) for each in samples.values()), *_over_static(samples))
        for count, samples in arguments.items()
    ]
    columns = ("arguments", *names, *OVER_STATIC)
    return Table("TPS figure 5: evaluating one filter", columns, rows)


def _throughput(found: Found) -> Table:
    rows = [
        (layer, percent(rate), f"{count:,}", *_speeds(samples), *_over_static(samples))
        for layer in LAYERS
        for rate in (0.5, 0.25)
        for count, samples in by_subscribers(found, layer, rate).items()
        if count in (1, 10, 100, 1_000)
    ]
    columns = ("layer", "match", "subscribers", *WAYS, *OVER_STATIC)
    return Table("TPS figures 18b and 21a: events per second", columns, rows)


def _by_rates(found: Found) -> Table:
    rows = [
        (layer, percent(rate), *_speeds(samples), *_over_static(samples))
        for layer in LAYERS
        for rate, samples in by_rate(found, layer).items()
    ]
    title = f"TPS figure 21b: events per second with {CONSTANT} subscribers"
    return Table(title, ("layer", "match", *WAYS, *OVER_STATIC), rows)


def percent(rate: float) -> str:
    """A part of all, for people."""
    return f"{rate * 100:g} %"


def _goals(found: Found) -> Table:
    """Over all numbers of subscribers and all rates: the smallest ratio must reach the goal."""
    rows = []
    for layer in LAYERS:
        for way in (WITH_LOOKUP, WITHOUT_LOOKUP):
            ratios = [
                samples[way].over(samples[STATIC]).median
                for each, samples in found.items()
                if each.layer == layer
            ]
            verdict = "met" if min(ratios) >= GOAL else "missed"
            shown = (figures(min(ratios)), figures(max(ratios)))
            rows.append((layer, way, f"{GOAL:.0f}", *shown, verdict))
    columns = ("layer", "static is faster than", "goal", "least", "most", "verdict")
    note = "Medians of the rounds, over all numbers of subscribers and all matching rates."
    return Table("Filters, against the goal", columns, rows, note)


def plain(arguments: dict[int, Samples], found: Found) -> dict[str, object]:
    """For the file of results."""
    return {
        "figure_5": [
            {"arguments": count, "seconds": _rounds(samples)}
            for count, samples in arguments.items()
        ],
        "figures_18b_21": [
            {
                "layer": each.layer,
                "rate": each.rate,
                "subscribers": each.subscribers,
                "seconds": _rounds(samples),
            }
            for each, samples in found.items()
        ],
    }


def _rounds(samples: Samples) -> dict[str, list[float]]:
    return {name: list(each.times) for name, each in samples.items()}


def write(arguments: dict[int, Samples], found: Found, shown: list[Table]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": setting(),
        **plain(arguments, found),
        "tables": [table.plain() for table in shown],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure, write, draw, show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    effort = QUICK if parser.parse_args().quick else Effort()
    from in_process import progress  # here, so that the processes that measure load no peers

    with progress() as report:
        arguments, found = measure_arguments(effort, report), measure(effort, report)
    shown = tables(arguments, found)
    if not effort.is_quick:
        write(arguments, found, shown)
        import plots

        plots.draw_filters(arguments, found, IMAGES)
    show(shown)


if __name__ == "__main__":
    main()
