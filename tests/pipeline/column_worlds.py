"""Contexts by chance whose functions Spark has too, and what is compared of their results."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from dataclasses import field, make_dataclass
from decimal import Decimal
from random import Random
from typing import Any

from pyspark.sql.types import Row
from spark_events import Colour, Level, Line, Order, Word, row_of

import polycast as pc
from polycast.contexts.resolve.inheritance import settle
from polycast.contexts.run.translator import Translator
from polycast.filters.backends.spark.values import ColumnKind, attribute_kind
from polycast.pipeline.event_rows import EventRows, Misfit
from polycast.pipeline.table_schema import fields_of
from polycast.typesystem import Registry, describe
from polycast.typesystem.attributes import declared_defaults

DAY, COST = datetime.date(2024, 1, 2), Decimal("1.5")
Choice = tuple[Any, Any]  # a function, and the type of what it gives

INTS: list[Choice] = [
    (lambda x: x * 2, int),
    (lambda x: x + 1, int),
    (lambda x: x - 3, float),
    (lambda x: -x, int),
    (lambda x: x % 7, int),
    (lambda x: x // 3, int),
    (lambda x: 12 // x, int),
    (lambda x: x & 255, int),
    (lambda x: x / 4, float),
    (lambda x: x * 1.5, float),
    (lambda x: x > 3, bool),
    (lambda x: x > 3, int),
    (lambda x: x or 7, int),
    (lambda x: 10**18 * 10, int),
    (lambda x: 5, int),
    (lambda x: 5, float),
    (lambda x: None, int | None),
    (str, str),
    (float, float),
    (bool, bool),
    (abs, int),
    (Decimal, Decimal),
    (pc.rules.identity, float),
    (pc.rules.identity, int | None),
]
FLOATS: list[Choice] = [
    (lambda x: x * 2.2, float),
    (lambda x: x * 1.8 + 32, float),
    (lambda x: x + 1, float),
    (lambda x: x / 3, float),
    (lambda x: 1 / x, float),
    (lambda x: -x, float),
    (lambda x: x * x - x, float),
    (lambda x: x > 1.0, bool),
    (lambda x: min(x, 3.0), float),
    (lambda x: x and 1.5, float),
    (int, int),
    (bool, bool),
    (abs, float),
    (pc.rules.identity, float),
]
TEXTS: list[Choice] = [
    (lambda x: x + "!", str),
    (lambda x: x.upper(), str),
    (lambda x: x.strip(), str),
    (lambda x: x[0], str),
    (lambda x: x.find("a"), int),
    (lambda x: len(x) * 1.5, float),
    (lambda x: x == "a", bool),
    (lambda x: x.startswith("a") or None, bool | None),
    (lambda x: x or "none", str),
    (lambda x: Colour.GREEN, Colour),
    (len, int),
    (str, str),
    (bool, bool),
]
LINES: list[Choice] = [
    (lambda x: x.price, int),
    (lambda x: x.price * 2, int),
    (lambda x: x.name, str | None),
    (lambda x: x.name + "!", str),
    (lambda x: x.name is not None and x.weight > 1, bool),
    (lambda x: x, Line),
]
OTHERS: dict[str, list[Choice]] = {
    "flag": [
        (lambda x: not x, bool),
        (str, str),
        (int, int),
        (float, float),
        (pc.rules.identity, int),
    ],
    "blob": [(len, int), (lambda x: x + b"\0", bytes), (pc.rules.identity, bytes | None)],
    "day": [(str, str), (lambda x: x > DAY, bool), (lambda x: DAY, datetime.date)],
    "at": [
        (pc.rules.identity, datetime.datetime),
        (lambda x: datetime.datetime(2024, 1, 1), datetime.datetime),
    ],
    "amount": [(lambda x: x > COST, bool), (lambda x: COST, Decimal), (Decimal, Decimal)],
    "colour": [(str, str), (lambda x: x.name, str), (lambda x: x.value, int), (bool, bool)],
    "level": [(str, str), (lambda x: x.value, float), (pc.rules.identity, Level | None)],
    "word": [(str, str), (lambda x: x == "one", bool), (pc.rules.identity, Word)],
    "key": [(str, str), (pc.rules.identity, uuid.UUID)],
}
Around = Callable[[Any], Any]
"""From the type of an element to that of the attribute."""
ATTRIBUTES: dict[str, tuple[list[Choice], Around]] = {
    "total": (INTS, lambda x: x),
    "maybe": (INTS, lambda x: x | None),
    "rate": (FLOATS, lambda x: x),
    "fraction": (FLOATS, lambda x: x | None),
    "note": (TEXTS, lambda x: x),
    "comment": (TEXTS, lambda x: x | None),
    "line": (LINES, lambda x: x),
    "extra": (LINES, lambda x: x | None),
    "lines": (LINES, lambda x: list[x]),
    "marks": (INTS, lambda x: list[x] | None),
    "holes": (INTS, lambda x: list[x | None]),
    "tags": (TEXTS, lambda x: tuple[x, ...]),
    "ratios": (FLOATS, lambda x: list[x]),
    "bag": (INTS, lambda x: set[x]),
    "table": (INTS, lambda x: dict[str, x]),
    **{name: (choices, lambda x: x) for name, choices in OTHERS.items()},
    "level": (OTHERS["level"], lambda x: x | None),
}
DEFAULTS: list[Any] = [
    ("a1", int, 3),
    ("a2", str | None, None),
    ("a3", list[int], field(default_factory=list)),
    ("a4", dict[str, float], field(default_factory=dict)),
    ("a5", tuple[str, ...], ("a", "b")),
    ("a6", datetime.datetime, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
    ("a7", Colour, Colour.BLUE),
    ("a8", Decimal, COST),
]


def some_context(random: Random) -> tuple[pc.Context, type]:
    """A context that sees orders in its own way, and its type for them."""
    rules: list[tuple[str, Any]] = []
    columns: list[Any] = []
    parts: list[Any] = []
    for name, choices in {"price": INTS, "name": TEXTS, "weight": FLOATS}.items():
        function, result = random.choice(choices)
        rules += [(f"Order.lines.{name}", function), (f"Line.{name}", function)]
        parts.append((name, result | None if name == "name" else result))
    own = make_dataclass("OwnLine", parts)
    is_mapped = random.random() < 0.5
    for name in random.sample(list(ATTRIBUTES), 6):
        choices, around = ATTRIBUTES[name]
        function, result = random.choice(choices)
        if name == "lines" and is_mapped:
            columns.append((name, list[own]))  # type: ignore[valid-type]
        else:
            columns.append((name, around(result)))
            rules.append((f"Order.{name}", function))
    target = make_dataclass("OwnOrder", [*columns, *random.sample(DEFAULTS, 2)])
    root = pc.Context("root", types=[Order, Line])
    made = pc.Context("own", parent=root, types=[target, own])
    made.map(Order, target, "?")
    if is_mapped:
        made.map(Line, own, "?")
    for pattern, function in rules:
        made.rule(pattern, function if function is pc.rules.identity else pc.unchecked(function))
    return made, target


# -- what is compared ------------------------------------------------------------------------------


def expected_of(context: pc.Context, events: list[Any], target: type) -> list[Any]:
    """What the generated Python makes of events, as rows; None for what has no row."""
    translator = Translator(settle(context), "?", lambda finding: None)
    registry = Registry()
    for cls in (*context.types, Line, Colour, Level, Word):
        registry.add(describe(cls))
    rows = EventRows(fields_of(describe(target), registry), registry)
    return [_expected(translator, rows, event, target) for event in events]


def _expected(translator: Translator, rows: EventRows, event: Any, target: type) -> Any:
    try:
        made = translator.translate(event)
        rows.row_of(made)
    except (Misfit, ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
        return None
    return plain(row_of(made), ColumnKind("object", cls=target))


def plain(value: Any, kind: ColumnKind) -> Any:
    """A value of a row so that equal ones are the same: zeros have a sign, and a NaN is one."""
    if value is None:
        return None
    if kind.name == "object":
        assert kind.cls is not None
        names = list(declared_defaults(kind.cls))
        if isinstance(value, Row):
            assert value.__fields__ == names
        parts = zip(names, value, strict=True)
        return [plain(part, attribute_kind(kind.cls, name)) for name, part in parts]
    if kind.element is not None:
        if isinstance(value, dict):
            return sorted((key, plain(each, kind.element)) for key, each in value.items())
        found = [plain(each, kind.element) for each in value]
        return found if kind.is_sequence else sorted(found)
    if kind.name == "float":
        return float(value).hex()
    if kind.name == "int":
        return int(value)  # True is 1
    return tuple(value) if kind.name == "datetime" else (type(value).__name__, value)
