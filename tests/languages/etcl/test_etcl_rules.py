"""ETCL rule by rule: what is a filter, and what its operators say about values."""

from __future__ import annotations

from typing import Any

import pytest
from etcl_asking import House, Inner, fails, says

import polycast as pc

# -- lexical rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   ", "\t\r\n ", "TRUE", "true", "True", "TRUE AND trUe"])
def test_true_is_true_in_any_case_and_so_is_nothing(text: str) -> None:
    assert says(text)


@pytest.mark.parametrize(
    "text", ["NOT False", "Exist $.a", "2 IN $.several", "not (FALSE OR false)"]
)
def test_keywords_are_read_in_any_case(text: str) -> None:
    assert says(text, {"a": 1, "several": [1, 2]})


@pytest.mark.parametrize("name", ["a", "A1", "a_b", "_a", "__x", "min", "max", "with", "first"])
def test_names_may_be_these(name: str) -> None:
    assert says(f"$.{name} == 1", {name: 1})
    assert says(f"${name} == 1", {name: 1})
    assert says(f"$({name}) == 1", {name: 1})


@pytest.mark.parametrize("name", ["in", "and", "TRUE", "exist", "Default", "not", "or"])
def test_a_backslash_makes_a_keyword_a_name(name: str) -> None:
    for text in (f"$.\\{name} == 1", f"$\\{name} == 1", f"$(\\{name}) == 1"):
        assert says(text, {name: 1})
    with pytest.raises(pc.FilterSyntaxError):
        pc.parse_filter(f"$.{name} == 1", "etcl")


def test_a_backslash_before_any_other_name_changes_nothing() -> None:
    assert says(r"$.\a == 1", {"a": 1})
    assert says(r"$.\in == HOUSE", {"in": House.HOUSE})
    assert says(r"$._length == 1", [5])
    assert says(r"$.\_length == 5", {"_length": 5})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a b'", "a b"),
        (r"'it\'s'", "it's"),
        (r"'a\\b'", "a\\b"),
        (r"'a\nb'", r"a\nb"),
        ("'!\"#$%&()*+,-./:;<=>?@[]^_`{|}~'", '!"#$%&()*+,-./:;<=>?@[]^_`{|}~'),
        ("''", ""),
        ("'äöü€'", "äöü€"),
    ],
)
def test_a_string_has_two_escapes(text: str, value: str) -> None:
    assert says(f"$ == {text}", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("- 5", -5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("10e+2", 1000.0),
        ("10e-3", 0.01),
        ("10e2", 1000.0),
        ("1.5E2", 150.0),
        ("-.5e1", -5.0),
        ("18446744073709551616", 2**64),
        ("139192928000000000", 139192928000000000),
    ],
)
def test_numbers_are_written_like_this(text: str, value: Any) -> None:
    assert says(f"$ == {text}", value)
    assert not says(f"$ == {text}", value + 1)


def test_after_a_dollar_a_dot_and_digits_are_a_position() -> None:
    assert says("$.1 == .5", {"a": 1, "b": 0.5})
    assert says("$.1.0 == 7", {"a": 1, "b": {"c": 7}})
    assert says("$.0+.5 == 1.5", {"a": 1})
    assert says(" $ . a [ 0 ] . b == 1", {"a": [{"b": 1}]})


