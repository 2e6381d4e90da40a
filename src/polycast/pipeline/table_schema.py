"""The columns of a table, from type descriptions alone: no class is needed.

They agree with `filters.backends.spark.schema`, which does the same for classes and documents which
rows are exact. But a part of a struct that may be NULL may itself be NULL here, as Arrow sees it.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from polycast.errors import NoSparkTypeError
from polycast.filters.backends.spark import spark_type
from polycast.filters.backends.spark.values import CLASSES, NoColumnError
from polycast.typesystem import wire_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.typesystem import AttributeDescription, Description, Registry, TypeExpression

EVENT_COLUMNS = StructType(
    [
        StructField("_position", LongType(), nullable=False),
        StructField("_type", StringType(), nullable=False),
        StructField("_time", TimestampType(), nullable=False),
        StructField("_topic", StringType(), nullable=True),
        StructField("_publisher", StringType(), nullable=False),
    ]
)
"""The columns that every table has."""
PAYLOAD = StructType([*EVENT_COLUMNS.fields, StructField("payload", StringType(), nullable=False)])
"""The columns of a table of no type: the event is JSON."""

_NAMES = {wire_name(classes[0]): name for name, classes in CLASSES.items()} | {
    "pydantic.types.AwareDatetime": "datetime",
    "pydantic.types.NaiveDatetime": "datetime",
}
_CONTAINERS = ("list", "tuple", "set", "frozenset", "dict")
_WITH_ATTRIBUTES = ("dataclass", "attrs", "struct", "pydantic", "class", "protocol")
PLAIN: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "decimal": decimal.Decimal,
    "date": datetime.date,
    "datetime": datetime.datetime,
    "enum": str,
    "uuid": uuid.UUID,
}
"""What a column of one value holds in Python; of an enum that is the name of a member."""
_ACCEPTED = (
    "bool, int, float, str, bytes, Decimal, date, datetime, UUID, enums, classes with declared "
    "attributes, list[X], tuple[X, ...], set[X], frozenset[X], dict[str, X], each of them or None"
)


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """What a column, or a part of one, holds."""

    kind: str
    nullable: bool = False
    name: str = ""  # of the class, if it is a user's
    fields: tuple[Field, ...] = ()  # of an object
    element: ColumnShape | None = None  # of a container, of a dict its values
    members: frozenset[str] = frozenset()  # of an enum


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute, and its value in events written before it was added."""

    name: str
    shape: ColumnShape
    default: Any = msgspec.UNSET


def fields_of(description: Description, registry: Registry) -> tuple[Field, ...]:
    """The columns of a class; `NoSparkTypeError` if an attribute has no column."""
    try:
        return _fields(description, registry, ())
    except NoColumnError as refusal:
        raise NoSparkTypeError(
            description.name, why=refusal.why, accepted=refusal.accepted
        ) from None


def field_of(attribute: AttributeDescription, registry: Registry) -> Field | None:
    """The column of an attribute; None if it has none."""
    try:
        return _field(attribute, registry, ())
    except NoColumnError:
        return None


def shared_fields(every: Sequence[tuple[Field, ...]], *, all_of: bool) -> tuple[Field, ...]:
    """The columns that several types share; with `all_of`, those of any of them.

    An attribute that two of them declare in different ways has no column.
    """
    by_name: dict[str, list[Field]] = {}
    for fields in every:
        for field in fields:
            by_name.setdefault(field.name, []).append(field)
    kept = [same for same in by_name.values() if all_of or len(same) == len(every)]
    merged = (_merged(same) for same in kept)
    return tuple(field for field in merged if field is not None)


def _merged(same: list[Field]) -> Field | None:
    first = same[0]
    plain = [replace(field.shape, nullable=False) for field in same]
    if any(shape != plain[0] for shape in plain):
        return None
    nullable = any(field.shape.nullable for field in same)
    is_shared = all(field.default == first.default for field in same)
    default = first.default if is_shared else msgspec.UNSET
    return Field(first.name, replace(first.shape, nullable=nullable), default)


