"""What the benchmark of the languages shares: events in three forms, tests in three languages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import polycast as pc

Test = Callable[[Any], object]

LAMBDA, ETCL, XPATH = "lambda", "ETCL", "XPath"
LANGUAGES = (LAMBDA, ETCL, XPATH)
TYPED, STRUCTURED, DICT = "dataclass", "structured event", "dict"
FORMS = (TYPED, STRUCTURED, DICT)

KNOWN, UNKNOWN, INTERPRETED = "class known", "class unknown", "interpreted"
WAYS = (KNOWN, UNKNOWN, INTERPRETED)
READY_TREE, FROM_XML = "lxml, ready tree", "lxml, writing and parsing"


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where something happened."""

    city: str
    floor: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """What all tests ask about."""

    cause: str
    severity: int
    load: float
    place: Place
    tags: tuple[str, ...]


def _typed(cause: str, severity: int, city: str, tags: tuple[str, ...]) -> Alarm:
    return Alarm(cause, severity, severity / 5, Place(city, 3), tags)


def _dict(cause: str, severity: int, city: str, tags: tuple[str, ...]) -> dict[str, Any]:
    return {
        "cause": cause,
        "severity": severity,
        "load": severity / 5,
        "place": {"city": city, "floor": 3},
        "tags": list(tags),
    }


def _structured(cause: str, severity: int, city: str, tags: tuple[str, ...]) -> pc.StructuredEvent:
    data = _dict(cause, severity, city, tags)
    return pc.StructuredEvent("Telecom", "Alarm", "rack 7", filterable_data=data)


MADE: dict[str, Callable[..., Any]] = {TYPED: _typed, STRUCTURED: _structured, DICT: _dict}
CLASSES: dict[str, type] = {TYPED: Alarm, STRUCTURED: pc.StructuredEvent, DICT: dict}
TAGS = ("rack", "night", "cooling", "north")


def wanted(form: str) -> Any:
    """The event that passes every test."""
    return MADE[form]("fan", 4, "Rome", TAGS)


def unwanted(form: str) -> list[Any]:
    """Events that pass some tests, or none."""
    make = MADE[form]
    return [
        make("disk", 4, "Rome", TAGS),
        make("fan", 2, "Rome", ()),
        make("fan", 5, "Oslo", ("rack",)),
        make("disk", 9, "Oslo", ("cool",)),
    ]


# -- tests -----------------------------------------------------------------------------------------

EQUALITY, RANGE, CONJUNCTION, NESTED, MEMBERSHIP = TESTS = (
    "equality of texts",
    "range of numbers",
    "conjunction of three",
    "nested value",
    "member of a list",
)

LAMBDAS: dict[str, dict[str, Test]] = {
    TYPED: {
        EQUALITY: lambda event: event.cause == "fan",
        RANGE: lambda event: 3 <= event.severity <= 5,
        CONJUNCTION: lambda event: (
            event.cause == "fan" and event.severity >= 3 and event.load < 0.9
        ),
        NESTED: lambda event: event.place.city == "Rome",
        MEMBERSHIP: lambda event: "cooling" in event.tags,
    },
    STRUCTURED: {
        EQUALITY: lambda event: event.filterable_data["cause"] == "fan",
        RANGE: lambda event: 3 <= event.filterable_data["severity"] <= 5,
        CONJUNCTION: lambda event: (
            event.filterable_data["cause"] == "fan"
            and event.filterable_data["severity"] >= 3
            and event.filterable_data["load"] < 0.9
        ),
        NESTED: lambda event: event.filterable_data["place"]["city"] == "Rome",
        MEMBERSHIP: lambda event: "cooling" in event.filterable_data["tags"],
    },
    DICT: {
        EQUALITY: lambda event: event["cause"] == "fan",
        RANGE: lambda event: 3 <= event["severity"] <= 5,
        CONJUNCTION: lambda event: (
            event["cause"] == "fan" and event["severity"] >= 3 and event["load"] < 0.9
        ),
        NESTED: lambda event: event["place"]["city"] == "Rome",
        MEMBERSHIP: lambda event: "cooling" in event["tags"],
    },
}
# `$name` is a member of any event, and the filterable data of a structured one.
ETCL_TEXTS = {
    EQUALITY: "$cause == 'fan'",
    RANGE: "$severity >= 3 and $severity <= 5",
    CONJUNCTION: "$cause == 'fan' and $severity >= 3 and $load < 0.9",
    NESTED: "$place.city == 'Rome'",
    MEMBERSHIP: "'cooling' in $tags",
}


def _value(name: str) -> str:
    return f'/struct/member[name="{name}"]/value'


XPATH_TEXTS = {
    EQUALITY: f'{_value("cause")} = "fan"',
    RANGE: f"{_value('severity')} >= 3 and {_value('severity')} <= 5",
    CONJUNCTION: (
        f'{_value("cause")} = "fan" and {_value("severity")} >= 3 and {_value("load")} < 0.9'
    ),
    NESTED: f'{_value("place")}{_value("city")} = "Rome"',
    MEMBERSHIP: f'{_value("tags")}/array/data/value = "cooling"',
}


CONSTANTS = {
    EQUALITY: "fan",
    RANGE: "3",
    CONJUNCTION: "fan",
    NESTED: "Rome",
    MEMBERSHIP: "cooling",
}
"""What stands once in the text of a test, and may be another."""


def languages(form: str) -> tuple[str, ...]:
    """Those that ask events of a form; in XPath, a structured event is an object like others."""
    return (LAMBDA, ETCL) if form == STRUCTURED else LANGUAGES


def filter_of(language: str, form: str, test: str) -> pc.Filter[Any]:
    """One test in one language."""
    if language == LAMBDA:
        return pc.Filter(LAMBDAS[form][test])
    texts = ETCL_TEXTS if language == ETCL else XPATH_TEXTS
    return pc.parse_filter(texts[test], language.lower())


# -- ways to run it --------------------------------------------------------------------------------


def ways(made: pc.Filter[Any], form: str) -> dict[str, Test]:
    """The function that a bus would generate, the one for any class, and the interpreter."""
    return {
        KNOWN: _generated(*made.expression("where", CLASSES[form])),
        UNKNOWN: made.function,
        INTERPRETED: made.interpret,
    }


def _generated(expression: str, names: dict[str, Any]) -> Test:
    module = compile(f"def where(event):\n    return {expression}\n", "<where>", "exec")
    (code,) = (const for const in module.co_consts if isinstance(const, CodeType))
    return FunctionType(code, names)
