"""Which events are rows of a table: by type, version, topic, filter and place in the log."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_events import Order, tree_of
from spark_expressions import Chance
from table_events import (
    Article,
    Bookable,
    Booked,
    Numbered,
    OnlineSale,
    Parcel,
    Refund,
    Sale,
    Size,
    Visit,
    is_odd,
)
from table_orders import Orders
from table_reading import numbers, reader_of, rows, rows_of_options

import polycast as pc
from polycast.errors import (
    BadOptionError,
    BadTopicError,
    FilterError,
    HistoryGoneError,
    NameClashError,
    NoRowError,
    NotAStoreError,
    NotATypeError,
    NotAvailableError,
)
from polycast.filters.filter import Filter
from polycast.filters.lifting.ast_translator import Unliftable
from polycast.pipeline.data_source import BatchReader
from polycast.pipeline.read_request import request_for
from polycast.pipeline.tables import check_verdicts, replay, stream, table
from polycast.stores import open_store
from polycast.stores.sqlite.readonly_store import open_readonly

Publish = Callable[..., None]
SHOP = [Sale(1, "ann"), OnlineSale(2, "bob"), Visit("ann", 7), Refund(3, "cy"), Sale(4, "dan")]


# -- types -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "options", "expected"),
    [
        (Sale, {}, [1, 2, 3, 4]),
        (Sale, {"exact": True}, [1, 4]),
        (OnlineSale, {}, [2, 3]),
        (OnlineSale, {"exact": True}, [2]),
        (Sale | Visit, {}, [1, 2, None, 3, 4]),
        (OnlineSale | Visit, {"exact": True}, [2, None]),
        (pc.all_of(Sale, OnlineSale), {}, [2, 3]),
        (Numbered, {}, [1, 2, 3, 4]),
        ("table_events.Sale", {}, [1, 2, 3, 4]),
        ("table_events.Sale", {"exact": True}, [1, 4]),
        ("table_events.OnlineSale", {}, [2, 3]),
    ],
)
def test_the_rows_are_those_of_all_that_conforms(
    url: str, publish: Publish, what: Any, options: dict[str, Any], expected: list[int]
) -> None:
    publish(*SHOP)
    assert numbers(url, what, **options) == expected


def test_a_row_tells_the_concrete_type(url: str, publish: Publish) -> None:
    publish(*SHOP)
    kinds = [row["_type"].rpartition(".")[2] for row in rows(url, Sale)]
    assert kinds == ["Sale", "OnlineSale", "Refund", "Sale"]


def test_a_union_has_the_columns_that_all_of_its_types_have(url: str, publish: Publish) -> None:
    publish(*SHOP)
    schema = reader_of(request_for(url, Sale | Visit)).schema
    assert schema.names[5:] == ["number", "customer"]
    assert schema["number"].nullable, "it may be None in one of them"
    assert reader_of(request_for(url, Sale | Article)).schema.names[5:] == []
    both = reader_of(request_for(url, pc.all_of(Sale, Parcel))).schema.names[5:]
    assert sorted(both) == ["article", "carrier", "customer", "number", "stops", "weight"]


def test_a_type_without_attributes_has_the_columns_of_every_event(
    url: str, publish: Publish
) -> None:
    publish(*SHOP)
    found = rows(url, object)
    assert [each["_position"] for each in found] == [1, 2, 3, 4, 5]
    assert len(found[0]) == 5


def test_a_type_that_nobody_has_published_has_no_rows(url: str, publish: Publish) -> None:
    publish(Visit("ann"))
    assert numbers(url, Sale) == []
    with pytest.raises(BadOptionError, match=r"did you mean 'table_events\.Visit'"):
        request_for(url, "table_events.Visitt")


def test_an_empty_store_has_no_rows(url: str, publish: Publish) -> None:
    publish()
    assert rows(url, Sale) == []
    assert rows_of_options(store=url) == []


def test_another_class_of_the_same_name_is_refused(url: str, publish: Publish) -> None:
    publish(Sale(1))

    @pc.event(name="table_events.Sale")
    @dataclass
    class Other:
        number: str

    with pytest.raises(NameClashError):
        request_for(url, Other)


def test_what_only_classes_can_say_needs_them(url: str, publish: Publish) -> None:
    publish(Booked(1))
    reader = reader_of(request_for(url, Bookable))
    with open_readonly(reader.request.store) as store:
        kinds = list(store.types().values())
    with pytest.raises(
        BadOptionError, match=r"table_events\.Booked is a table_events\.Bookable only"
    ):
        check_verdicts(reader.selection, Bookable, kinds)
    assert len(rows(url, Bookable, imports=["table_events"])) == 1


def test_without_a_type_an_event_is_a_text(url: str, publish: Publish) -> None:
    publish(Visit("ann", 7), topic="/web")
    publish("plain", topic="/chat")
    found = rows_of_options(store=url)
    assert [each["payload"] for each in found] == [
        '{"customer":"ann","pages":7,"number":null}',
        '"plain"',
    ]
    assert [each["_type"] for each in found] == ["table_events.Visit", "builtins.str"]
    assert len(rows_of_options(store=url, topic="/chat")) == 1
    assert len(rows_of_options(store=url, where="event.pages == 7")) == 1


# -- versions --------------------------------------------------------------------------------------


@pc.event(name="shop.Parcel", version=1)
@dataclass
class Light:
    """The parcel of a program that was not updated."""

    number: int


@pc.event(name="shop.Parcel", version=3)
@dataclass
class Insured:
    """The parcel of one that was updated since."""

    number: int
    value: int


@pytest.mark.parametrize("where", [None, lambda parcel: parcel.carrier == "mail"])
def test_older_events_have_the_defaults_of_what_came_later(
    url: str, publish: Publish, where: Any
) -> None:
    publish(Light(1))
    publish(Parcel(2, 1.5, "mail", ["a"]))
    found = rows(url, Parcel, where=where)
    assert [(each["number"], each["weight"], each["carrier"]) for each in found] == [
        (1, 0.0, "mail"),
        (2, 1.5, "mail"),
    ]
    assert [each["stops"] for each in found] == [[], ["a"]]


def test_newer_events_are_rows_of_the_older_type(url: str, publish: Publish) -> None:
    publish(Parcel(1, 2.5, "ship"))
    assert numbers(url, Light) == [1]


def test_an_attribute_without_default_that_was_not_written_is_a_misfit(
    url: str, publish: Publish
) -> None:
    publish(Light(1))
    with pytest.raises(NoRowError, match="value is 'missing'"):
        rows(url, Insured)


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (lambda sale: sale.number > 2, [3, 4]),
        (lambda sale: sale.customer == "bob" or sale.article.name == "hat", [2]),
        (lambda sale: sale.article.size is Size.SMALL, [1, 2, 3, 4]),
        (lambda sale: isinstance(sale, OnlineSale), [2, 3]),
        (lambda sale: sale.site == "home", [2, 3]),  # others have no site, so that it fails
        (lambda sale: sale.number / 0, []),
    ],
)
def test_a_filter_is_asked_of_every_event(
    url: str, publish: Publish, where: Any, expected: list[int]
) -> None:
    publish(*SHOP)
    assert numbers(url, Sale, where=where) == expected
    assert numbers(url, Sale, where=pc.lift(where)) == expected
    text = str(pc.lift(where))
    found = rows_of_options(store=url, type="table_events.Sale", where=text)
    assert [each["number"] for each in found] == expected


def test_a_function_that_cannot_be_lifted_has_to_be_in_the_imports(
    url: str, publish: Publish
) -> None:
    publish(*SHOP)
    assert numbers(url, Sale, where=is_odd, imports=["table_events"]) == [1, 3]
    with pytest.raises(BadOptionError, match="a function of a module in imports="):
        request_for(url, Sale, where=is_odd)
    with pytest.raises(BadOptionError, match="cannot leave this process"):
        request_for(url, Sale, where=lambda sale: print(sale), imports=["table_events"])


def test_a_text_that_is_no_filter_is_refused(url: str, publish: Publish) -> None:
    publish(*SHOP)
    with pytest.raises(FilterError, match="not an expression"):
        rows_of_options(store=url, where="event.number >")


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_pushing_a_filter_down_is_asking_it(orders: Orders, seed: int) -> None:
    url, events = orders.url, orders.events
    try:
        where: Filter[Any] = Filter(tree_of(Chance(Random(seed)).test(2)))
        reader_of(request_for(url, Order, where=where))
    except (Unliftable, FilterError, BadOptionError):  # it has no form as data, or needs the class
        return
    found = [row["_position"] for row in rows(url, Order, where=where)]
    assert found == [n for n, event in enumerate(events, 1) if where.interpret(event)]


# -- places ----------------------------------------------------------------------------------------


def test_bounds_are_those_of_subscribe(url: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    with pc.Bus(url) as bus:
        bus.publish_many([Sale(n) for n in range(1, 6)])
    assert numbers(url, Sale, since=3) == [3, 4, 5]
    assert numbers(url, Sale, since="beginning", until=3) == [1, 2]
    assert numbers(url, Sale, since=2, until=4) == [2, 3]
    assert numbers(url, Sale, since=now - hour, until=now + hour) == [1, 2, 3, 4, 5]
    assert numbers(url, Sale, since=now + hour) == []
    assert numbers(url, Sale, until=now - hour) == []
    assert numbers(url, Sale, since=99) == []
    options = {"store": url, "type": "table_events.Sale", "since": "2", "until": "3"}
    assert [rows_of_option["number"] for rows_of_option in rows_of_options(**options)] == [2]
    options |= {"since": (now - hour).isoformat(), "until": (now + hour).isoformat()}
    assert len(rows_of_options(**options)) == 5


def test_what_was_let_go_of_is_told(url: str) -> None:
    with pc.Bus(url) as bus:
        bus.publish_many([Sale(n) for n in range(1, 11)])
    store = open_store(url.removeprefix("sqlite:///"))
    request = request_for(url, Sale)
    reader = BatchReader(request)
    planned = reader.partitions()
    store.truncate(6)
    store.close()
    with pytest.raises(HistoryGoneError):
        request_for(url, Sale, since=3)
    with pytest.raises(HistoryGoneError):
        list(reader.read(planned[0]))
    assert numbers(url, Sale) == [6, 7, 8, 9, 10]


def test_topics_are_those_of_subscribe(url: str, publish: Publish) -> None:
    publish(Sale(1))
    publish(Sale(2), topic="/shop/north")
    publish(Sale(3), topic="/shop/south/1")
    assert numbers(url, Sale, topic="/shop/**") == [2, 3]
    assert numbers(url, pc.topic("/shop/*", Sale)) == [2]
    assert numbers(url, "table_events.Sale", topic="/shop/north") == [2]
    with pytest.raises(BadTopicError):
        request_for(url, "table_events.Sale", topic="shop")


def test_the_end_is_fixed_when_a_query_is_planned(url: str, publish: Publish) -> None:
    publish(Sale(1))
    reader = BatchReader(request_for(url, Sale))
    planned = reader.partitions()
    publish(Sale(2))
    found = [batch.num_rows for span in planned for batch in reader.read(span)]
    assert found == [1]
    assert numbers(url, Sale) == [1, 2]


def test_tasks_have_about_the_same_to_do(url: str) -> None:
    with pc.Bus(url) as bus:  # sales are rare in the first half
        bus.publish_many([Visit("ann") if n % 10 else Sale(n) for n in range(20_000)])
        bus.publish_many([Sale(n) for n in range(20_000)])
    request = request_for(url, Sale, partitions=4)
    reader = BatchReader(request)
    planned = reader.partitions()
    bounds = [each.value for each in planned]
    assert bounds[0][0] == 1
    assert bounds[-1][1] == 40_001
    assert all(one[1] == other[0] for one, other in pairwise(bounds))
    counts = [sum(batch.num_rows for batch in reader.read(each)) for each in planned]
    assert counts == [5_500] * 4


def test_reading_leaves_nothing_behind_and_disturbs_nobody(url: str, tmp_path: Path) -> None:
    with pc.Bus(url) as bus:
        for n in range(1, 51):
            bus.publish(Sale(n))
            assert numbers(url, Sale) == list(range(1, n + 1))
    assert numbers(url, Sale)[-1] == 50
    assert sorted(os.listdir(tmp_path)) == ["events.db"]


# -- what is refused at once -----------------------------------------------------------------------


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no store, and rather long for one\n" * 50)
    (tmp_path / "empty").write_text("")
    for name in ("missing.db", "text", "empty"):
        with pytest.raises(NotAStoreError):
            request_for(f"sqlite:///{tmp_path / name}", Sale)
    with pytest.raises(BadOptionError, match="no other process's"):
        request_for("memory:", Sale)
    with pytest.raises(NotAvailableError):
        request_for("kafka://somewhere", Sale)


@pytest.mark.parametrize(
    "options",
    [
        {"misfits": "ignore"},
        {"since": "yesterday"},
        {"since": datetime.datetime(2024, 1, 1)},
        {"until": "beginning"},
        {"until": True},
        {"imports": "table_events"},
        {"imports": ["no_such_module_anywhere"]},
        {"max_rows": 0},
        {"partitions": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(
    url: str, publish: Publish, options: dict[str, Any]
) -> None:
    publish()
    with pytest.raises(BadOptionError):
        request_for(url, Sale, **options)


@pytest.mark.parametrize("read", [table, stream, replay])
def test_an_option_that_does_not_exist_is_refused(url: str, read: Callable[..., Any]) -> None:
    with pytest.raises(BadOptionError, match=r"there is no such option; did you mean where=\?"):
        read(None, url, Order, wehre=lambda order: order.total > 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"typ": "table_events.Sale"}, "did you mean type="),
        ({"since": "yesterday"}, "a time with a zone"),
        ({"since": "2024-01-01T00:00"}, "a time zone"),
        ({"exact": "perhaps"}, "'true', 'false'"),
        ({"maxRows": "many"}, "maxRows='many'"),
        ({"partitions": "0"}, "a whole number from 1 on"),
        ({"misfits": "drop"}, "'raise', 'skip'"),
        ({"type": "table_events.Sal"}, r"did you mean 'table_events\.Sale'"),
    ],
)
def test_options_of_the_data_source_are_checked(
    url: str, publish: Publish, options: dict[str, str], said: str
) -> None:
    publish(Sale(1))
    with pytest.raises(BadOptionError, match=said):
        rows_of_options(store=url, **options)


def test_a_topic_in_place_of_a_type_is_refused(url: str, publish: Publish) -> None:
    publish(Article())
    with pytest.raises(NotATypeError, match="give topic="):
        request_for(url, "/shop/**")
    with pytest.raises(BadOptionError, match="store"):
        rows_of_options(type="table_events.Article")
