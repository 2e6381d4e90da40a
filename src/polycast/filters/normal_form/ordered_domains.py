"""Ordered kinds of constants, and which values may be looked up among them.

A look-up by hash or by order gives Python's own verdict only for values of exact built-in types.
For an event with any other value, the filters themselves are asked.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
import zoneinfo
from collections.abc import Callable, Collection
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from polycast.filters.tree.nodes import SCALARS
from polycast.runtime import shared_lock


class Unindexable(Exception):
    """Raised for a value that cannot be looked up, because its class decides how it compares."""


class _Unordered:
    """Stands for a value that satisfies no comparison: it is missing, or of another kind."""

    __slots__ = ()

    def _no(self, other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _no
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return False


ABSENT: Any = _Unordered()


# Values of these classes never equal a constant of a domain that does not name them, and cannot
# be ordered against it.
PLAIN = frozenset({*SCALARS, bytearray, list, tuple, dict, set, frozenset, _Unordered})
BUILT_IN = tuple(PLAIN - {type(None), _Unordered})
ASKED = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__hash__", "__bool__")
TEXT_ONLY = ("__len__", "startswith")
EQUALITY = ("__eq__", "__ne__", "__hash__")
WIDE = 2**60  # ints up to it have a hash of their own
DIGITS = 18  # of Decimals, that few others share their hash with
SMALL = 2**53  # ints that a double holds exactly, and so do all below


class Domain:
    """A set of constants with an order, which equal only values of their own kind.

    There is one object for each; those of enums are made when they are needed.
    """

    def __init__(
        self,
        name: str,
        exact: tuple[type, ...],
        *,
        fast: tuple[type, ...] | None = None,
        strange: tuple[type, ...] = (),
        ordered: bool = True,
        numeric: bool = False,
        usable: Callable[[Any], bool] | None = None,
    ) -> None:
        self.name, self.ordered, self.numeric = name, ordered, numeric
        self.exact = frozenset(exact)
        self.fast = exact if fast is None else fast  # of these classes, every value can be used
        # No constant of the domain equals a value of one of these classes.
        self.never = PLAIN - self.exact - frozenset(strange)
        self._usable = usable

    def coerce(self, value: Any) -> Any:
        """The value to look up: itself, or ABSENT if no constant equals it; else Unindexable."""
        kind = type(value)
        if kind in self.exact:
            return value if self._usable is None or self._usable(value) else ABSENT
        if kind in self.never or is_plain_enum(kind):
            return ABSENT
        if kind not in PLAIN:
            return self.coerce(_plain(value, self))
        raise Unindexable

    def place(self, value: Any) -> Any:
        """The sort key of a value; members of an enum are singletons."""
        return value if self.ordered else id(value)

    def __repr__(self) -> str:
        return f"Domain({self.name})"


# -- values of other classes -----------------------------------------------------------------------

_PLAIN_VALUE: dict[type, Callable[[Any], Any]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__add__(value, 0.0),
    str: lambda value: str.__getitem__(value, slice(None)),
}
_bases: WeakKeyDictionary[type, type | None] = WeakKeyDictionary()
_enums: WeakKeyDictionary[type, bool] = WeakKeyDictionary()
_domains: WeakValueDictionary[type, Domain] = WeakValueDictionary()  # of enums, while in use
_lock = shared_lock()
_NUMPY = frozenset(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64))


def _plain(value: Any, domain: Domain) -> Any:
    """The built-in value of an instance that compares just as that does (IntEnum, StrEnum).

    If it compares in its own way, `3 < x` and `x > 3` may ask different sides.
    """
    kind = type(value)
    if kind.__module__ == "numpy" and domain.name == "number":
        return _of_numpy(kind.__name__, value)
    if kind not in _bases:
        _bases[kind] = next((base for base in _PLAIN_VALUE if _behaves_as(base, kind)), None)
    base = _bases[kind]
    if base is None:
        raise Unindexable
    return _PLAIN_VALUE[base](value)


def _of_numpy(name: str, value: Any) -> Any:
    """A number of numpy's that compares with doubles, and ints that doubles hold, as Python's."""
    if name == "float64":
        return float.__add__(value, 0.0)
    if name in _NUMPY and abs(int(value)) <= SMALL:
        return int(value)
    raise Unindexable


def _behaves_as(base: type, kind: type) -> bool:
    return issubclass(kind, base) and all(
        getattr(kind, name, None) is getattr(base, name, None)
        for name in (*ASKED, *(TEXT_ONLY if base is str else ()))
    )


def is_plain_enum(kind: type) -> bool:
    """Whether it is an enum whose members are equal to nothing but themselves."""
    known = _enums.get(kind)
    if known is None:
        known = _enums[kind] = (
            issubclass(kind, enum.Enum)
            and not issubclass(kind, BUILT_IN)
            and all(getattr(kind, name) is getattr(enum.Enum, name) for name in EQUALITY)
            and not any(hasattr(kind, name) for name in ("__bool__", "__len__"))
        )
    return known


# -- the domains -----------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return type(value) is not decimal.Decimal or not value.is_nan()


def is_comparable(value: Any) -> bool:
    """A Decimal compares with floats exactly, unless the context traps that."""
    if type(value) is not decimal.Decimal:
        return True
    if decimal.getcontext().traps[decimal.FloatOperation]:
        raise Unindexable
    return not value.is_nan()


NUMBERS, BIG_NUMBERS = (
    Domain(
        name,
        (int, float, bool, decimal.Decimal),
        fast=(float, int),
        numeric=True,
        usable=is_comparable,
    )
    for name in ("number", "big number")
)
TEXTS = Domain("text", (str,))
BYTES = Domain("bytes", (bytes,), strange=(bytearray,))
DATES = Domain("date", (datetime.date,))
DURATIONS = Domain("duration", (datetime.timedelta,))
UUIDS = Domain("uuid", (uuid.UUID,))
DECIMALS = Domain(
    "decimal", (decimal.Decimal, int), fast=(int,), strange=(bool, float), usable=_is_number
)


class _Times(Domain):
    """Times without a zone. Those with one are not ordered: their comparison asks the zones."""

    def coerce(self, value: Any) -> Any:
        if type(value) is datetime.datetime and value.tzinfo is not None:
            if type(value.tzinfo) in (datetime.timezone, zoneinfo.ZoneInfo):
                return ABSENT
            raise Unindexable
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


_EVERY = {kind: domain for kind, domain in _BY_CLASS.items() if kind in (bool, str, bytes)}
_TEXT, _WHOLE = {str}, {int}


def domain_of(constant: Any) -> tuple[Domain, Any] | None:
    """The domain of a constant, and the constant as it stands there; None if it has none."""
    kind = type(constant)
    if kind in _EVERY:
        return _EVERY[kind], constant
    if kind is int:
        return (NUMBERS if -SMALL <= constant <= SMALL else BIG_NUMBERS), constant
    if kind is float:
        return (NUMBERS, constant) if constant == constant else None
    domain = _BY_CLASS.get(kind)
    if domain is None:
        return _of_subclass(constant)
    if domain is TIMES and constant.tzinfo is not None:
        return None
    return (domain, constant) if _equals_itself(constant) else None


def domain_of_all(constants: Collection[Any]) -> tuple[Domain | None, tuple[Any, ...]] | None:
    """The one domain of some constants, and the constants as they stand there.

    There is no domain if there are several, or no constants; nothing if one of them has none.
    """
    kinds = {*map(type, constants)}
    if kinds == _TEXT:
        return TEXTS, tuple(constants)
    if kinds == _WHOLE and min(constants) >= -SMALL and max(constants) <= SMALL:
        return NUMBERS, tuple(constants)
    found = [domain_of(constant) for constant in constants]
    known = [item for item in found if item is not None]
    if len(known) < len(found):
        return None
    first = known[0][0] if known else None
    others = [domain for domain, _ in known if domain is not first]
    return None if others else first, tuple([value for _, value in known])


def _equals_itself(constant: Any) -> bool:
    """NaN is never looked up."""
    return not constant.is_nan() if type(constant) is decimal.Decimal else constant == constant


def _of_subclass(constant: Any) -> tuple[Domain, Any] | None:
    kind = type(constant)
    if is_plain_enum(kind):
        return _of_enum(kind), constant
    if not isinstance(constant, enum.Enum):
        return None
    try:
        return domain_of(_plain(constant, TEXTS))
    except Unindexable:
        return None


def _of_enum(kind: type) -> Domain:
    domain = _domains.get(kind)
    if domain is not None:
        return domain
    with _lock:
        domain = _domains.get(kind)
        if domain is None:
            domain = _domains[kind] = Domain(f"enum {kind.__qualname__}", (kind,), ordered=False)
        return domain


def has_foreseen_hash(value: Any) -> bool:
    """Whether an attacker could choose many such values with the same hash."""
    kind = type(value)
    if kind is int:
        return not -WIDE <= value <= WIDE
    if kind is decimal.Decimal:
        return len(value.as_tuple().digits) > DIGITS or not -DIGITS <= value.adjusted() <= DIGITS
    return kind is uuid.UUID


def loose(value: Any) -> Any:
    """A value whose truth and `!=` cannot fail; others raise Unindexable."""
    kind = type(value)
    if kind in PLAIN or is_plain_enum(kind):
        return value
    return _plain(value, TEXTS)


# -- predicates on a term in a domain --------------------------------------------------------------


class Points(NamedTuple):
    """The term equals one of these values."""

    domain: Domain
    values: tuple[Any, ...]


class Interval(NamedTuple):
    """The term lies between two bounds; None is no bound."""

    domain: Domain
    low: Any = None
    high: Any = None
    low_closed: bool = True
    high_closed: bool = True
    unordered_too: bool = False  # `not x < 3` is also true of NaN


class Differs(NamedTuple):
    """The term is there and equals none of these values."""

    values: tuple[Any, ...]


class IsNone(NamedTuple):
    """The term is None, or is something else."""

    wanted: bool


class Truth(NamedTuple):
    """The term is true, or is there and not true."""

    wanted: bool


class Others(NamedTuple):
    """The term is of the domain, and equals none of these values: what does not compare fails."""

    domain: Domain
    values: tuple[Any, ...]


Form = Points | Interval | Differs | Others | IsNone | Truth
