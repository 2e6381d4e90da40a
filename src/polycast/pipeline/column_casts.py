"""Casts values to the columns of a target: exactly, or not at all.

A value that no row can hold, an int beyond 64 bits for instance, fails: the event has no row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polycast.filters.backends.spark import spark_terms
from polycast.filters.backends.spark.comparisons import EXACT
from polycast.filters.backends.spark.kinds import (
    HIGH,
    LOW,
    ColumnKind,
    NoColumnError,
    attribute_kind,
)
from polycast.filters.backends.spark.spark_terms import (
    FALSE,
    NULL,
    TRUE,
    Term,
    both,
    either,
    literal,
    negated,
    operate,
)
from polycast.filters.backends.spark.values import ABSENT, WIDE, Value, as_int, constant
from polycast.typesystem.attributes import declared_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLAIN = ("bool", "float", "str", "bytes", "decimal", "date", "datetime", "uuid", "enum")
_DISTINCT = ("int", "bool", "str", "date", "uuid", "enum")  # equal in Spark as they are in Python
_CONTAINERS: dict[str, tuple[type, ...]] = {
    "list": (list, tuple),
    "tuple": (list, tuple),
    "set": (set, frozenset),
    "frozenset": (set, frozenset),
    "dict": (dict,),
}


def fitted(value: Value, wanted: ColumnKind) -> Value:
    """Cast a value to the kind of an attribute."""
    return or_none(value, wanted, lambda there: _fitted(there, wanted))


def or_none(value: Value, wanted: ColumnKind, make: Callable[[Value], Value]) -> Value:
    """Keep None if the target allows it; make something of any other value."""
    if not value.kind.nullable:
        return make(value)
    made = make(replace(value, kind=value.kind.without_none()))
    none = spark_terms.is_null(value.term)
    if not wanted.nullable:
        return made.guarded(negated(none))
    kept = made.term is value.term
    term = made.term if kept else spark_terms.case((none, NULL), otherwise=made.term)
    return Value(wanted, term, both(value.ok, either(none, made.ok)))


def _fitted(value: Value, wanted: ColumnKind) -> Value:
    name = value.kind.name
    if name in ("none", "never"):
        return Value(wanted, NULL, value.ok if wanted.nullable and name == "none" else FALSE)
    if name == "other" and value.constant is not ABSENT:
        return data(value.constant, wanted).guarded(value.ok)
    if name in ("int", "bool") and wanted.name in ("int", "float"):
        return _number(value, wanted)
    if name == wanted.name and name in _PLAIN and value.kind.cls is wanted.cls:
        return Value(wanted, value.term, value.ok)
    if name in ("object", "event") and wanted.name == "object":
        return _object(value, wanted)
    if _CONTAINERS.get(name, ()) == _CONTAINERS.get(wanted.name) and wanted.element is not None:
        element = wanted.element
        return each_of(value, wanted, lambda each: fitted(each, element))
    raise NoColumnError(f"{value.kind} is there, and {wanted} is wanted", accepted=f"{wanted}")


def _number(value: Value, wanted: ColumnKind) -> Value:
    if value.kind.name == "bool" and wanted.name == "float":
        raise NoColumnError("a bool is there, and a float is wanted", accepted="a float, or an int")
    whole = as_int(value)
    low, high = (-EXACT, EXACT) if wanted.name == "float" else (LOW, HIGH)
    kind = "bigint" if LOW <= whole.kind.low <= whole.kind.high <= HIGH else WIDE
    inside = [] if low <= whole.kind.low else [operate(">=", whole.term, literal(low, kind))]
    inside += [] if whole.kind.high <= high else [operate("<=", whole.term, literal(high, kind))]
    if whole.term is NULL:  # a constant of so many digits that Spark has no type for it
        return Value(wanted, NULL, FALSE)
    term = whole.term if kind == "bigint" else spark_terms.try_cast(whole.term, "bigint")
    term = spark_terms.cast(term, "double") if wanted.name == "float" else term
    return Value(wanted, term, both(whole.ok, *inside))


def _object(value: Value, wanted: ColumnKind) -> Value:
    """The attributes that the target declares; further ones of a subtype have no column."""
    if value.kind.name == "object" and value.kind.cls is wanted.cls:
        return Value(wanted, value.term, value.ok)
    assert wanted.cls is not None
    parts: dict[str, Value] = {}
    for name in declared_defaults(wanted.cls):
        parts[name] = fitted(part_of(value, name), attribute_kind(wanted.cls, name))
    return struct(value, wanted, parts)


# -- parts -----------------------------------------------------------------------------------------


def part_of(value: Value, name: str) -> Value:
    """An attribute of an object that is not None."""
    assert value.kind.cls is not None
    kind = attribute_kind(value.kind.cls, name)
    is_event = value.kind.name == "event"
    return Value(kind, spark_terms.named(name) if is_event else spark_terms.field(value.term, name))


def struct(value: Value, wanted: ColumnKind, parts: Mapping[str, Value]) -> Value:
    """An object of attributes that are made from a value."""
    pairs = [(literal(name, "string"), part.term) for name, part in parts.items()]
    term = spark_terms.call("named_struct", *(term for pair in pairs for term in pair))
    return Value(wanted, term, both(value.ok, *(part.ok for part in parts.values())))


def each_of(value: Value, wanted: ColumnKind, make: Callable[[Value], Value]) -> Value:
    """A container of what is made from each element; if one of them fails, all fail."""
    kind = value.kind.element
    assert kind is not None
    element = spark_terms.variable()
    made = make(Value(kind, element))
    term = value.term
    if made.term is not element:
        term = spark_terms.transform(
            value.term, element, made.term, values=value.kind.name == "dict"
        )
        if value.kind.name in ("set", "frozenset"):
            term = _distinct(term, wanted)
    if made.ok is TRUE:
        return Value(wanted, term, value.ok)
    other = spark_terms.variable()  # each lambda has its own
    failing = negated(make(Value(kind, other)).ok)
    items = spark_terms.call("map_values", value.term) if value.kind.name == "dict" else value.term
    return Value(wanted, term, both(value.ok, negated(spark_terms.exists(items, other, failing))))


def _distinct(term: Term, wanted: ColumnKind) -> Term:
    """Remove duplicates: different elements of a set may become equal."""
    if wanted.element is None or wanted.element.name not in _DISTINCT or wanted.element.nullable:
        why = "which elements of a set are equal, Python says in its own way"
        raise NoColumnError(why, accepted=f"a list, or a set of {', '.join(_DISTINCT)}")
    return spark_terms.call("array_distinct", term)


def data(value: Any, wanted: ColumnKind) -> Value:
    """A value that is the same in every row."""
    element, kinds = wanted.element, _CONTAINERS.get(wanted.name, ())
    if element is None or type(value) not in kinds:
        found = constant(value)
        if found.kind.name == "other":
            accepted = "plain data: None, bool, int, float, str, bytes, Decimal, times, enums"
            raise NoColumnError(f"{value!r:.80} is no plain data", accepted=accepted)
        return fitted(found, wanted)
    items = value.values() if isinstance(value, dict) else value
    parts = [data(item, element) for item in items]
    made = [part.term for part in parts]
    if isinstance(value, dict):
        if any(type(key) is not str or key == "$" for key in value):
            raise NoColumnError(
                f"{value!r:.80} has no row", accepted="keys that are texts, and not '$'"
            )
        keys = [constant(key).term for key in value]
        pairs = zip(keys, made, strict=True)
        term = spark_terms.call("map", *(term for pair in pairs for term in pair))
    else:
        term = spark_terms.call("array", *made)
    return Value(wanted, term, both(*(part.ok for part in parts)))
