"""Events of every type that a column can hold, their rows, and filters over them."""

from __future__ import annotations

import ast
import datetime
import enum
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from polycast.filters.backends.interpreter import matches
from polycast.filters.backends.spark import column, struct_of
from polycast.filters.lifting.ast_translator import ExpressionTranslator, Unliftable
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import render
from polycast.filters.tree.operators import BUILTINS

UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


KEY = uuid.UUID(int=7)


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3
    CRIMSON = 1  # noqa: PIE796 - an alias of RED


class Level(enum.IntEnum):
    ZERO = 0
    LOW = 1
    HIGH = 5


class Word(enum.StrEnum):
    EMPTY = ""
    ONE = "one"
    ABC = "abc"


@dataclass(frozen=True)
class Line:
    price: int = 1
    name: str | None = "a"
    weight: float = 0.5


@dataclass
class Order:
    total: int = 0
    maybe: int | None = None
    rate: float = 0.0
    fraction: float | None = None
    note: str = ""
    comment: str | None = None
    flag: bool = False
    sure: bool | None = None
    blob: bytes = b""
    day: datetime.date = datetime.date(2024, 1, 1)
    due: datetime.date | None = None
    at: datetime.datetime = datetime.datetime(2024, 1, 1)
    when: datetime.datetime | None = None
    amount: Decimal = Decimal(0)
    cost: Decimal | None = None
    colour: Colour = Colour.RED
    level: Level | None = None
    word: Word = Word.ONE
    key: uuid.UUID = KEY
    line: Line = Line()
    extra: Line | None = None
    lines: list[Line] = field(default_factory=list)
    marks: list[int] | None = None
    holes: list[int | None] = field(default_factory=list)
    tags: tuple[str, ...] = ()
    ratios: list[float] = field(default_factory=list)
    bag: set[int] = field(default_factory=set)
    table: dict[str, int] = field(default_factory=dict)
    x_0: int = 0  # what Spark calls the variables of its lambdas


# -- rows ------------------------------------------------------------------------------------------


