"""For every filter that has a column, and every row: the column and Python agree."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from spark_events import Order, disagreements, some_order, table, tree_of
from spark_expressions import Chance

from polycast.errors import NoSparkFormError
from polycast.filters.backends.spark import compiled
from polycast.filters.lifting.ast_translator import Unliftable
from polycast.filters.tree import nodes

FILTERS, EVENTS = 30, 50


def some_filters(random: Random) -> tuple[list[nodes.Node], int]:
    """Filters that have a column, and how many had to be made for them."""
    found: list[nodes.Node] = []
    made = 0
    while len(found) < FILTERS:
        try:
            tree = tree_of(Chance(random).test(random.choice([1, 2, 3])))
        except Unliftable:
            continue
        made += 1
        try:
            compiled(tree, Order)
        except NoSparkFormError:
            continue
        found.append(tree)
    return found, made


@pytest.mark.slow
@pytest.mark.parametrize("ansi", [True, False])
@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.generate],  # each disagreement names its filter and row: nothing to shrink
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_a_column_says_what_python_says(spark: SparkSession, ansi: bool, seed: int) -> None:
    random = Random(seed)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    spark.conf.set("spark.sql.codegen.factoryMode", random.choice(["FALLBACK", "NO_CODEGEN"]))
    spark.conf.set("spark.sql.codegen.wholeStage", random.choice([True, False, False]))
    spark.conf.set("spark.sql.session.timeZone", random.choice(["UTC", "Asia/Kolkata"]))
    events = [some_order(random) for _ in range(EVENTS)]
    filters, made = some_filters(random)
    assert disagreements(table(spark, events), events, filters, Order) == []
    assert len(filters) / made > 0.5, "too much is refused"
