"""What has no exact column is refused, and the refusal names the part and the reason."""

from __future__ import annotations

import datetime
import enum
import functools
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from spark_events import Line, Order, tree_of

import polycast as pc
from polycast.errors import FilterError, NoSparkFormError
from polycast.filters.backends.spark import compiled
from polycast.filters.tree import nodes


@pytest.mark.parametrize(
    ("text", "part", "why"),
    [
        ("t.total > 1 and t.missing == 3", "event.missing", "declares no attribute 'missing'"),
        ("t.total / t.maybe > 1", "event.total / event.maybe", "beyond 2**53"),
        ("t.rate // 2 > 1", "event.rate // 2", "floors a double"),
        ("t.total ** 2 > 1", "event.total ** 2", "not Spark's"),
        ("t.total << 2 > 1", "event.total << 2", "not Spark's"),
        ("t.total * t.total * t.total > 1", None, "more than 38 digits"),
        ("t.amount + 1 > 1", "event.amount + 1", "a decimal"),
        ("t.amount < 0.5", "event.amount < 0.5", "too few digits"),
        ("-t.amount < 0", "-event.amount", "context"),
        ("t.total is True", "event.total is True", "one object"),
        ("t.line == t.extra", "event.line == event.extra", "for their classes"),
        ("t == 3", "event == 3", "for their classes"),
        ("t.lines < t.lines", "event.lines < event.lines", "for their classes"),
        ("t.note.title() == 'A'", "event.note.title()", "the code of title()"),
        ("t.first() == 3", "event.first()", "the code of first()"),
        ("t.note.find('a', 1) == 3", None, "2 arguments"),
        ("t.note.strip(t.comment)", None, "which letters"),
        ("isinstance(t.total, bool)", None, "does not tell its class"),
        ("isinstance(t.rate, float)", None, "does not tell its class"),
        ("isinstance(t, Line)", None, "does not tell its class"),
        ("isinstance(t.line, int)", None, "does not tell its class"),
        ("t.rate in t.ratios", None, "NaN"),
        ("any(10 // x > 1 for x in t.bag)", None, "a set has no order"),
        ("any(x for x in t.table)", "any(each1 for each1 in event.table)", "a dict"),
        ("t.day.year == 2024", "event.day.year", "'year' of a date"),
        ("len((t.total, 1)) == 2", "(event.total, 1,)", "no such containers"),
        ("max(t.total, t.rate) > 1", "max(event.total, event.rate)", "either type"),
        ("(t.note or t.total) == 3", None, "a mixed"),
        ("t.note == '\\ud800'", "'\\ud800'", "surrogate"),
        ("t.total in t.blob", None, "a bytes"),
        ("t.blob[0] == 1", "event.blob[0]", "a bytes in a subscript"),
        ("t.bag == t.bag", None, "for their classes"),
        ("t.colour.mro", None, "enum's member"),
    ],
)
def test_a_refusal_names_the_part_and_why(text: str, part: str | None, why: str) -> None:
    with pytest.raises(NoSparkFormError) as caught:
        compiled(tree_of(text), Order)
    error = caught.value
    assert isinstance(error, FilterError)
    assert why in error.why
    assert f"`{error.part}` has no exact Spark form: {error.why}. Accepted: " in str(error)
    assert part is None or error.part == part
    assert isinstance(error.node, nodes.Node)


@dataclass
class Strange:
    cost: Any = None
    either: int | str = 1
    name: str = ""
    Name: str = ""
    lengths: list[Line] = field(default_factory=list)

    @property
    def half(self) -> int:
        return 1

    @functools.cached_property
    def quarter(self) -> int:
        return 1


class Sized:
    size: int = 0

    def __len__(self) -> int:
        return self.size


class Called:
    size: int = 0

    def __call__(self) -> int:
        return self.size


@dataclass
class Holder:
    sized: Sized
    called: Called


@pytest.mark.parametrize(
    ("text", "cls", "why"),
    [
        ("t.half == 1", Strange, "declares no attribute 'half'"),
        ("t.quarter == 1", Strange, "declares no attribute"),
        ("t.cost == 1", Strange, "does not say which values"),
        ("t.either == 1", Strange, "of several types"),
        ("t.name == ''", Strange, "differ by case alone"),
        ("t.sized", Holder, "says itself whether it counts as true"),
        ("not t", Sized, "says itself whether it counts as true"),
    ],
)
def test_attributes_that_are_no_columns_are_refused(text: str, cls: type, why: str) -> None:
    with pytest.raises(NoSparkFormError, match=why):
        compiled(tree_of(text), cls)


def test_what_may_be_called_is_not_reached() -> None:
    compiled(nodes.Reach(nodes.Reach(nodes.Event(), "sized"), "size"), Holder)
    with pytest.raises(NoSparkFormError, match="may be called"):
        compiled(nodes.Reach(nodes.Event(), "called"), Holder)


def test_an_opaque_part_is_refused_with_its_reason() -> None:
    lifted = pc.lift(Order, lambda t: t.total > 3 and str(t.note) == "a")
    with pytest.raises(NoSparkFormError, match=r"cannot be looked into: .*str"):
        compiled(lifted.tree, Order)


def test_a_time_that_a_zone_has_twice_is_refused() -> None:
    zone = ZoneInfo("Europe/Zurich")
    twice = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=zone)
    compiled(tree_of("t.at < LIMIT", LIMIT=twice.replace(hour=12)), Order)
    with pytest.raises(NoSparkFormError, match="twice or not at all"):
        compiled(tree_of("t.at < LIMIT", LIMIT=twice), Order)


def test_an_enum_that_answers_with_no_bool_is_refused() -> None:
    class Loud(enum.Enum):
        A = 1

        def __eq__(self, other: object) -> Any:
            return "yes"

        __hash__ = enum.Enum.__hash__

    @dataclass
    class Shout:
        loud: Loud

    Shout.__annotations__["loud"] = Loud
    with pytest.raises(NoSparkFormError, match="gives no bool"):
        compiled(tree_of("t.loud == 1"), Shout)


def test_a_filter_that_spark_would_plan_for_ages_is_refused() -> None:
    text = "t.total"
    for _ in range(12):
        text = f"max({text}, {text})"
    with pytest.raises(NoSparkFormError, match="more than 5000 operations"):
        compiled(tree_of(f"{text} > 3"), Order)


@pytest.mark.parametrize("depth", [200, 2_000, 100_000])
def test_a_filter_that_is_too_deep_is_refused(depth: int) -> None:
    tree: nodes.Node = nodes.Attribute(nodes.Event(), "rate")
    for _ in range(depth):
        tree = nodes.Arithmetic("+", tree, nodes.Constant(0.5))
    with pytest.raises(NoSparkFormError, match=r"nested too deeply|160 in each other"):
        compiled(tree, Order)


def test_refusing_needs_no_session_and_no_row() -> None:
    compiled(tree_of("t.total > 3"), Order)
