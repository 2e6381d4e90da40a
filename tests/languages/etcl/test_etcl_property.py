"""Interpreter, generated code, folded code and index agree with the slow reference."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from typing import Any

import etcl_reference as reference
import pytest
from etcl_worlds import (
    DEEP_EXPRESSIONS,
    EVENTS,
    EXPRESSIONS,
    NAMES,
    ORDERS,
    QUOTES,
    SOUND_EVENTS,
    SOUND_EXPRESSIONS,
    STRUCTURED,
    Color,
    Order,
    Quote,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.backends.python import generate
from polycast.filters.filter import Filter
from polycast.filters.tree.canonical import folded
from polycast.filters.tree.canonical_text import parse

LONG = os.environ.get("POLYCAST_STRESS") == "long"
EXAMPLES = 5_000 if LONG else 100
common = settings(max_examples=EXAMPLES, deadline=None, derandomize=not LONG)


def is_right(expression: Any) -> bool:
    """Whether the static types of an expression go together."""
    try:
        return reference.static(expression) in ("boolean", "unknown")
    except ValueError:
        return False


RIGHT = EXPRESSIONS.filter(is_right) | SOUND_EXPRESSIONS.filter(is_right)
SEVERAL = st.lists(EVENTS | SOUND_EVENTS | SOUND_EVENTS, min_size=1, max_size=4)


def answers(function: Any, event: Any) -> bool:
    """What a filter says, where failing is no match."""
    try:
        return bool(function(event))
    except Exception:
        return False


@common
@given(EXPRESSIONS)
def test_a_text_is_refused_for_its_types_exactly_if_they_never_go_together(expression: Any) -> None:
    text = reference.written(expression)
    if is_right(expression):
        pc.parse_filter(text, "etcl")
    else:
        with pytest.raises(pc.FilterTypeError):
            pc.parse_filter(text, "etcl")


@common
@given(RIGHT, SEVERAL)
def test_interpreter_and_generated_code_agree_with_the_reference(
    expression: Any, events: list[Any]
) -> None:
    where = pc.parse_filter(reference.written(expression), "etcl")
    for event in events:
        wanted = reference.matches(expression, event)
        assert where.interpret(event) is wanted
        assert where.matches(event) is wanted
        cls = type(event)
        assert answers(generate(folded(where.tree, cls), cls=cls).function, event) is wanted


@common
@given(DEEP_EXPRESSIONS.filter(is_right), st.lists(ORDERS, min_size=3, max_size=6))
def test_code_for_a_class_does_not_trust_what_its_fields_are_declared_to_hold(
    expression: Any, events: list[Order]
) -> None:
    where = pc.parse_filter(reference.written(expression), "etcl")
    code = generate(folded(where.tree, Order), cls=Order).function
    for event in events:
        wanted = reference.matches(expression, event)
        assert where.interpret(event) is wanted
        assert where.matches(event) is wanted
        assert answers(code, event) is wanted


@common
@given(RIGHT)
def test_text_and_data_of_a_filter_give_it_again(expression: Any) -> None:
    where = pc.parse_filter(reference.written(expression), "etcl")
    assert pc.parse_filter(where.to_etcl(), "etcl") == where
    assert Filter(parse(str(where))) == where
    assert Filter.from_json(where.to_json()) == where


# -- the index -------------------------------------------------------------------------------------


def _compared() -> list[Any]:
    constants = [("literal", value) for value in (0, 1, 5, 2.5, 2**70, True, "hello", "H", "")]
    constants += [("label", "RED"), ("label", "LOW")]
    found: list[Any] = []
    for name in NAMES[:4]:
        for steps in ((("member", name),), (("variable", name),)):
            term = ("component", steps)
            for constant in constants:
                for sign in ("==", "!=", "<", ">="):
                    found += [("compare", sign, term, constant), ("compare", sign, constant, term)]
            found.append(("and", term, ("compare", "<", ("literal", -8), ("literal", 0))))
            same = [("compare", "==", term, ("literal", n)) for n in (0, 1, 5)]
            found += [("or", same[0], same[2]), ("or", ("or", same[0], same[1]), same[2])]
    found += [("not", item) for item in found]
    choices = [found[n] for n in range(0, len(found), 7)]
    found += [("or", a, b) for a, b in pairwise(choices)]
    return [item for item in found if is_right(item)]


POPULATION = random.Random(1).sample(_compared(), 240)
POPULATION += [tree for tree in _compared() if tree[:1] == ("not",) and tree[1][0] == "or"]


@pytest.fixture(scope="module")
def matcher() -> pc.Matcher[int]:
    found: pc.Matcher[int] = pc.Matcher()
    for number, expression in enumerate(POPULATION):
        found.add(number, object, pc.parse_filter(reference.written(expression), "etcl"))
    return found


@settings(common, max_examples=1_000 if LONG else 50)
@given(SEVERAL, st.lists(RIGHT, max_size=3))
def test_the_index_agrees_with_the_reference(
    matcher: pc.Matcher[int], events: list[Any], more: list[Any]
) -> None:
    for number, expression in enumerate(more):
        matcher.add(-1 - number, object, pc.parse_filter(reference.written(expression), "etcl"))
    try:
        for event in events:
            wanted = {n for n, e in enumerate(POPULATION) if reference.matches(e, event)}
            wanted |= {-1 - n for n, e in enumerate(more) if reference.matches(e, event)}
            assert set(matcher.match(event)) == wanted
    finally:
        for number in range(len(more)):
            matcher.remove(-1 - number)


@settings(common, max_examples=200 if LONG else 10)
@given(st.lists(QUOTES, min_size=4, max_size=12) | st.lists(STRUCTURED, min_size=4, max_size=12))
def test_a_batch_agrees_with_the_reference(matcher: pc.Matcher[int], events: list[Any]) -> None:
    many = events * (80 // len(events) + 1)  # few are matched one by one
    wanted = [{n for n, e in enumerate(POPULATION) if reference.matches(e, x)} for x in events]
    for number, keys in enumerate(matcher.match_batch(many)):
        assert set(keys) == wanted[number % len(events)]


def test_the_population_is_looked_up_and_matched() -> None:
    filters = [pc.parse_filter(reference.written(tree), "etcl") for tree in POPULATION]
    assert sum(where.is_indexed for where in filters) > 60
    event = Quote(5, "hello", True, Color.RED)
    assert any(reference.matches(tree, event) for tree in POPULATION)
