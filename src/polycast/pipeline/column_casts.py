"""Values as the columns of a target: cast exactly or not at all, or made by the function of a rule.

A value that no row can hold, an int beyond 64 bits for instance, fails: the event has no row.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from polycast.contexts.declare.units import Scaling
from polycast.errors import NoSparkFormError, PolycastError
from polycast.filters import Filter
from polycast.filters.backends.spark import sql
from polycast.filters.backends.spark.arithmetic import arithmetic
from polycast.filters.backends.spark.columns import value_of
from polycast.filters.backends.spark.comparisons import EXACT
from polycast.filters.backends.spark.methods import call_function
from polycast.filters.backends.spark.sql import (
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
from polycast.filters.backends.spark.values import (
    ABSENT,
    HIGH,
    LOW,
    WIDE,
    ColumnKind,
    NoColumnError,
    Value,
    as_int,
    attribute_kind,
    constant,
    members,
    truth,
)
from polycast.filters.tree import nodes
from polycast.pipeline.event_rows import CONTAINERS
from polycast.typesystem.attributes import declared_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.contexts.declare.statements import Rule

_PLAIN = ("bool", "float", "str", "bytes", "decimal", "date", "datetime", "uuid", "enum")
_DISTINCT = ("int", "bool", "str", "date", "uuid", "enum")  # equal in Spark as they are in Python


def fitted(value: Value, wanted: ColumnKind) -> Value:
    """Cast a value to the kind of an attribute."""
    return or_none(value, wanted, lambda there: _fitted(there, wanted))


def or_none(value: Value, wanted: ColumnKind, make: Callable[[Value], Value]) -> Value:
    """Keep None if the target allows it; make something of any other value."""
    if not value.kind.nullable:
        return make(value)
    made = make(replace(value, kind=value.kind.without_none()))
    none = sql.is_null(value.term)
    if not wanted.nullable:
        return made.guarded(negated(none))
    kept = made.term is value.term
    term = made.term if kept else sql.case((none, NULL), otherwise=made.term)
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
    if CONTAINERS.get(name, ()) == CONTAINERS.get(wanted.name) and wanted.element is not None:
        element = wanted.element
        return each_of(value, wanted, lambda item: fitted(item, element))
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
    term = whole.term if kind == "bigint" else sql.try_cast(whole.term, "bigint")
    term = sql.cast(term, "double") if wanted.name == "float" else term
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
    return Value(kind, sql.named(name) if is_event else sql.field(value.term, name))


def struct(value: Value, wanted: ColumnKind, parts: Mapping[str, Value]) -> Value:
    """An object of attributes that are made from a value."""
    pairs = [(literal(name, "string"), part.term) for name, part in parts.items()]
    term = sql.call("named_struct", *(term for pair in pairs for term in pair))
    return Value(wanted, term, both(value.ok, *(part.ok for part in parts.values())))


def each_of(value: Value, wanted: ColumnKind, make: Callable[[Value], Value]) -> Value:
    """A container of what is made from each element; if one of them fails, all fail."""
    kind = value.kind.element
    assert kind is not None
    element = sql.variable()
    made = make(Value(kind, element))
    term = value.term
    if made.term is not element:
        term = sql.transform(value.term, element, made.term, values=value.kind.name == "dict")
        if value.kind.name in ("set", "frozenset"):
            term = _distinct(term, wanted)
    if made.ok is TRUE:
        return Value(wanted, term, value.ok)
    other = sql.variable()  # each lambda has its own
    failing = negated(make(Value(kind, other)).ok)
    items = sql.call("map_values", value.term) if value.kind.name == "dict" else value.term
    return Value(wanted, term, both(value.ok, negated(sql.exists(items, other, failing))))


def _distinct(term: Term, wanted: ColumnKind) -> Term:
    """Remove duplicates: different elements of a set may become equal."""
    if wanted.element is None or wanted.element.name not in _DISTINCT or wanted.element.nullable:
        why = "which elements of a set are equal, Python says in its own way"
        raise NoColumnError(why, accepted=f"a list, or a set of {', '.join(_DISTINCT)}")
    return sql.call("array_distinct", term)


def data(value: Any, wanted: ColumnKind) -> Value:
    """A value that is the same in every row."""
    element, kinds = wanted.element, CONTAINERS.get(wanted.name, ())
    if element is None or type(value) not in kinds:
        plain = constant(value)
        if plain.kind.name == "other":
            accepted = "plain data: None, bool, int, float, str, bytes, Decimal, times, enums"
            raise NoColumnError(f"{value!r:.80} is no plain data", accepted=accepted)
        return fitted(plain, wanted)
    items = value.values() if isinstance(value, dict) else value
    parts = [data(item, element) for item in items]
    made = [part.term for part in parts]
    if isinstance(value, dict):
        if any(type(key) is not str or key == "$" for key in value):
            why = f"{value!r:.80} has no row"
            raise NoColumnError(why, accepted="keys that are texts, and not '$'")
        keys = [constant(key).term for key in value]
        pairs = zip(keys, made, strict=True)
        term = sql.call("map", *(term for pair in pairs for term in pair))
    else:
        term = sql.call("array", *made)
    return Value(wanted, term, both(*(part.ok for part in parts)))


# -- the functions of rules: units, casts, and functions that can be lifted ------------------------


def applied(rule: Rule, value: Value) -> Value:
    """The result of the function of a rule."""
    assert rule.function is not None
    try:
        if rule.function.is_impure:
            why = "it may give something else each time"
            raise NoColumnError(why, accepted="functions without that")
        return _called(rule.function.call, value)
    except NoSparkFormError as error:
        why, accepted = f"`{error.part}`: {error.why}", error.accepted
    except NoColumnError as refusal:
        why, accepted = refusal.why, refusal.accepted
    raise NoColumnError(f"rule {str(rule)!r}: {why}", accepted=accepted)


def _called(call: Any, value: Value) -> Value:
    if isinstance(call, Scaling):
        made = arithmetic("*", value, constant(call.factor))
        return arithmetic("+", made, constant(call.offset)) if call.offset else made
    if call in (len, abs):
        return call_function(call.__name__, (value,))
    if isinstance(call, type):
        return _cast(call, value)
    try:
        tree = Filter(call).tree
    except PolycastError as error:
        raise NoColumnError(f"it cannot be looked into: {error}", accepted=_ACCEPTED) from None
    if isinstance(tree, nodes.Opaque):
        raise NoColumnError(f"it cannot be looked into: {tree.why}", accepted=_ACCEPTED)
    result = value_of(tree, (value,))
    if result.kind.name == "float" and any(map(_is_remainder, nodes.walk(tree))):
        raise NoColumnError("the zero of `%` may have another sign", accepted="`%` for an int")
    return result


_ACCEPTED = (
    "unit factors, pc.rules.identity, bool, int, float, str and Decimal as they are, and functions "
    "of one expression over their argument, as in filters"
)


def _is_remainder(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Arithmetic) and node.operator == "%"


def _cast(call: type, value: Value) -> Value:
    rule = _CASTS.get(call, {}).get(value.kind.name)
    if rule is not None:
        return rule(value).guarded(value.ok)
    if call is bool:
        return Value(ColumnKind("bool"), truth(value), value.ok)
    if call in _CASTS:
        kinds = ", ".join(_CASTS[call])
        raise NoColumnError(f"{call.__name__}() of {value.kind} is not Spark's", accepted=kinds)
    raise NoColumnError(f"{call.__name__} is a class", accepted=_ACCEPTED)


def _same(value: Value) -> Value:
    return value


def _whole(value: Value) -> Value:
    """Truncate towards zero, as Python does; beyond 64 bits there is no row."""
    low, end = literal(float(LOW), "double"), literal(float(HIGH + 1), "double")
    inside = both(operate(">=", value.term, low), operate("<", value.term, end))  # a NaN is above
    return Value(ColumnKind("int"), sql.try_cast(value.term, "bigint"), inside)


def _as(kind: ColumnKind, spark: str) -> Callable[[Value], Value]:
    return lambda value: Value(kind, sql.cast(as_int(value).term, spark))


def _text(value: Value) -> Value:
    return Value(ColumnKind("str"), sql.cast(value.term, "string"))


def _truth_text(value: Value) -> Value:
    return Value(
        ColumnKind("str"), _texts(value.term, [(True, "True"), (False, "False")], "boolean")
    )


def _member_text(value: Value) -> Value:
    pairs = [(member.name, str(member)) for member in members(value.kind)]
    return Value(ColumnKind("str"), _texts(value.term, pairs, "string"))


def _texts(term: Term, pairs: list[tuple[Any, str]], spark: str) -> Term:
    *cases, (_, last) = pairs
    tests = [operate("=", term, literal(key, spark)) for key, _ in cases]
    made = [literal(text, "string") for _, text in cases]
    return sql.case(*zip(tests, made, strict=True), otherwise=literal(last, "string"))


_FLOAT = _as(ColumnKind("float"), "double")
_DECIMAL = _as(ColumnKind("decimal"), "decimal(38,18)")
_CASTS: dict[type, dict[str, Callable[[Value], Value]]] = {
    bool: {"bool": _same},
    int: {"int": _same, "bool": as_int, "float": _whole},
    float: {"float": _same, "int": _FLOAT, "bool": _FLOAT},
    str: {
        "str": _same,
        "int": _text,
        "date": _text,
        "uuid": _text,
        "bool": _truth_text,
        "enum": _member_text,
    },
    Decimal: {"decimal": _same, "int": _DECIMAL, "bool": _DECIMAL},
}
