"""Texts that are no filter: declared errors that show the place, whatever the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xpath_grammar import QUICK, events, expressions, usual

import polycast as pc
from polycast.languages.xpath.parser import DEEPEST, LONGEST, parse
from polycast.languages.xpath.syntax import MOST, cost
from polycast.languages.xpath.virtual_document import TooCostly


def mistake(text: str) -> pc.FilterSyntaxError | pc.FilterTypeError:
    with pytest.raises((pc.FilterSyntaxError, pc.FilterTypeError)) as found:
        pc.parse_filter(text, "xpath")
    return found.value


@pytest.mark.parametrize(
    ("text", "position", "problem", "accepted"),
    [
        ("", 0, "ends too early", "a path"),
        ("/struct[", 8, "ends too early", "a path"),
        ("/struct/..", 8, "no way up", "name of an element"),
        ("@id", 0, "no attributes", "name of an element"),
        ("$x = 1", 0, "no variables", "a path"),
        ("parent::a", 0, "no axis parent", "child::"),
        ("a/following-sibling::b", 2, "no axis following-sibling", "descendant::"),
        ("ns:a", 2, "no namespaces", "without a prefix"),
        ("comment()", 0, "no function comment", "contains"),
        ("a/comment()", 2, "comment() is no test", "text() or node()"),
        ("id('x')", 0, "no function id", "string-length"),
        ("contains('a')", 0, "given 1 arguments", "2"),
        ("true(1)", 0, "given 1 arguments", "0"),
        ("concat('a')", 0, "given 1 arguments", "2 or more"),
        ("a b", 2, "b is too much", "an operator"),
        ("/ and a", 6, "a is too much", "an operator"),
        ("a = = b", 4, "= is too much", "a path"),
        ("(a", 2, "a ) is missing", ")"),
        ("a[1", 3, "a ] is missing", "]"),
        ("'abc", 0, "no end", "'"),
        ("a # b", 2, "'#' begins nothing", "paths"),
        ("1e5", 1, "e5 is too much", "an operator"),
        ("a/'b'", 2, "'b' is too much", "name of an element"),
    ],
)
def test_a_mistake_shows_where_and_what_is_accepted(
    text: str, position: int, problem: str, accepted: str
) -> None:
    error = mistake(text)
    assert isinstance(error, pc.FilterSyntaxError)
    assert (error.text, error.language, error.position) == (text, "XPath", position)
    assert problem in error.problem
    assert accepted in error.accepted
    assert str(error).splitlines()[-1] == " " * (position + 2) + "^"


@pytest.mark.parametrize(
    ("text", "position"),
    [("count(1)", 6), ("sum('a')", 4), ("'a'[1]", 3), ("(1)/a", 3), ("a | 1", 2), ("1 | a", 0)],
)
def test_what_only_nodes_can_do_is_refused_of_others(text: str, position: int) -> None:
    error = mistake(text)
    assert isinstance(error, pc.FilterTypeError)
    assert error.position == position
    assert "nodes" in error.problem


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "not(" * 2_000 + "a" + ")" * 2_000,
        "a[" * 2_000 + "1" + "]" * 2_000,
        "-" * 9_000,
        "1" + " + 1" * 2_000,
        "1" + " = 1" * 2_000,
        "'" + "x" * 20_000 + "'",
        "/" * 5_000,
        "//a[//b[//c]]",
        "//*[//*[//*[//*]]]",
        "//*" + "[.//*" * 8 + "]" * 8,
        "a" * 10_001,
    ],
)
def test_too_much_is_refused_when_it_is_parsed(text: str) -> None:
    assert isinstance(mistake(text), pc.FilterSyntaxError)


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(f"/struct/member[name='a{n}']/value = {n}" for n in range(200)),
        " | ".join(["//a"] * 500),
        "//a" * 300,
        "-" * 8_000 + "1",
        "/struct/member[value/struct/member[value/struct/member[value/struct/member]]]",
        "//member[.//member[.//member]]",
        "a" + "[1]" * 1_000,
    ],
)
def test_what_is_long_but_cheap_is_accepted(text: str) -> None:
    where = pc.parse_filter(text, "xpath")
    assert where.matches({"a": 1}) is where.interpret({"a": 1})
    assert pc.parse_filter(where.to_xpath(), "xpath") == where


def test_the_cost_grows_with_what_is_begun_again() -> None:
    texts = ["/a", "/a/b", "//a/b", "//a[b]", "//a[.//b]", "//a[.//b[.//c]]", "//a[//b]"]
    costs = [cost(parse(text)) for text in texts]
    assert costs == sorted(costs)
    assert costs[-1] <= MOST
    assert cost(parse("/struct/member[name='a']/value")) < 1_000


def test_an_evaluation_ends_however_large_the_event_is() -> None:
    where = pc.parse_filter("//*[.//*[.//*[. = 'nothing']]]", "xpath")
    wide = {f"m{number}": {"x": [number] * 50} for number in range(400)}
    with pytest.raises(TooCostly, match="too many steps"):
        where(wide)


def test_an_event_that_holds_itself_does_not_match() -> None:
    event: dict[str, object] = {"a": 1}
    event["self"] = [event, event]
    assert not pc.parse_filter("//nothing", "xpath").matches(event)
    assert pc.parse_filter("member[name='a']/value = 1", "xpath").matches(event)


@pytest.mark.parametrize("language", ["XPATH", "xslt", None, 3])
def test_another_language_is_refused(language: object) -> None:
    with pytest.raises(pc.BadOptionError, match="'xpath'"):
        pc.parse_filter("a", language)  # type: ignore[arg-type]


# -- any text --------------------------------------------------------------------------------------

_WORDS = """/ // . .. * [ ] ( ) | + - = != < <= > >= , @ :: : $ and or not div mod text() node()
member name value struct count( sum( contains( string( position() last() 1 2.5 .5 'a' "b" ' " # ü"""
_words = st.sampled_from([*_WORDS.split(), "\n"])
_soup = st.lists(_words, max_size=20).map(" ".join) | st.text(max_size=30)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    text = draw(expressions | usual)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 4))
        text = text[:place] + draw(_words | st.just("")) + text[place + cut :]
    return text


@QUICK
@given(_soup | _mutated(), events)
def test_any_text_is_a_filter_or_a_declared_mistake(text: str, event: object) -> None:
    try:
        where = pc.parse_filter(text, "xpath")
    except (pc.FilterSyntaxError, pc.FilterTypeError):
        assert 0 <= mistake(text).position <= len(text)
        return
    assert where.matches(event) is where.interpret(event)
    assert pc.parse_filter(where.to_xpath(), "xpath") == where


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (LONGEST, DEEPEST, MOST) == (10_000, 32, 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "xpath.holds(event, event.text)",
        "xpath.holds(event, 3)",
        "xpath.holds(event, '//a[')",
        "xpath.holds(event, '//a[//b[//c]]')",
        "xpath.text_at(event, 'a', '')",
        "xpath.text_at(event, ('a',), 3)",
        "xpath.text_at(event, (event.a,), '')",
        "xpath.text_at(event, (1.5,), '')",
        "xpath.text_at(event)",
        "xpath.includes_at(event, ('a',), '', 5)",
        "xpath.nothing(event)",
        "xpath.functions",
    ],
)
def test_a_filter_from_outside_may_not_ask_for_anything_else(text: str) -> None:
    with pytest.raises(pc.FilterError):
        pc.Filter.from_json({"format": 1, "filter": text})
