"""Spark expressions before they are columns: no session is needed to make or to refuse them.

A term is a node of a graph with shared parts. Spark sees it as a tree, so `size` counts the tree;
it walks over it by recursion, so `depth` matters too.
Functions are named in full, `system.builtin.length`, so that a user's function of the same name
does not take their place.
"""

from __future__ import annotations

import datetime
import operator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column


class Term:
    """One operation and what it is done to."""

    __slots__ = ("arguments", "depth", "detail", "operation", "size")

    def __init__(self, operation: str, *arguments: Term, detail: Any = None) -> None:
        self.operation, self.arguments, self.detail = operation, arguments, detail
        self.size: int = 1 + sum(argument.size for argument in arguments)
        self.depth: int = 1 + max((argument.depth for argument in arguments), default=0)

    def __repr__(self) -> str:
        inner = [repr(argument) for argument in self.arguments]
        inner += [] if self.detail is None else [repr(self.detail)]
        return f"{self.operation}({', '.join(inner)})"


TRUE, FALSE = Term("literal", detail=(True, "boolean")), Term("literal", detail=(False, "boolean"))
NULL = Term("literal", detail=(None, "void"))


def literal(value: object, kind: str) -> Term:
    """A value of a Spark type, given as what `lit` takes or as text to be cast."""
    if kind == "boolean":
        return TRUE if value else FALSE
    return Term("literal", detail=(value, kind))


def moment(at: datetime.datetime, offset: datetime.timedelta | None) -> Term:
    """A datetime as a column has it."""
    parts = literal(at, "timestamp_ntz"), literal(offset, "interval day to second")
    return Term("moment", *parts)


def named(name: str) -> Term:
    """A column of the table."""
    return Term("column", detail=name)


def field(of: Term, name: str) -> Term:
    """A field of a struct; NULL if the struct is."""
    if of.operation == "moment":
        return of.arguments[("at", "offset").index(name)]
    return Term("field", of, detail=name)


def variable() -> Term:
    """What a lambda takes."""
    return Term("variable")


def operate(sign: str, *operands: Term) -> Term:
    """One of the operators below."""
    return Term(sign, *operands)


def call(function: str, *arguments: Term) -> Term:
    """A function of Spark that raises in no mode."""
    return Term("call", *arguments, detail=function)


def cast(of: Term, kind: str) -> Term:
    """A cast that cannot fail."""
    return Term("cast", of, detail=kind)


def try_cast(of: Term, kind: str) -> Term:
    """A cast that gives NULL where it fails, in every mode."""
    return Term("try_cast", of, detail=kind)


def is_null(of: Term) -> Term:
    """Whether it is NULL."""
    if of.operation == "literal":
        return TRUE if of.detail[0] is None else FALSE
    return Term("is null", of)


def not_null(of: Term) -> Term:
    """Whether it is not NULL."""
    return negated(is_null(of))


def both(*parts: Term) -> Term:
    """SQL's AND."""
    kept = [part for part in parts if part is not TRUE]
    if any(part is FALSE for part in kept):
        return FALSE
    return _joined("and", kept) if kept else TRUE


def either(*parts: Term) -> Term:
    """SQL's OR."""
    kept = [part for part in parts if part is not FALSE]
    if any(part is TRUE for part in kept):
        return TRUE
    return _joined("or", kept) if kept else FALSE


def _joined(sign: str, parts: list[Term]) -> Term:
    """Halves of halves, to keep it flat."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Term(sign, _joined(sign, parts[:middle]), _joined(sign, parts[middle:]))


def negated(part: Term) -> Term:
    """SQL's NOT."""
    if part is TRUE or part is FALSE:
        return FALSE if part is TRUE else TRUE
    return part.arguments[0] if part.operation == "not" else Term("not", part)


def case(*branches: tuple[Term, Term], otherwise: Term) -> Term:
    """The value of the first condition that is TRUE."""
    kept = [branch for branch in branches if branch[0] is not FALSE]
    if kept and kept[0][0] is TRUE:
        return kept[0][1]
    if not kept:
        return otherwise
    return Term("case", *(part for branch in kept for part in branch), otherwise)


def one_of(of: Term, choices: Iterable[Term]) -> Term:
    """Whether it is equal to one of some literals."""
    found = list(choices)
    return Term("in", of, *found) if found else FALSE


def exists(array: Term, element: Term, condition: Term) -> Term:
    """Whether a condition holds for an element."""
    return FALSE if condition is FALSE else Term("exists", array, element, condition)


