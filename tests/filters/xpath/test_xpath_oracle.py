"""Every way of running an XPath filter says what lxml says."""

from __future__ import annotations

from hypothesis import assume, given
from xpath_grammar import (
    QUICK,
    events,
    expressions,
    level_3,
    lxml_says,
    reads_numbers_alike,
    usual,
)

import polycast as pc


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
@given(expressions | usual, level_3)
def test_a_level_3_event_is_judged_by_its_filterable_part(text: str, event: object) -> None:
    assume(reads_numbers_alike(event))
    check(text, event)


@QUICK
@given(expressions | usual)
def test_a_filter_is_the_same_read_again(text: str) -> None:
    where = parsed(text)
    assert pc.parse_filter(pc.xpath_text(where), "xpath") == where
    assert pc.Filter.from_json(where.to_json()) == where
