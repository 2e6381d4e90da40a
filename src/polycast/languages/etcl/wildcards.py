"""Names of domains and of types of structured events, with `*` for any characters."""

from __future__ import annotations

__all__ = ["fits"]


def fits(name: str, pattern: str, /) -> bool:
    """Whether a name is one that a pattern means: `*` is any characters, also none."""
    if not isinstance(name, str):
        raise TypeError("a name is a text")
    first, *middle, last = pattern.split("*") if "*" in pattern else (pattern, "")
    if "*" not in pattern:
        return name == pattern
    if len(name) < len(first) + len(last) or not name.startswith(first):
        return False
    if not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:  # the earliest place leaves most for the others
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
