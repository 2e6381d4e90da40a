"""A column means the same whatever the session is set to and the attributes are called."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from spark_events import Line, Order, disagreements, some_order, table, tree_of

from polycast.filters.backends.interpreter import matches
from polycast.filters.backends.spark import column
from polycast.filters.tree import nodes

FILTERS = [
    "t.maybe + t.total > 3",
    "t.total // t.maybe == 1",
    "t.rate / t.fraction > 1",
    "t.at < NAIVE or t.when >= AWARE",
    "t.day < DAY",
    "t.marks[5] == 1 or t.table['b'] == 3",
    "len(t.note) > 1 and t.comment.find('a') == 0",
    "any(x.price / 2 > 3 for x in t.lines if x.name.startswith('a'))",
    "any(10 % x == t.x_0 for x in t.holes)",
    "t.total < t.rate",
]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.session.timeZone", "America/Los_Angeles"),
        ("spark.sql.session.timeZone", "Asia/Kolkata"),
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.caseSensitive", "false"),
        ("spark.sql.codegen.wholeStage", "false"),
        ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ],
)
def test_settings_do_not_matter(spark: SparkSession, key: str, value: str) -> None:
    random = Random(11)
    events = [some_order(random) for _ in range(60)]
    trees = [tree_of(text) for text in FILTERS]
    spark.conf.set(key, value)
    assert disagreements(table(spark, events), events, trees, Order) == []


@dataclass
class Odd:
    größe: int = 0
    名前: str = ""
    select: int = 1
    x_0: int = 1  # what lambdas of Spark call their variables
    x_1: int = 2
    y_2: int = 3
    namedlambdavariable: int = 4
    _metadata: int = 5
    at: int = 6
    values: list[int] = field(default_factory=lambda: [1, 2, 3])


@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_attributes_may_have_any_name(spark: SparkSession, sensitive: str) -> None:
    spark.conf.set("spark.sql.caseSensitive", sensitive)
    events = [Odd(größe=n, 名前="ab"[:n], x_0=n, at=n - 1) for n in range(4)]
    texts = [
        "t.größe == 2",
        "t.名前 == 'a'",
        "t.select == 1",
        "t._metadata == 5",
        "t.at == t.x_0 - 1",
    ]
    texts += ["any(x == t.x_0 and any(y > x + t.x_1 - 2 for y in t.values) for x in t.values)"]
    texts += ["any(x < t.y_2 - t.x_0 for x in t.values)", "t.namedlambdavariable == 4"]
    trees = [tree_of(text) for text in texts]
    assert disagreements(table(spark, events), events, trees, Odd) == []


def test_a_name_that_needs_quotes_is_quoted(spark: SparkSession) -> None:
    from polycast.filters.backends.spark import sql

    data = spark.createDataFrame([(1, 2)], "`a.b` int, `c``d` int")
    named = [sql.column_of(sql.named(name)) for name in ("a.b", "c`d")]
    assert [tuple(row) for row in data.select(*named).collect()] == [(1, 2)]


def test_a_function_of_the_user_does_not_take_the_place_of_sparks(spark: SparkSession) -> None:
    spark.udf.register("length", udf(lambda text: 99, "int"))
    try:
        events = [Order(note="a"), Order(note="abc")]
        trees = [tree_of("len(t.note) == 3")]
        assert disagreements(table(spark, events), events, trees, Order) == []
    finally:
        spark.sql("DROP TEMPORARY FUNCTION length")


def test_a_condition_reaches_attributes_and_text_methods(spark: SparkSession) -> None:
    event = nodes.Event()
    line = nodes.Reach(event, "line")
    paths = [nodes.Reach(line, "price"), nodes.Reach(nodes.Reach(event, "note"), "strip")]
    paths += [nodes.Reach(event, "colour")]
    trees = [nodes.Compare(path, (("!=", nodes.Constant("a")),)) for path in paths]
    events = [Order(note=" a"), Order(note="b", line=Line(3))]
    assert disagreements(table(spark, events), events, trees, Order) == []


def test_rows_in_files_are_kept_or_left_out_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(13)
    events = [replace(some_order(random), x_0=n) for n in range(200)]
    table(spark, events).write.parquet(str(tmp_path / "orders"))
    data = spark.read.parquet(str(tmp_path / "orders"))
    more = ["t.rate == 0", "t.rate < 2.5", "t.maybe != 3 and t.rate != t.rate", "t.comment > 'a'"]
    for text in [*FILTERS[:5], *more]:  # conditions may be pushed down to the reader
        tree = tree_of(text)
        kept = data.where(column(tree, Order)).select("x_0").collect()
        assert {row.x_0 for row in kept} == {e.x_0 for e in events if matches(tree, e)}, text


def test_a_column_is_used_beside_others(spark: SparkSession) -> None:
    data = table(spark, [Order(total=n) for n in range(5)])
    big = column(tree_of("t.total > 2"), Order)
    assert data.where(big & (data.total < 4)).count() == 1
    assert data.where(~big).count() == 3
