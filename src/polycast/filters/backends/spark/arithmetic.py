"""Python's arithmetic as Spark's: ints of any size as far as their bounds are known.

An int has bounds: those of 64 bits for a column, narrower or wider after an operation. Within 64
bits it is a `bigint`, beyond them a `decimal(38,0)`; what could leave that is refused. So nothing
overflows. Doubles are IEEE's in Python and in the JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from polycast.filters.backends.spark import sql, values
from polycast.filters.backends.spark.comparisons import EXACT, SIMPLE, ordered
from polycast.filters.backends.spark.sql import TRUE, Term, both, case, negated, operate
from polycast.filters.backends.spark.values import ColumnKind, NoColumnError, Value, failing

_NUMBERS = ("bool", "int", "float")
_ONE, _ZERO = sql.literal(1, "bigint"), sql.literal(0, "bigint")


def arithmetic(sign: str, left: Value, right: Value) -> Value:
    """`left sign right`; fails where an operand is None or Python takes no such operands."""
    kinds = {left.kind.name, right.kind.name}
    if kinds & {"never"}:
        return failing()
    if sign not in OPERATIONS:
        raise NoColumnError(f"`{sign}` is not Spark's for any int", accepted=" ".join(OPERATIONS))
    for value in (left, right):
        if value.kind.name not in ("str", "bytes", "none", *_NUMBERS):
            why = f"`{sign}` of {value.kind} is not Spark's"
            raise NoColumnError(why, accepted="numbers, texts")
    if "none" in kinds:
        return failing()
    made = _numeric(sign, left, right) if kinds <= set(_NUMBERS) else _text(sign, left, right)
    return made.guarded(left.ok, right.ok, values.present(left), values.present(right))


def _text(sign: str, left: Value, right: Value) -> Value:
    if sign == "+" and left.kind.name == right.kind.name:
        return Value(left.kind.without_none(), sql.call("concat", left.term, right.term))
    if sign in ("*", "%"):
        raise NoColumnError(f"`{sign}` of a text has no Spark form", accepted="texts joined by +")
    return failing()


def _numeric(sign: str, left: Value, right: Value) -> Value:
    on_ints, on_floats = OPERATIONS[sign]
    if "float" not in (left.kind.name, right.kind.name):
        if {left.kind.name, right.kind.name} == {"bool"} and sign in _LOGICAL:
            return Value(ColumnKind("bool"), _LOGICAL[sign](left.term, right.term))
        return on_ints(values.as_int(left), values.as_int(right))
    if on_floats is None:
        return failing()
    try:
        return on_floats(_double(left), _double(right))
    except OverflowError:  # an int constant that is no float
        return failing()


def _double(value: Value) -> Term:
    if value.kind.name == "float":
        return value.term
    if value.constant is not values.ABSENT:
        return sql.literal(float(value.constant), "double")
    return sql.cast(values.as_int(value).term, "double")


def _float(term: Term, *, ok: Term = TRUE) -> Value:
    return Value(ColumnKind("float"), term, ok)


def _is_zero(divisor: Term) -> Term:
    return operate("=", divisor, sql.literal(0.0, "double"))


# -- ints ------------------------------------------------------------------------------------------


def _bounded(sign: str, left: Value, right: Value, bounds: list[int]) -> Value:
    """An operation in a type that holds its operands and every result."""
    low, high = min(bounds), max(bounds)
    every = [low, high, left.kind.low, left.kind.high, right.kind.low, right.kind.high]
    if max(map(abs, every)) > values.WIDEST:
        raise NoColumnError("the result may have more than 38 digits", accepted="smaller numbers")
    sides = [values.whole(value, min(every), max(every)) for value in (left, right)]
    made = Value(ColumnKind("int", low=min(every), high=max(every)), operate(sign, *sides))
    return Value(ColumnKind("int", low=low, high=high), values.whole(made, low, high))


def _add(left: Value, right: Value) -> Value:
    a, b = left.kind, right.kind
    return _bounded("+", left, right, [a.low + b.low, a.high + b.high])


def _subtract(left: Value, right: Value) -> Value:
    a, b = left.kind, right.kind
    return _bounded("-", left, right, [a.low - b.high, a.high - b.low])


def _multiply(left: Value, right: Value) -> Value:
    a, b = left.kind, right.kind
    return _bounded("*", left, right, [x * y for x in (a.low, a.high) for y in (b.low, b.high)])


def _divide(left: Value, right: Value) -> Value:
    """Python rounds the quotient of two ints once, so they must be exact as doubles."""
    divisor = right.constant if right.constant is not values.ABSENT else 0
    exact = all(-EXACT <= k.low <= k.high <= EXACT for k in (left.kind, right.kind))
    if not exact and not (divisor and abs(divisor) & (abs(divisor) - 1) == 0 and divisor < EXACT):
        why = "an int beyond 2**53 is rounded before Spark divides it, in Python after it"
        raise NoColumnError(why, accepted="ints of known size, a power of two below, or floats")
    return _divide_floats(_double(left), _double(right))


def _narrow(left: Value, right: Value) -> None:
    if not (left.kind.is_long and right.kind.is_long):
        raise NoColumnError("Spark does this with 64 bits only", accepted="ints of 64 bits")


def _nonzero(value: Value) -> Term:
    zero = value.kind.low <= 0 <= value.kind.high
    return negated(operate("=", value.term, _ZERO)) if zero else TRUE


def _remainder(left: Value, right: Value) -> Value:
    """Python's has the sign of the divisor, Spark's that of the dividend."""
    _narrow(left, right)
    a, b = left.kind, right.kind
    rest = sql.call("try_mod", left.term, right.term)
    low, high = min(b.low + 1, 0), max(b.high - 1, 0)
    if a.low >= 0 and b.low >= 0:
        return Value(ColumnKind("int", low=0, high=high), rest, _nonzero(right))
    wrong = both(negated(operate("=", rest, _ZERO)), _signs_differ(rest, right.term, _ZERO))
    term = case((wrong, operate("+", rest, right.term)), otherwise=rest)
    return Value(ColumnKind("int", low=low, high=high), term, _nonzero(right))


def _signs_differ(one: Term, other: Term, zero: Term) -> Term:
    return negated(operate("=", operate("<", one, zero), operate("<", other, zero)))


def _floor_divide(left: Value, right: Value) -> Value:
    """Python's goes down, Spark's goes towards zero; the least int by -1 leaves 64 bits."""
    _narrow(left, right)
    a, b = left.kind, right.kind
    bad = [divisor for divisor in (0, -1) if b.low <= divisor <= b.high]
    unsafe = sql.one_of(right.term, [sql.literal(divisor, "bigint") for divisor in bad])
    divisor = case((unsafe, _ONE), otherwise=right.term)
    down = operate("-", sql.call("div", left.term, divisor), _ONE)
    broken = both(
        negated(operate("=", sql.call("try_mod", left.term, divisor), _ZERO)),
        _signs_differ(left.term, divisor, _ZERO),
    )
    term = case((broken, down), otherwise=sql.call("div", left.term, divisor))
    most = max(abs(a.low), abs(a.high))
    kind = ColumnKind("int", low=max(-most - 1, values.LOW), high=min(most, values.HIGH))
    made = Value(kind, term)
    if -1 in bad:
        by_minus_one = operate("=", right.term, sql.literal(-1, "bigint"))
        return _either_int(by_minus_one, _negative(left), made).guarded(_nonzero(right))
    return made.guarded(_nonzero(right))


def _either_int(test: Term, one: Value, other: Value) -> Value:
    found = values.pick([(test, one)], other)
    assert found is not None
    return Value(*found)


def _bitwise(sign: str) -> Callable[[Value, Value], Value]:
    def made(left: Value, right: Value) -> Value:
        _narrow(left, right)
        a, b = left.kind, right.kind
        low = 0 if sign == "&" and (a.low >= 0 or b.low >= 0) else values.LOW
        high = min(side.high for side in (a, b) if side.low >= 0) if low == 0 else values.HIGH
        term = operate(sign, left.term, right.term)
        return Value(ColumnKind("int", low=low, high=high), term)

    return made


_LOGICAL: dict[str, Callable[[Term, Term], Term]] = {
    "&": both,
    "|": sql.either,
    "^": lambda left, right: negated(operate("=", left, right)),
}


# -- floats ----------------------------------------------------------------------------------------


def _divide_floats(left: Term, right: Term) -> Value:
    return _float(sql.call("try_divide", left, right), ok=negated(_is_zero(right)))


def _remainder_of_floats(left: Term, right: Term) -> Value:
    zero = sql.literal(0.0, "double")
    rest = sql.call("try_mod", left, right)
    wrong = both(negated(operate("=", rest, zero)), _signs_differ(rest, right, zero))
    term = case((wrong, operate("+", rest, right)), otherwise=rest)
    return _float(term, ok=negated(_is_zero(right)))


def _floor_divide_floats(left: Term, right: Term) -> Value:
    raise NoColumnError("Spark floors a double to 64 bits", accepted="`//` of ints, or `/`")


# By sign: on ints, and on doubles (None: Python fails).
OPERATIONS: dict[
    str, tuple[Callable[[Value, Value], Value], Callable[[Term, Term], Value] | None]
] = {
    "+": (_add, lambda left, right: _float(operate("+", left, right))),
    "-": (_subtract, lambda left, right: _float(operate("-", left, right))),
    "*": (_multiply, lambda left, right: _float(operate("*", left, right))),
    "/": (_divide, _divide_floats),
    "%": (_remainder, _remainder_of_floats),
    "//": (_floor_divide, _floor_divide_floats),
    "&": (_bitwise("&"), None),
    "|": (_bitwise("|"), None),
    "^": (_bitwise("^"), None),
}


# -- one operand, several operands -----------------------------------------------------------------


def signed(sign: str, value: Value) -> Value:
    """`-x`, `+x`, `~x`."""
    return _unary(f"`{sign}`", value, SIGNS[sign])


def _unary(what: str, value: Value, rules: tuple[Callable[[Value], Value], ...]) -> Value:
    name = value.kind.name
    if name not in SIMPLE and name != "never":
        why = f"{what} of {value.kind} is its class's to say"
        raise NoColumnError(why, accepted="ints, floats")
    if name == "decimal":
        why = f"{what} of a Decimal rounds as its context says"
        raise NoColumnError(why, accepted="comparisons")
    if name not in _NUMBERS:
        return failing()
    on_ints, *on_floats = rules
    if name == "float":
        made = on_floats[0](value) if on_floats else failing()
    else:
        made = on_ints(values.as_int(value))
    return made.guarded(value.ok, values.present(value))


def _negative(value: Value) -> Value:
    return _bounded("-", values.constant(0), value, [-value.kind.high, -value.kind.low])


def _inverted(value: Value) -> Value:
    return _bounded("-", values.constant(-1), value, [-1 - value.kind.high, -1 - value.kind.low])


def _same(value: Value) -> Value:
    return Value(value.kind.without_none(), value.term)


SIGNS: dict[str, tuple[Callable[[Value], Value], ...]] = {
    "-": (_negative, lambda value: _float(operate("negate", value.term))),
    "+": (_same, _same),
    "~": (_inverted,),
}


def absolute(value: Value) -> Value:
    """`abs(x)`."""
    return _unary("abs", value, (_absolute_int, lambda v: _float(sql.call("abs", v.term))))


def _absolute_int(value: Value) -> Value:
    below = operate("<", value.term, _ZERO)
    found = _either_int(below, _negative(value), _same(value))
    low, high = value.kind.low, value.kind.high
    least = 0 if low <= 0 <= high else min(abs(low), abs(high))
    return Value(ColumnKind("int", low=least, high=max(abs(low), abs(high))), found.term)


def extreme(sign: str, operands: tuple[Value, ...]) -> Value:
    """`min` or `max` of several: the first one that none of the others is beyond."""
    if any(value.kind.name == "never" for value in operands):
        return failing()

    def further(best: Value, value: Value) -> Value:
        beyond = ordered(sign, value, best)
        if beyond.kind.name == "never":
            return failing()
        found = values.pick([(beyond.term, value)], best)
        if found is None:
            raise NoColumnError("the result is of either type", accepted="values of one type")
        return Value(found[0].without_none(), found[1], both(best.ok, beyond.ok))

    oks = both(*(value.ok for value in operands))
    plain = [Value(value.kind, value.term, constant=value.constant) for value in operands]
    return reduce(further, plain[1:], plain[0]).guarded(oks)
