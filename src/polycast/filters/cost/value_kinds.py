"""What a value may be, as far as that decides what an operator costs."""

from __future__ import annotations

import datetime
import decimal
import enum
from typing import TYPE_CHECKING, Any

from polycast.typesystem.type_expressions import ANY

if TYPE_CHECKING:
    from polycast.typesystem import Description
    from polycast.typesystem.type_expressions import TypeExpression


class ValueKind(enum.IntFlag):
    """Some of these."""

    INT = 1  # of any size
    REAL = 2  # float and timedelta: what neither is repeated nor repeats
    DECIMAL = 4
    TEXT = 8  # str and bytes
    LIST = 16  # list and tuple
    OTHER = 32
    UNKNOWN = 64  # no type was given: whoever runs the filter knows the class, and judges again


INT, REAL, DECIMAL, TEXT, LIST = (
    ValueKind.INT,
    ValueKind.REAL,
    ValueKind.DECIMAL,
    ValueKind.TEXT,
    ValueKind.LIST,
)
OTHER, UNKNOWN = ValueKind.OTHER, ValueKind.UNKNOWN
ALL = INT | REAL | DECIMAL | TEXT | LIST | OTHER

_CLASSES: dict[str, ValueKind] = {
    "builtins.int": INT,
    "builtins.bool": INT,
    "builtins.float": REAL | INT,  # an int is as good as a float
    "builtins.str": TEXT,
    "builtins.bytes": TEXT,
    "builtins.list": LIST,
    "builtins.tuple": LIST,
    "builtins.dict": OTHER,
    "builtins.set": OTHER,
    "builtins.frozenset": OTHER,
    "decimal.Decimal": DECIMAL,
    "datetime.timedelta": REAL,
    "datetime.datetime": OTHER,
    "datetime.date": OTHER,
    "datetime.time": OTHER,
    "uuid.UUID": OTHER,
}
_SMALL = frozenset(
    {
        *("builtins.bool", "datetime.timedelta", "datetime.datetime", "datetime.date"),
        *("datetime.time", "uuid.UUID"),
    }
)
_VALUES: dict[type, ValueKind] = {
    bool: INT,
    int: INT,
    float: REAL,
    datetime.timedelta: REAL,
    decimal.Decimal: DECIMAL,
    str: TEXT,
    bytes: TEXT,
    list: LIST,
    tuple: LIST,
}


def kind_of_value(value: object) -> ValueKind:
    """Of a constant; a member of an enumeration may be anything besides."""
    return _VALUES.get(type(value), ALL if isinstance(value, enum.Enum) else OTHER)


def kind_of_type(declared: TypeExpression | None) -> ValueKind:
    """Of a field that was declared so; decoding has seen to it that it is so."""
    if declared is None:
        return ALL
    if declared.form == "none":
        return OTHER
    if declared.form == "union":
        found = ValueKind(0)
        for argument in declared.arguments:
            found |= kind_of_type(argument)
        return found or ALL
    return _CLASSES.get(declared.name, ALL) if declared.form == "class" else ALL


def is_small(declared: TypeExpression | None) -> bool:
    """Whether a value of it is of a few bytes, whatever the event."""
    return declared is not None and declared.form == "class" and declared.name in _SMALL


def element_of(declared: TypeExpression | None) -> TypeExpression | None:
    """What iterating over a list, or a subscript of it, gives."""
    listed = declared is not None and declared.name in ("builtins.list", "builtins.set")
    if declared is None or not listed or len(declared.arguments) != 1:
        return None
    return declared.arguments[0]


def type_of_attribute(description: Description | None, name: str) -> TypeExpression | None:
    """What a field was declared as; None if it is not one."""
    fields: tuple[Any, ...] = () if description is None else description.attributes
    found: list[TypeExpression] = [field.type for field in fields if field.name == name]
    return found[0] if found and found[0] != ANY else None
