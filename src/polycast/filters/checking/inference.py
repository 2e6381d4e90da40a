"""What a value may be, as far as annotations and constants tell, and what operators take.

Python itself is asked what an operator takes, once, with samples of the built-in types. An
operation that refuses all samples of its operands' types with a TypeError refuses all their values.
The samples are chosen so that one of them is taken wherever any value is.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from polycast.typesystem import is_interface, wire_name
from polycast.typesystem.standard_types import STANDARD
from polycast.typesystem.type_expressions import TypeExpression, classes_in, expression_of


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


# -- kinds -----------------------------------------------------------------------------------------


MOST = 24  # alternatives; beyond them it is anything


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One thing that a value may be. Classes are held weakly: they may go while this is kept."""

    ref: weakref.ref[type]
    elements: Kinds = None  # what iterating over it gives
    values: Kinds = None  # what a subscript gives
    also: tuple[weakref.ref[type], ...] = ()  # classes that its object is of as well

    def classes(self) -> tuple[type, ...]:
        """The classes its object is of; none if they are gone."""
        found = [ref() for ref in (self.ref, *self.also)]
        return () if None in found else tuple(found)  # type: ignore[arg-type]

    def operand(self) -> type | None:
        """The built-in type that it does everything like; None for a user's class."""
        cls = self.ref()
        if cls is None or self.also:
            return None
        if cls in SAMPLES:
            return cls
        return int if cls is bool else PlainEnum if is_plain_enum(cls) else None


Kinds = tuple[Kind, ...] | None  # the alternatives; None: anything


def joined(many: Iterable[Kinds]) -> Kinds:
    """Any of these; no alternative at all means anything: a condition has ruled all of them out."""
    many = list(many)
    if len(many) == 1:  # mostly
        return many[0] or None
    found: dict[Kind, None] = {}
    for kinds in many:
        if kinds is None:
            return None
        found.update(dict.fromkeys(kinds))
    return tuple(found) if 0 < len(found) <= MOST else None


def is_data(kinds: Kinds) -> bool:
    """Whether every alternative behaves like a built-in type."""
    return kinds is not None and all(kind.operand() is not None for kind in kinds)


def kinds_of(*classes: type) -> Kinds:
    """An object of one of these classes."""
    if len(classes) == 1 and classes[0] in _ALONE:
        return _ALONE[classes[0]]
    return tuple(_SINGLE.get(cls) or Kind(weakref.ref(cls)) for cls in classes)


_SINGLE = {cls: Kind(weakref.ref(cls)) for cls in (*SAMPLES, bool)}
_SINGLE[str] = Kind(weakref.ref(str), (_SINGLE[str],), (_SINGLE[str],))
_SINGLE[bytes] = Kind(weakref.ref(bytes), (_SINGLE[int],), (_SINGLE[int],))
_ALONE: dict[type, Kinds] = {cls: (kind,) for cls, kind in _SINGLE.items()}


def of_value(value: object) -> Kinds:
    """What a constant is."""
    cls = type(value)
    if cls not in (list, tuple, set, frozenset):
        return kinds_of(cls)
    elements: collections.abc.Collection[object] = value  # type: ignore[assignment]
    classes = {type(element) for element in elements}
    inner = joined(map(kinds_of, classes)) if classes <= _SINGLE.keys() else None
    return (Kind(weakref.ref(cls), inner, inner),)


# -- annotations -----------------------------------------------------------------------------------

_WIDER: dict[type, tuple[type, ...]] = {
    float: (float, int),
    complex: (complex, float, int),
    date: (date, datetime),  # its subclass
}
_abc = collections.abc
_COLLECTIONS = {list, set, frozenset, _abc.Sequence, _abc.MutableSequence, _abc.Set}
_COLLECTIONS |= {_abc.MutableSet, _abc.Collection, _abc.Iterable}
_MAPPINGS = {dict, _abc.Mapping, _abc.MutableMapping}


def declared(hint: object) -> Kinds:
    """What an annotation, resolved, allows; anything if it cannot be told."""
    if isinstance(hint, dataclasses.InitVar):
        return None  # it says what is given, not what is kept
    try:
        named: dict[str, type] = {}
        for cls in classes_in(hint):
            if named.setdefault(wire_name(cls), cls) is not cls:
                return None
        return _allowed(expression_of(hint), named)
    except Exception:  # an odd metaclass, or an annotation that is no type
        return None


def _allowed(expression: TypeExpression, named: dict[str, type]) -> Kinds:
    match expression.form:
        case "none":
            return kinds_of(NoneType)
        case "union" | "literal":
            return joined(_allowed(part, named) for part in expression.arguments)
        case "class":
            cls = STANDARD.get(expression.name) or named.get(expression.name)
            inner = [_allowed(part, named) for part in expression.arguments if part.form != "..."]
            return None if cls is None else _of_class(cls, inner)
    return None


def _of_class(cls: type, inner: list[Kinds]) -> Kinds:
    if cls in _WIDER:
        return kinds_of(*_WIDER[cls])
    if cls is tuple:
        elements = joined(inner) if inner else None
        return (Kind(weakref.ref(cls), elements, elements),)
    if cls in _COLLECTIONS and len(inner) == 1:
        return (Kind(weakref.ref(cls), inner[0], inner[0]),)
    if cls in _MAPPINGS and len(inner) == 2:
        return (Kind(weakref.ref(cls), inner[0], inner[1]),)
    # Whoever is declared by an interface may be of any class, with any attributes.
    return None if cls is object or is_interface(cls) else kinds_of(cls)


# -- enums -----------------------------------------------------------------------------------------

_OPERATORS = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "r")
    for name in (  # noqa: SIM905
        "lt le gt ge add sub mul matmul truediv floordiv mod pow and or xor lshift rshift neg pos "
        "invert abs len iter contains getitem getattr getattribute call index float complex"
    ).split()
)


def is_plain_enum(cls: type) -> bool:
    """Whether a class is an enum with members, which has no subclasses, without operators."""
    if not isinstance(cls, enum.EnumMeta) or type(cls) is not enum.EnumMeta:
        return False
    if not cls._member_map_ or issubclass(cls, enum.Flag):
        return False
    own = [base for base in cls.__mro__ if base not in (enum.Enum, object)]
    return not any(base in STANDARD.values() or _OPERATORS & base.__dict__.keys() for base in own)


# -- telling ---------------------------------------------------------------------------------------


def shown(kinds: Kinds) -> str:
    """The alternatives as one would write them."""
    if kinds is None:
        return "anything"
    return " | ".join(dict.fromkeys(_name(kind) for kind in kinds))


def _name(kind: Kind) -> str:
    return " & ".join("None" if cls is NoneType else cls.__name__ for cls in kind.classes())
