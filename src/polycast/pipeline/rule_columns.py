"""The functions of rules as Spark columns: units, casts, and functions that can be lifted."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from polycast.contexts.declare.units import Scaling
from polycast.errors import NoSparkFormError, PolycastError
from polycast.filters import Filter
from polycast.filters.backends.spark import spark_terms
from polycast.filters.backends.spark.arithmetic import arithmetic
from polycast.filters.backends.spark.columns import value_of
from polycast.filters.backends.spark.kinds import HIGH, LOW, ColumnKind, NoColumnError, members
from polycast.filters.backends.spark.methods import call_function
from polycast.filters.backends.spark.spark_terms import Term, both, literal, operate
from polycast.filters.backends.spark.values import Value, as_int, constant, truth
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts.declare.statements import Rule


def applied(rule: Rule, value: Value) -> Value:
    """The result of the function of a rule."""
    assert rule.function is not None
    try:
        if rule.function.is_impure:
            raise NoColumnError(
                "it may give something else each time", accepted="functions without that"
            )
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
    found = value_of(tree, (value,))
    if found.kind.name == "float" and any(map(_is_remainder, nodes.walk(tree))):
        raise NoColumnError("the zero of `%` may have another sign", accepted="`%` for an int")
    return found


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
    return Value(ColumnKind("int"), spark_terms.try_cast(value.term, "bigint"), inside)


def _as(kind: ColumnKind, spark: str) -> Callable[[Value], Value]:
    return lambda value: Value(kind, spark_terms.cast(as_int(value).term, spark))


def _text(value: Value) -> Value:
    return Value(ColumnKind("str"), spark_terms.cast(value.term, "string"))


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
    return spark_terms.case(*zip(tests, made, strict=True), otherwise=literal(last, "string"))


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