def row_of(value: Any) -> Any:
    """A value as the schema says."""
    if is_dataclass(value):
        return tuple(row_of(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime.datetime):
        offset = value.utcoffset()
        return value.replace(tzinfo=None) - (offset or datetime.timedelta()), offset
    if isinstance(value, dict):
        return {key: row_of(element) for key, element in value.items()}
    if isinstance(value, list | tuple | set):
        return [row_of(element) for element in value]
    return value


def table(spark: SparkSession, events: list[Any], cls: type | None = None) -> DataFrame:
    """A table of events, all of one class."""
    return spark.createDataFrame(
        [row_of(event) for event in events], struct_of(cls or type(events[0]))
    )


# -- filters ---------------------------------------------------------------------------------------

NAMES: dict[str, Any] = {
    **BUILTINS,
    **{cls.__name__: cls for cls in (Colour, Level, Word, Line, Order, Decimal)},
    **{cls.__name__: cls for cls in (bool, int, float, str, bytes, list)},
    "isinstance": isinstance,
    "any": any,
    "all": all,
    "date": datetime.date,
    "datetime": datetime.datetime,
    "NAN": math.nan,
    "INF": math.inf,
    "DAY": datetime.date(2024, 1, 2),
    "NAIVE": datetime.datetime(2024, 1, 1, 12),
    "AWARE": datetime.datetime(2024, 1, 1, 12, tzinfo=EAST),
    "COST": Decimal("1.5"),
    "KEY": KEY,
    "NUMBERS": (1, 2.5, None, "a", 2**63, True),
    "WORDS": frozenset(("a", "abc", "")),
}


def tree_of(text: str, **names: Any) -> nodes.Node:
    """The tree of an expression over `t`."""
    known = {**NAMES, **names}
    expression = ast.parse(text, mode="eval").body
    return ExpressionTranslator("t", known.__getitem__, _refused).translate(expression)


def _refused(expression: ast.expr, why: str) -> nodes.Node:
    raise Unliftable(why)


def disagreements(
    data: DataFrame, events: list[Any], trees: Iterable[nodes.Node], cls: type
) -> list[str]:
    """Where a column and Python say something different, for each filter and each event."""
    kept = list(trees)
    columns = [column(tree, cls).alias(f"c{n}") for n, tree in enumerate(kept)]
    found = []
    for event, row in zip(events, data.select(*columns).collect(), strict=True):
        for tree, verdict in zip(kept, row, strict=True):
            if (verdict is True) is not matches(tree, event):
                found.append(f"{render(tree)}: Spark says {verdict} for {event}")
    return found


# -- by chance -------------------------------------------------------------------------------------

INTS = [0, 1, -1, 2, 3, 5, -7, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, 2.5, -1.5, 0.1, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e300]
FLOATS += [math.nan, math.inf, -math.inf, 5e-324, 9007199254740993.0, 3.0, -7.0]
TEXTS = ["", "a", "A", "abc", "b", "\U0001f600", "\uffff", "a\U0001f600c", " a\u2003\n", "one", "ß"]
TEXTS += ["ΑΣ", "Σ", "İx", "a\0b", "a'\\\"`", "ΑΣ.δ", "ΑΣΔ", "Ǆ", "\x1c\x85 x \u3000", "K"]
DAYS = [datetime.date(1, 1, 1), datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
DAYS += [datetime.date(9999, 12, 31), datetime.date(1582, 10, 10)]
TIMES = [datetime.datetime(2024, 1, 1, 12), datetime.datetime(2024, 1, 1, 12, 0, 0, 1)]
TIMES += [datetime.datetime(2024, 1, 1, 6, 30, tzinfo=UTC), datetime.datetime.min]
TIMES += [datetime.datetime(2024, 1, 1, 12, tzinfo=EAST), datetime.datetime.max]
DECIMALS = [Decimal(0), Decimal("-0"), Decimal("1.5"), Decimal("1.50"), Decimal(-3), Decimal(2**63)]
DECIMALS += [Decimal("99999999999999999999.999999999999999999"), Decimal("1e-18")]


def some_line(random: Random) -> Line:
    name = random.choice([None, *TEXTS])
    return Line(random.choice(INTS), name, random.choice(FLOATS))


def some_order(random: Random) -> Order:
    """An order of anything that may be hard."""
    pick = random.choice

    def several(of: list[Any]) -> list[Any]:
        return [pick(of) for _ in range(pick([0, 1, 2, 3]))]

    lines = [some_line(random) for _ in range(4)]
    return Order(
        total=pick(INTS),
        maybe=pick([None, *INTS]),
        rate=pick(FLOATS),
        fraction=pick([None, *FLOATS]),
        note=pick(TEXTS),
        comment=pick([None, *TEXTS]),
        flag=pick([True, False]),
        sure=pick([None, True, False]),
        blob=pick([b"", b"a", b"\xff\x00", b"\x7f"]),
        day=pick(DAYS),
        due=pick([None, *DAYS]),
        at=pick(TIMES),
        when=pick([None, *TIMES]),
        amount=pick(DECIMALS),
        cost=pick([None, *DECIMALS]),
        colour=pick(list(Colour)),
        level=pick([None, *Level]),
        word=pick(list(Word)),
        key=uuid.UUID(int=pick([0, 7, 2**127])),
        line=lines[0],
        extra=pick([None, lines[1]]),
        lines=several(lines),
        marks=pick([None, several(INTS), several(INTS)]),
        holes=several([None, *INTS]),
        tags=tuple(several(TEXTS)),
        ratios=several(FLOATS),
        bag=set(several(INTS)),
        table={key: pick(INTS) for key in several(["a", "abc", ""])},
        x_0=pick(INTS),
    )
