"""Which values of events may be looked up among the constants of strict comparisons.

Others do not compare, so that nothing is true of them; values that compare in their own way raise
`Unindexable`.
"""

from __future__ import annotations

import decimal
import enum
from typing import Any

from polycast.filters.normal_form.ordered_domains import (
    ABSENT,
    SMALL,
    Domain,
    Unindexable,
    is_comparable,
)
from polycast.filters.tree import nodes


class _Strict(Domain):
    """Values that compare with each other and with nothing else; not those of an enumeration."""

    def coerce(self, value: Any) -> Any:
        kind = type(value)
        if kind in self.exact and (self._usable is None or self._usable(value)):
            return value
        if kind in self.never or issubclass(kind, enum.Enum):
            return ABSENT
        raise Unindexable


class _Labels(_Strict):
    """Members of enumerations, by their names."""

    def coerce(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return value.name if type(value.name) is str else ABSENT
        return super().coerce(value)


class _Characters(_Strict):
    """Texts, and the numbers of characters as these characters."""

    def coerce(self, value: Any) -> Any:
        if type(value) not in (int, float, bool):
            return super().coerce(value)
        whole = value == value and abs(value) <= 0x10FFFF and value == int(value)
        return chr(int(value)) if whole and value >= 0 else ""  # nothing that is one character


NUMBERS, BIG_NUMBERS = (
    _Strict(
        name,
        (int, float, bool, decimal.Decimal),
        fast=(float, int),
        strange=(decimal.Decimal,),
        numeric=True,
        usable=is_comparable,
    )
    for name in ("strict number", "strict big number")
)
TEXTS = _Strict("strict text", (str,))
BOOLEANS = _Strict("strict boolean", (bool,))
CHARACTERS = _Characters("character", (str,), strange=(decimal.Decimal,))
LABELS = _Labels("label", (), fast=())


def constant_of(node: nodes.Node) -> tuple[Domain, Any] | None:
    """The domain of a literal, and the literal as it stands there; None if there is none."""
    match node:
        case nodes.Constant(value) if type(value) is str:
            return TEXTS, value
        case nodes.Constant(value) if type(value) in (bool, int, float) and value == value:
            big = type(value) is int and abs(value) > SMALL
            return (BIG_NUMBERS if big else NUMBERS), value
        case nodes.Applied("etcl", "character", (nodes.Constant(value),)):
            return (CHARACTERS, value) if type(value) is str and len(value) == 1 else None
        case nodes.Applied("etcl", "label", (nodes.Constant(value),)):
            return (LABELS, value) if type(value) is str else None
    return None
