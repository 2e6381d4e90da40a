"""The methods and functions of built-in types that Spark does exactly as Python does.

`lower`, `upper` and `casefold` of a text go letter by letter as the running Python does it: the JVM
has its own tables and its own rules, so they are not asked. One letter for one letter is a
`translate` with Python's table, one letter for several a `replace`. Only `lower` looks around: a
capital sigma at the end of a word has a form of its own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from unicodedata import category

from polycast.filters.backends.spark import sql, values
from polycast.filters.backends.spark.arithmetic import absolute, extreme
from polycast.filters.backends.spark.comparisons import SIMPLE
from polycast.filters.backends.spark.sql import TRUE, Term, both, literal, negated, operate
from polycast.filters.backends.spark.values import ColumnKind, NoColumnError, Value, failing

MAPPINGS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "casefold": str.casefold,
}
SIGMA, FINAL_SIGMA = "Σ", "ς"
NO_LETTER = {"Cn", "Co", "Cs"}  # unassigned, for private use, surrogates


def _mapped(name: str) -> Callable[[Value, Arguments], Value]:
    """`value.lower()` and the like."""

    def letters(value: Value, arguments: Arguments) -> Value:
        _exactly(0, arguments)
        single, several = _tables(name)
        term = _with_final_sigmas(value.term) if name == "lower" else value.term
        if several:
            long = functools.reduce(_replaced, several.items(), term)
            special = sql.call("rlike", value.term, _text(f"[{_class(several)}]"))
            term = sql.case((special, long), otherwise=term)
        found = sql.call("translate", term, _text("".join(single)), _text("".join(single.values())))
        return Value(ColumnKind("str"), found)

    return letters


def _text(value: str) -> Term:
    return literal(value, "string")


def _replaced(term: Term, change: tuple[str, str]) -> Term:
    return sql.call("replace", term, _text(change[0]), _text(change[1]))


@functools.cache
def _letters() -> list[str]:
    """The characters that mapping may change or inspect: one code point of ten is assigned."""
    return [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if category(character) not in NO_LETTER
    ]


@functools.cache
def _tables(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """What each changing letter becomes: the letters that become one letter, and the others."""
    change = MAPPINGS[name]
    changed = {letter: change(letter) for letter in _letters() if change(letter) != letter}
    single = {letter: other for letter, other in changed.items() if len(other) == 1}
    return single, {letter: other for letter, other in changed.items() if len(other) != 1}


def _with_final_sigmas(term: Term) -> Term:
    pattern, change = _text(_final_sigma()), _text(f"$1{FINAL_SIGMA}")
    there = sql.call("contains", term, _text(SIGMA))
    return sql.case((there, sql.call("regexp_replace", term, pattern, change)), otherwise=term)


@functools.cache
def _final_sigma() -> str:
    """A capital sigma after a cased letter and not before one; some letters in between are skipped.

    Which letters are cased and which are skipped, Python tells by what it does.
    """
    cased = _before_final_sigma("")
    known = set(cased)
    skipped = [letter for letter in _before_final_sigma("a") if letter not in known]
    c, s = _class(cased), _class(skipped)
    return f"([{c}][{s}]*){SIGMA}(?![{s}]*[{c}])"


def _before_final_sigma(start: str) -> list[str]:
    """The letters that make a sigma final, right after such a start."""
    letters = [letter for letter in _letters() if letter != "1"]
    words = "1".join(f"{start}{letter}{SIGMA}" for letter in letters).lower().split("1")
    pairs = zip(letters, words, strict=True)
    return [letter for letter, word in pairs if word.endswith(FINAL_SIGMA)]


def _class(letters: list[str] | dict[str, str]) -> str:
    """The inside of a character class of Java's: ranges of code points, in order."""
    ranges: list[list[int]] = []
    for code in map(ord, letters):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


# -- methods ---------------------------------------------------------------------------------------


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
        return rule(value, arguments).guarded(*oks, values.present(value))
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
            parts = [values.constant(value_in_it) for value_in_it in part.constant]
            if not all(option.kind.name == "str" for option in parts):
                raise NoColumnError("not all of them are texts", accepted="a tuple of texts")
            found = sql.either(*(sql.call(function, value.term, option.term) for option in parts))
            return Value(ColumnKind("bool"), found)
        return _with_text(ColumnKind("bool"), part, sql.call(function, value.term, part.term))

    return test


