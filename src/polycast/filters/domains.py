"""Ordered kinds of constants, and which values may be looked up among them.

A look-up by hash or by order gives Python's own verdict only for values of exact built-in types.
Any other value is wrapped, so that a comparison with it asks the value itself.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
import zoneinfo
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ABSENT", "Careful", "Domain", "Unsure", "domain_of", "loose"]


class Unsure(Exception):
    """A comparison raised where the order of evaluation matters: ask each filter instead."""


class _Absent:
    """Stands for a value that satisfies no comparison: it is missing, or of another kind."""

    __slots__ = ()

    def _no(self, other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _no
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return False


ABSENT: Any = _Absent()


class Careful:
    """A value of some other class. What fails is not true; `==` is also asked by `in`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: object) -> bool:
        try:
            return bool(self.value < other)
        except Exception:
            return False

    def __le__(self, other: object) -> bool:
        try:
            return bool(self.value <= other)
        except Exception:
            return False

    def __gt__(self, other: object) -> bool:
        try:
            return bool(self.value > other)
        except Exception:
            return False

    def __ge__(self, other: object) -> bool:
        try:
            return bool(self.value >= other)
        except Exception:
            return False

    def __ne__(self, other: object) -> bool:
        if other is self:
            return False
        try:
            return bool(self.value != other)
        except Exception:
            return False

    def __eq__(self, other: object) -> bool:
        if other is self:  # a value that can be looked up equals itself, and this cannot
            return False
        try:
            return bool(self.value == other)
        except Exception as error:
            raise Unsure from error

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except Exception as error:
            raise Unsure from error

    def __bool__(self) -> bool:
        try:
            return bool(self.value)
        except Exception as error:
            raise Unsure from error


# Values of these classes never equal a constant of a domain that does not name them, and cannot
# be ordered against it.
PLAIN = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        bytearray,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
        list,
        tuple,
        dict,
        set,
        frozenset,
        _Absent,
    }
)
BUILT_IN = tuple(PLAIN - {type(None), _Absent})
ASKED = (
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"),
    *("__hash__", "__bool__", "__len__", "startswith"),
)


class Domain:
    """Constants that are ordered among themselves, and equal only what is of their own kind."""

    def __init__(
        self,
        name: str,
        exact: tuple[type, ...],
        *,
        fast: tuple[type, ...] | None = None,
        strange: tuple[type, ...] = (),
        ordered: bool = True,
        usable: Callable[[Any], bool] | None = None,
    ) -> None:
        self.name, self.ordered = name, ordered
        self.exact = frozenset(exact)
        self.fast = exact if fast is None else fast  # of these classes, every value can be used
        self._never = PLAIN - self.exact - frozenset(strange)
        self._usable = usable

    def coerce(self, value: Any) -> Any:
        """The value to look up: itself, ABSENT if it cannot be meant, else wrapped."""
        kind = type(value)
        if kind in self.exact:
            return value if self._usable is None or self._usable(value) else ABSENT
        if kind in self._never:
            return ABSENT
        if issubclass(kind, BUILT_IN) and kind not in PLAIN:
            return self.coerce(_plain(value))
        return Careful(value)

    def place(self, value: Any) -> Any:
        """What values are sorted by; members of an enum are singletons."""
        return value if self.ordered else id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and (self.name, self.exact) == (other.name, other.exact)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Domain({self.name})"


# -- subclasses of built-in classes ----------------------------------------------------------------

_PLAIN_VALUE: dict[type, Callable[[Any], Any]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__add__(value, 0.0),
    str: lambda value: str.__getitem__(value, slice(None)),
}
_bases: WeakKeyDictionary[type, type | None] = WeakKeyDictionary()


def _plain(value: Any) -> Any:
    """The built-in value of an instance that compares just as that does (IntEnum, StrEnum).

    If it compares in its own way, `3 < x` and `x > 3` may ask different sides.
    """
    kind = type(value)
    if kind not in _bases:
        _bases[kind] = next((base for base in _PLAIN_VALUE if _behaves_as(base, kind)), None)
    base = _bases[kind]
    if base is None:
        raise Unsure
    return _PLAIN_VALUE[base](value)


def _behaves_as(base: type, kind: type) -> bool:
    return issubclass(kind, base) and all(
        getattr(kind, name, None) is getattr(base, name, None) for name in ASKED
    )


# -- the domains -----------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return type(value) is int or not value.is_nan()


NUMBERS = Domain(
    "number",
    (int, float, bool),
    fast=(float, int),
    strange=(decimal.Decimal,),
)
TEXTS = Domain("text", (str,))
BYTES = Domain("bytes", (bytes,), strange=(bytearray,))
DATES = Domain("date", (datetime.date,))
DURATIONS = Domain("duration", (datetime.timedelta,))
UUIDS = Domain("uuid", (uuid.UUID,))
DECIMALS = Domain(
    "decimal",
    (decimal.Decimal, int),
    fast=(int,),
    strange=(bool, float),
    usable=_is_number,
)


class _Times(Domain):
    """Times without a zone. Those with one are not ordered: their comparison asks the zones."""

    def coerce(self, value: Any) -> Any:
        if type(value) is datetime.datetime and value.tzinfo is not None:
            known = type(value.tzinfo) in (datetime.timezone, zoneinfo.ZoneInfo)
            return ABSENT if known else Careful(value)
        return super().coerce(value)


TIMES = _Times("time", (datetime.datetime,), fast=())

_BY_CLASS: dict[type, Domain] = {
    bool: NUMBERS,
    int: NUMBERS,
    float: NUMBERS,
    str: TEXTS,
    bytes: BYTES,
    datetime.date: DATES,
    datetime.datetime: TIMES,
    datetime.timedelta: DURATIONS,
    decimal.Decimal: DECIMALS,
    uuid.UUID: UUIDS,
}


def domain_of(constant: Any) -> tuple[Domain, Any] | None:
    """The domain of a constant, and the constant as it stands there; None if it has none."""
    kind = type(constant)
    domain = _BY_CLASS.get(kind)
    if domain is None:
        return _of_subclass(constant)
    if domain is TIMES and constant.tzinfo is not None:
        return None
    return (domain, constant) if _equals_itself(constant) else None


def _equals_itself(constant: Any) -> bool:
    """NaN is never looked up."""
    return not constant.is_nan() if type(constant) is decimal.Decimal else constant == constant


def _of_subclass(constant: Any) -> tuple[Domain, Any] | None:
    kind = type(constant)
    if not isinstance(constant, enum.Enum):
        return None
    if issubclass(kind, BUILT_IN):
        try:
            return domain_of(_plain(constant))
        except Unsure:
            return None
    if any(getattr(kind, name) is not getattr(enum.Enum, name) for name in ("__eq__", "__hash__")):
        return None
    return Domain(f"enum {kind.__qualname__}", (kind,), ordered=False), constant


def loose(value: Any) -> Any:
    """A value to ask for its truth and for `!=`: itself if that cannot fail, else wrapped."""
    kind = type(value)
    if kind in PLAIN:
        return value
    return _plain(value) if issubclass(kind, BUILT_IN) else Careful(value)
