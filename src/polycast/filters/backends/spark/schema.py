"""The Spark type of an event class, and which rows a table of that type can hold.

A filter's column is exact for the rows below. Who fills a table must leave out, or refuse, an event
that has no such row; an attribute is None only if its annotation says so.

| annotation | Spark | a row holds |
|---|---|---|
| `bool` | boolean | True or False |
| `int` | bigint | ints from -2**63 to 2**63 - 1; True and False as 1 and 0 |
| `float` | double | every float, NaN and infinities; no int, unless it is read back as a float |
| `str` | string | every text without half surrogate pairs |
| `bytes` | binary | all bytes |
| `Decimal` | decimal(38,18) | finite ones below 10**20 with at most 18 digits after the point |
| `date` | date | dates that are no datetimes |
| `datetime` | struct | `at`, a timestamp_ntz, and `offset`, an interval day to second; see below |
| `Enum` | string | the member's name; no flags |
| `UUID` | string | `str(value)` |
| a class | struct | its declared attributes, all of the types here |
| `list[X]`, `tuple[X, ...]` | array | its elements in order |
| `set[X]`, `frozenset[X]` | array | its elements in any order |
| `dict[str, X]` | map | its items |
| `X | None`, `Literal`, `Annotated[X, ...]`, `NewType` | as X | None is NULL |

A `datetime` with a zone has its time in UTC as `at` and `utcoffset()` as `offset`; the zone must be
a fixed offset, as it is after a time was written down and read back. A `datetime` without a zone is
`at`, and `offset` is NULL. It is a struct because an annotation does not say whether its times have
a zone, and Python neither equates nor orders one that has with one that has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types

from polycast.errors import NoSparkTypeError
from polycast.filters.backends.spark import values
from polycast.filters.backends.spark.values import ColumnKind, NoColumnError
from polycast.typesystem.attributes import declared_defaults

MOMENT = types.StructType(
    [
        types.StructField("at", types.TimestampNTZType(), nullable=False),
        types.StructField("offset", types.DayTimeIntervalType(), nullable=True),
    ]
)


def spark_type(annotation: Any) -> types.DataType:
    """The Spark type of the values of an annotation; None in it is for a field's `nullable`."""
    try:
        return _type(values.kind_of(annotation), ())
    except NoColumnError as refusal:
        raise _no_type(repr(annotation), refusal) from None


def struct_of(cls: type) -> types.StructType:
    """The columns of a table of events of a class: its declared attributes in order."""
    try:
        return _struct(cls, ())
    except NoColumnError as refusal:
        raise _no_type(cls.__qualname__, refusal) from None


def _no_type(where: str, refusal: NoColumnError) -> NoSparkTypeError:
    return NoSparkTypeError(where, why=refusal.why, accepted=refusal.accepted)


Around = tuple[type, ...]  # the classes that a type is part of

_SIMPLE: dict[str, Callable[[], types.DataType]] = {
    "bool": types.BooleanType,
    "int": types.LongType,
    "float": types.DoubleType,
    "str": types.StringType,
    "bytes": types.BinaryType,
    "decimal": lambda: types.DecimalType(38, 18),
    "date": types.DateType,
    "datetime": lambda: MOMENT,
    "enum": types.StringType,
    "uuid": types.StringType,
}


def _type(kind: ColumnKind, around: Around) -> types.DataType:
    if kind.name in _SIMPLE:
        return _SIMPLE[kind.name]()
    if kind.cls is not None:
        return _struct(kind.cls, around)
    assert kind.element is not None
    inner, nullable = _type(kind.element, around), kind.element.nullable
    if kind.name == "dict":
        return types.MapType(types.StringType(), inner, nullable)
    return types.ArrayType(inner, nullable)


def _struct(cls: type, around: Around) -> types.StructType:
    if cls in around:
        why = f"{cls.__name__} is made of itself"
        raise NoColumnError(why, accepted="classes whose parts have an end")
    fields = [_field(cls, name, (*around, cls)) for name in declared_defaults(cls)]
    if not fields:
        why = f"{cls.__name__} declares no attributes"
        accepted = "a dataclass, attrs class, Struct or model with attributes"
        raise NoColumnError(why, accepted=accepted)
    return types.StructType(fields)


def _field(cls: type, name: str, around: Around) -> types.StructField:
    kind = values.attribute_kind(cls, name)
    return types.StructField(name, _type(kind, around), kind.nullable)
