"""Figures 17 and 18a of the paper on type-based publish/subscribe, measured here.

Figure 17: what it costs to find out whether a message is of a kind, by testing its topic (a method
call and a comparison of strings) or by testing its type. Figure 18a: the throughput of publishing
by type and by topic, against the number of subscribers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from measure import Effort, Run, Samples, apart, cpu_time, duration, figures, race
from tables import Table

import polycast as pc
from polycast.matching.selectors import TopicPattern
from polycast.typesystem import conforms

CHECKS = (1, 2, 5, 10, 20, 50, 100)
SUBSCRIBERS = (1, 2, 5, 10, 20, 50, 100)
TOPIC = "/messages/kind-99/news"

BY_PREFIX = "topic: prefix"
BY_PATTERN = "topic: polycast pattern"
BY_INSTANCE = "type: isinstance"
BY_CONFORMANCE = "type: polycast conforms"
BY_LOOKUP = "type: one lookup by class"

BY_TYPE = "by type"
BY_ONE_TOPIC = "by topic"
BY_TOPIC_PATTERN = "by topic, wildcard"


@dataclass(frozen=True)
class Message:
    """A message that knows its topic, as in the paper: it encapsulates a number."""

    value: int

    def get_topic(self) -> str:
        return TOPIC


KINDS = [type(f"Kind{number}", (Message,), {}) for number in range(max(CHECKS))]


class News(KINDS[-1]):  # type: ignore[misc]
    """What is classified: it is of the last kind."""


# -- figure 17 ------------------------------------------------------------------------------------


def _by_prefix(checks: int) -> Callable[[News], int]:
    prefixes = [f"/messages/kind-{99 - number:02}" for number in reversed(range(checks))]

    def classify(message: News) -> int:
        return sum([message.get_topic().startswith(prefix) for prefix in prefixes])

    return classify


def _by_pattern(checks: int) -> Callable[[News], int]:
    numbers = reversed(range(checks))
    patterns = [TopicPattern(f"/messages/kind-{99 - number:02}/**") for number in numbers]

    def classify(message: News) -> int:
        return sum([pattern.matches(message.get_topic()) for pattern in patterns])

    return classify


def _by_instance(checks: int) -> Callable[[News], int]:
    kinds = KINDS[-checks:]

    def classify(message: News) -> int:
        return sum([isinstance(message, kind) for kind in kinds])

    return classify


def _by_conformance(checks: int) -> Callable[[News], int]:
    kinds = KINDS[-checks:]

    def classify(message: News) -> int:
        return sum([conforms(type(message), kind) for kind in kinds])

    return classify


def _by_lookup(checks: int) -> Callable[[News], int]:
    kinds = KINDS[-checks:]
    found = {News: sum(conforms(News, kind) for kind in kinds)}

    def classify(message: News) -> int:
        return found[type(message)]

    return classify


CLASSIFIERS = {
    BY_PREFIX: _by_prefix,
    BY_PATTERN: _by_pattern,
    BY_INSTANCE: _by_instance,
    BY_CONFORMANCE: _by_conformance,
    BY_LOOKUP: _by_lookup,
}


def _classifying(classify: Callable[[News], int]) -> Run:
    message = News(1)
    if classify(message) != 1:
        raise AssertionError("the message is of exactly one of the kinds")

    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            classify(message)
        return cpu_time() - start

    return run


def measure_checks(effort: Effort, report: Callable[[str], None]) -> dict[int, Samples]:
    """Figure 17."""
    found = {}
    for checks in CHECKS:
        report(f"figure 17: {checks} checks")
        found[checks] = apart(_checks, checks, effort)
    return found


def _checks(checks: int, effort: Effort) -> Samples:
    runs = {name: _classifying(make(checks)) for name, make in CLASSIFIERS.items()}
    return race(runs, effort)


# -- figure 18a -----------------------------------------------------------------------------------


def _publishing(bus: pc.Bus, subscribers: int, what: str | None) -> Run:
    def handle(message: object) -> None:
        pass

    for _ in range(subscribers):
        bus.subscribe(Message if what is None else what, handle, dispatch="inline")
    message, publish = News(1), bus.publish

    def by_type(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            publish(message)
        return cpu_time() - start

    def by_topic(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            publish(message, topic=TOPIC)
        return cpu_time() - start

    return by_type if what is None else by_topic


def measure_publishing(effort: Effort, report: Callable[[str], None]) -> dict[int, Samples]:
    """Figure 18a."""
    found = {}
    for count in SUBSCRIBERS:
        report(f"figure 18a: {count} subscribers")
        found[count] = apart(_subscribed, count, effort)
    return found


def _subscribed(count: int, effort: Effort) -> Samples:
    ways = {BY_TYPE: None, BY_ONE_TOPIC: TOPIC, BY_TOPIC_PATTERN: "/messages/**"}
    with ExitStack() as stack:
        runs = {
            name: _publishing(stack.enter_context(pc.Bus()), count, what)
            for name, what in ways.items()
        }
        return race(runs, effort)


def tables(checks: dict[int, Samples], publishing: dict[int, Samples]) -> list[Table]:
    """The two figures in numbers."""
    first = [
        (str(count), *(duration(each.median) for each in samples.values()))
        for count, samples in checks.items()
    ]
    second = [
        (
            str(count),
            *(figures(1 / each.median) for each in samples.values()),
            str(samples[BY_ONE_TOPIC].over(samples[BY_TYPE])),
        )
        for count, samples in publishing.items()
    ]
    names = next(iter(publishing.values()))
    return [
        Table(
            "TPS figure 17: classifying one message",
            ("kinds checked", *CLASSIFIERS),
            first,
            note="The last column is what publish does: one lookup, however many kinds there are.",
        ),
        Table(
            "TPS figure 18a: events per second",
            ("subscribers", *names, "time by topic over by type"),
            second,
        ),
    ]


def plain(found: dict[int, Samples]) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {"x": count, "seconds": {name: list(each.times) for name, each in samples.items()}}
        for count, samples in found.items()
    ]
