"""Tables, replay and comparison of what contexts see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from context_parties import (
    AmericanParcel,
    BritishParcel,
    Express,
    Notice,
    Parcel,
    PoundItem,
    Price,
    american,
    federation,
    to_dollars_anew,
)

import polycast as pc
from polycast.pipeline import compare, replay, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMPORTS = ["context_parties"]


@pytest.fixture
def store(url: str) -> str:
    """Six events, from three contexts; the American way changes after the fourth."""
    fed = federation()
    with pc.Bus(url, federation=fed) as bus:
        us, uk = bus.within("us"), bus.within("uk")
        bus.publish(Parcel(1, Price(10.0)))
        us.publish(AmericanParcel(2, Price(40.0, "USD"), [PoundItem("box", 1.0, 3.0)]))
        uk.publish(BritishParcel(3, Price(15.0, "GBP"), note="fragile"))
        bus.publish(Notice(4))
        fed.replace(american(fed.root, to_dollars_anew))
        bus.publish(Express(5, Price(50.0), within=2.0))
        bus.publish(Parcel(6, Price(95.0)))
    return url


def test_a_table_without_a_context_is_that_of_the_root(spark: SparkSession, store: str) -> None:
    found = table(spark, store, Parcel).orderBy("number").collect()
    assert [(row.number, row.price.amount, row.price.currency) for row in found] == [
        (1, 10.0, "EUR"),
        (2, 20.0, "EUR"),
        (3, 30.0, "EUR"),
        (5, 50.0, "EUR"),
        (6, 95.0, "EUR"),
    ]
    assert table(spark, store, AmericanParcel).count() == 0


def test_a_table_in_a_context_has_what_that_sees_at_each_position(
    spark: SparkSession, store: str
) -> None:
    found = replay(spark, store, AmericanParcel, context="us", imports=IMPORTS).collect()
    assert [(row.number, row.price.amount, row.price.currency) for row in found] == [
        (1, 20.0, "USD"),
        (2, 40.0, "USD"),  # as it was published
        (3, 60.0, "USD"),
        (5, 150.0, "USD"),
        (6, 285.0, "USD"),
    ]
    assert {row["_type"].rpartition(".")[2] for row in found} == {"AmericanParcel"}


def test_a_filter_is_asked_about_what_the_context_sees(spark: SparkSession, store: str) -> None:
    found = replay(
        spark,
        store,
        AmericanParcel,
        where=lambda parcel: parcel.price.amount > 30 and parcel.price.currency == "USD",
        context="us",
        imports=IMPORTS,
    )
    assert [row.number for row in found.collect()] == [2, 3, 5, 6]


def test_a_context_can_be_tried_out_on_history(spark: SparkSession, store: str) -> None:
    root = pc.Context("root", types=[Parcel, Express, Price, Notice])
    new = american(root, to_dollars_anew)
    found = replay(spark, store, AmericanParcel, context=new, imports=IMPORTS).collect()
    assert [(row.number, row.price.amount) for row in found] == [
        (1, 30.0),
        (2, 40.0),
        (3, 90.0),
        (5, 150.0),
        (6, 285.0),
    ]


def test_an_event_for_which_a_function_raises_has_no_row(spark: SparkSession, store: str) -> None:
    root = pc.Context("root", types=[Parcel, Express, Price, Notice])
    options = {"context": american(root), "imports": IMPORTS}
    with pytest.raises(Exception, match=r"in context 'us' it raised NoRate"):
        table(spark, store, AmericanParcel, **options).collect()
    found = table(spark, store, AmericanParcel, **options, misfits="skip")
    assert sorted(row.number for row in found.collect()) == [1, 2, 3, 5]


def test_a_type_that_nobody_maps_is_what_it_is(spark: SparkSession, store: str) -> None:
    found = table(spark, store, Notice, context="uk", imports=IMPORTS)
    assert [row.number for row in found.collect()] == [4]


def test_workers_are_given_the_modules_of_the_functions(spark: SparkSession, store: str) -> None:
    with pytest.raises(pc.BadOptionError, match=r"Accepted: the modules .*context_parties"):
        table(spark, store, AmericanParcel, context="us")


def test_a_context_that_the_store_does_not_have_is_named(spark: SparkSession, store: str) -> None:
    with pytest.raises(pc.BadContextError, match=r"'fr'.*accepted: root, uk, us"):
        table(spark, store, AmericanParcel, context="fr", imports=IMPORTS)


def test_comparing_says_what_would_change_and_how(spark: SparkSession, store: str) -> None:
    root = pc.Context("root", types=[Parcel, Express, Price, Notice])
    found = compare(spark, store, american(root), american(root, to_dollars_anew), imports=IMPORTS)
    assert (found.events, found.same, found.changed, found.recover) == (6, 2, 3, 1)
    assert found.types == {
        "context_parties.Parcel": 3,
        "context_parties.Express": 1,
    }
    [first, *_] = found.samples
    assert (first.position, [str(difference) for difference in first.differences]) == (
        1,
        ["price.amount: 20.0 -> 30.0"],
    )
    assert "fails no more: NoRate" in str(found)


def test_comparing_with_what_is_in_effect(spark: SparkSession, store: str) -> None:
    root = pc.Context("root", types=[Parcel, Express, Price, Notice])
    new = american(root, to_dollars_anew)
    found = compare(spark, store, "us", new, imports=IMPORTS, samples=1)
    assert (found.changed, found.same, len(found.samples)) == (2, 4, 1)


def test_a_function_that_may_change_its_mind_is_refused(spark: SparkSession, store: str) -> None:
    root = pc.Context("root", types=[Parcel, Express, Price, Notice])
    rough = american(root, pc.impure(to_dollars_anew))
    with pytest.raises(pc.BadOptionError, match=r"to_dollars_anew may give something else"):
        table(spark, store, AmericanParcel, context=rough, imports=IMPORTS)
    found = table(spark, store, AmericanParcel, context=rough, imports=IMPORTS, impure="per_batch")
    assert found.count() == 5