WRONG = [
    *("$..", "ab +-/ abc", "foo bar zot", "<doc></doc>", "$.", "$.a.", "$[", "$[a]", "$[-1]"),
    *(
        "-$.x == 1",
        "- -1 == 1",
        "-(1) == 1",
        "+'a' == 1",
        "not not TRUE",
        "1 < 2 < 3",
        "1 == 2 == 3",
    ),
    *("'a' ~ 'b' ~ 'c'", "1 in $.a in $.b", "1 in 2", "1 in ($.a)", "1 in 'abc'", "1 in", "exist"),
    *(
        "exist 1",
        "exist ($.a)",
        "default $.a",
        "default a",
        "default",
        "(TRUE",
        "TRUE)",
        "()",
        "'abc",
    ),
    *(
        "and",
        "TRUE and",
        "or TRUE",
        "TRUE TRUE",
        "$._d.a == 1",
        "$._length[0] == 1",
        "$(a",
        "$('a') == 1",
    ),
    *("$(1) == 1", "$.(1 == 1", "$.(1.5) == 1", "$.(a b)", "1 = 1", "TRUE & TRUE", "TRUE && TRUE"),
    *("a.b == 1", '$.a == "b"', "$.a <> 1", "\\", "$\\", "1e999 == 1", "!TRUE", "10e == 1"),
    *("$.a == 1;", "$.in == 1", "\N{NO-BREAK SPACE}TRUE", "$.1x == 1", "1 2", "$.a..b", "$in == 1"),
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(pc.FilterSyntaxError):
        pc.parse_filter(text, "etcl")


def test_a_mistake_is_shown_with_its_place_and_what_would_be_accepted() -> None:
    with pytest.raises(pc.FilterSyntaxError) as caught:
        pc.parse_filter("$.a == 1 an $.b", "etcl")
    error = caught.value
    assert (error.position, error.language, error.text) == (9, "etcl", "$.a == 1 an $.b")
    assert "'an' cannot stand here" in str(error)
    assert str(error).splitlines()[-2:] == ["  $.a == 1 an $.b", "           ^"]
    with pytest.raises(pc.FilterTypeError) as other:
        pc.parse_filter("TRUE and 5 + 'al' > 3", "etcl")
    assert other.value.position == 13
    assert isinstance(other.value, pc.FilterError)


@pytest.mark.parametrize(
    ("text", "position", "told"),
    [
        ("\t$.a == 1 an", 10, "an operator, or the end"),
        ("$.a ==\r\n 1 an\n and TRUE", 11, "an operator, or the end"),
        ("'äöü€' == $.x an", 14, "an operator, or the end"),
        ("1 < 2 < 3", 6, "parentheses around what comes before or after, and, or, or the end"),
        ("(1 == 1 == 1)", 8, "parentheses around what comes before or after, and, or, or )"),
        ("1 in $.l ~ 'x'", 9, "parentheses"),
        ("TRUE and not not TRUE", 13, "not (not ...), or a value"),
        ("$.in == 1", 2, "\\in, if that is a name"),
        ("$.a and -$.b == 1", 9, "-1 * $.x"),
        ("default $.u", 8, "a component that ends with ._d"),
        ("$.u.(1.5) == 1", 6, "Accepted: )"),
        ("TRUE and", 8, "the filter ends too early"),
    ],
)
def test_a_caret_stands_under_the_mistake(text: str, position: int, told: str) -> None:
    with pytest.raises(pc.FilterSyntaxError) as caught:
        pc.parse_filter(text, "etcl")
    line, caret = str(caught.value).splitlines()[-2:]
    assert caught.value.position == position
    assert caret == " " * (2 + position) + "^"
    assert line[2:].split() == text.split()
    assert told in str(caught.value)


# -- precedence ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("not $.a == 1", "(not $.a) == 1"),
        ("'x' ~ $.s in $.l", "('x' ~ $.s) in $.l"),
        ("1 + 2 in $.l", "(1 + 2) in $.l"),
        ("1 + 2 * 3 == 7", "(1 + (2 * 3)) == 7"),
        ("8 / 2 / 2 == 2", "((8 / 2) / 2) == 2"),
        ("8 - 2 - 2 == 4", "((8 - 2) - 2) == 4"),
        ("TRUE or TRUE and FALSE", "TRUE or (TRUE and FALSE)"),
        ("1 in $.l == TRUE", "(1 in $.l) == TRUE"),
        ("1 < 2 and 2 < 3", "(1 < 2) and (2 < 3)"),
        ("exist $.a == TRUE", "(exist $.a) == TRUE"),
        ("not exist $.a and TRUE", "(not (exist $.a)) and TRUE"),
        ("-1 + 2 == 1", "((-1) + 2) == 1"),
        ("'a' ~ 'abc' == TRUE", "('a' ~ 'abc') == TRUE"),
        ("TRUE and TRUE and FALSE", "TRUE and (TRUE and FALSE)"),
    ],
)
def test_operators_bind_in_this_order(text: str, same: str) -> None:
    assert pc.parse_filter(text, "etcl") == pc.parse_filter(same, "etcl")


def test_consequences_of_precedence() -> None:
    assert says("not $.a == 1", {"a": False})
    assert fails("not $.a == 1", {"a": 2})
    assert says("1 + 2 in $.l", {"l": [3]})
    assert says("'x' ~ $.s in $.l", {"s": "xyz", "l": [True]})


# -- static types ----------------------------------------------------------------------------------

