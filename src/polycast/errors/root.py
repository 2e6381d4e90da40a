"""The root of all errors, and how they show what was given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from polycast.plain_text import plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "PolycastError",
    "code_of",
    "listed",
    "shown",
]


class PolycastError(Exception):
    """The root of all errors. What came from outside is told so that no terminal obeys it."""

    def __str__(self) -> str:
        return plain_lines(super().__str__())


# -- types and the wire ------------------------------------------------------------------------


def shown(value: object) -> str:
    """What was given, as short as it can be said."""
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    try:
        text = repr(value)
    except Exception:  # an error must be told even of a value that cannot say what it is
        text = object.__repr__(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def code_of(kind: type[BaseException]) -> str:
    """The code that stands for a kind of error: `store-failed` for `StoreFailedError`."""
    words = re.findall("[A-Z][a-z]*", kind.__name__)
    kept = words[:-1] if words[-1] == "Error" and len(words) > 2 else words
    return "-".join(kept).lower()


def listed(names: Iterable[str]) -> str:
    """Names in a row."""
    return ", ".join(names)
