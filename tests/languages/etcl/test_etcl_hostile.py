"""Text that is no filter, or a far too big one: declared errors, soon."""

from __future__ import annotations

import os
import random
from time import perf_counter
from typing import Any

import etcl_reference as reference
import pytest
from etcl_worlds import EXPRESSIONS
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc

LONG = os.environ.get("POLYCAST_STRESS") == "long"
common = settings(max_examples=20_000 if LONG else 120, deadline=None, derandomize=not LONG)

PIECES = [
    *("$", ".", "[", "]", "(", ")", "'", "\\", "~", "<", "<=", "==", "!=", "+", "-", "*", "/", "%"),
    *("and", "or", "not", "in", "exist", "default", "TRUE", "false", "a", "RED", "_d", "_length"),
    *(
        "0",
        "1.5",
        ".5",
        "1.",
        "1e5",
        "10e-3",
        " ",
        "\t",
        "é",
        "\0",
        "\u2028",
        "'a'",
        "'abc'",
        "$.a",
    ),
]


def check(text: str) -> None:
    """A text is a filter, or refused at a place in it."""
    refusal: Any = None
    try:
        where = pc.parse_filter(text, "etcl")
    except (pc.FilterSyntaxError, pc.FilterTypeError) as error:
        refusal = error
    if refusal is not None:
        assert 0 <= refusal.position <= len(text)
        assert str(refusal).endswith("^")
        return
    assert pc.parse_filter(where.to_etcl(), "etcl") == where
    where.matches({"a": 1})


@common
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=20))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    check(text)


@common
@given(EXPRESSIONS, st.randoms(use_true_random=False), st.sampled_from(PIECES))
def test_a_spoilt_filter_is_a_filter_or_refused(
    expression: Any, chance: random.Random, piece: str
) -> None:
    text = reference.written(expression)
    begin = chance.randrange(len(text) + 1)
    check(text[:begin] + piece + text[begin + chance.randrange(3) :])


MANY = 20_000
HUGE = {
    "parentheses": "(" * MANY + "TRUE" + ")" * MANY,
    "open parentheses": "(" * MANY,
    "sums": "1" + " + 1" * MANY + " == 1",
    "not": "not (" * MANY + "TRUE" + ")" * MANY,
    "digits": "$ == " + "9" * 90_000,
    "decimals": "$ == 0." + "9" * 90_000,
    "exponent": "$ == 1e" + "9" * 90_000,
    "position": "$." + "9" * 90_000 + " == 1",
    "element": "$[" + "9" * 90_000 + "] == 1",
    "tag": "$.(" + "9" * 90_000 + ") == 1",
    "path": "$" + ".a" * MANY + " == 1",
    "name": "$." + "a" * 90_000 + " == 1",
    "variable": "$" + "a" * 90_000 + " == 1",
    "length": " " * 100_001,
    "sign": "1 " + "-" * 90_000,
    "quote": "'" * 99_999,
    "backslash": "\\" * 99_999,
}


@pytest.mark.parametrize("name", HUGE)
def test_a_filter_that_is_far_too_big_is_refused_soon(name: str) -> None:
    begun = perf_counter()
    with pytest.raises(pc.FilterSyntaxError):
        pc.parse_filter(HUGE[name], "etcl")
    assert perf_counter() - begun < 5


@pytest.mark.parametrize(
    "text",
    [
        " and ".join(f"$.a{n} == {n}" for n in range(1_000)),
        " or ".join(["$.a == 1"] * 1_000),
        "'" + "x" * 99_000 + "' ~ $",
        " " * 99_999,
    ],
)
def test_a_long_filter_is_a_filter(text: str) -> None:
    where = pc.parse_filter(text, "etcl")
    assert where.matches({"a": 1}) in (True, False)
    assert pc.parse_filter(where.to_etcl(), "etcl") == where


@pytest.mark.parametrize("text", [None, 5, b"TRUE", ["TRUE"]])
def test_a_filter_is_a_text(text: Any) -> None:
    with pytest.raises(pc.BadOptionError):
        pc.parse_filter(text, "etcl")


def test_a_language_that_is_not_known_is_told() -> None:
    with pytest.raises(pc.BadOptionError, match="'etcl'"):
        pc.parse_filter("TRUE", "FooGram")
