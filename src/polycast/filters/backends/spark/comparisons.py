"""Python's comparisons as Spark's: equality never fails, an order may, NaN is in no order."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

from polycast.filters.backends.spark import sql, values
from polycast.filters.backends.spark.sql import FALSE, TRUE, Term, both, either, negated, operate
from polycast.filters.backends.spark.values import ABSENT, NoColumnError, Value, constant, present
from polycast.filters.tree.operators import COMPARISONS

NUMBERS = ("bool", "int", "float", "decimal")
EXACT = 2**53  # doubles hold each int up to it
SIMPLE = (*NUMBERS, "str", "bytes", "date", "datetime", "uuid", "none")
ALIKE = ("str", "bytes", "date", "uuid")  # Spark's order and equality are Python's


def compare(sign: str, left: Value, right: Value) -> Value:
    """`left sign right`: a bool, ok where both are and Python does not raise."""
    if "never" in (left.kind.name, right.kind.name):
        return values.failing()
    tabled = _tabled(sign, left, right)
    found = COMPARERS[sign](sign, left, right) if tabled is None else tabled
    return found.guarded(left.ok, right.ok)


def _bool(term: Term, *, ok: Term = TRUE) -> Value:
    return Value(values.ColumnKind("bool"), term, ok)


# -- enums: few values, so Python itself is asked about each ---------------------------------------


def _tabled(sign: str, left: Value, right: Value) -> Value | None:
    """The comparison of an enum's member with a constant."""
    if left.kind.name == "enum" and left.constant is ABSENT and right.constant is not ABSENT:
        return _table(left, lambda member: COMPARISONS[sign](member, right.constant))
    if right.kind.name == "enum" and right.constant is ABSENT and left.constant is not ABSENT:
        return _table(right, lambda member: COMPARISONS[sign](left.constant, member))
    return None


def _table(value: Value, test: Callable[[Any], Any]) -> Value:
    true: list[Term] = []
    fails: list[Term] = []
    for member in values.members(value.kind):
        verdict = _outcome(test, member)
        if verdict is not False:
            (true if verdict else fails).append(sql.literal(member.name, "string"))
    term, ok = sql.one_of(value.term, true), negated(sql.one_of(value.term, fails))
    if value.kind.nullable:
        none, null = _outcome(test, None), sql.is_null(value.term)
        term = either(both(null, TRUE if none else FALSE), both(negated(null), term))
        ok = either(both(null, FALSE if none is None else TRUE), both(negated(null), ok))
    return _bool(term, ok=ok)


def _outcome(test: Callable[[Any], Any], member: Any) -> bool | None:
    """The result of the test; None if it fails."""
    try:
        result = test(member)
    except Exception:
        return None
    if not isinstance(result, bool):
        raise NoColumnError("this enum's comparison gives no bool", accepted="comparisons that do")
    return result


def _without_enum(value: Value, other: Value) -> Value:
    """A constant member that compares as the int or text that it is, as that."""
    member, cls = value.constant, type(value.constant)
    if not issubclass(cls, enum.Enum) or other.kind.name == "enum":
        return value
    if _compares_as(cls, int):
        return constant(int.__pos__(member))
    return constant(str.__str__(member)) if _compares_as(cls, str) else value


def _compares_as(cls: type, base: type) -> bool:
    signs = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")
    same = (getattr(cls, sign) is getattr(base, sign) for sign in signs)
    return issubclass(cls, base) and all(same)


# -- equality and order ----------------------------------------------------------------------------


def equal(left: Value, right: Value) -> Term:
    """Whether they are equal; never NULL where both are ok."""
    left, right = _without_enum(left, right), _without_enum(right, left)
    names = (left.kind.name, right.kind.name)
    if "none" in names:
        return _equals_none(left if names[1] == "none" else right)
    if all(name in NUMBERS for name in names):
        same = numbers("=", left, right)
    elif names[0] != names[1]:
        same = _unlike(left, right)
    else:
        same = _alike(left, right)
    absent = both(negated(present(left)), negated(present(right)))
    return either(absent, both(present(left), present(right), same))


def _equals_none(value: Value) -> Term:
    if value.kind.name not in SIMPLE and not value.kind.is_array and value.kind.name != "dict":
        raise _no_equality(value, value)
    return negated(present(value))


def _unlike(left: Value, right: Value) -> Term:
    for value in (left, right):
        if value.kind.name not in SIMPLE and not _is_by_identity(value.kind):
            raise _no_equality(left, right)
    return FALSE


