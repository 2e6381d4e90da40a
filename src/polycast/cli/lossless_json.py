"""JSON text to data without loss, and single values as people write them, and nothing looser.

A number that no type can hold stays text until its field is known, so that the error can name it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from types import NoneType
from typing import Any

import msgspec

from polycast.events.wire_forms import CLASS, VALUE, fits_natively, lower_scalar
from polycast.typesystem import wire_name

_BEFORE = 40  # characters


class NotJson(Exception):
    """Text that is no JSON, or that says two things at once."""


class Unheld(str):
    """A number with more digits, or a larger exponent, than any number of a program."""

    __slots__ = ()


def parsed(text: bytes) -> Any:
    """The data; numbers with a fraction or an exponent are `Decimal`."""
    try:
        return _READER.decode(text.decode())
    except json.JSONDecodeError as error:
        raise NotJson(_pointed(error)) from None
    except ValueError as error:
        raise NotJson(str(error)) from None


def why_unheld(data: Any) -> str:
    """Why nothing can hold a value or the name of one; nothing if something can."""
    if type(data) is Unheld:
        return "a number of this length, or with this exponent, is more than is accepted"
    if type(data) is str and not _is_text(data):
        return "half of a surrogate pair, such as \\ud800, is no text"
    return ""


def place_in(text: bytes) -> str:
    """Where text stops to be JSON; nothing if it is JSON."""
    try:
        parsed(text)
    except (NotJson, RecursionError) as error:
        return str(error)
    return ""


def _pointed(error: json.JSONDecodeError) -> str:
    lines = error.doc.split("\n")
    place = f"line {error.lineno}, " if len(lines) > 1 else ""
    said = f"it is no JSON at {place}column {error.colno}: {error.msg}"
    line, at = lines[error.lineno - 1], error.colno - 1
    begin = max(0, at - _BEFORE)  # of a long line, what is around the mistake
    shown = line[begin : at + _BEFORE].replace("\t", " ")
    return f"{said}\n  {shown}\n  {' ' * (at - begin)}^"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in pairs:
        if name in data:
            raise NotJson(f"the name {name!r} is there twice in one object")
        data[name] = value
    return data


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(name: str) -> Any:
    raise NotJson(f"it is no JSON: {name} is no number there")


def _number(kind: type, text: str) -> Any:
    try:
        return kind(text)
    except (ValueError, InvalidOperation):  # too many digits for an int, too large an exponent
        return Unheld(text)


_READER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=partial(_number, int),
    parse_float=partial(_number, Decimal),
    parse_constant=_refuse,
)


# -- single values ---------------------------------------------------------------------------------

ACCEPTED: dict[type, str] = {
    NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number that a float can hold",
    str: "a string",
    bytes: "a string of base64",
    datetime: "a string such as 2030-12-31T08:00:00, and Z or an offset if it has one",
    date: "a string such as 2030-12-31",
    time: "a string such as 08:00:00",
    timedelta: "an array of three whole numbers: days, seconds, microseconds",
    Decimal: "a number, or one in a string",
    uuid.UUID: "a string such as 12345678-1234-5678-1234-567812345678",
    msgspec.UnsetType: 'the string "unset"',
}
"""What is accepted for a class, in words."""

_CLOCK = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?"
_DAY = r"\d{4}-\d\d-\d\d"
_PATTERNS: dict[type, re.Pattern[str]] = {
    date: re.compile(_DAY, re.ASCII),
    time: re.compile(_CLOCK, re.ASCII),
    datetime: re.compile(f"{_DAY}T{_CLOCK}", re.ASCII),
    uuid.UUID: re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE),
    Decimal: re.compile(r"-?(\d+(\.\d+)?([eE][+-]?\d+)?|Infinity|s?NaN\d*)", re.ASCII),
}


def is_scalar(cls: type, data: Any) -> bool:
    """Whether JSON says a value of that class outright, as a string says a str."""
    if cls is float:
        return type(data) in (Decimal, float)
    return cls in (NoneType, bool, int, str) and type(data) is cls


def scalar_of(cls: type, data: Any, *, marked: bool = False) -> Any:
    """The value that is given for a class; `ValueError` if it is of another JSON kind.

    What stands under a mark may also be a number that JSON does not have.
    """
    if marked and type(data) is str and cls in _MARKED:
        pattern, read = _MARKED[cls]
        if not pattern.fullmatch(data):
            raise ValueError(data)
        return read(data)
    if cls in _READ:
        return _READ[cls](data)
    if type(data) is not cls:
        raise ValueError(data)
    return data


def wire_form(value: Any, *, marked: bool) -> Any:
    """The form in which the codec takes a value; marked if its field may be of another class."""
    if marked or not (type(value) in _PLAIN and fits_natively(value, "json")):
        return {CLASS: wire_name(type(value)), VALUE: lower_scalar(value, "json")}
    return value


_PLAIN = frozenset((NoneType, bool, int, float, str))


def _float(data: Any) -> float:
    if type(data) not in (int, float, Decimal):
        raise ValueError(data)
    try:
        value = float(data)
    except OverflowError:
        raise ValueError(data) from None
    if not math.isfinite(value) or (value == 0 and data != 0):
        raise ValueError(data)
    if type(data) is int and Decimal(repr(value)) != data:  # some of its digits would be lost
        raise ValueError(data)
    return value


def _decimal(data: Any) -> Decimal:
    if type(data) in (int, Decimal):
        return Decimal(data)
    try:
        return Decimal(_text(Decimal, data))
    except InvalidOperation:
        raise ValueError(data) from None


def _bytes(data: Any) -> bytes:
    if type(data) is not str:
        raise ValueError(data)
    try:
        value = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise ValueError(data) from None
    if base64.b64encode(value).decode() != data:  # bits that would be dropped
        raise ValueError(data)
    return value


def _duration(data: Any) -> timedelta:
    if type(data) is not list or len(data) != 3 or any(type(part) is not int for part in data):
        raise ValueError(data)
    try:
        return timedelta(*data)
    except OverflowError:
        raise ValueError(data) from None


def _unset(data: Any) -> Any:
    if data != "unset":
        raise ValueError(data)
    return msgspec.UNSET


def _text(cls: type, data: Any) -> str:
    if type(data) is not str or not _PATTERNS[cls].fullmatch(data):
        raise ValueError(data)
    return data


_READ: dict[type, Callable[[Any], Any]] = {
    float: _float,
    bytes: _bytes,
    datetime: lambda data: datetime.fromisoformat(_text(datetime, data)),
    date: lambda data: date.fromisoformat(_text(date, data)),
    time: lambda data: time.fromisoformat(_text(time, data)),
    timedelta: _duration,
    Decimal: _decimal,
    uuid.UUID: lambda data: uuid.UUID(_text(uuid.UUID, data)),
    msgspec.UnsetType: _unset,
}


_MARKED: dict[type, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    float: (re.compile("-?inf|nan"), float),
    int: (re.compile(r"-?0x[0-9a-f]+", re.ASCII), lambda text: int(text, 16)),
}
