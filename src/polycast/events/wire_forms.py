"""The forms of built-in values on the wire, and the marks for all other values.

A value whose class the declared type determines has its *natural* form: a number, a string, an
array, an object of its fields. Any other value is *marked*: `{"$": class name, ...}`.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import types
import uuid
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from polycast.typesystem import wire_name
from polycast.typesystem.standard_types import VALUES

if TYPE_CHECKING:
    from collections.abc import Callable

    Form = Literal["json", "msgpack"]

CLASS, VERSION, VALUE = "$", "$version", "$value"
"""The marks: the class of a value, its version if it is not 1, and a value that has no fields."""
FIELDS_SET, PRIVATE = "$set", "$private"
"""What pydantic models have besides their fields."""
INHERITED = "$inherited"
"""The attributes that an object inherits from its class without having set them."""
EXTRAS = frozenset((FIELDS_SET, PRIVATE, INHERITED))


_LEAST, _MOST = -(2**63), 2**64 - 1  # the integers that MessagePack has
_LONGEST = 2_000  # bits that JSON gives as a number, whatever limit Python has for digits


class UnencodableError(Exception):
    """A value that no codec can encode; its path grows as the error propagates."""

    def __init__(self, value: object, why: str) -> None:
        self.value, self.why = value, why
        self.path: list[str] = []


class Malformed(Exception):
    """Data that decodes to no value."""


SCALARS: dict[str, type] = {
    wire_name(cls): cls
    for cls in (types.NoneType, bool, int, float, str, bytes, *VALUES, msgspec.UnsetType)
}
CONTAINERS: dict[str, type] = {wire_name(cls): cls for cls in (list, tuple, set, frozenset, dict)}


def fits_natively(value: object, form: Form) -> bool:
    """Whether the codec restores exactly this value without a mark."""
    cls = type(value)
    if cls is str:
        return value.isascii() or _checked_text(value)  # type: ignore[attr-defined]
    if cls is int:
        if form == "json":
            return int.bit_length(value) <= _LONGEST  # type: ignore[arg-type]
        return _LEAST <= value <= _MOST  # type: ignore[operator]
    if cls is float:
        return form == "msgpack" or math.isfinite(value)  # type: ignore[arg-type]
    return value is None or cls is bool or (cls is bytes and form == "msgpack")


def lower_scalar(value: Any, form: Form) -> Any:
    """Encode a built-in value of a class that the reader knows."""
    if fits_natively(value, form):
        return value
    return _LOWER[type(value)](value)


def lift_scalar(cls: type, data: Any) -> Any:
    """Decode a built-in value of a class."""
    if type(data) is cls and cls in _NATIVE:
        return data
    if cls is float and type(data) is int:
        return float(data)
    lift = _LIFT.get(cls)
    if lift is None or (type(data) is not str and cls is not datetime.timedelta):
        raise Malformed(f"{data!r} is no {cls.__name__}")
    return lift(data)


_NATIVE = frozenset((types.NoneType, bool, int, float, str, bytes))


def _checked_text(value: Any) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnencodableError(
            value, "it has half of a surrogate pair, which UTF-8 does not"
        ) from None
    return True


def lower_moment(value: datetime.datetime | datetime.time) -> str:
    """Format as ISO 8601, like msgspec."""
    if value.tzinfo is not None and value.utcoffset() is None:
        raise UnencodableError(value, "its time zone gives it no offset")
    text = value.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def _lift_duration(data: Any) -> datetime.timedelta:
    days, seconds, microseconds = data
    return datetime.timedelta(days, seconds, microseconds)


_LOWER: dict[type, Callable[[Any], Any]] = {
    int: hex,
    float: repr,
    bytes: lambda value: base64.b64encode(value).decode("ascii"),
    datetime.datetime: lower_moment,
    datetime.date: datetime.date.isoformat,
    datetime.time: lower_moment,
    datetime.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    decimal.Decimal: str,
    uuid.UUID: str,
    msgspec.UnsetType: lambda _: "unset",
}
_LIFT: dict[type, Callable[[Any], Any]] = {
    int: lambda data: int(data, 16),
    float: float,
    bytes: lambda data: base64.b64decode(data, validate=True),
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    datetime.timedelta: _lift_duration,
    decimal.Decimal: decimal.Decimal,
    uuid.UUID: uuid.UUID,
    msgspec.UnsetType: lambda _: msgspec.UNSET,
}
