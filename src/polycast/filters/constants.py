"""Which values may stand in a filter as constants: plain data, copied."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid

__all__ = ["constant"]

SCALARS = (
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    datetime.date,
    datetime.time,
    datetime.datetime,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


def constant(value: object) -> object:
    """The value as a constant, containers copied; TypeError if it is no plain data."""
    if type(value) in SCALARS or isinstance(value, enum.Enum):
        return value
    kind = type(value)
    if kind in (tuple, list, set, frozenset):
        return kind([constant(each) for each in value])  # type: ignore[attr-defined]
    raise TypeError(f"a {kind.__name__} is no constant")
