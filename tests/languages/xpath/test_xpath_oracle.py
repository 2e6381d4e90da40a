"""Every way of running an XPath filter says what lxml says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xpath_grammar import (
    QUICK,
    events,
    expressions,
    level_3,
    lxml_says,
    reads_numbers_alike,
    usual,
    values,
)

import polycast as pc
from polycast.filters.backends.python import generate
from polycast.filters.cost import cost_of


@dataclass
class Plain:
    """Its objects may have lost an attribute, or have got another."""

    a: Any
    b: Any
    topic: Annotated[Any, pc.Opaque] = None


@dataclass(slots=True)
class Slotted:
    a: Any
    topic: Any


class Struct(msgspec.Struct):
    a: Any = msgspec.UNSET
    price: Any = msgspec.UNSET


@st.composite
def objects(draw: st.DrawFn) -> object:
    """Events that are objects, whole or not."""
    cls = draw(st.sampled_from([Plain, Slotted, Struct]))
    found: Any = cls(draw(values), draw(values))
    if cls is Plain and draw(st.booleans()):
        found.price = draw(values)
    elif cls is Struct and draw(st.booleans()):
        found.a = msgspec.UNSET
    return found


def parsed(text: str) -> pc.Filter[object]:
    """The filter, unless it costs too much."""
    try:
        return pc.parse_filter(text, "xpath")
    except pc.FilterSyntaxError as error:
        assume("steps" not in error.problem)
        raise


def check(text: str, event: object) -> None:
    where = parsed(text)
    wanted = lxml_says(text, event)
    assert where.matches(event) is wanted
    assert where.interpret(event) is wanted
    assert bool(where(event)) is wanted, "nothing fails"
    assert (~where).matches(event) is not wanted
    assert bool(generate(where.tree, cls=type(event)).function(event)) is wanted


@QUICK
@given(usual, events)
def test_usual_filters_say_what_lxml_says(text: str, event: object) -> None:
    assume(reads_numbers_alike(event))
    check(text, event)


@QUICK
@given(expressions, events)
def test_any_filter_says_what_lxml_says(text: str, event: object) -> None:
    assume(reads_numbers_alike(event))
    check(text, event)


@QUICK
@given(usual | expressions, objects())
def test_an_object_is_judged_by_its_attributes(text: str, event: object) -> None:
    assume(reads_numbers_alike(event))
    check(text, event)


@QUICK
@given(expressions | usual, level_3)
def test_a_level_3_event_is_judged_by_its_filterable_part(text: str, event: object) -> None:
    assume(reads_numbers_alike(event))
    check(text, event)


@QUICK
@given(expressions | usual)
def test_a_filter_is_the_same_read_again(text: str) -> None:
    where = parsed(text)
    assert pc.parse_filter(where.to_xpath(), "xpath") == where
    try:
        cost_of(where.tree)
    except pc.FilterTooCostlyError:  # what nothing bounds is not taken from outside
        with pytest.raises(pc.FilterTooCostlyError):
            pc.Filter.from_json(where.to_json())
    else:
        assert pc.Filter.from_json(where.to_json()) == where
