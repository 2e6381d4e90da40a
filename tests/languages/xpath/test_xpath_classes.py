"""Code for a class says what the filter says, and leaves the form of its objects alone."""

from __future__ import annotations

import datetime
import decimal
import enum
import xmlrpc.client
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import polycast as pc
from polycast.filters.backends.python import generate

TEXTS = [
    '/struct/member[name="name"]/value = "x"',
    '/struct/member[name="a"]/value > 1',
    'not(/struct/member[name="a"]/value > 1)',
    '/string = "x"',
    "/* = 3",
    "/array/data/value = 3",
    "not(/struct)",
]


def colour() -> object:
    class Colour(enum.Enum):
        RED = "x"

    return Colour.RED


def level() -> object:
    class Level(enum.IntEnum):
        a = 3

    return Level.a


def extending(base: Any, *arguments: Any) -> Callable[[], object]:
    """An object of a new class that extends a built-in one."""
    return lambda: type("Own", (base,), {"a": 2, "name": "x"})(*arguments)


def pair() -> object:
    class Pair(NamedTuple):
        a: int
        name: str

    return Pair(3, "x")


def record() -> object:
    @dataclass
    class Record:
        a: int
        name: str

    return Record(3, "x")


MAKERS: list[Callable[[], object]] = [
    colour,
    level,
    pair,
    record,
    *(extending(str, "x"), extending(int, 3), extending(float, 3.0), extending(bytes, b"x")),
    *(extending(list, [3]), extending(tuple, (3,)), extending(set, {3}), extending(frozenset, {3})),
    extending(dict, {"a": 3}),
    extending(dict, {"filterable": {"a": 3, "name": "x"}}),
    *(extending(datetime.date, 2007, 4, 1), extending(datetime.datetime, 2007, 4, 1)),
    *(extending(datetime.time, 3), extending(datetime.timedelta, 3)),
    *(extending(decimal.Decimal, 3), extending(ValueError, "x"), extending(object)),
    extending(xmlrpc.client.DateTime, "20070401T00:00:00"),
    lambda: type("Own", (), {"a": 2}),
    *(lambda: 3, lambda: "x", lambda: None, lambda: print, object),
]


def form(event: object) -> str:
    """The document, or why there is none."""
    try:
        return pc.filterable_xml(event)
    except pc.PolycastError as error:
        return type(error).__name__


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("text", TEXTS)
def test_code_for_a_class_changes_nothing(text: str, make: Callable[[], object]) -> None:
    where = pc.parse_filter(text, "xpath")
    event = make()  # of a class that nobody has looked at
    function = generate(where.tree, cls=type(event)).function
    try:
        found = bool(function(event))
    except Exception:
        found = False
    written = form(event)
    other = make()
    assert (written, found) == (form(other), where.matches(other))
    assert where.matches(event) is found
