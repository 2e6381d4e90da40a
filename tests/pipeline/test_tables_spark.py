"""Tables and streams in Spark: workers have the descriptions in the store, and no class of ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from spark_events import Order, tree_of
from spark_expressions import Chance
from table_events import (
    Article,
    Bookable,
    Booked,
    Leg,
    Numbered,
    OnlineSale,
    Refund,
    Sale,
    Size,
    Trip,
    Visit,
    is_odd,
)
from table_orders import Orders
from table_reading import reader_of, rows

import polycast as pc
from polycast.errors import BadOptionError, FilterError, NotAStoreError
from polycast.filters import Filter
from polycast.filters.lifting.ast_translator import Unliftable
from polycast.pipeline.read_request import request_for
from polycast.pipeline.tables import replay, stream, table

Publish = Callable[..., None]
SHOP = [Sale(1, "ann"), OnlineSale(2, "bob"), Visit("ann", 7), Refund(3, "cy"), Sale(4, "dan")]


def numbers(data: DataFrame) -> list[int]:
    return [each["number"] for each in data.select("number").collect()]


# -- tables ----------------------------------------------------------------------------------------


def test_a_user_of_spark_needs_no_import(spark: SparkSession, url: str, publish: Publish) -> None:
    publish(*SHOP)
    options = {"store": url, "type": "table_events.Sale", "where": "event.number != 2"}
    data = spark.read.format("polycast").options(**options).load()
    assert numbers(data.where("article.size = 'SMALL'")) == [1, 3, 4]
    plain = spark.read.format("polycast").option("store", url).load()
    assert plain.columns[-1] == "payload"
    assert plain.count() == 5
    with pytest.raises(AnalysisException, match=r"did you mean 'table_events\.Sale'"):
        spark.read.format("polycast").option("store", url).option("type", "table_events.Sal").load()
    with pytest.raises(AnalysisException, match="did you mean topic="):
        spark.read.format("polycast").option("store", url).option("topik", "/a").load()


def test_every_attribute_arrives_in_spark(spark: SparkSession, orders: Orders) -> None:
    url = orders.url
    found = [each.asDict(recursive=True) for each in table(spark, url, Order).collect()]
    here = rows(url, Order)
    assert len(found) == 80
    for one, other in zip(found, here, strict=True):
        assert one.pop("_time").timestamp() == other.pop("_time").timestamp()
        one["table"], other["table"] = sorted(one["table"].items()), sorted(other["table"])
        assert repr(one) == repr(other)


def test_what_may_be_none_arrives_in_arrow(spark: SparkSession, url: str, publish: Publish) -> None:
    now = datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=2)))
    publish(Trip(), Trip(now, Leg(now, 7), [now, None]))
    data = table(spark, url, Trip)
    nothing, all_of_it = (row.asDict(recursive=True) for row in data.collect())
    assert nothing["first"] is nothing["leg"] is None
    assert all_of_it["leg"] == {"start": all_of_it["first"], "miles": 7}
    assert all_of_it["first"] == {
        "at": datetime(2030, 1, 2, 1, 4, 5, 678_901),
        "offset": timedelta(hours=2),
    }
    names = ["first", "leg", "times"]
    found = data.select(names).toArrow().to_pylist()  # Arrow refuses NULL where there can be none
    assert found == [{name: row[name] for name in names} for row in (nothing, all_of_it)]


def test_a_table_is_asked_twice_and_in_one_query(
    spark: SparkSession, url: str, publish: Publish
) -> None:
    publish(*SHOP)
    data = table(spark, url, Sale)
    some = data.where("number = 3")
    assert some.count() == 1  # with pushFilters of 4.3 the next one would be wrong
    assert data.count() == 4
    assert some.union(data).count() == 5
    publish(Sale(5))
    assert data.count() == 4, "a table is of one moment"
    assert table(spark, url, Sale).count() == 5


def test_types_are_decided_by_descriptions(spark: SparkSession, url: str, publish: Publish) -> None:
    publish(*SHOP)
    asked: list[tuple[Any, dict[str, Any]]] = [
        (Sale, {}),
        (OnlineSale, {"exact": True}),
        (Numbered, {}),
        (Sale | Visit, {"since": 2, "until": 5}),
        (pc.all_of(Sale, OnlineSale), {}),
    ]
    tables = [table(spark, url, what, **options).select("number") for what, options in asked]
    together = reduce(DataFrame.unionAll, tables)
    assert numbers(together) == [1, 2, 3, 4, *[2], *[1, 2, 3, 4], *[2, None, 3], *[2, 3]]


def test_a_replay_is_what_a_subscription_gets(spark: SparkSession, url: str) -> None:
    got: list[int] = []
    with pc.Bus(url) as bus:
        bus.subscribe(Sale, lambda sale: got.append(sale.number), where=lambda s: s.number % 3 == 0)
        bus.publish_many([Sale(n) if n % 2 else OnlineSale(n) for n in range(9_000, 0, -1)])
        bus.flush()
    data = replay(spark, url, Sale, where=lambda sale: sale.number % 3 == 0)
    assert numbers(data) == got
    assert len(got) == 3_000


def test_imports_bring_methods_functions_and_registered_classes(
    spark: SparkSession, url: str, publish: Publish
) -> None:
    publish(*SHOP, Booked(9))
    with pytest.raises(BadOptionError, match="only the classes can say"):
        table(spark, url, Bookable)
    modules = ["table_events"]
    even = table(spark, url, Sale, where=lambda sale: sale.is_even(), imports=modules)
    odd = table(spark, url, Sale, where=is_odd, imports=modules)
    booked = table(spark, url, Bookable, imports=modules).selectExpr("_position as number")
    assert numbers(even.select("number").union(odd.select("number")).union(booked)) == [
        2,
        4,
        1,
        3,
        6,
    ]


def test_without_imports_a_filter_may_ask_for_fields_only(
    spark: SparkSession, url: str, publish: Publish
) -> None:
    publish(*SHOP)
    big = table(spark, url, Sale, where=lambda s: s.article.size is Size.SMALL and s.number > 2)
    assert numbers(big) == [3, 4]
    with pytest.raises(BadOptionError, match="only the classes have"):
        table(spark, url, Sale, where=lambda sale: sale.is_even())


def test_what_is_wrong_is_told_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="there is no such file"):
        table(spark, f"sqlite:///{tmp_path / 'missing.db'}", Sale)
    with pytest.raises(NotAStoreError, match="there is no such file"):
        stream(spark, f"sqlite:///{tmp_path / 'missing.db'}", Sale)


def test_a_misfit_is_an_error_that_names_it(
    spark: SparkSession, url: str, publish: Publish
) -> None:
    publish(Sale(1), Sale(2**63), Sale(3))
    with pytest.raises(PythonException, match=r"position 2, of table_events\.Sale"):
        table(spark, url, Sale).collect()
    assert numbers(table(spark, url, Sale, misfits="skip")) == [1, 3]


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_a_filter_says_the_same_in_the_source_in_the_jvm_and_here(
    spark: SparkSession, orders: Orders, seed: int
) -> None:
    url, events = orders.url, orders.events
    filters = some_filters(Random(seed), 6, url)
    data = table(spark, url, Order)
    parts: list[DataFrame] = []
    for n, where in enumerate(filters):
        pushed = table(spark, url, Order, where=where)
        there = data.where(where.to_spark(Order))
        parts += [
            each.selectExpr(f"{n} as filter", f"{is_pushed} as pushed", "_position")
            for each, is_pushed in ((pushed, True), (there, False))
        ]
    found = {tuple(each) for each in reduce(DataFrame.unionAll, parts).collect()}
    expected = {
        (n, is_pushed, position)
        for n, where in enumerate(filters)
        for is_pushed in (True, False)
        for position, event in enumerate(events, 1)
        if where.interpret(event)
    }
    assert found == expected, [str(each) for each in filters]


def some_filters(random: Random, count: int, url: str) -> list[Filter[Any]]:
    """Filters that have a column, and that can be asked where there are no classes."""
    found: list[Filter[Any]] = []
    while len(found) < count:
        try:
            where: Filter[Any] = Filter(tree_of(Chance(random).test(random.choice([1, 2]))))
            reader_of(request_for(url, Order, where=where))
            where.to_spark(Order)
        except (Unliftable, FilterError, BadOptionError):
            continue
        found.append(where)
    return found


# -- streams ---------------------------------------------------------------------------------------


@pytest.fixture
def drain(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., list[list[int]]]]:
    """Run a stream as far as the log goes; what each of its micro-batches had."""

    def drain(data: DataFrame, name: str = "query") -> list[list[int]]:
        batches: list[list[int]] = []
        query = (
            data.writeStream.foreachBatch(lambda rows, _: batches.append(numbers(rows)))
            .option("checkpointLocation", str(tmp_path / f"{name}.checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(90), "the query goes on and on"
        finally:
            query.stop()
        return [batch for batch in batches if batch]

    return drain


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, url: str, publish: Publish, drain: Callable[..., list[list[int]]]
) -> None:
    publish(*(each for n in range(1, 8) for each in (Sale(n), Visit("ann"))))
    data = stream(spark, url, Sale, where=lambda sale: sale.number != 4, max_rows=3)
    assert data.isStreaming
    assert drain(data) == [[1, 2, 3], [5, 6], [7]]
    publish(Visit("bob"), Refund(8), Article())  # a type that was not there before
    assert drain(data) == [[8]]
    assert drain(data) == []


def test_streams_of_two_types_do_not_meet(
    spark: SparkSession, url: str, publish: Publish, drain: Callable[..., list[list[int]]]
) -> None:
    publish(*SHOP)
    visits = spark.readStream.format("polycast").option("store", url)
    visits = visits.option("type", "table_events.Visit").option("since", "2")
    assert drain(stream(spark, url, OnlineSale), "sales") == [[2, 3]]
    assert drain(visits.load().selectExpr("pages as number"), "visits") == [[7]]


def test_a_stream_and_a_table_are_right_while_somebody_publishes(
    spark: SparkSession,
    url: str,
    publish: Publish,
    tmp_path: Path,
    eventually: Callable[[Callable[[], object]], None],
    in_thread: Callable[[Callable[[], object]], threading.Thread],
) -> None:
    publish(Sale(0))
    seen: list[int] = []
    data = stream(spark, url, Sale)
    query = (
        data.writeStream.foreachBatch(lambda rows, _: seen.extend(numbers(rows)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )

    def publish_some() -> None:
        with pc.Bus(url) as bus:
            for n in range(1, 301):
                bus.publish(Sale(n))

    try:
        writer = in_thread(publish_some)
        while writer.is_alive():
            found = numbers(table(spark, url, Sale))
            assert found == list(range(len(found)))
        writer.join()
        query.processAllAvailable()
        eventually(lambda: len(seen) >= 301)
    finally:
        query.stop()
    assert seen == list(range(301))
