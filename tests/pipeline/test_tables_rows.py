"""Events as rows: every kind of attribute, exactly or not at all."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from random import Random
from typing import Any

import msgspec
import pytest
from spark_events import Order, row_of, some_order
from table_events import Article, Size
from table_reading import reader_of, rows

import polycast as pc
from polycast.errors import NoRowError, NoSparkTypeError
from polycast.filters.backends.spark import struct_of
from polycast.pipeline.read_request import request_for
from polycast.pipeline.table_schema import EVENT_COLUMNS
from polycast.stores.sqlite.readonly_store import open_readonly

Publish = Callable[..., None]


def as_row(schema: Any, value: Any) -> Any:
    """What Arrow gives back for what Spark's types say."""
    kind = schema.typeName()
    if value is None:
        return None
    if kind == "struct":
        names = [each.name for each in schema.fields]
        return {
            name: as_row(each.dataType, part)
            for name, each, part in zip(names, schema.fields, value, strict=True)
        }
    if kind == "array":
        return [as_row(schema.elementType, each) for each in value]
    if kind == "map":
        return [(key, as_row(schema.valueType, each)) for key, each in value.items()]
    if kind == "decimal":
        return value.quantize(Decimal("1e-18"), context=Context(prec=38)) or Decimal("0E-18")
    return value


def same(one: Any, other: Any) -> bool:
    """Equal, with every NaN equal to itself."""
    return repr(one) == repr(other)


def attributes(row: dict[str, Any]) -> dict[str, Any]:
    row["bag"] = sorted(row["bag"])  # a set
    return {name: value for name, value in row.items() if name not in EVENT_COLUMNS.names}


def test_the_columns_are_those_of_the_class(url: str, publish: Publish) -> None:
    publish(Order())
    schema = reader_of(request_for(url, Order)).schema
    assert schema.fields[: len(EVENT_COLUMNS)] == EVENT_COLUMNS.fields
    found, expected = (
        [(each.name, each.dataType.simpleString(), each.nullable) for each in fields]
        for fields in (schema.fields[len(EVENT_COLUMNS) :], struct_of(Order).fields)
    )
    assert found == expected
    assert reader_of(request_for(url, "spark_events.Order")).schema == schema


def test_what_was_published_comes_back_attribute_by_attribute(url: str, publish: Publish) -> None:
    random = Random(5)
    events = [some_order(random) for _ in range(300)]
    publish(*events)
    with pc.Bus(url) as bus:
        given: list[Order] = []
        bus.subscribe(Order, given.append, since="beginning")
        bus.flush()
    found = rows(url, Order)
    assert len(given) == 300
    for row, event in zip(found, given, strict=True):
        expected = as_row(struct_of(Order), row_of(event))
        assert same(attributes(row), attributes(expected))


def test_reading_with_care_gives_the_same_rows(url: str, publish: Publish) -> None:
    random = Random(7)
    publish(*(some_order(random) for _ in range(100)))
    request = request_for(url, Order)
    reader = reader_of(request)
    with open_readonly(request.store) as store:
        entries = store.read(1).entries
    quick = reader._at_once(entries)
    assert quick is not None, "orders are regular"
    careful = reader._batch(*reader._one_by_one(entries, None))  # type: ignore[arg-type]
    for one, other in zip(quick.to_pylist(), careful.to_pylist(), strict=True):
        assert same(attributes(one), attributes(other))


def test_what_is_known_of_every_event_comes_first(url: str) -> None:
    with pc.Bus(url, publisher="till") as bus:
        bus.publish(Article("a"), topic="/shop/till")
    (row,) = rows(url, Article)
    with open_readonly(url.removeprefix("sqlite:///")) as store:
        time = store.read(1).entries[0].record.time
    assert list(row)[:5] == ["_position", "_type", "_time", "_topic", "_publisher"]
    assert (row["_position"], row["_type"], row["_topic"]) == (
        1,
        "table_events.Article",
        "/shop/till",
    )
    assert row["_publisher"] == "till"
    assert abs(row["_time"] - datetime.datetime.fromtimestamp(time, datetime.UTC)) <= TICK


TICK = datetime.timedelta(microseconds=1)


# -- misfits ---------------------------------------------------------------------------------------


@dataclass
class Loose:
    count: int = 0
    amount: Decimal = Decimal(0)
    rate: float = 0.0
    text: str = ""
    when: datetime.datetime = datetime.datetime(2024, 1, 1)
    article: Article = field(default_factory=Article)
    parts: list[int] = field(default_factory=list)
    table: dict[str, str] = field(default_factory=dict)
    size: Size = Size.SMALL
    sure: bool = True