def transform(items: Term, element: Term, each: Term, *, values: bool = False) -> Term:
    """What is made of each element of an array, or of the values of a map."""
    return Term("transform values" if values else "transform", items, element, each)


def aggregate(array: Term, start: Term, state: Term, element: Term, step: Term) -> Term:
    """The state after the last element."""
    return Term("aggregate", array, start, state, element, step)


# -- columns ---------------------------------------------------------------------------------------

OPERATORS: dict[str, Callable[..., Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.invert,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "negate": operator.neg,
    "&": lambda left, right: left.bitwiseAND(right),
    "|": lambda left, right: left.bitwiseOR(right),
    "^": lambda left, right: left.bitwiseXOR(right),
    "<=>": lambda left, right: left.eqNullSafe(right),
    "is null": lambda of: of.isNull(),
    "in": lambda of, *choices: of.isin(*choices),
}


def are_alike(one: Term, other: Term, variables: dict[int, int] | None = None) -> bool:
    """Whether two terms say the same, whatever their variables are called."""
    known = {} if variables is None else variables
    if one is other:
        return True
    if one.operation == other.operation == "variable":
        return known.setdefault(id(one), id(other)) == id(other)
    if one.operation != other.operation or repr(one.detail) != repr(other.detail):
        return False
    if len(one.arguments) != len(other.arguments):
        return False
    pairs = zip(one.arguments, other.arguments, strict=True)
    return all(are_alike(*pair, known) for pair in pairs)


def column_of(term: Term) -> Column:
    """The column of a term. Shared parts are made once."""
    made: Column = _Columns().make(term)
    return made


class _Columns:
    def __init__(self) -> None:
        from pyspark.sql import functions

        self._spark: Any = functions
        self._made: dict[int, Any] = {}  # by identity; variables are put in by their lambdas

    def make(self, term: Term) -> Any:
        if id(term) not in self._made:
            self._made[id(term)] = self._new(term)
        return self._made[id(term)]

    def _new(self, term: Term) -> Any:
        if term.operation in _WITH_LAMBDAS:
            return _WITH_LAMBDAS[term.operation](self, term)
        arguments = map(self.make, term.arguments)
        if term.operation in OPERATORS:
            return OPERATORS[term.operation](*arguments)
        return _MAKERS[term.operation](self._spark, term.detail, *arguments)

    def exists(self, term: Term) -> Any:
        array, element, condition = term.arguments

        def holds(x: Column) -> Any:
            self._made[id(element)] = x
            return self.make(condition)

        return self._spark.exists(self.make(array), holds)

    def transform(self, term: Term) -> Any:
        items, element, each = term.arguments

        def made(x: Column) -> Any:
            self._made[id(element)] = x
            return self.make(each)

        def value(key: Column, x: Column) -> Any:
            del key
            return made(x)

        if term.operation == "transform":
            return self._spark.transform(self.make(items), made)
        return self._spark.transform_values(self.make(items), value)

    def aggregate(self, term: Term) -> Any:
        array, start, state, element, step = term.arguments

        def merge(before: Column, x: Column) -> Any:
            self._made[id(state)], self._made[id(element)] = before, x
            return self.make(step)

        return self._spark.aggregate(self.make(array), self.make(start), merge)


def _plain(value: object) -> object:
    """The values that `lit` takes unchanged, whatever the time zone or calendar."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return Decimal(value)
    return value


def _case(spark: Any, _: None, *arguments: Any) -> Any:
    *branches, otherwise = arguments
    made = spark
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        made = made.when(condition, value)
    return made.otherwise(otherwise)


# Of Spark's functions, a term's detail and its arguments as columns.
_MAKERS: dict[str, Callable[..., Any]] = {
    "literal": lambda spark, detail: spark.lit(_plain(detail[0])).cast(detail[1]),
    "moment": lambda spark, _, at, offset: spark.struct(at.alias("at"), offset.alias("offset")),
    "column": lambda spark, name: spark.col(f"`{name.replace('`', '``')}`"),
    "field": lambda spark, name, of: of.getField(name),
    "call": lambda spark, name, *given: spark.call_function(f"system.builtin.{name}", *given),
    "cast": lambda spark, kind, of: of.cast(kind),
    "try_cast": lambda spark, kind, of: of.try_cast(kind),
    "case": _case,
}
_WITH_LAMBDAS: dict[str, Callable[[_Columns, Term], Any]] = {
    "exists": _Columns.exists,
    "transform": _Columns.transform,
    "transform values": _Columns.transform,
    "aggregate": _Columns.aggregate,
}
