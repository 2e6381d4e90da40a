"""Shapes that become look-ups, over every small event: what lxml says, one by one."""

from __future__ import annotations

import pytest
from xpath_grammar import lxml_says

import polycast as pc

VALUES = [
    "",
    "x",
    "5",
    5,
    0,
    2.5,
    True,
    None,
    [],
    [5, "x"],
    {"b": 5},
    {"b": "x", "a": [1]},
    b"",
    10,
]
EVENTS = [{}, *({"a": value} for value in VALUES), *({"filterable": value} for value in VALUES)]
# M stands for `member[name="a"]`.
SHAPES = [
    "/struct/M/value[int > 3]",
    "/struct/M/value[2]",
    "/struct/M[2]",
    "/struct/M[1]/value[1]/int[1] = 5",
    "/struct/M/value/int[. > 3]",
    '/struct/M/value[. = "x"]',
    '/struct/M/value/struct[member[name="b"]]',
    '/struct/M/value/struct[member[name="b"]]/member[name="b"]/value = 5',
    '/struct/M[value/struct/member[name="b"]/value = 5]',
    '/struct[M/value="x"]',
    '/struct[M]/M/value != "x"',
    '/struct[not(M/value="x")]',
    "M[not(value)]",
    'M[value != "x"]',
    "M[value != 5]",
    "M[not(value != 5)]",
    'M/value/text()="x"',
    'M/value/*/text()="x"',
    "M/value/string/text()",
    'M/value/string/text() != "x"',
    'M/value/string/text() = ""',
    'M/value = ""',
    'M/value != ""',
    "M/name",
    'M/name = "a"',
    'M = "a5"',
    "M/value/array/data",
    "M/value/array/data/value",
    "M/value/array/data/value[1] = 5",
    "M/value/array/data/value[1][. = 5]",
    "M/value/array/data/value[1]/int",
    "M/value/array/data/value[0] = 5",
    "M/value/array/data/value[1.5] = 5",
    "M/value/array/data/value[3] != 5",
    "M/value = true()",
    "M/value != true()",
    "M/value = false()",
    "M/value > true()",
    "M/value/nil",
    'M/value/nil = ""',
    "/int > 3",
    '/string = "x"',
    "/*",
    '/* = "x"',
    "/* > 3",
    "/*/member",
    "/int[. = 5]",
    '/array/data/value[2] = "x"',
    "/nil",
    "/* != 5",
    'string(/*) = "5"',
    "number(/*) >= 5",
    "string-length(/*) = 1",
    "string-length(M/value) > 0",
    'string(M/value[. > 3]) = "5"',
    'contains(M/value, "")',
    'starts-with(M/value, "x")',
    "not(M/value >= 5)",
    'M/value >= "5"',
    'M/value = 5 or M/value = "x"',
    'M["a"]',
    'member[name="a" and true()]/value = 5',
    'member[name="a" or name="b"]/value = 5',
    'member[name="a" and (value=5 or value="x")]',
    "M[value=5]/value/int",
    'member[name="a" and not(value/int)]',
    'member[name=""]',
    'member[name/text()="a"]',
    'member[not(name="a")]',
    ".//M",
    "./M/./value/. = 5",
    "self::struct/M",
    "M/value/struct/M/value/array/data/value[1] = 1",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_says_what_lxml_says_of_every_small_event(shape: str) -> None:
    text = shape.replace("M", 'member[name="a"]')
    where = pc.parse_filter(text, "xpath")
    assert pc.parse_filter(where.to_xpath(), "xpath") == where
    for event in EVENTS:
        wanted = lxml_says(text, event)
        verdicts = where.matches(event), where.interpret(event), not (~where).matches(event)
        assert verdicts == (wanted, wanted, wanted), event
