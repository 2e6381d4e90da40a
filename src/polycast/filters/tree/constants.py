"""Which values may stand in a filter as constants: plain data, copied."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
import zoneinfo
from typing import Any

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


ZONED = (datetime.datetime, datetime.time)
ZONES = (type(None), datetime.timezone, zoneinfo.ZoneInfo)


def constant(value: object) -> object:
    """The value as a constant, containers copied; TypeError if it is no plain data."""
    kind = type(value)
    if kind in ZONED and type(value.tzinfo) not in ZONES:  # type: ignore[attr-defined]
        raise TypeError(f"the zone {value.tzinfo!r} is no constant")  # type: ignore[attr-defined]
    if kind in SCALARS or isinstance(value, enum.Enum):
        return value
    if kind in (tuple, list, set, frozenset):
        elements: list[Any] = [constant(element) for element in value]  # type: ignore[attr-defined]
        if any(type(element) is float and element != element for element in elements):
            raise TypeError("a NaN in a container is found by its identity")
        return kind(elements)
    raise TypeError(f"a {kind.__name__} is no constant")