def _find(value: Value, arguments: Arguments) -> Value:
    [part] = _exactly(1, arguments)
    place = sql.cast(sql.call("instr", value.term, part.term), "bigint")
    kind = ColumnKind("int", low=-1, high=LONGEST)
    return _with_text(kind, part, operate("-", place, literal(1, "bigint")))


def _with_text(kind: ColumnKind, part: Value, term: Term) -> Value:
    """What a method gives that takes one text and fails with anything else."""
    if part.kind.name not in SIMPLE:
        raise NoColumnError(f"an argument that is {part.kind}", accepted="a text")
    if part.kind.name != "str":
        return failing()
    return Value(kind, term, values.present(part))


def _strip(value: Value, arguments: Arguments) -> Value:
    letters = arguments[0].constant if arguments else None
    if len(arguments) > 1 or not (letters is None or isinstance(letters, str)):
        raise NoColumnError("which letters are stripped", accepted="a constant text, or nothing")
    stripped = _text(_spaces() if letters is None else letters)
    return Value(ColumnKind("str"), sql.call("btrim", value.term, stripped))


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
    length = sql.cast(sql.call("length", value.term), "bigint")
    place = sql.case(
        (operate("<", index.term, zero), index.term), otherwise=sql.call("try_add", index.term, one)
    )
    found = sql.call("substring", value.term, sql.try_cast(place, "int"), literal(1, "int"))
    inside = both(
        operate("<", index.term, length), operate(">=", index.term, operate("negate", length))
    )
    return Value(ColumnKind("str"), found, inside)


# -- dicts -----------------------------------------------------------------------------------------


def _get(value: Value, arguments: Arguments) -> Value:
    [key] = _exactly(1, arguments)
    if key.kind.name != "str" or value.kind.element is None:
        raise NoColumnError(f"a key that is {key.kind}", accepted="a text")
    found = sql.call("try_element_at", value.term, key.term)
    return Value(value.kind.element.or_none(), found)


METHODS: dict[tuple[str, str], Callable[[Value, Arguments], Value]] = {
    ("str", "startswith"): _affix("startswith"),
    ("str", "endswith"): _affix("endswith"),
    ("str", "find"): _find,
    ("str", "strip"): _strip,
    **{("str", name): _mapped(name) for name in MAPPINGS},
    ("dict", "get"): _get,
}


# -- functions -------------------------------------------------------------------------------------


def _len(arguments: Arguments) -> Value:
    [value] = _exactly(1, arguments)
    name = value.kind.name
    if name in ("object", "enum", "mixed", "other"):
        why = f"the length of {value.kind} is its class's to say"
        raise NoColumnError(why, accepted="texts, lists")
    function = "size" if value.kind.is_array or name == "dict" else "length"
    if name not in ("str", "bytes") and function == "length":
        return failing()
    length = sql.cast(sql.call(function, value.term), "bigint")
    return Value(ColumnKind("int", low=0, high=LONGEST), length).guarded(
        value.ok, values.present(value)
    )


def _extreme(sign: str, function: str) -> Callable[[Arguments], Value]:
    def found(arguments: Arguments) -> Value:
        if len(arguments) > 1:
            return extreme(sign, arguments)
        [value] = _exactly(1, arguments)
        element = value.kind.element
        plain = element is not None and not element.nullable and element.name in _SORTED
        if not value.kind.is_array or element is None or not plain:
            why = "the order of its elements"
            raise NoColumnError(why, accepted=f"lists of {', '.join(_SORTED)}")
        there = operate(">", sql.call("size", value.term), literal(0, "int"))
        made = Value(element, sql.call(function, value.term))
        return made.guarded(value.ok, values.present(value), there)

    return found


_SORTED = ("int", "bool", "str", "date")  # a NaN would make the order of a list matter

FUNCTIONS: dict[str, Callable[[Arguments], Value]] = {
    "len": _len,
    "abs": lambda arguments: absolute(*_exactly(1, arguments)),
    "min": _extreme("<", "array_min"),
    "max": _extreme(">", "array_max"),
}


