"""Components of ETCL that lead nowhere are told at subscription, as a wrong attribute is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import etcl_reference as reference
import pytest
from etcl_worlds import EXPRESSIONS, QUOTES, SOUND_EXPRESSIONS, Quote
from hypothesis import assume, given, settings

import polycast as pc


@dataclass
class Venue:
    name: str = ""


@dataclass
class Talk:
    price: float = 0.0
    title: str = ""
    venue: Venue = field(default_factory=Venue)
    other: Venue | None = None
    venues: list[Venue] = field(default_factory=list)
    seats: dict[str, int] = field(default_factory=dict)
    anything: Any = None
    union: pc.TaggedUnion | None = None

    def rank(self) -> int:
        return 1


@dataclass
class Keynote(Talk):
    sponsor: str = ""


@dataclass
class Panel:
    guests: int = 0


class Rated(Protocol):
    rating: int


class Open:
    pass


class Pairs(NamedTuple):
    first: tuple[str, int]
    second: tuple[str, int]


def mistakes(text: str, *types: Any) -> list[str]:
    """The parts of a filter that are told to lead nowhere."""
    try:
        pc.parse_filter(text, "etcl").check(*(types or (Talk,)))
    except pc.FilterMistakeError as error:
        return [problem.part for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("$.prise > 1", "$.prise"),
        ("$prise > 1", "$prise"),
        ("$.prise", "$.prise"),
        ("not $.prise", "$.prise"),
        ("$.price > 1 and 2 * $.prise > 1", "$.prise"),
        ("$.prise > 1 or $.price > 1", "$.prise"),
        ("not ($.price > 1 or $.prise > 1)", "$.prise"),
        ("($.prise > 1) == FALSE", "$.prise"),
        ("1 in $.prise", "$.prise"),
        ("default $.unoin._d", "default $.unoin._d"),
        ("$.venue.nam == 'x'", "$.venue.nam"),
        ("$.other.nam == 'x'", "$.other.nam"),
        ("$.venues[0].nam == 'x'", "$.venues[0].nam"),
        ("$.title.length > 1", "$.title.length"),
        ("$.sponsor == 'x'", "$.sponsor"),
        ("$.prise._length == 1", "$.prise._length"),
    ],
)
def test_a_member_that_nothing_has_is_a_mistake(text: str, part: str) -> None:
    assert mistakes(text) == [part]


@pytest.mark.parametrize(
    "text",
    [
        *("exist $.prise", "not exist $.prise", "exist $.sponsor and $.sponsor == 'x'"),
        *("not exist $.sponsor or $.sponsor == 'x'", "$.price > 1 or $.prise > 1"),
        *("not ($.price > 1 and $.prise > 1)", "($.price > 1 or $.prise > 1) == FALSE"),
        *("TRUE or $.prise > 1", "FALSE and $.prise > 1", "$._type_id == 'Keynote' and $.sponsor"),
        *("$type_name == 'x'", "$event_type.prise == 1", "$curtime.prise > 1", "$.anything.x == 1"),
        *("$.seats.x == 1", "$.seats(x) == 1", "$.union.x == 1", "$.union.(1) == 1", "$.9 == 1"),
        *("$.venues[0].name == 'x'", "$.other.name == 'x'", "$.rank == 1", "$.venue == 1", "$"),
        *("$(prise) == 1", "$[0] == 1", "$.price[0] == 1", "$.venue._type_id == 'Hall'"),
    ],
)
def test_a_filter_that_may_match_is_none(text: str) -> None:
    assert mistakes(text) == []


@pytest.mark.parametrize("kind", [pc.StructuredEvent, dict, object, Rated, Open, list])
def test_where_anything_may_be_there_is_no_mistake(kind: Any) -> None:
    assert mistakes("$prise > 1", kind) == []


def test_a_variable_may_be_a_property_of_a_tuple() -> None:
    assert mistakes("$prise == 1", Pairs) == []
    assert pc.parse_filter("$prise == 1", "etcl").matches(Pairs(("prise", 1), ("x", 2)))
    assert mistakes("$.prise == 1", Pairs) == ["$.prise"]


def test_one_class_of_several_that_has_it_is_enough() -> None:
    assert mistakes("$.guests > 1", Talk | Panel) == []
    assert mistakes("$.gests > 1", Talk | Panel) == ["$.gests"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$.prise > 1", "Talk has no attribute `prise`; did you mean `price`?"),
        (
            "$.venue.nam == 1",
            "`$.venue` is Venue, which has no attribute `nam`; did you mean `name`?",
        ),
        ("$.sponsor == 'x'", "a subtype has it: `exist $.sponsor and $.sponsor == 'x'`"),
        ("$.title.uper == 'x'", "`$.title` is str, which has no attribute `uper`"),
        ("$.title.uper == 'x'", "it has no members in ETCL"),
        ("($.price + $.prise) * 2 > 1", "\n  ($.price + $.prise) * 2 > 1\n             ^^^^^^^\n"),
    ],
)
def test_it_is_told_in_the_words_of_the_language(text: str, told: str) -> None:
    with pytest.raises(pc.FilterMistakeError) as caught:
        pc.parse_filter(text, "etcl").check(Talk)
    assert told in str(caught.value)


def test_a_subscription_with_a_wrong_member_is_refused() -> None:
    with pc.Bus() as bus, pytest.raises(pc.FilterMistakeError, match="did you mean `price`"):
        bus.subscribe(Talk, print, where=pc.parse_filter("$.prise > 1", "etcl"))


def test_joined_with_a_python_filter_it_is_told_in_the_common_text() -> None:
    where = pc.parse_filter("$.prise > 1", "etcl") & pc.lift(lambda talk: talk.price > 1)
    with pytest.raises(pc.FilterMistakeError, match="did you mean `price`"):
        where.check(Talk)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(EXPRESSIONS | SOUND_EXPRESSIONS, QUOTES)
def test_a_filter_with_a_mistake_never_matches(expression: Any, event: Quote) -> None:
    try:
        where = pc.parse_filter(reference.written(expression), "etcl")
    except pc.FilterError:
        assume(False)
    try:
        where.check(Quote)
    except pc.FilterMistakeError:
        assert not where.matches(event)