def _alike(left: Value, right: Value) -> Term:
    name = left.kind.name
    if name == "datetime":
        return both(_same_sort(left, right), operate("=", _at(left), _at(right)))
    if name in ALIKE:
        return operate("=", left.term, right.term)
    if name == "enum" and _is_by_identity(left.kind) and _is_by_identity(right.kind):
        same = left.kind.cls is right.kind.cls
        return operate("=", left.term, right.term) if same else FALSE
    kinds = {left.kind.without_none(), right.kind.without_none()}
    if left.kind.is_sequence and _has_plain_elements(left.kind) and len(kinds) == 1:
        return operate("=", left.term, right.term)
    raise _no_equality(left, right)


def _is_by_identity(kind: values.ColumnKind) -> bool:
    cls: Any = kind.cls
    return kind.name == "enum" and cls.__eq__ is object.__eq__


def _has_plain_elements(kind: values.ColumnKind) -> bool:
    # A NaN in a list is equal to itself if it is the same object, which no row can tell.
    return kind.element is not None and kind.element.name in (*ALIKE, "bool", "int")


def _no_equality(left: Value, right: Value) -> NoColumnError:
    why = f"whether {left.kind} and {right.kind} are equal is for their classes to say"
    return NoColumnError(why, accepted=f"== between {', '.join(SIMPLE)}; `is None`")


def ordered(sign: str, left: Value, right: Value) -> Value:
    """`left < right` and the like."""
    left, right = _without_enum(left, right), _without_enum(right, left)
    names = (left.kind.name, right.kind.name)
    if not all(name in SIMPLE for name in names):
        why = f"the order of {left.kind} and {right.kind} is for their classes to say"
        raise NoColumnError(why, accepted=f"an order of {', '.join(SIMPLE)}")
    there = both(present(left), present(right))
    if there is FALSE:
        return values.failing()
    if all(name in NUMBERS for name in names):
        return _bool(numbers(sign, left, right), ok=there)
    if names[0] != names[1]:
        return values.failing()
    if names[0] == "datetime":
        there = both(there, _same_sort(left, right))
        return _bool(operate(sign, _at(left), _at(right)), ok=there)
    return _bool(operate(sign, left.term, right.term), ok=there)


def _at(value: Value) -> Term:
    return sql.field(value.term, "at")


def _same_sort(left: Value, right: Value) -> Term:
    """Whether both times have a zone, or none of them."""
    zoned = [sql.not_null(sql.field(value.term, "offset")) for value in (left, right)]
    for one, other in (zoned, zoned[::-1]):
        if one is TRUE or one is FALSE:
            return other if one is TRUE else negated(other)
    return operate("=", *zoned)


# -- in and is -------------------------------------------------------------------------------------


def contained(needle: Value, container: Value) -> Value:
    """`needle in container`."""
    if container.constant is not ABSENT and isinstance(
        container.constant, tuple | list | set | frozenset
    ):
        return _bool(among(needle, [constant(value) for value in container.constant]))
    name = container.kind.name
    if name in SIMPLE and name != "bytes" and needle.kind.name in SIMPLE:
        return _contained_in_text(needle, container)
    if name == "dict" and needle.kind.name == "str":
        found = sql.call("map_contains_key", container.term, needle.term)
        return _bool(both(present(needle), found), ok=present(container))
    if container.kind.is_array and container.kind.element is not None:
        element = Value(container.kind.element, sql.variable())
        found = sql.exists(container.term, element.term, among(needle, [element]))
        return _bool(found, ok=present(container))
    why = f"`in` {container.kind}"
    raise NoColumnError(why, accepted="`in` a str, list, tuple, set, or dict[str, X]")


def _contained_in_text(needle: Value, container: Value) -> Value:
    if needle.kind.name != "str" or container.kind.name != "str":
        return values.failing()
    found = sql.call("contains", container.term, needle.term)
    return _bool(found, ok=both(present(container), present(needle)))


def among(needle: Value, elements: list[Value]) -> Term:
    """Whether the needle is, or is equal to, one of the elements."""
    if any(_may_be_nan(needle) and _may_be_nan(element) for element in elements):
        why = "a NaN is in a container if it is the same object, which no row can tell"
        raise NoColumnError(why, accepted="a float that is no NaN, or elements that are not")
    if needle.kind.name not in (*SIMPLE, "enum"):
        raise NoColumnError(f"{needle.kind} in a container", accepted=", ".join(SIMPLE))
    listed = [element for element in elements if _is_listed(needle, element)]
    rest = [element for element in elements if not _is_listed(needle, element)]
    found = both(present(needle), sql.one_of(needle.term, [element.term for element in listed]))
    return either(found, *(equal(needle, element) for element in rest))


def _may_be_nan(value: Value) -> bool:
    return value.kind.name == "float" and (value.constant is ABSENT or is_nan(value))