MISTYPED = [
    *(
        "5 + 'al' == 1",
        "5 ~ 'a'",
        "'a' ~ 5",
        "'a' and 'b'",
        "1 + 1",
        "'abc'",
        "5",
        "RED",
        "1 or TRUE",
    ),
    *("not 5", "not 'abc'", "not RED", "5 == 'abc'", "5 != 'abc'", "'abc' < 1", "TRUE == 'abc'"),
    *(
        "RED < $.a",
        "RED == 5",
        "RED == 'RED'",
        "RED + 1 == 2",
        "RED ~ 'a'",
        "TRUE and 1",
        "5.5 % 2 == 1",
    ),
    *("5 + 'a'", "(1 == 1) ~ 'a'", "'' + 1 == 1", "$.a + 'abc' == 1", "$.a and 'b'"),
]


@pytest.mark.parametrize("text", MISTYPED)
def test_what_can_never_go_together_is_refused(text: str) -> None:
    with pytest.raises(pc.FilterTypeError):
        pc.parse_filter(text, "etcl")


@pytest.mark.parametrize(
    "text",
    [
        *("5 + 'a' == 102", "1 * (TRUE and TRUE) == 1", "TRUE == 1", "TRUE > FALSE", "'a' == 97"),
        *("'a' < 'abc'", "(1 == 1) + (2 == 2) > 1", "'a' ~ 'a'", "HUT == HUT", "HUT != HOUSE"),
    ],
)
def test_what_goes_together_is_taken_and_true(text: str) -> None:
    assert says(text)


def test_a_component_alone_has_to_be_a_boolean() -> None:
    assert says("$.a", {"a": True})
    assert not says("$.a", {"a": False})
    assert says("not $.a", {"a": False})
    for value in (1, 0, "x", "", None, [], House.HUT):
        assert fails("$.a", {"a": value})


# -- and, or, not ----------------------------------------------------------------------------------


def test_failing_is_not_false() -> None:
    assert fails("$.missing == 1")
    assert not says("$.missing == 1 or TRUE")
    assert says("TRUE or $.missing == 1")
    assert not says("not ($.missing == 1)")
    assert says("not (FALSE and $.missing == 1)")
    assert not says("FALSE or $.missing == 1 or TRUE")


@pytest.mark.parametrize("text", ["$.n and TRUE", "$.n or TRUE", "TRUE and $.n", "FALSE or $.n"])
def test_a_number_is_no_truth(text: str) -> None:
    assert fails(text, {"n": 1})


# -- comparisons -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(
            ("abc", "7"),
            ("abc", "7.5"),
            ("abc", "TRUE"),
            (7, "'abc'"),
            (True, "'abc'"),
            (None, "7"),
        ),
        *(
            ([7], "7"),
            ({}, "7"),
            (House.HUT, "10"),
            (House.HUT, "'HUT'"),
            (7, "HUT"),
            ("HUT", "HUT"),
        ),
        *((b"abc", "'abc'"), ("H", "72"), (Inner(), "1"), (b"a", "'a'")),
    ],
)
def test_other_kinds_do_not_compare_and_so_do_not_differ(value: Any, sign: str, text: str) -> None:
    if text == "HUT" and sign not in ("==", "!="):
        text = "$.y"
    event = {"x": value, "y": House.HOUSE}
    assert fails(f"$.x {sign} {text}", event)
    assert fails(f"{text} {sign} $.x", event)


def test_numbers_compare_exactly() -> None:
    assert says("$ == 7", 7.0)
    assert not says("$ == 7", 7.5)
    assert not says("$ == 9007199254740993", 2.0**53)
    assert says("$ >= 139192928000000000", 139192928000000000)
    assert not says("$ >= 139192928000000001", 139192928000000000)
    assert says("$ == 1", True)
    assert says("$ == TRUE", 1)
    assert says("$ < TRUE", False)


def test_strings_compare_by_their_codes() -> None:
    assert says("$ < 'b'", "abc")
    assert says("$ < 'a'", "Z")
    assert says("$ >= 'abc'", "abc")
    assert says("$ > 'ab'", "abc")


def test_a_literal_of_one_character_is_a_character_too() -> None:
    assert says("'H' + 1 > 32")
    assert says("$ == 'H'", "H")
    assert says("$ == 'H'", 72)
    assert says("$ < 'I'", 72)
    assert not says("$ == 'H'", "Ha")
    assert fails("$ + 1 > 32", "H")
    assert fails("$ == 72", "H")


def test_members_of_enumerations_compare_with_labels_and_each_other() -> None:
    event = {"a": House.HOUSE, "b": House.HOUSE, "c": House.HUT}
    assert says("$.a == HOUSE and $.a != HUT and $.a == $.b and $.a != $.c", event)
    assert says(r"$.a == \HOUSE", event)
    assert says("HOUSE == $.a", event)
    for text in ("$.a < $.b", "$.a <= $.c", "$.a == 1", "$.a == 20", "$.a + 1 == 2"):
        assert fails(text, event)


