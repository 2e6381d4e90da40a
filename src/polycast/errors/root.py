"""The root of all errors, and how they show what was given."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from polycast.plain_text import plain_lines

__all__ = ["PolycastError", "code_of", "did_you_mean", "listed", "shown"]

_GROUPS = {
    *("PolycastError", "FilterError", "StoreError", "BrokerError", "PipelineError"),
    *("ContextError", "AccessError"),
}  # a kind of thing alone would be no code


class PolycastError(Exception):
    """The root of all errors. Its text is escaped, so that no terminal interprets it."""

    def __str__(self) -> str:
        return plain_lines(super().__str__())


def shown(value: object) -> str:
    """Return a short text for a value."""
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    try:
        text = repr(value)
    except Exception:  # a failing repr() must not hide the error
        text = object.__repr__(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def code_of(kind: type[BaseException]) -> str:
    """Return the code of a kind of error: `store-failed` for `StoreFailedError`."""
    words = re.findall("[A-Z][a-z]*", kind.__name__)
    is_group = kind.__name__ in _GROUPS
    kept = words[:-1] if words[-1] == "Error" and not is_group else words
    return "-".join(kept).lower()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the nearest of the known words; nothing if none is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str]) -> str:
    """Join names with commas."""
    return ", ".join(names)
