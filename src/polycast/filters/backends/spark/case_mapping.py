"""`lower`, `upper` and `casefold` of a text, letter by letter as the running Python does it.

The JVM has its own tables and its own rules, so they are not asked: one letter for one letter is a
`translate` with Python's table, one letter for several a `replace`. Only `lower` looks around: a
capital sigma at the end of a word has a form of its own.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING
from unicodedata import category

from polycast.filters.backends.spark import spark_terms
from polycast.filters.backends.spark.kinds import ColumnKind
from polycast.filters.backends.spark.spark_terms import Term, literal
from polycast.filters.backends.spark.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

MAPPINGS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "casefold": str.casefold,
}
SIGMA, FINAL_SIGMA = "Σ", "ς"
NO_LETTER = {"Cn", "Co", "Cs"}  # unassigned, for private use, surrogates


def mapped(name: str, value: Value) -> Value:
    """`value.lower()` and the like."""
    single, several = _tables(name)
    term = _with_final_sigmas(value.term) if name == "lower" else value.term
    if several:
        long = functools.reduce(_replaced, several.items(), term)
        special = spark_terms.call("rlike", value.term, _text(f"[{_class(several)}]"))
        term = spark_terms.case((special, long), otherwise=term)
    found = spark_terms.call(
        "translate", term, _text("".join(single)), _text("".join(single.values()))
    )
    return Value(ColumnKind("str"), found)


def _text(value: str) -> Term:
    return literal(value, "string")


def _replaced(term: Term, change: tuple[str, str]) -> Term:
    return spark_terms.call("replace", term, _text(change[0]), _text(change[1]))


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
    there = spark_terms.call("contains", term, _text(SIGMA))
    return spark_terms.case(
        (there, spark_terms.call("regexp_replace", term, pattern, change)), otherwise=term
    )


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
