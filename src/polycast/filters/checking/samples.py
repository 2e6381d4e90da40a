"""What the operators take: Python itself is asked, once, with samples of the built-in types.

An operation that refuses all samples of its operands' types with a TypeError refuses all their
values. The samples are chosen so that one of them is taken wherever any value is.
"""

from __future__ import annotations

import enum
import functools
import itertools
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable


class PlainEnum(enum.Enum):
    """Stands for every enum that has no operators of its own."""

    MEMBER = "member"


SAMPLES: dict[type, tuple[Any, ...]] = {
    NoneType: (None,),
    int: (1,),
    float: (1.0,),
    complex: (1j,),
    str: ("a", "%s"),
    bytes: (b"a", b"%a"),
    list: ([], ["a"]),
    tuple: ((), ("a",)),
    dict: ({}, {"a": 1}),
    set: (set(), {"a"}),
    frozenset: (frozenset(), frozenset({"a"})),
    date: (date(2000, 1, 1),),
    datetime: (datetime(2000, 1, 1), datetime(2000, 1, 1, tzinfo=UTC)),
    time: (time(1), time(1, tzinfo=UTC)),
    timedelta: (timedelta(1),),
    Decimal: (Decimal(1),),
    UUID: (UUID(int=1),),
    PlainEnum: (PlainEnum.MEMBER,),
}


@functools.cache
def results(function: Callable[..., Any], *classes: type) -> frozenset[type] | None:
    """The types of what an operation gives for operands of these types; None: it never does."""
    found: set[type] = set()
    possible = False
    for values in itertools.product(*(SAMPLES[cls] for cls in classes)):
        try:
            found.add(type(function(*values)))
        except Exception as error:
            # A ValueError or ZeroDivisionError is about the value, and so is what derives from
            # TypeError: a trap of Decimal.
            possible = possible or type(error) is not TypeError
    return frozenset(found) if found or possible else None


# What methods of built-in types return, and what their attributes are: owner, result, names.
_RETURNED: tuple[tuple[type, type, str], ...] = (
    (str, str, "lower upper strip lstrip rstrip title capitalize casefold swapcase replace"),
    (str, str, "removeprefix removesuffix join format center ljust rjust zfill expandtabs"),
    (str, bool, "startswith endswith isalpha isdigit isalnum isdecimal isnumeric isspace"),
    (str, bool, "islower isupper istitle isascii isidentifier isprintable"),
    (str, int, "find rfind index rindex count"),
    (str, list, "split rsplit splitlines"),
    (str, bytes, "encode"),
    (bytes, str, "decode hex"),
    (bytes, bytes, "lower upper strip lstrip rstrip replace"),
    (bytes, bool, "startswith endswith"),
    (bytes, int, "find rfind index rindex count"),
    (list, int, "count index"),
    (tuple, int, "count index"),
    (int, int, "bit_length bit_count"),
    (float, bool, "is_integer"),
    (date, int, "weekday isoweekday toordinal"),
    (date, str, "isoformat strftime ctime"),
    (datetime, date, "date"),
    (datetime, time, "time timetz"),
    (datetime, int, "weekday isoweekday toordinal"),
    (datetime, str, "isoformat strftime ctime"),
    (datetime, float, "timestamp"),
    (time, str, "isoformat strftime"),
    (timedelta, float, "total_seconds"),
    (Decimal, bool, "is_nan is_finite is_infinite is_zero is_signed"),
)
_ATTRIBUTES: tuple[tuple[type, type, str], ...] = (
    (date, int, "year month day"),
    (datetime, int, "year month day hour minute second microsecond fold"),
    (time, int, "hour minute second microsecond fold"),
    (timedelta, int, "days seconds microseconds"),
    (UUID, int, "int time node"),
    (UUID, str, "hex urn"),
    (UUID, bytes, "bytes"),
)


def _table(rows: tuple[tuple[type, type, str], ...]) -> dict[tuple[type, str], type]:
    return {(owner, name): result for owner, result, names in rows for name in names.split()}


_returned, _attributes = _table(_RETURNED), _table(_ATTRIBUTES)


def returned_type(cls: type, method: str) -> type | None:
    """What a method of a built-in type returns, as far as it is in the table."""
    return _returned.get((cls, method))


def attribute_type(cls: type, name: str) -> type | None:
    """What an attribute of a built-in type is, as far as it is in the table."""
    return _attributes.get((cls, name))
