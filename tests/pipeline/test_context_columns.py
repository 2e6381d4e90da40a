"""A mapping as a Spark column: the same events as the generated Python makes, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import msgspec
import pydantic
import pytest
from column_parcels import (
    PARCELS,
    Express,
    HeavyItem,
    Item,
    OwnItem,
    OwnParcel,
    Parcel,
    Price,
    american,
    to_dollars,
)
from column_worlds import expected_of, plain, some_context
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from spark_events import FLOATS, INTS, Order, some_order
from spark_events import table as table_of

import polycast as pc
from polycast.errors import BadContextError, BadOptionError, ContextRefusedError, NoSparkFormError
from polycast.filters.backends.spark import struct_of
from polycast.filters.backends.spark.values import ColumnKind
from polycast.pipeline import table
from polycast.pipeline.mapping_columns import translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def one_rule(
    function: Any, kind: Any, result: Any, *values: Any
) -> tuple[pc.Context, type, list[Any]]:
    """A context with a rule for one attribute, and events with such values."""
    source = _class("Given", kind)
    target = _class("Made", result)
    root = pc.Context("root", types=[source])
    made = pc.Context("own", parent=root, types=[target])
    made.map(source, target, "?")
    if function is not None:
        made.rule("Given.x", function)
    return made, source, [source(value) for value in values]


def _class(name: str, hint: Any) -> type:
    return dataclass(type(name, (), {"__annotations__": {"x": hint}}))


def results(spark: SparkSession, context: pc.Context, cls: type, events: list[Any]) -> list[Any]:
    """What the column makes of events; that Python makes the same is seen to here."""
    target = next(line.target for line in context.mapping_lines if line.source is cls)
    made = table_of(spark, events, cls).select(translated(context, cls))
    assert made.schema[0].dataType == struct_of(target).toNullable()
    found = [row[0] for row in made.collect()]
    kind = ColumnKind("object", cls=target)
    assert [plain(row, kind) for row in found] == expected_of(context, events, target)
    return found


# -- examples --------------------------------------------------------------------------------------


def test_events_come_in_as_the_generated_code_makes_them(
    spark: SparkSession, url: str, publish: Callable[..., None]
) -> None:
    publish(*PARCELS)
    made = table(spark, url, Parcel).select("_position", translated(american(), Parcel).alias("p"))
    first, second, third, fourth = (row.p for row in made.orderBy("_position").collect())
    assert first.asDict(recursive=True) == {
        "number": 0.5,
        "price": {"amount": 20.0, "currency": "USD"},
        "items": [],
        "spare": None,
        "counts": {},
        "source": "abroad",
        "notes": [],
    }
    assert [(item.name, round(item.weight, 3)) for item in second["items"]] == [
        ("box", 4.409),
        ("crate", 110.231),
    ]
    assert (second.spare.name, second.counts) == ("bag", {"a": 2})
    assert third is None
    assert fourth.spare.name == "crate"


def test_it_has_the_rows_of_a_table_in_the_context(
    spark: SparkSession, url: str, publish: Callable[..., None]
) -> None:
    publish(*PARCELS)
    names = [each.name for each in struct_of(OwnParcel)]
    us = american()
    slow = table(
        spark, url, OwnParcel, context=us, imports=["column_parcels"], misfits="skip"
    ).select("_position", *names)
    quick = table(spark, url, Parcel).select("_position", translated(us, Parcel).alias("p"))
    rows = quick.where("p is not null").select("_position", "p.*")
    assert rows.orderBy("_position").collect() == slow.orderBy("_position").collect()
    assert rows.count() == 3


def test_events_that_go_out(spark: SparkSession) -> None:
    us = american()
    us.map(OwnItem, Item, "!")
    made = table_of(spark, [OwnItem("a", 1.0)]).select(translated(us, OwnItem, direction="!"))
    assert [row.Item.name for row in made.collect()] == ["a"]
    assert made.collect()[0].Item.weight == pytest.approx(0.45359237)


def test_what_has_no_mapping_comes_in_as_it_is(spark: SparkSession) -> None:
    made = table_of(spark, [Price(1.0, "CHF")]).select(translated(american(), Price).alias("p"))
    assert made.schema[0].dataType == struct_of(Price).toNullable()
    assert made.collect()[0].p.asDict() == {"amount": 1.0, "currency": "CHF"}


@pytest.mark.parametrize(
    ("function", "kind", "result", "values", "expected"),
    [
        (pc.unchecked(int), float, int, [2.9, -2.9, 2.0**63, float("nan")], [2, -2, None, None]),
        (pc.unchecked(float), int, float, [2**53 + 1], [float(2**53 + 1)]),
        (None, int, float, [3, 2**53, 2**53 + 1], [3.0, 2.0**53, None]),
        (pc.unchecked(lambda x: x * 2), int, int, [2**62, -(2**62)], [None, -(2**63)]),
        (pc.unchecked(lambda x: None), int, int | None, [1], [None]),
        (pc.unchecked(lambda x: None), int, int, [1], ["no event"]),
        (pc.unchecked(lambda x: x % 2), set[int], set[int], [{1, 3, 2}, set()], [[0, 1], []]),
        (pc.unchecked(lambda x: [1, 2]), int, list[int], [1], [[1, 2]]),
        (pc.unchecked(lambda x: (1, 2)), int, tuple[int, ...], [1], [[1, 2]]),
        (
            pc.unchecked(lambda x: 1 / x),
            list[float],
            list[float],
            [[2.0], [1.0, 0.0]],
            [[0.5], None],
        ),
        (pc.unchecked(Decimal), int, Decimal, [7], [Decimal(7)]),
    ],
)
def test_one_attribute(
    spark: SparkSession,
    function: Any,
    kind: Any,
    result: Any,
    values: list[Any],
    expected: list[Any],
) -> None:
    context, cls, events = one_rule(function, kind, result, *values)
    found = results(spark, context, cls, events)
    made = ["no event" if row is None else row.x for row in found]
    listed = [sorted(each) if isinstance(each, list) else each for each in made]
    none = result == int | None
    assert listed == [("no event" if each is None and not none else each) for each in expected]


@pytest.mark.parametrize(
    ("source", "target", "kind"), [("degC", "degF", float), ("kg", "lb", float), ("m", "mm", int)]
)
def test_units_are_factors_of_spark_too(
    spark: SparkSession, source: str, target: str, kind: type
) -> None:
    ends = (Annotated[kind, pc.Unit(source)], Annotated[kind, pc.Unit(target)])
    values = FLOATS if kind is float else INTS
    context, cls, events = one_rule(None, *ends, *values)
    results(spark, context, cls, events)


def test_attrs_classes_and_structs_are_made_too(spark: SparkSession) -> None:
    @attrs.frozen
    class Frozen:
        x: int

    class Struct(msgspec.Struct):
        x: int
        y: int = 2

    for target in (Frozen, Struct):
        context = pc.Context("own", parent=pc.Context("root", types=[Price]), types=[target])
        source = _class("Given", int)
        context.map(source, target, "?")
        made = table_of(spark, [source(1)]).select(translated(context, source).alias("p"))
        assert made.collect()[0].p.x == 1


def test_the_default_stands_in_for_none(spark: SparkSession) -> None:
    @dataclass
    class Made:
        x: int = 5

    source = _class("Given", int | None)
    context = pc.Context("own", parent=pc.Context("root", types=[source]), types=[Made])
    context.map(source, Made, "?")
    context.rule("Given.x", pc.unchecked(lambda x: 12 // x))
    found = results(spark, context, source, [source(4), source(None), source(0)])
    assert [row and row.x for row in found] == [3, 5, None]


def test_a_default_in_place_of_what_only_python_can_tell_is_refused() -> None:
    @dataclass
    class Made:
        x: OwnItem | None = None

    source = _class("Given", Item)
    root = pc.Context("root", types=[source, Item, HeavyItem])
    context = pc.Context("own", parent=root, types=[Made, OwnItem])
    context.map(source, Made, "?")
    context.map(HeavyItem, OwnItem, "?")
    with pytest.raises(NoSparkFormError, match="not all that it may be has a place in the target"):
        translated(context, source)


# -- subtypes --------------------------------------------------------------------------------------


def test_subtypes_that_are_translated_in_the_same_way(spark: SparkSession) -> None:
    translated(american(Express, HeavyItem), Parcel)


def test_a_subtype_with_a_rule_of_its_own_is_refused_unless_it_is_not_there(
    spark: SparkSession,
) -> None:
    us = american(Express)
    us.rule("Express.number", pc.unchecked(lambda number: 0.0))
    with pytest.raises(
        NoSparkFormError, match="Express are translated otherwise than those of Parcel"
    ):
        translated(us, Parcel)
    translated(us, Parcel, exact=True)
    made = table_of(spark, [Express(4, Price(2.0))]).select(translated(us, Express).alias("p"))
    assert made.collect()[0].p.number == 0.0


def test_a_nested_subtype_with_a_rule_of_its_own_is_refused(spark: SparkSession) -> None:
    us = american(HeavyItem)
    us.rule("Parcel.items(HeavyItem).name", pc.unchecked(lambda name: "heavy"))
    with pytest.raises(NoSparkFormError) as caught:
        translated(us, Parcel)
    assert str(caught.value).startswith(
        "`us: Parcel => OwnParcel ?` has no exact Spark form: OwnParcel.items: Item and HeavyItem "
        "are translated in different ways, and a row does not say which it has. "
        "Accepted: one way for all types that can be met there."
    )


# -- refusals --------------------------------------------------------------------------------------


def reckoned(x: int) -> int:
    y = x + 1
    return y * 2


class Counter:
    def __init__(self, x: int) -> None:
        self.x = x


@pytest.mark.parametrize(
    ("function", "kind", "result", "why"),
    [
        (reckoned, int, int, "rule 'Given.x > reckoned': it cannot be looked into"),
        (pc.unchecked(pc.impure(lambda x: 1)), int, int, "it may give something else each time"),
        (pc.unchecked(str), float, str, r"str\(\) of a float is not Spark's"),
        (pc.unchecked(lambda x: x * 2), Decimal, Decimal, "`\\*` of a decimal is not Spark's"),
        (pc.unchecked(lambda x: x % 3.0), float, float, "the zero of `%` may have another sign"),
        (pc.unchecked(lambda x: x * 0.5), int, int, "a float is there, and an int is wanted"),
        (pc.unchecked(lambda x: x > 1), int, float, "a bool is there, and a float is wanted"),
        (
            pc.unchecked(lambda x: x * 0.5),
            set[int],
            set[float],
            "which elements of a set are equal",
        ),
        (pc.unchecked(Counter), int, int, "Counter is a class"),
        (None, int, Any, "does not say which values there are"),
        (None, Annotated[Decimal, pc.Unit("m")], Annotated[Decimal, pc.Unit("mm")], "a decimal"),
    ],
)
def test_what_spark_does_not_do_as_python_does_is_refused(
    function: Any, kind: Any, result: Any, why: str
) -> None:
    context, cls, _ = one_rule(function, kind, result)
    with pytest.raises(NoSparkFormError, match=why):
        translated(context, cls)


def test_classes_that_may_change_what_they_are_given_are_refused() -> None:
    @dataclass
    class Rounded:
        x: float

        def __post_init__(self) -> None:
            self.x = round(self.x)

    @dataclass
    class Computed:
        x: float
        twice: float = field(init=False)

    @attrs.define
    class Converted:
        x: float = attrs.field(converter=float)

    class Model(pydantic.BaseModel):
        x: float

    @dataclass
    class Written:
        x: float

        def __init__(self, x: float) -> None:
            self.x = x + 1

    @dataclass
    class Drawn:
        x: float
        y: list[int] = field(default_factory=lambda: [1])

    source = _class("Given", float)
    for target in (Rounded, Computed, Converted, Model, Written, Drawn):
        context = pc.Context("own", parent=pc.Context("root", types=[source]), types=[target])
        context.map(source, target, "?")
        with pytest.raises(NoSparkFormError, match=r"may change|computed|made by a function"):
            translated(context, source)


@dataclass(frozen=True)
class Remark:
    text: str | None


def text_of(remark: Remark) -> str:
    return remark.text  # type: ignore[return-value]


def as_half(x: int) -> int:
    return x / 2  # type: ignore[return-value]


def test_what_a_function_gives_that_it_does_not_say_makes_no_event(spark: SparkSession) -> None:
    remarks = [Remark("a"), Remark(None)]
    context, cls, events = one_rule(text_of, Remark, str | None, *remarks)
    assert [row and row.x for row in results(spark, context, cls, events)] == ["a", None]
    context, cls, _ = one_rule(as_half, int, float)
    with pytest.raises(NoSparkFormError, match="a float is there, and an int is wanted"):
        translated(context, cls)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: (1, 2), list[int]),
        (lambda x: [1, 2], tuple[int, ...]),
        (lambda x: {1, 2}, list[int]),
        (lambda x: ["a"], list[int]),
    ],
)
def test_another_container_than_is_wanted_is_refused(function: Any, wanted: Any) -> None:
    context, cls, events = one_rule(pc.unchecked(function), int, wanted, 1)
    assert expected_of(context, events, context.mapping_lines[0].target) == [None]
    with pytest.raises(NoSparkFormError):
        translated(context, cls)


def test_functions_of_whole_events_are_refused() -> None:
    us = american()
    us.whole(Parcel, pc.unchecked(lambda parcel: parcel))
    with pytest.raises(NoSparkFormError, match="makes OwnParcel as a whole"):
        translated(us, Parcel)


def test_a_type_that_contains_itself_is_refused() -> None:
    @dataclass
    class Node:
        x: int
        children: list[Node]

    Node.__annotations__["children"] = list[Node]
    source = dataclass(type("Source", (), {"__annotations__": {"x": int, "children": list[Node]}}))
    context = pc.Context("own", parent=pc.Context("root", types=[source]), types=[Node])
    context.map(source, Node, "?")
    with pytest.raises(NoSparkFormError, match="made of itself"):
        translated(context, source)


def test_what_is_asked_wrongly() -> None:
    us = american()
    with pytest.raises(BadOptionError, match="direction"):
        translated(us, Parcel, direction="in")  # type: ignore[arg-type]
    with pytest.raises(BadContextError, match="a type with a mapping"):
        translated(us, OwnParcel, direction="!")
    us.rule("Parcel.nothing", to_dollars)
    with pytest.raises(ContextRefusedError):
        translated(us, Parcel)


# -- by chance -------------------------------------------------------------------------------------

CONTEXTS, EVENTS = 6, 40


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],  # a disagreement names its context and event: nothing to shrink
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_a_column_makes_what_python_makes(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    events = [some_order(random) for _ in range(EVENTS)]
    kept, made = [], 0
    while len(kept) < CONTEXTS:
        context, target = some_context(random)
        made += 1
        try:
            kept.append((context, target, translated(context, Order).alias(f"c{len(kept)}")))
        except NoSparkFormError:
            continue
    assert len(kept) / made > 0.3, "too much is refused"
    spark.conf.set("spark.sql.ansi.enabled", random.choice([True, False]))
    spark.conf.set("spark.sql.codegen.factoryMode", random.choice(["FALLBACK", "NO_CODEGEN"]))
    try:
        rows = table_of(spark, events).select(*(column for _, _, column in kept)).collect()
    finally:
        for key in ("spark.sql.ansi.enabled", "spark.sql.codegen.factoryMode"):
            spark.conf.unset(key)
    for place, (context, target, _) in enumerate(kept):
        kind = ColumnKind("object", cls=target)
        expected = expected_of(context, events, target)
        for event, row, wanted in zip(events, rows, expected, strict=True):
            assert plain(row[place], kind) == wanted, f"{event}\n{context.source(Order)}"
