"""Exact comparisons of numbers: Spark would round an int to compare it with a float."""

from __future__ import annotations

import math

from polycast.filters.backends.spark import spark_terms
from polycast.filters.backends.spark.kinds import HIGH, LOW, ColumnKind
from polycast.filters.backends.spark.refusals import NoColumnError
from polycast.filters.backends.spark.spark_terms import FALSE, TRUE, Term, both, negated, operate
from polycast.filters.backends.spark.values import ABSENT, Value, as_int, constant, whole
from polycast.filters.tree.operators import COMPARISONS

__all__ = ["EXACT", "NUMBERS", "is_nan", "numbers"]

NUMBERS = ("bool", "int", "float", "decimal")
EXACT = 2**53  # doubles hold each int up to it
MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def numbers(sign: str, left: Value, right: Value) -> Term:
    """An exact comparison of numbers that are not None."""
    names = {left.kind.name, right.kind.name}
    if "decimal" in names:
        return operate(sign, _as_decimal(left), _as_decimal(right))
    if names == {"bool"} and sign == "=":
        return operate("=", left.term, right.term)
    if "float" not in names:
        return _ints(sign, as_int(left), as_int(right))
    if names == {"float"}:
        return _floats(sign, left, right)
    if left.kind.name == "float":
        return _int_and_float(MIRRORED[sign], as_int(right), left)
    return _int_and_float(sign, as_int(left), right)


def _as_decimal(value: Value) -> Term:
    if value.kind.name == "decimal":
        return value.term
    narrow = value.kind.name == "bool" or LOW <= value.kind.low <= value.kind.high <= HIGH
    if value.kind.name == "float" or not narrow:
        why = "a Decimal column has too few digits to meet a float or a long int exactly"
        raise NoColumnError(why, accepted="Decimal with Decimal, or with ints of 64 bits")
    return spark_terms.cast(as_int(value).term, "decimal(38,18)")


def _ints(sign: str, left: Value, right: Value) -> Term:
    decided = _by_bounds(sign, left.kind, right.kind)
    if decided is not None:
        return TRUE if decided else FALSE
    low, high = min(left.kind.low, right.kind.low), max(left.kind.high, right.kind.high)
    return operate(sign, whole(left, low, high), whole(right, low, high))


def _by_bounds(sign: str, left: ColumnKind, right: ColumnKind) -> bool | None:
    """The result, if the bounds decide it: then an int may be one that Spark cannot hold."""
    if sign in (">", ">="):
        return _by_bounds(MIRRORED[sign], right, left)
    if sign == "=":
        return False if left.high < right.low or right.high < left.low else None
    always, never = COMPARISONS[sign](left.high, right.low), COMPARISONS[sign](left.low, right.high)
    return True if always else (None if never else False)


def _floats(sign: str, left: Value, right: Value) -> Term:
    # Spark says that NaN equals NaN and is greater than all: only the greater side can be NaN.
    if is_nan(left) or is_nan(right):
        return FALSE
    greater = right if sign in ("<", "<=") else left
    if sign == "=" and left.constant is not ABSENT:
        greater = left
    known = greater.constant is not ABSENT or (sign == "=" and right.constant is not ABSENT)
    number = TRUE if known else negated(spark_terms.call("isnan", greater.term))
    return both(operate(sign, left.term, right.term), number)


def is_nan(value: Value) -> bool:
    """Whether it is the constant NaN."""
    return isinstance(value.constant, float) and math.isnan(value.constant)


def _int_and_float(sign: str, number: Value, real: Value) -> Term:
    if real.constant is not ABSENT:
        return _int_and_known(sign, number, real.constant)
    if number.constant is not ABSENT:
        return _known_and_float(sign, number.constant, real)
    if -EXACT <= number.kind.low <= number.kind.high <= EXACT:
        same = Value(ColumnKind("float"), spark_terms.cast(number.term, "double"))
        return _floats(sign, same, real)
    if not LOW <= number.kind.low <= number.kind.high <= HIGH:
        why = "an int beyond 64 bits and a float meet in no type of Spark"
        raise NoColumnError(why, accepted="ints of 64 bits with floats")
    return both(_not_nan(real), operate(sign, _difference(number.term, real.term), _zero))


_zero = spark_terms.literal(0, "int")


def _not_nan(value: Value) -> Term:
    return negated(spark_terms.call("isnan", value.term))


def _int_and_known(sign: str, number: Value, real: float) -> Term:
    """An int and a float constant: the same as with the ints around the float."""
    if math.isnan(real):
        return FALSE
    if math.isinf(real):
        return TRUE if sign != "=" and COMPARISONS[sign](0, real) else FALSE
    if sign == "=" and not real.is_integer():
        return FALSE
    bound = math.floor(real) if sign in ("<=", ">") else math.ceil(real)
    return _ints(sign, number, constant(bound))


def _known_and_float(sign: str, number: int, real: Value) -> Term:
    """An int constant and a float: the same as with the float next to the int."""
    near = _nearest(number)
    if near != number:
        if sign == "=":
            return FALSE
        below = sign in ("<", "<=")  # the int is below the float: so is the next float above it
        if (near < number) is below:
            near = math.nextafter(near, math.inf if below else -math.inf)
        sign = "<=" if below else ">="
    return _floats(sign, constant(near), real)


def _nearest(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _difference(number: Term, real: Term) -> Term:
    """-1, 0 or 1 as a 64-bit int is less than, equal to or greater than a double, not NaN."""
    cut = spark_terms.try_cast(real, "bigint")  # towards zero; NULL beyond 64 bits
    back = spark_terms.cast(cut, "double")
    outcomes = [spark_terms.literal(outcome, "int") for outcome in (-1, 0, 1)]
    return spark_terms.case(
        (operate(">=", real, spark_terms.literal(2.0**63, "double")), outcomes[0]),
        (operate("<", real, spark_terms.literal(-(2.0**63), "double")), outcomes[2]),
        (operate("<", number, cut), outcomes[0]),
        (operate(">", number, cut), outcomes[2]),
        (operate("<", back, real), outcomes[0]),
        (operate(">", back, real), outcomes[2]),
        otherwise=outcomes[1],
    )
