"""JSON text to data without loss: no name twice, no NaN, and decimal fractions with all digits.

A number that no type can hold stays text until its field is known, so that the error can name it.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

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