def _is_listed(needle: Value, element: Value) -> bool:
    """Whether SQL's IN is Python's equality for them: many constants make one list."""
    if element.constant is ABSENT or needle.kind.name != element.kind.name:
        return False
    if needle.kind.name == "int":
        return needle.kind.is_long and element.kind.is_long
    return needle.kind.name in ALIKE


def _identical(left: Value, right: Value) -> Term:
    """`left is right`, for what there is only one of."""
    for value, other in ((left, right), (right, left)):
        if other.kind.name == "none":
            if value.kind.name in ("mixed", "other") and value.constant is ABSENT:
                break
            return negated(present(value))
        if isinstance(other.constant, bool) and value.kind.name == "bool":
            return both(present(value), operate("=", value.term, other.term))
    why = "whether two values are one object is lost in a row"
    accepted = "`is` with None, an enum's member, or of a bool with True or False"
    raise NoColumnError(why, accepted=accepted)


COMPARERS: dict[str, Callable[[str, Value, Value], Value]] = {
    "==": lambda sign, left, right: _bool(equal(left, right)),
    "!=": lambda sign, left, right: _bool(negated(equal(left, right))),
    "<": ordered,
    "<=": ordered,
    ">": ordered,
    ">=": ordered,
    "in": lambda sign, left, right: contained(left, right),
    "not in": lambda sign, left, right: _opposite(contained(left, right)),
    "is": lambda sign, left, right: _bool(_identical(left, right)),
    "is not": lambda sign, left, right: _bool(negated(_identical(left, right))),
}


def _opposite(value: Value) -> Value:
    return value if value.kind.name == "never" else _bool(negated(value.term), ok=value.ok)


# -- numbers ---------------------------------------------------------------------------------------


MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def numbers(sign: str, left: Value, right: Value) -> Term:
    """An exact comparison of numbers that are not None."""
    names = {left.kind.name, right.kind.name}
    if "decimal" in names:
        return operate(sign, _as_decimal(left), _as_decimal(right))
    if names == {"bool"} and sign == "=":
        return operate("=", left.term, right.term)
    if "float" not in names:
        return _ints(sign, values.as_int(left), values.as_int(right))
    if names == {"float"}:
        return _floats(sign, left, right)
    if left.kind.name == "float":
        return _int_and_float(MIRRORED[sign], values.as_int(right), left)
    return _int_and_float(sign, values.as_int(left), right)


def _as_decimal(value: Value) -> Term:
    if value.kind.name == "decimal":
        return value.term
    if value.kind.name != "bool" and (value.kind.name == "float" or not value.kind.is_long):
        why = "a Decimal column has too few digits to meet a float or a long int exactly"
        raise NoColumnError(why, accepted="Decimal with Decimal, or with ints of 64 bits")
    return sql.cast(values.as_int(value).term, "decimal(38,18)")


def _ints(sign: str, left: Value, right: Value) -> Term:
    decided = _by_bounds(sign, left.kind, right.kind)
    if decided is not None:
        return TRUE if decided else FALSE
    low, high = min(left.kind.low, right.kind.low), max(left.kind.high, right.kind.high)
    return operate(sign, values.whole(left, low, high), values.whole(right, low, high))


def _by_bounds(sign: str, left: values.ColumnKind, right: values.ColumnKind) -> bool | None:
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
    number = TRUE if known else negated(sql.call("isnan", greater.term))
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
        same = Value(values.ColumnKind("float"), sql.cast(number.term, "double"))
        return _floats(sign, same, real)
    if not number.kind.is_long:
        why = "an int beyond 64 bits and a float meet in no type of Spark"
        raise NoColumnError(why, accepted="ints of 64 bits with floats")
    return both(_not_nan(real), operate(sign, _difference(number.term, real.term), _zero))


_zero = sql.literal(0, "int")


def _not_nan(value: Value) -> Term:
    return negated(sql.call("isnan", value.term))


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
    cut = sql.try_cast(real, "bigint")  # towards zero; NULL beyond 64 bits
    back = sql.cast(cut, "double")
    outcomes = [sql.literal(outcome, "int") for outcome in (-1, 0, 1)]
    return sql.case(
        (operate(">=", real, sql.literal(2.0**63, "double")), outcomes[0]),
        (operate("<", real, sql.literal(-(2.0**63), "double")), outcomes[2]),
        (operate("<", number, cut), outcomes[0]),
        (operate(">", number, cut), outcomes[2]),
        (operate("<", back, real), outcomes[0]),
        (operate(">", back, real), outcomes[2]),
        otherwise=outcomes[1],
    )
