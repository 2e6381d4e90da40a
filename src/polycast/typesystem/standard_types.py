"""The classes every Python process has: known by name everywhere, never made, never clashing."""

from __future__ import annotations

import abc
import builtins
import collections.abc
import datetime
import decimal
import enum
import numbers
import sys
import typing
import uuid

import msgspec
import typing_extensions

_MODULES = (builtins, collections.abc, numbers, enum)
VALUES: tuple[type, ...] = (
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


_PUBLIC = [
    value
    for module in _MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) and name[0] != "_"
]
STANDARD: dict[str, type] = {
    f"{cls.__module__}.{cls.__qualname__}": cls for cls in (*VALUES, type(None), *_PUBLIC)
}
_LIBRARY = sys.stdlib_module_names - {"__main__"}
_STANDARD_CLASSES = frozenset(STANDARD.values())

UNTYPED: frozenset[object] = frozenset(
    {abc.ABC, typing.Generic, typing.Protocol, typing_extensions.Protocol}
)
"""What no object is of, as far as events go: descriptions do not mention them."""
MACHINERY: frozenset[object] = UNTYPED | {object, *msgspec.Struct.__mro__}


def is_standard(cls: type) -> bool:
    """Whether a class belongs to the language itself."""
    return cls in _STANDARD_CLASSES


def is_machinery(cls: type) -> bool:
    """Whether a class only makes other classes work, and is no event type of its own."""
    return cls in MACHINERY or (cls.__module__, cls.__name__) == ("pydantic.main", "BaseModel")


def is_standard_library(cls: type) -> bool:
    """Whether a class comes with Python; of some that compiled modules make, nobody can tell."""
    module: object = cls.__module__
    return not isinstance(module, str) or module.partition(".")[0] in _LIBRARY
