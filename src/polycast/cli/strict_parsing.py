"""JSON text to data without loss: no name twice, no NaN, and decimal fractions with all digits."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

__all__ = ["NotJson", "parsed"]


class NotJson(Exception):
    """Text that is no JSON, or that says two things at once."""


def parsed(text: bytes) -> Any:
    """The data; numbers with a fraction or an exponent are `Decimal`."""
    try:
        data = _READER.decode(text.decode())
        msgspec.json.decode(text)  # the stricter of the two, about text
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if b"\n" in text else ""
        raise NotJson(f"it is no JSON at {line}column {error.colno}: {error.msg}") from None
    except (msgspec.DecodeError, ValueError, InvalidOperation) as error:
        raise NotJson(str(error)) from None
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise NotJson(f"the name {name!r} is there twice in one object")
        found[name] = value
    return found


def _refuse(name: str) -> Any:
    raise NotJson(f"it is no JSON: {name} is no number there")


_READER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_refuse)