EAST = datetime.timezone(datetime.timedelta(hours=1))
MISFITS = [
    ("count", 2**63, "count"),
    ("count", -(2**63) - 1, "count"),
    ("count", 2**64, "count"),
    ("count", None, "count"),
    ("count", "3", "count"),
    ("count", 3.0, "count"),
    ("amount", Decimal("1e20"), "amount"),
    ("amount", Decimal("1e-19"), "amount"),
    ("amount", Decimal("NaN"), "amount"),
    ("amount", 1, "amount"),
    ("rate", "1.5", "rate"),
    ("text", 7, "text"),
    ("text", Size.SMALL, "text"),
    ("when", datetime.datetime(1, 1, 1, tzinfo=EAST), "when"),
    ("when", datetime.date(2024, 1, 1), "when"),
    ("article", "an article", "article"),
    ("article", Size.SMALL, "article"),
    ("rate", 2**53 + 1, "rate"),
    ("rate", True, "rate"),
    ("article", Article(name=None), "article.name"),  # type: ignore[arg-type]
    ("article", Article(price=Decimal("1e30")), "article.price"),
    ("parts", [1, None], "parts[1]"),
    ("parts", [1, 2**63], "parts[1]"),
    ("parts", (1, "2"), "parts[1]"),
    ("parts", {1}, "parts"),
    ("table", {"a": 1}, "table['a']"),
    ("table", {1: "a"}, "table"),
    ("table", {"$": "builtins.int"}, "table"),
    ("size", "SMALL", "size"),
    ("sure", 1, "sure"),
    ("sure", None, "sure"),
]


@pytest.mark.parametrize(("name", "value", "path"), MISFITS)
def test_an_event_without_a_row_is_named(
    url: str, publish: Publish, name: str, value: Any, path: str
) -> None:
    publish(Loose(), Loose(**{name: value}))
    with pytest.raises(NoRowError) as caught:
        rows(url, Loose)
    assert caught.value.position == 2
    assert caught.value.name == "test_tables_rows.Loose"
    assert caught.value.attribute == path
    assert "position 2" in str(caught.value)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("count", True, 1),
        ("count", 2**63 - 1, 2**63 - 1),
        ("rate", 3, 3.0),
        ("rate", float("inf"), float("inf")),
        ("amount", Decimal("1." + "0" * 45), Decimal("1").quantize(Decimal("1e-18"))),
        ("parts", (1, 2), [1, 2]),
        ("table", {"a": "b", "": ""}, [("a", "b"), ("", "")]),
        ("text", "\0 \U0001f600", "\0 \U0001f600"),
    ],
)
def test_what_a_column_can_hold_is_held(
    url: str, publish: Publish, name: str, value: Any, held: Any
) -> None:
    publish(Loose(**{name: value}))
    (row,) = rows(url, Loose)
    assert row[name] == held
    assert type(row[name]) is type(held)


def test_misfits_are_left_out_and_counted(
    url: str, publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    events = [Loose(count=n if n % 100 else 2**63 + n) for n in range(1, 401)]
    publish(*events)
    with caplog.at_level(logging.WARNING, "polycast.pipeline"):
        found = rows(url, Loose, misfits="skip")
    assert [each["count"] for each in found] == [n for n in range(1, 401) if n % 100]
    (record,) = caplog.records
    assert record.getMessage().startswith("4 events of test_tables_rows.Loose have no row")
    assert "position 100" in record.getMessage()


def test_an_event_that_cannot_be_read_is_a_misfit(url: str, publish: Publish) -> None:
    publish(Article("good"))
    spoil(url)
    with pytest.raises(NoRowError, match=r"position 2, of table_events\.Article"):
        rows(url, Article)
    with pytest.raises(NoRowError, match="position 2"):
        rows(url, Article, where=lambda article: article.name == "good")
    assert [row["name"] for row in rows(url, Article, misfits="skip")] == ["good"]


def spoil(url: str) -> None:
    """Append an event whose payload nobody can read."""
    from polycast.stores import Draft, open_store

    store = open_store(url.removeprefix("sqlite:///"))
    record = store.read(1).entries[0].record
    identity = msgspec.structs.replace(record.identity, sequence=99)
    draft = Draft(record.name, record.version, record.hash, identity, "msgpack", b"\xc1")
    store.append([draft])
    store.close()


# -- what has no columns ---------------------------------------------------------------------------


@dataclass
class Mixed:
    value: int | str = 0


@dataclass
class Chain:
    rest: Chain | None = None


@dataclass
class Hidden:
    _time: int = 0


@dataclass
class Shouting:
    name: str = ""
    NAME: str = ""


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Mixed(), "attribute 'value': int | str is of several types"),
        (Chain(), "made of itself"),
        (Hidden(), "'_time' and '_time' are the same to Spark"),
        (Shouting(), "'name' and 'NAME' are the same to Spark"),
    ],
)
def test_a_type_without_columns_is_refused(
    url: str, publish: Publish, event: object, said: str
) -> None:
    publish(event)
    with pytest.raises(NoSparkTypeError, match=said.replace("|", r"\|")):
        reader_of(request_for(url, type(event))).schema
