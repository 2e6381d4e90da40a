"""JSON text to data without loss: no name twice, no NaN, and decimal fractions with all digits."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

__all__ = ["NotJson", "parsed", "place_in"]

_BEFORE = 40  # characters


class NotJson(Exception):
    """Text that is no JSON, or that says two things at once."""


def parsed(text: bytes) -> Any:
    """The data; numbers with a fraction or an exponent are `Decimal`."""
    try:
        data = _READER.decode(text.decode())
        _STRICTER.decode(text)  # about text; whether a number fits is for its field to say
    except json.JSONDecodeError as error:
        raise NotJson(_pointed(error)) from None
    except (msgspec.DecodeError, ValueError, InvalidOperation) as error:
        raise NotJson(str(error)) from None
    return data


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
    found: dict[str, Any] = {}
    for name, value in pairs:
        if type(value) is str and not _is_text(value):
            raise NotJson(f"{name}: half of a surrogate pair, such as \\ud800, is no text")
        if name in found:
            raise NotJson(f"the name {name!r} is there twice in one object")
        found[name] = value
    return found


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(name: str) -> Any:
    raise NotJson(f"it is no JSON: {name} is no number there")


_STRICTER = msgspec.json.Decoder(float_hook=Decimal)
_READER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_refuse)