# -- items -----------------------------------------------------------------------------------------


def item(of: Value, key: Value) -> Value:
    """`of[key]`; fails where there is none."""
    for value in (of, key):
        known = (*SIMPLE, "list", "tuple", "set", "frozenset", "dict", "never")
        if value.kind.name not in known or of.kind.name == "bytes":
            why = f"{value.kind} in a subscript"
            raise NoColumnError(why, accepted="lists, texts, dict[str, X]")
    return _found(of, key).guarded(of.ok, key.ok, values.present(of), values.present(key))


def _found(of: Value, key: Value) -> Value:
    if of.kind.name == "dict" and of.kind.element is not None and key.kind.name == "str":
        found = Value(of.kind.element, sql.call("try_element_at", of.term, key.term))
        return found.guarded(sql.call("map_contains_key", of.term, key.term))
    if key.kind.name not in ("int", "bool"):
        return failing()
    index = values.as_int(key)
    if not index.kind.is_long:
        raise NoColumnError("an index beyond 64 bits", accepted="an int of 64 bits")
    if of.kind.name == "str":
        return text_at(of, index)
    if of.kind.is_sequence and of.kind.element is not None:
        return _at(of, of.kind.element, index)
    return failing()


def _at(of: Value, element: ColumnKind, index: Value) -> Value:
    size = sql.cast(sql.call("size", of.term), "bigint")
    from_end = operate("<", index.term, literal(0, "bigint"))
    place = sql.case((from_end, operate("+", index.term, size)), otherwise=index.term)
    inside = both(operate(">=", place, literal(0, "bigint")), operate("<", place, size))
    return Value(element, sql.call("get", of.term, sql.try_cast(place, "int")), inside)


# -- any and all -----------------------------------------------------------------------------------


def element_of(over: Value) -> Value:
    """What the variable of a quantifier stands for."""
    if not over.kind.is_array or over.kind.element is None:
        why = f"the elements of {over.kind} are not those of an array"
        accepted = "any and all over a list, tuple, set or frozenset attribute"
        raise NoColumnError(why, accepted=accepted)
    return Value(over.kind.element, sql.variable())


def quantified(kind: str, over: Value, element: Value, tests: list[Value], each: Value) -> Value:
    """`any(each for element in over if tests)`, or `all`.

    The first element that decides or fails is the one that counts.
    """
    reached, ok = TRUE, TRUE  # whether an element passes the tests, whether all goes well
    for test in tests:
        ok, reached = both(ok, _unless(reached, test.ok)), both(reached, values.truth(test))
    ok = both(ok, _unless(reached, each.ok))
    verdict = values.truth(each) if kind == "any" else negated(values.truth(each))
    decides = both(reached, verdict)
    if ok is TRUE:
        found, fine = sql.exists(over.term, element.term, decides), TRUE
    elif not over.kind.is_sequence:
        why = "a set has no order in Spark, and an element that fails may come first"
        raise NoColumnError(why, accepted="tests that cannot fail, or a list")
    else:
        found, fine = _in_order(over.term, element.term, ok, decides)
    result = found if kind == "any" else negated(found)
    return Value(ColumnKind("bool"), result, fine).guarded(over.ok, values.present(over))


def _unless(reached: Term, ok: Term) -> Term:
    """It may fail where it is not reached."""
    return ok if reached is TRUE or ok is TRUE else sql.either(negated(reached), ok)


def _in_order(array: Term, element: Term, ok: Term, decides: Term) -> tuple[Term, Term]:
    """Whether an element decides, and whether none fails before it."""
    undecided, decided, failed = (literal(state, "int") for state in range(3))
    state = sql.variable()
    step = sql.case(
        (negated(operate("=", state, undecided)), state),
        (negated(ok), failed),
        (decides, decided),
        otherwise=undecided,
    )
    end = sql.aggregate(array, undecided, state, element, step)
    if decides is sql.FALSE:
        return sql.FALSE, operate("=", end, undecided)
    return operate("=", end, decided), negated(operate("=", end, failed))
