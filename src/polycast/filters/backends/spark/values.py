"""The value of an expression as Spark has it: what it is, where it is, and whether it is at all.

What its kind is, is known before any row is seen. Failing is not false and None is not missing, so
SQL's NULL alone cannot say it. A `Value` has a `term`, which is NULL for None, and `ok`, which is
TRUE where Python would not raise, else FALSE and never NULL. Where it is not ok, the term may be
anything, NULL included. So `a and b` is ok where `ok(a) AND (NOT truth(a) OR ok(b))`, and a row
matches where `ok AND truth`.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import inspect
import types
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from polycast.errors import NoSparkFormError
from polycast.filters.backends.spark import sql
from polycast.filters.backends.spark.sql import FALSE, NULL, TRUE, Term, both, literal
from polycast.filters.tree.canonical_text import render
from polycast.typesystem import wire_name
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of as kind_of_class
from polycast.typesystem.type_expressions import TypeExpression, classes_in, expression_of, hints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polycast.filters.tree import nodes

LOW, HIGH = -(2**63), 2**63 - 1  # what a 64-bit column holds


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A Python type as far as rows can hold it."""

    name: str
    nullable: bool = False
    low: int = LOW  # bounds of an int
    high: int = HIGH
    cls: type | None = None  # of an enum or an object
    element: ColumnKind | None = None  # of a container, of a dict its values

    def __str__(self) -> str:
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    @property
    def is_long(self) -> bool:
        """Whether 64 bits hold every int of it."""
        return LOW <= self.low <= self.high <= HIGH

    @property
    def is_sequence(self) -> bool:
        """Whether it is an array that keeps Python's order."""
        return self.name in ("list", "tuple")

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.name in ("list", "tuple", "set", "frozenset")

    def or_none(self) -> ColumnKind:
        """The same kind, or None."""
        return replace(self, nullable=True)

    def without_none(self) -> ColumnKind:
        """The same kind without None."""
        return replace(self, nullable=False)


# The classes that a value of a kind may have: a column of ints holds True as 1.
CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int, bool),
    "float": (float, int, bool),
    "str": (str,),
    "bytes": (bytes,),
    "decimal": (decimal.Decimal,),
    "date": (datetime.date,),
    "datetime": (datetime.datetime,),
    "uuid": (uuid.UUID,),
    "list": (list,),
    "tuple": (tuple,),
    "set": (set,),
    "frozenset": (frozenset,),
    "dict": (dict,),
    "none": (type(None),),
}
_BY_NAME = {wire_name(classes[0]): name for name, classes in CLASSES.items()} | {
    "pydantic.types.AwareDatetime": "datetime",
    "pydantic.types.NaiveDatetime": "datetime",
}
_CONTAINERS = ("list", "tuple", "set", "frozenset", "dict")
_WITH_ATTRIBUTES = ("dataclass", "attrs", "struct", "pydantic", "class", "protocol")
_ACCEPTED = (
    "bool, int, float, str, bytes, Decimal, date, datetime, UUID, enums, classes with declared "
    "attributes, list[X], tuple[X, ...], set[X], frozenset[X], dict[str, X], each of them or None"
)


def kind_of(hint: object) -> ColumnKind:
    """The kind of an annotation; NoColumnError if no column can hold its values exactly."""
    classes = {wire_name(cls): cls for cls in classes_in(hint)}
    return _kind(expression_of(hint), classes)


