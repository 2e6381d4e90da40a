"""The methods and functions of built-in types that Spark does exactly as Python does."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from polycast.filters.backends.spark import spark_terms
from polycast.filters.backends.spark.arithmetic import absolute, extreme
from polycast.filters.backends.spark.case_mapping import MAPPINGS, mapped
from polycast.filters.backends.spark.comparisons import SIMPLE
from polycast.filters.backends.spark.kinds import ColumnKind
from polycast.filters.backends.spark.refusals import NoColumnError
from polycast.filters.backends.spark.spark_terms import Term, both, either, literal
from polycast.filters.backends.spark.values import Value, constant, failing, present

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS", "METHODS", "call_function", "call_method", "text_at"]

LONGEST = 2**31 - 1  # what Spark's texts and arrays can have
Arguments = tuple[Value, ...]


def call_method(value: Value, name: str, arguments: Arguments) -> Value:
    """`value.name(*arguments)`."""
    kind = value.kind.name
    if "never" in (kind, *(argument.kind.name for argument in arguments)):
        return failing()
    rule = METHODS.get((kind, name))
    if rule is not None:
        oks = [taken.ok for taken in (value, *arguments)]
        return rule(value, arguments).guarded(*oks, present(value))
    if kind == "none":
        return failing()
    known = ", ".join(f"{of}.{method}" for of, method in METHODS)
    raise NoColumnError(f"Spark does not know the code of {name}()", accepted=known)


def call_function(name: str, arguments: Arguments) -> Value:
    """`len(x)` and the like."""
    if name not in FUNCTIONS:
        raise NoColumnError(f"{name}() has no Spark form", accepted=", ".join(FUNCTIONS))
    return FUNCTIONS[name](arguments)


# -- texts -----------------------------------------------------------------------------------------


def _affix(function: str) -> Callable[[Value, Arguments], Value]:
    def test(value: Value, arguments: Arguments) -> Value:
        [part] = _exactly(1, arguments)
        if isinstance(part.constant, tuple):
            parts = [constant(value_in_it) for value_in_it in part.constant]
            if not all(option.kind.name == "str" for option in parts):
                raise NoColumnError("not all of them are texts", accepted="a tuple of texts")
            found = either(
                *(spark_terms.call(function, value.term, option.term) for option in parts)
            )
            return Value(ColumnKind("bool"), found)
        return _with_text(
            ColumnKind("bool"), part, spark_terms.call(function, value.term, part.term)
        )

    return test


def _find(value: Value, arguments: Arguments) -> Value:
    [part] = _exactly(1, arguments)
    place = spark_terms.cast(spark_terms.call("instr", value.term, part.term), "bigint")
    kind = ColumnKind("int", low=-1, high=LONGEST)
    return _with_text(kind, part, spark_terms.operate("-", place, literal(1, "bigint")))


def _with_text(kind: ColumnKind, part: Value, term: Term) -> Value:
    """What a method gives that takes one text and fails with anything else."""
    if part.kind.name not in SIMPLE:
        raise NoColumnError(f"an argument that is {part.kind}", accepted="a text")
    if part.kind.name != "str":
        return failing()
    return Value(kind, term, present(part))


def _strip(function: str) -> Callable[[Value, Arguments], Value]:
    def strip(value: Value, arguments: Arguments) -> Value:
        letters = arguments[0].constant if arguments else None
        if len(arguments) > 1 or not (letters is None or isinstance(letters, str)):
            raise NoColumnError(
                "which letters are stripped", accepted="a constant text, or nothing"
            )
        found = literal(_spaces() if letters is None else letters, "string")
        return Value(ColumnKind("str"), spark_terms.call(function, value.term, found))

    return strip


def _mapped(name: str) -> Callable[[Value, Arguments], Value]:
    def letters(value: Value, arguments: Arguments) -> Value:
        _exactly(0, arguments)
        return mapped(name, value)

    return letters


@functools.cache
def _spaces() -> str:
    """What Python counts as white space; Spark knows the space only."""
    return "".join(letter for letter in map(chr, range(sys.maxunicode + 1)) if letter.isspace())


def _exactly(count: int, arguments: Arguments) -> Arguments:
    if len(arguments) != count:
        raise NoColumnError(f"it has {len(arguments)} arguments", accepted=f"with {count} of them")
    return arguments


def text_at(value: Value, index: Value) -> Value:
    """`text[index]`, from the end if the index is negative."""
    one, zero = literal(1, "bigint"), literal(0, "bigint")
    length = spark_terms.cast(spark_terms.call("length", value.term), "bigint")
    place = spark_terms.case(
        (spark_terms.operate("<", index.term, zero), index.term),
        otherwise=spark_terms.call("try_add", index.term, one),
    )
    found = spark_terms.call(
        "substring", value.term, spark_terms.try_cast(place, "int"), literal(1, "int")
    )
    inside = both(
        spark_terms.operate("<", index.term, length),
        spark_terms.operate(">=", index.term, spark_terms.operate("negate", length)),
    )
    return Value(ColumnKind("str"), found, inside)


# -- dicts -----------------------------------------------------------------------------------------


def _get(value: Value, arguments: Arguments) -> Value:
    [key] = _exactly(1, arguments)
    if key.kind.name != "str" or value.kind.element is None:
        raise NoColumnError(f"a key that is {key.kind}", accepted="a text")
    found = spark_terms.call("try_element_at", value.term, key.term)
    return Value(value.kind.element.or_none(), found)


METHODS: dict[tuple[str, str], Callable[[Value, Arguments], Value]] = {
    ("str", "startswith"): _affix("startswith"),
    ("str", "endswith"): _affix("endswith"),
    ("str", "find"): _find,
    ("str", "strip"): _strip("btrim"),
    **{("str", name): _mapped(name) for name in MAPPINGS},
    ("dict", "get"): _get,
}


# -- functions -------------------------------------------------------------------------------------


def _len(arguments: Arguments) -> Value:
    [value] = _exactly(1, arguments)
    name = value.kind.name
    if name in ("object", "enum", "mixed", "other"):
        raise NoColumnError(
            f"the length of {value.kind} is its class's to say", accepted="texts, lists"
        )
    function = "size" if value.kind.is_array or name == "dict" else "length"
    if name not in ("str", "bytes") and function == "length":
        return failing()
    length = spark_terms.cast(spark_terms.call(function, value.term), "bigint")
    return Value(ColumnKind("int", low=0, high=LONGEST), length).guarded(value.ok, present(value))


def _extreme(sign: str, function: str) -> Callable[[Arguments], Value]:
    def found(arguments: Arguments) -> Value:
        if len(arguments) > 1:
            return extreme(sign, arguments)
        [value] = _exactly(1, arguments)
        element = value.kind.element
        plain = element is not None and not element.nullable and element.name in _SORTED
        if not value.kind.is_array or element is None or not plain:
            raise NoColumnError(
                "the order of its elements", accepted=f"lists of {', '.join(_SORTED)}"
            )
        there = spark_terms.operate(">", spark_terms.call("size", value.term), literal(0, "int"))
        made = Value(element, spark_terms.call(function, value.term))
        return made.guarded(value.ok, present(value), there)

    return found


_SORTED = ("int", "bool", "str", "date")  # a NaN would make the order of a list matter

FUNCTIONS: dict[str, Callable[[Arguments], Value]] = {
    "len": _len,
    "abs": lambda arguments: absolute(*_exactly(1, arguments)),
    "min": _extreme("<", "array_min"),
    "max": _extreme(">", "array_max"),
}
