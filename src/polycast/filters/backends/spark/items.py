"""`of[key]` and `any`/`all`: what Spark's arrays and maps do as Python's containers do."""

from __future__ import annotations

from polycast.filters.backends.spark import spark_terms
from polycast.filters.backends.spark.comparisons import SIMPLE
from polycast.filters.backends.spark.kinds import HIGH, LOW, ColumnKind
from polycast.filters.backends.spark.methods import text_at
from polycast.filters.backends.spark.refusals import NoColumnError
from polycast.filters.backends.spark.spark_terms import (
    FALSE,
    TRUE,
    Term,
    both,
    literal,
    negated,
    operate,
)
from polycast.filters.backends.spark.values import Value, as_int, failing, present, truth

__all__ = ["element_of", "item", "quantified"]


def item(of: Value, key: Value) -> Value:
    """`of[key]`; fails where there is none."""
    for value in (of, key):
        known = (*SIMPLE, "list", "tuple", "set", "frozenset", "dict", "never")
        if value.kind.name not in known or of.kind.name == "bytes":
            raise NoColumnError(
                f"{value.kind} in a subscript", accepted="lists, texts, dict[str, X]"
            )
    return _found(of, key).guarded(of.ok, key.ok, present(of), present(key))


def _found(of: Value, key: Value) -> Value:
    if of.kind.name == "dict" and of.kind.element is not None and key.kind.name == "str":
        found = Value(of.kind.element, spark_terms.call("try_element_at", of.term, key.term))
        return found.guarded(spark_terms.call("map_contains_key", of.term, key.term))
    if key.kind.name not in ("int", "bool"):
        return failing()
    index = as_int(key)
    if not LOW <= index.kind.low <= index.kind.high <= HIGH:
        raise NoColumnError("an index beyond 64 bits", accepted="an int of 64 bits")
    if of.kind.name == "str":
        return text_at(of, index)
    if of.kind.is_sequence and of.kind.element is not None:
        return _at(of, of.kind.element, index)
    return failing()


def _at(of: Value, element: ColumnKind, index: Value) -> Value:
    size = spark_terms.cast(spark_terms.call("size", of.term), "bigint")
    from_end = operate("<", index.term, literal(0, "bigint"))
    place = spark_terms.case((from_end, operate("+", index.term, size)), otherwise=index.term)
    inside = both(operate(">=", place, literal(0, "bigint")), operate("<", place, size))
    return Value(
        element, spark_terms.call("get", of.term, spark_terms.try_cast(place, "int")), inside
    )


# -- any and all -----------------------------------------------------------------------------------


def element_of(over: Value) -> Value:
    """What the variable of a quantifier stands for."""
    if not over.kind.is_array or over.kind.element is None:
        why = f"the elements of {over.kind} are not those of an array"
        raise NoColumnError(
            why, accepted="any and all over a list, tuple, set or frozenset attribute"
        )
    return Value(over.kind.element, spark_terms.variable())


def quantified(kind: str, over: Value, element: Value, tests: list[Value], each: Value) -> Value:
    """`any(each for element in over if tests)`, or `all`.

    The first element that decides or fails is the one that counts.
    """
    reached, ok = TRUE, TRUE  # whether an element passes the tests, whether all goes well
    for test in tests:
        ok, reached = both(ok, _unless(reached, test.ok)), both(reached, truth(test))
    ok = both(ok, _unless(reached, each.ok))
    verdict = truth(each) if kind == "any" else negated(truth(each))
    decides = both(reached, verdict)
    if ok is TRUE:
        found, fine = spark_terms.exists(over.term, element.term, decides), TRUE
    elif not over.kind.is_sequence:
        why = "a set has no order in Spark, and an element that fails may come first"
        raise NoColumnError(why, accepted="tests that cannot fail, or a list")
    else:
        found, fine = _in_order(over.term, element.term, ok, decides)
    result = found if kind == "any" else negated(found)
    return Value(ColumnKind("bool"), result, fine).guarded(over.ok, present(over))


def _unless(reached: Term, ok: Term) -> Term:
    """It may fail where it is not reached."""
    return ok if reached is TRUE or ok is TRUE else spark_terms.either(negated(reached), ok)


def _in_order(array: Term, element: Term, ok: Term, decides: Term) -> tuple[Term, Term]:
    """Whether an element decides, and whether none fails before it."""
    undecided, decided, failed = (literal(state, "int") for state in range(3))
    state = spark_terms.variable()
    step = spark_terms.case(
        (negated(operate("=", state, undecided)), state),
        (negated(ok), failed),
        (decides, decided),
        otherwise=undecided,
    )
    end = spark_terms.aggregate(array, undecided, state, element, step)
    if decides is FALSE:
        return FALSE, operate("=", end, undecided)
    return operate("=", end, decided), negated(operate("=", end, failed))