def _kind(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    if expression.form in ("union", "literal"):
        return _union(expression, classes)
    if expression.form != "class":
        raise NoColumnError(f"{expression} does not say which values there are", accepted=_ACCEPTED)
    name = _BY_NAME.get(expression.name)
    if name in _CONTAINERS:
        return ColumnKind(name, element=_element(expression, classes))
    return ColumnKind(name) if name else _own_class(expression, classes)


def _union(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    parts = [part for part in expression.arguments if part.form != "none"]
    if len(parts) != 1:
        raise NoColumnError(f"{expression} is of several types", accepted=_ACCEPTED)
    found = _kind(parts[0], classes)
    return found if len(expression.arguments) == 1 else found.or_none()


def _element(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    arguments = expression.arguments
    name = _BY_NAME[expression.name]
    if name == "dict":
        fits = len(arguments) == 2 and arguments[0] == expression_of(str)
    elif name == "tuple":
        fits = len(arguments) == 2 and arguments[1].form == "..."
    else:
        fits = len(arguments) == 1
    if not fits:
        raise NoColumnError(f"{expression} has no one type of elements", accepted=_ACCEPTED)
    return _kind(arguments[1 if name == "dict" else 0], classes)


def _own_class(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    cls = classes.get(expression.name)
    kind = kind_of_class(cls) if cls is not None else ""
    if kind == "enum":
        return ColumnKind("enum", cls=cls)
    if kind in _WITH_ATTRIBUTES and cls is not None and declared_defaults(cls):
        return ColumnKind("object", cls=cls)
    raise NoColumnError(f"{expression} has no form as columns", accepted=_ACCEPTED)


# -- attributes ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def attribute_kind(cls: type, name: str) -> ColumnKind:
    """The kind of a declared attribute; NoColumnError if it is not declared, or not plain."""
    declared = declared_defaults(cls)
    accepted = f"the declared attributes of {cls.__name__}: {', '.join(declared) or 'none'}"
    if name not in declared:
        raise NoColumnError(f"{cls.__name__} declares no attribute {name!r}", accepted=accepted)
    if not _is_plain(cls, name):
        raise NoColumnError(f"{name!r} is computed, not kept in a column", accepted=accepted)
    for other in declared:
        if other != name and other.upper().lower() == name.upper().lower():
            why = f"{name!r} and {other!r} differ by case alone, and a session may not care"
            raise NoColumnError(why, accepted="names that differ by more than case")
    hint = hints_of(cls).get(name, Any)
    try:
        return kind_of(hint)
    except NoColumnError as refusal:
        why = f"attribute {name!r}: {refusal.why}"
        raise NoColumnError(why, accepted=refusal.accepted) from None


def _is_plain(cls: type, name: str) -> bool:
    """Whether reading the attribute runs no code of the class."""
    getters = (vars(base).get("__getattribute__") for base in cls.__mro__)
    if any(isinstance(getter, types.FunctionType) for getter in getters):
        return False
    found = inspect.getattr_static(cls, name, None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(type(found), "__get__")


def subclasses(cls: type) -> Iterator[type]:
    """A class and every subclass in this process."""
    yield cls
    below: list[type] = type.__subclasses__(cls)
    for subclass in below:
        yield from subclasses(subclass)


def members(kind: ColumnKind) -> list[enum.Enum]:
    """The members of an enum, without aliases."""
    assert kind.cls is not None
    assert issubclass(kind.cls, enum.Enum)
    return list(kind.cls)


# -- refusals --------------------------------------------------------------------------------------


class NoColumnError(Exception):
    """Why a part has no column; whoever knows the part adds it to the message."""

    def __init__(self, why: str, *, accepted: str) -> None:
        self.why, self.accepted = why, accepted
        super().__init__(f"{why}; accepted: {accepted}")


def no_form(node: nodes.Node, *, why: str, accepted: str) -> NoSparkFormError:
    """The error for a part of a filter."""
    try:
        part = render(node)
    except RecursionError:
        part = f"{type(node).__name__}(...)"
    return NoSparkFormError(part, node=node, why=why, accepted=accepted)


# -- values ----------------------------------------------------------------------------------------


WIDE, WIDEST = "decimal(38,0)", 10**38 - 1  # the type for ints beyond 64 bits, and its bound
_DIGITS, _LAST_DIGIT = decimal.Context(prec=38), decimal.Decimal("1e-18")
ABSENT: Any = object()
NEVER = ColumnKind("never")  # of what fails for every row


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gives, row by row."""

    kind: ColumnKind
    term: Term
    ok: Term = TRUE
    constant: Any = ABSENT  # the value itself, if it is the same for every row
    told: Term | None = None  # its truth, if that is known better than from the term

    def guarded(self, *conditions: Term) -> Value:
        """The same value, which fails where one of the conditions is not TRUE."""
        return replace(self, ok=both(*conditions, self.ok))


def failing() -> Value:
    """What fails for every row."""
    return Value(NEVER, NULL, FALSE)


def present(value: Value) -> Term:
    """Whether it is not None; TRUE if that is known."""
    if value.kind.name == "none":
        return FALSE
    return sql.not_null(value.term) if value.kind.nullable else TRUE


# -- constants -------------------------------------------------------------------------------------


def constant(value: Any) -> Value:
    """A constant of a filter, the same for every row."""
    if isinstance(value, enum.Enum):
        kind = ColumnKind("enum", cls=type(value))
        return Value(kind, literal(value.name, "string"), constant=value)
    found = _CONSTANTS.get(type(value))
    if found is None:
        return Value(ColumnKind("other"), NULL, constant=value)
    return replace(found(value), constant=value)


def _int(value: int) -> Value:
    # An int beyond what Spark can hold is still of use: its bounds decide comparisons.
    kind = "bigint" if LOW <= value <= HIGH else WIDE
    term = literal(value, kind) if abs(value) <= WIDEST else NULL
    return Value(ColumnKind("int", low=value, high=value), term)


def _str(value: str) -> Value:
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        why = "half a surrogate pair is no text for Spark"
        raise NoColumnError(why, accepted="whole characters")
    return Value(ColumnKind("str"), literal(value, "string"))


def _decimal(value: decimal.Decimal) -> Value:
    try:
        fits = value == value.quantize(_LAST_DIGIT, context=_DIGITS)
    except decimal.InvalidOperation:  # it has too many digits, or is no number
        fits = False
    if not fits:
        why = "a Decimal column has 20 digits before the point and 18 after it"
        raise NoColumnError(why, accepted="a Decimal of that form")
    return Value(ColumnKind("decimal"), literal(format(value, "f"), "decimal(38,18)"))


def _datetime(value: datetime.datetime) -> Value:
    """`at` and `offset` as in a column: see schema.py."""
    offset = value.utcoffset()  # None: no zone
    if offset != value.replace(fold=1 - value.fold).utcoffset():
        why = "a time that a zone has twice or not at all is equal to nothing elsewhere"
        raise NoColumnError(why, accepted="a time with a fixed offset")
    try:
        at = value.replace(tzinfo=None, fold=0) - (offset or datetime.timedelta())
    except OverflowError:
        why = "its time in UTC is no year of Python's"
        raise NoColumnError(why, accepted="years 1 to 9999") from None
    return Value(ColumnKind("datetime"), sql.moment(at, offset))


_CONSTANTS: dict[type, Callable[[Any], Value]] = {
    type(None): lambda value: Value(ColumnKind("none"), NULL),
    bool: lambda value: Value(ColumnKind("bool"), literal(value, "boolean")),
    int: _int,
    float: lambda value: Value(ColumnKind("float"), literal(value, "double")),
    str: _str,
    bytes: lambda value: Value(ColumnKind("bytes"), literal(value, "binary")),
    datetime.date: lambda value: Value(ColumnKind("date"), literal(value, "date")),
    datetime.datetime: _datetime,
    decimal.Decimal: _decimal,
    uuid.UUID: lambda value: Value(ColumnKind("uuid"), literal(str(value), "string")),
}


# -- truth -----------------------------------------------------------------------------------------


def truth(value: Value) -> Term:
    """Whether it counts as true, where it is ok."""
    if value.told is not None:
        return value.told
    if value.constant is not ABSENT:
        return TRUE if value.constant else FALSE
    rule = _TRUTHS.get(value.kind.name)
    if rule is None:
        raise NoColumnError(f"whether {value.kind} counts as true", accepted="a comparison")
    return both(present(value), rule(value))


def _is_not_zero(kind: str) -> Callable[[Value], Term]:
    zero = literal(0, kind)
    return lambda value: sql.negated(sql.operate("=", value.term, zero))


def _is_not_empty(function: str) -> Callable[[Value], Term]:
    none = literal(0, "int")
    return lambda value: sql.operate(">", sql.call(function, value.term), none)


def _member_truth(value: Value) -> Term:
    true = [member for member in members(value.kind) if member]
    if len(true) == len(members(value.kind)):
        return TRUE
    return sql.one_of(value.term, [literal(member.name, "string") for member in true])


def _object_truth(value: Value) -> Term:
    assert value.kind.cls is not None
    for cls in subclasses(value.kind.cls):
        if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
            why = f"{cls.__name__} says itself whether it counts as true"
            raise NoColumnError(why, accepted="`is None`, `is not None`")
    return TRUE


_TRUTHS: dict[str, Callable[[Value], Term]] = {
    "none": lambda value: FALSE,
    "never": lambda value: FALSE,
    "bool": lambda value: value.term,
    "int": _is_not_zero("bigint"),
    "float": _is_not_zero("double"),
    "decimal": _is_not_zero("decimal(38,18)"),
    **dict.fromkeys(("str", "bytes"), _is_not_empty("length")),
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "dict"), _is_not_empty("size")),
    **dict.fromkeys(("date", "datetime", "uuid"), lambda value: TRUE),
    "enum": _member_truth,
    **dict.fromkeys(("object", "event"), _object_truth),
}


# -- one value or another --------------------------------------------------------------------------


def merged(kinds: Sequence[ColumnKind]) -> ColumnKind | None:
    """The kind of what is of one of some kinds; None if Spark has no column for that."""
    found = [kind for kind in kinds if kind.name not in ("none", "never")]
    nullable = any(kind.nullable or kind.name == "none" for kind in kinds)
    if not found:
        return ColumnKind("none") if nullable else NEVER
    names = {kind.name for kind in found}
    if names == {"bool", "int"}:
        found = [_int_kind(kind) for kind in found]
    elif len(names) != 1 or names & {"other", "mixed", "event"}:
        return None
    if len({(kind.cls, kind.element) for kind in found}) != 1:
        return None
    low, high = min(kind.low for kind in found), max(kind.high for kind in found)
    if max(-low, high) > WIDEST:
        return None
    return replace(found[0], nullable=nullable, low=low, high=high)


def _int_kind(kind: ColumnKind) -> ColumnKind:
    return kind if kind.name == "int" else ColumnKind("int", nullable=kind.nullable, low=0, high=1)


def as_int(value: Value) -> Value:
    """A bool as the int that it is; an int as it is."""
    if value.kind.name == "int":
        return value
    if value.constant is not ABSENT:
        return constant(int(value.constant))
    return replace(value, kind=_int_kind(value.kind), term=sql.cast(value.term, "bigint"))


def pick(
    branches: Sequence[tuple[Term, Value]], otherwise: Value
) -> tuple[ColumnKind, Term] | None:
    """The value of the first condition that is TRUE; None if the kinds have nothing in common."""
    every = [*(value for _, value in branches), otherwise]
    kind = merged([value.kind for value in every])
    if kind is None:
        return None
    made = [column(value, kind) for value in every]
    chosen = zip((test for test, _ in branches), made[:-1], strict=True)
    return kind, sql.case(*chosen, otherwise=made[-1])


def column(value: Value, kind: ColumnKind) -> Term:
    """The term in the Spark type of the kind that it is to have."""
    if kind.name == "int" and value.kind.name in ("int", "bool"):
        return whole(value, kind.low, kind.high)
    return value.term


def whole(value: Value, low: int, high: int) -> Term:
    """An int or bool in a type that holds everything within these bounds."""
    narrow = LOW <= low <= high <= HIGH
    own = "bigint" if value.kind.is_long else WIDE
    if value.kind.name == "int" and own == ("bigint" if narrow else WIDE):
        return value.term
    return sql.cast(value.term, "bigint" if narrow else WIDE)
