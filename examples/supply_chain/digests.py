"""What is in an event, as text and as a number, to compare what came with what should have come."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import cache
from hashlib import blake2b
from typing import Any

EVERY = 8  # one of so many events is compared attribute by attribute, wherever it is delivered


@cache
def names_in(cls: type) -> tuple[str, ...]:
    """The attributes of a class."""
    return tuple(field.name for field in fields(cls))


def in_words(value: Any) -> str:
    """All that is in an event, as text; the same for numbers that differ by rounding alone.

    When it was sent is left out: the recount cannot know that.
    """
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, list | tuple):
        return f"[{','.join(map(in_words, value))}]"
    if is_dataclass(value):
        parts = (f"{n}={in_words(getattr(value, n))}" for n in names_in(type(value)) if n != "sent")
        return f"{type(value).__name__}({','.join(parts)})"
    if value is None or isinstance(value, str | int | Decimal | date):
        return str(value)
    raise TypeError(f"no event has a {type(value).__name__} in it")


def digest(event: Any) -> int:
    """A short number for all that is in an event."""
    made = blake2b(in_words(event).encode(), digest_size=8).digest()
    return int.from_bytes(made, "big", signed=True)


def picture(event: Any) -> dict[str, str]:
    """An event for a person: its attributes, and those of the first thing that is in it."""
    found = {"": type(event).__name__}
    for name in names_in(type(event)):
        value = getattr(event, name)
        if name == "items":
            found["spec"] = _for_a_person(value[0].spec)
        elif name != "sent":
            found[name] = _for_a_person(value)
    return found


def _for_a_person(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_for_a_person, value))})"
    if is_dataclass(value):
        parts = (_for_a_person(getattr(value, name)) for name in names_in(type(value)))
        return f"{type(value).__name__}({', '.join(parts)})"
    return str(value)