def _fields(
    description: Description, registry: Registry, around: tuple[str, ...]
) -> tuple[Field, ...]:
    title = description.name
    if title in around:
        why = f"{title} is made of itself"
        raise NoColumnError(why, accepted="classes whose parts have an end")
    _check_names([attribute.name for attribute in description.attributes])
    fields = []
    for attribute in description.attributes:
        try:
            fields.append(_field(attribute, registry, (*around, title)))
        except NoColumnError as refusal:
            why = f"attribute {attribute.name!r}: {refusal.why}"
            raise NoColumnError(why, accepted=refusal.accepted) from None
    return tuple(fields)


def _field(attribute: AttributeDescription, registry: Registry, around: tuple[str, ...]) -> Field:
    shape, default = _shape(attribute.type, registry, around), attribute.default
    if shape.kind == "float" and type(default) is int:
        default = float(default)  # as it is read back
    return Field(attribute.name, shape, default)


def _check_names(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        key = name.upper().lower()
        if key in seen:
            why = f"{seen[key]!r} and {name!r} are the same to Spark, which may not care for case"
            others = ", ".join(EVENT_COLUMNS.names)
            accepted = f"names that differ by more than case, and from {others}"
            raise NoColumnError(why, accepted=accepted)
        seen[key] = name


def _shape(expression: TypeExpression, registry: Registry, around: tuple[str, ...]) -> ColumnShape:
    if expression.form in ("union", "literal"):
        parts = [part for part in expression.arguments if part.form != "none"]
        if len(parts) != 1:
            raise NoColumnError(f"{expression} is of several types", accepted=_ACCEPTED)
        inner = _shape(parts[0], registry, around)
        return replace(inner, nullable=inner.nullable or len(expression.arguments) > 1)
    if expression.form != "class":
        raise NoColumnError(f"{expression} does not say which values there are", accepted=_ACCEPTED)
    kind = _NAMES.get(expression.name)
    if kind in _CONTAINERS:
        return ColumnShape(kind, element=_shape(_element(expression, kind), registry, around))
    return ColumnShape(kind) if kind in PLAIN else _own(expression, registry, around)


def _element(expression: TypeExpression, kind: str) -> TypeExpression:
    """The type of the elements; of a dict, that of its values."""
    match kind, expression.arguments:
        case "dict", (key, value) if key.name == "builtins.str":
            return value
        case "tuple", (value, rest) if rest.form == "...":
            return value
        case "list" | "set" | "frozenset", (value,):
            return value
        case _:
            raise NoColumnError(f"{expression} has no one type of elements", accepted=_ACCEPTED)


def _own(expression: TypeExpression, registry: Registry, around: tuple[str, ...]) -> ColumnShape:
    described = registry.describe(expression.name, version=expression.version)
    if described is not None and described.kind == "enum":
        members = frozenset(constant.name for constant in described.constants)
        return ColumnShape("enum", name=described.name, members=members)
    if described is None or described.kind not in _WITH_ATTRIBUTES or not described.attributes:
        raise NoColumnError(f"{expression} has no form as columns", accepted=_ACCEPTED)
    return ColumnShape("object", name=described.name, fields=_fields(described, registry, around))


# -- as Spark has it -------------------------------------------------------------------------------


def schema_of(fields: Sequence[Field], where: str) -> StructType:
    """The columns of a table: those of every event, then the attributes."""
    try:
        _check_names([*EVENT_COLUMNS.names, *(field.name for field in fields)])
    except NoColumnError as refusal:
        raise NoSparkTypeError(where, why=refusal.why, accepted=refusal.accepted) from None
    return StructType([*EVENT_COLUMNS.fields, *map(_spark_field, fields)])


def _spark_field(field: Field, *, in_null: bool = False) -> StructField:
    nullable = field.shape.nullable or in_null
    return StructField(field.name, _spark_type(field.shape, in_null=in_null), nullable)


def _spark_type(shape: ColumnShape, *, in_null: bool = False) -> DataType:
    """The type in Spark; `in_null` says that it is part of a struct that may be NULL."""
    if shape.element is not None:  # of an array that is NULL there are no elements
        inner, nullable = _spark_type(shape.element), shape.element.nullable
        if shape.kind == "dict":
            return MapType(StringType(), inner, nullable)
        return ArrayType(inner, nullable)
    in_null = in_null or shape.nullable
    if shape.kind == "object":
        return StructType([_spark_field(field, in_null=in_null) for field in shape.fields])
    kind = spark_type(PLAIN[shape.kind])
    if isinstance(kind, StructType) and in_null:
        return StructType([StructField(field.name, field.dataType) for field in kind])
    return kind