# -- arithmetic ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("2/3 == 0", "(1.0 * 2/3) > 0", "7/2 == 3", "-7/2 == -3", "7/-2 == -3", "-7/-2 == 3"),
        *(
            "7.0/2 == 3.5",
            "7 % 3 == 1",
            "-7 % 3 == -1",
            "7 % -3 == 1",
            "1 + 1.5 == 2.5",
            "2 - 3 == -1",
        ),
        *(
            "100000000000000000001 - 1 == 100000000000000000000",
            "TRUE + TRUE == 2",
            "FALSE * 5 == 0",
        ),
        *("TRUE / TRUE == 1", "TRUE % 2 == 1", "'A' - 'B' == -1", "3 * 'A' == 195"),
        "99999999999999999999 * 99999999999999999999 == 9999999999999999999800000000000000000001",
    ],
)
def test_arithmetic_is_exact_and_division_of_whole_numbers_cuts(text: str) -> None:
    assert says(text)


@pytest.mark.parametrize(
    "text", ["1 / 0 == 1", "1.0 / 0 == 1", "1 / 0.0 == 1", "1 % 0 == 1", "(1 / 0.0) == 666"]
)
def test_division_by_zero_fails(text: str) -> None:
    assert fails(text)


def test_division_by_zero_aborts_what_is_around() -> None:
    assert not says("(($ / 0.0) == 666) or true", 5)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize("value", ["abc", "a", None, [1], House.HUT, b"1", Inner()])
def test_only_numbers_are_computed_with(value: Any, sign: str) -> None:
    assert fails(f"$.x {sign} 1 == 1", {"x": value})
    assert fails(f"1 {sign} $.x == 1", {"x": value})


def test_a_remainder_is_of_whole_numbers() -> None:
    assert says("$.x % 4 == 3", {"x": 7})
    assert fails("$.x % 4 == 3", {"x": 7.0})


def test_verdicts_are_counted() -> None:
    text = "('groucho' in $l) + ('chico' in $l) + ('harpo' in $l) >= 2"
    assert says(text, {"l": ["groucho", "harpo"]})
    assert not says(text, {"l": ["groucho"]})


# -- ~ and in --------------------------------------------------------------------------------------


def test_the_left_string_stands_in_the_right_one() -> None:
    assert says("'ell' ~ $", "hello")
    assert says("'' ~ $", "hello")
    assert says("$.a ~ $.b", {"a": "l", "b": "hello"})
    assert not says("$ ~ 'ell'", "hello")
    assert fails("'a' ~ $", 5)
    assert fails("$ ~ 'abc'", House.HUT)


def test_membership_is_by_value() -> None:
    assert says("2 in $", [1, 2.0])
    assert says("'b' in $", ("a", "b"))
    assert says("HUT in $", [House.HUT])
    assert says("TRUE in $", [1])
    assert says("'H' in $", [72])
    assert not says("3 in $", [1, 2])
    assert not says("3 in $", [])
    assert not says("3 in $", ())
    assert says("$.a in $.b", {"a": 1, "b": [1]})
    assert says("2 in $", {1, 2})


@pytest.mark.parametrize("several", ["123", {"a": 3}, None, 5, {3, "a"}, ["a", 3], b"3"])
def test_what_is_no_sequence_of_that_kind_has_no_members(several: Any) -> None:
    assert fails("3 in $.l", {"l": several})


def test_only_a_simple_value_can_be_a_member() -> None:
    for value in ([1], {"a": 1}, Inner(), None):
        assert fails("$.a in $.l", {"a": value, "l": []})


def test_a_bare_name_is_a_variable_where_a_component_is_wanted() -> None:
    assert says("3 in l and exist l and not exist m", {"l": [3]})


@pytest.mark.parametrize(
    ("several", "found"),
    [
        (["abc", "x"], True),
        (("x", "abc"), True),
        (["abc", 1], True),
        ([1, "abc"], False),
        (["x", None, "abc"], False),
        ([], False),
        ({"abc", "x"}, True),
        ({"abc", 1}, False),
        ("abc", False),
    ],
)
def test_texts_are_searched_until_an_element_does_not_compare(several: Any, found: bool) -> None:
    where = pc.parse_filter("'abc' in $.several", "etcl")
    assert where.matches({"several": several}) is found
    assert where.interpret({"several": several}) is found
