"""From an event class to the columns of its table."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Literal, NewType

import attrs
import msgspec
import pydantic
import pytest
from pyspark.sql import SparkSession
from spark_events import Colour, Line, Order, some_order, table

from polycast.errors import NoSparkTypeError
from polycast.filters.backends.spark import spark_type, struct_of

Metres = NewType("Metres", float)
MOMENT = "struct<at:timestamp_ntz,offset:interval day to second>"


class Rights(enum.Flag):
    READ = 1


class Text(str):
    pass


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, "boolean"),
        (int, "bigint"),
        (float, "double"),
        (str, "string"),
        (bytes, "binary"),
        (Decimal, "decimal(38,18)"),
        (datetime.date, "date"),
        (datetime.datetime, MOMENT),
        (pydantic.AwareDatetime, MOMENT),
        (uuid.UUID, "string"),
        (Colour, "string"),
        (Line, "struct<price:bigint,name:string,weight:double>"),
        (list[int], "array<bigint>"),
        (tuple[str, ...], "array<string>"),
        (set[float], "array<double>"),
        (frozenset[bool], "array<boolean>"),
        (dict[str, list[int]], "map<string,array<bigint>>"),
        (int | None, "bigint"),
        (Literal["a", "b"], "string"),
        (Literal[1, None], "bigint"),
        (Annotated[float, "metres"], "double"),
        (Metres, "double"),
    ],
)
def test_the_type_of_an_annotation(annotation: Any, expected: str) -> None:
    assert spark_type(annotation).simpleString() == expected


REFUSED = [Any, object, list, dict[int, str], tuple[int, str], int | str, None, complex, Text]
REFUSED += [Rights, datetime.time, datetime.timedelta, Literal[1, "a"], list[Any], type, "int"]


@pytest.mark.parametrize("annotation", REFUSED)
def test_what_no_column_holds_exactly_is_refused(annotation: Any) -> None:
    with pytest.raises(NoSparkTypeError, match=r"has no Spark type: .* Accepted: bool, int"):
        spark_type(annotation)


@attrs.define
class Made:
    price: int
    name: str | None = None


class Packed(msgspec.Struct):
    price: int
    name: str | None = None


class Checked(pydantic.BaseModel):
    price: int
    name: str | None = None


class Plain:
    price: int
    name: str | None = None


@pytest.mark.parametrize("cls", [Made, Packed, Checked, Plain])
def test_every_way_to_declare_attributes_gives_the_same_columns(cls: type) -> None:
    found = struct_of(cls)
    assert found.simpleString() == "struct<price:bigint,name:string>"
    assert [field.nullable for field in found] == [False, True]


def test_elements_may_be_null_only_if_they_may_be_none() -> None:
    found = struct_of(Order)
    assert found["holes"].dataType.containsNull
    assert not found["marks"].dataType.containsNull
    assert found["marks"].nullable


@dataclass
class Knot:
    next: Knot | None = None


@dataclass
class Twins:
    name: str
    Name: str


class Empty:
    pass


@dataclass
class Computed:
    price: int

    @property
    def price(self) -> int:  # type: ignore[no-redef]
        return 3

    @price.setter
    def price(self, value: int) -> None:
        pass


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (Knot, "Knot is made of itself"),
        (Twins, "'name' and 'Name' differ by case alone"),
        (Empty, "Empty declares no attributes"),
        (Computed, "'price' is computed"),
    ],
)
def test_a_class_without_a_table_is_refused(cls: type, why: str) -> None:
    with pytest.raises(NoSparkTypeError, match=why) as caught:
        struct_of(cls)
    assert caught.value.where == cls.__qualname__


def test_a_table_keeps_what_the_schema_says(spark: SparkSession) -> None:
    random = Random(2)
    events = [some_order(random) for _ in range(20)]
    data = table(spark, events)
    assert data.schema == struct_of(Order)
    assert [row.total for row in data.collect()] == [event.total for event in events]
