"""ETCL as one table: each rule of the language by its name, so that a rule is found by a test's id.

The groups: `lexical` (how a text is cut), `grammar`, `dollar` (what `$` and `$name` mean), `part`
(what may follow), `operator`, `stage` (when a mistake is told), `differs` (where implementations of
the language disagree), `decided` (what this project adds), `type` (names of event types).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from etcl_asking import House, Inner, Outer, verdict

import polycast as pc

SE, Union = pc.StructuredEvent, pc.TaggedUnion
Words = enum.Enum("Words", ["in", "and"])
YES, NO, SYNTAX, TYPE = "match", "no match", "syntax", "type"
Row = tuple[str, str, Any, str]


@dataclass
class Property:
    name: str
    value: Any


class Slotted:
    __slots__ = ("key", "worth")

    def __init__(self, key: str, worth: Any) -> None:
        self.key, self.worth = key, worth


ALARM = SE(
    "Telecom",
    "Alarm",
    "lost",
    {"Priority": 3, "both": "header", "domain_name": "wrong", "curtime": 1},
    {"severity": 4, "both": "data", "type_name": "wrong", "names": ["a", "b"], "header": "wrong"},
    {"severity": 99, "x": 7},
)
LABELS = {"K": (0, 2), "L": (1,), "D": ()}
BY_NAME = {"K": (House.HUT,), "L": (House.HOUSE,)}
DATA: dict[str, Any] = {
    "n": 5,
    "f": 2.5,
    "s": "hello",
    "t": True,
    "h": House.HOUSE,
    "none": None,
    "l": [1, 2, 3],
    "words": ["a", "b"],
    "empty": [],
    "tuple": (1, 2),
    "houses": [House.HUT],
    "d": {"x": 1, "y": {"z": 2}},
    "pairs": [("a", 1), ("b", 2), ("a", 3)],
    "o": Inner(),
    "in": House.HOUSE,
    "u": Union(1, "L", 10, labels=LABELS, default_member="D"),
    "alias": Union(2, "K", 10, labels=LABELS),
    "char": Union("c", "C", 10),
    "other": Union(999, "D", 10, labels=LABELS, default_member="D"),
    "flag": Union(True, "T", 10),
    "house": Union(House.HOUSE, "L", 10, labels=BY_NAME),
}


def rows(group: str, event: Any, *several: tuple[str, str, str]) -> list[Row]:
    """Rows of one group about one event."""
    return [(f"{group}-{name}", text, event, wanted) for name, text, wanted in several]


LEXICAL = rows(
    "lexical",
    DATA,
    ("keywords in any case", "tRuE AND nOt False OR eXist $.q", YES),
    ("keywords in any case", "1 IN $.l", YES),
    ("keywords in any case", "DEFAULT $.other._d", YES),
    (
        "words of preference are names",
        "exist min or exist max or exist with or not exist first",
        YES,
    ),
    ("identifier", "$.n == 5 and $n == 5", YES),
    ("identifier begins with no digit", "$.5n == 5", SYNTAX),
    ("identifier has no colon", "$.a:b == 5", SYNTAX),
    ("identifier has no slash", "$.n/2 == 2", YES),
    ("escaped identifier", r"$.\in == HOUSE", YES),
    ("escaped identifier as a variable", r"$\in == HOUSE and exist \in", YES),
    ("escaped identifier without need", r"$.\n == 5", YES),
    ("keyword is no name", "$.in == HOUSE", SYNTAX),
    ("keyword is no name in any case", "$.IN == HOUSE", SYNTAX),
    ("string", "$.s == 'hello'", YES),
    ("string escapes a quote", r"'it\'s' == 'it\'s' and '\'' ~ 'it\'s'", YES),
    ("string escapes a backslash", r"'\\' == 92", YES),
    ("string has no other escape", r"'\\n' == '\n'", YES),
    ("string that does not end", "$.s == 'hello", SYNTAX),
    ("string in other quotes", '$.s == "hello"', SYNTAX),
    ("integer", "007 == 7", YES),
    ("integer of 32 bits", "4294967295 + 1 == 4294967296", YES),
    ("integer of 64 bits", "18446744073709551615 + 1 == 18446744073709551616", YES),
    ("float", "1.5 == 15 / 10.0 and .5 == 1 / 2.0 and 1. == 1", YES),
    ("float with an exponent", "10e+2 == 1000 and 10e-3 == .01", YES),
    ("float without the sign", "10e2 == 1000 and 10E2 == 1000 and .5e1 == 5 and 5.e1 == 50", YES),
    ("float without digits", "1e == 1", SYNTAX),
    ("float beyond doubles", "1e400 > 1", SYNTAX),
    ("sign", "-1 < 0 and +1 > 0 and - 1 == -1 and 3 - -1 == 4 and 3-1 == 2", YES),
    ("sign of a component", "-$.n == -5", SYNTAX),
    ("sign of a component by a product", "-1 * $.n == -5", YES),
    ("sign of parentheses", "-(1) == -1", SYNTAX),
    ("sign twice", "- -1 == 1", SYNTAX),
    ("white space", "\t$ .\r\nn\n== 5 ", YES),
    ("white space of another kind", "TRUE\f", SYNTAX),
    ("white space alone", " \t\r\n", YES),
    ("reserved part", "$.l._length == 3", YES),
    ("reserved part after nothing", "$_length == 3", NO),
    ("dot and digits after a dollar are a position", "$.0 == 5", YES),
    ("dot and digits twice", "$.1.5 == 5", NO),
    ("dot and digits elsewhere are a number", "$.0 + .5 == 5.5", YES),
)
GRAMMAR = rows(
    "grammar",
    DATA,
    ("empty", "", YES),
    ("comparison once", "1 < 2 < 3", SYNTAX),
    ("comparison once without parentheses", "(1 < 2) < 3", YES),
    ("in once", "1 in $.l in $.l", SYNTAX),
    ("in a component only", "1 in (1)", SYNTAX),
    ("in a bare name", "1 in l", YES),
    ("substring once", "'a' ~ 'b' ~ 'c'", SYNTAX),
    ("not once", "not not TRUE", SYNTAX),
    ("not once without parentheses", "not (not TRUE)", YES),
    ("exist of a bare name", "exist n and not exist q", YES),
    ("exist of parentheses", "exist ($.n)", SYNTAX),
    ("default of a discriminator only", "default $.u", SYNTAX),
    ("default of a bare name", "default u", SYNTAX),
    ("reserved part is the last", "$.l._length.x == 1", SYNTAX),
    ("property by a string", "$.pairs('a') == 1", SYNTAX),
    ("element below zero", "$.l[-1] == 3", SYNTAX),
    ("tag that is no whole number", "$.u.(1.5) == 1", SYNTAX),
    ("not binds tighter than comparison", "not $.t == 0", YES),
    ("not binds tighter than comparison", "not $.n == 5", NO),
    ("substring before in", "'x' ~ $.s in $.l", NO),
    ("sum before in", "1 + 2 in $.l", YES),
    ("in before comparison", "1 in $.l == TRUE", YES),
    ("product before sum", "1 + 2 * 3 == 7 and 2 + 7 % 4 == 5", YES),
    ("left to right", "8 - 2 - 2 == 4 and 8 / 2 / 2 == 2", YES),
    ("and before or", "TRUE or FALSE and FALSE", YES),
)
DOLLAR = [
    *rows(
        "dollar",
        ALARM,
        ("alone", "exist $ and $._type_id == 'StructuredEvent'", YES),
        ("member", "exist $.header and exist $.filterable_data", YES),
        ("position of the type", "$.0.0.0.1 == 'Alarm' and $.0.0.0.0 == 'Telecom'", YES),
        ("position of data and body", "$.1(severity) == 4 and $.2.x == 7 and not exist $.3", YES),
        ("reserved variable first", "$curtime.time > 1 and $curtime.tdf == 0", YES),
        ("fixed header wins", "$domain_name == 'Telecom' and $type_name == 'Alarm'", YES),
        ("fixed header has a name", "$event_name == 'lost'", YES),
        ("variable header", "$Priority == 3", YES),
        ("variable header wins over data", "$both == 'header'", YES),
        ("filterable data", "$severity == 4 and 'a' in $names and $names[1] == 'b'", YES),
        ("body is not looked at", "exist $x", NO),
        ("shorthands", "$header.variable_header(Priority) == 3", YES),
        ("shorthands", "exist $fixed_header and exist $variable_header", YES),
        ("shorthands", "$event_type.type_name == 'Alarm' and $remainder_of_body.x == 7", YES),
        ("long form of data", "$.filterable_data(severity) == 4", YES),
        ("long form of data as a sequence", "$.filterable_data[0].value == 4", YES),
    ),
    *rows(
        "dollar",
        7,
        ("alone is a value", "$ == 7", YES),
        ("type of any", "$domain_name == '' and $type_name == '%ANY'", YES),
        ("type of any as a whole", "$event_type.type_name == '%ANY'", YES),
    ),
    *rows("dollar", {"type_name": "mine"}, ("type told by the event", "$type_name == 'mine'", YES)),
    *rows("dollar", [("a", 1)], ("variable in a list of properties", "$a == 1", YES)),
    *rows(
        "dollar",
        SE(filterable_data={"v": [("T", Outer())], "test": [{"score": 7}]}),
        ("suffixes of a variable", "$v(T)._repos_id == 'test.Outer' and $test[0].score == 7", YES),
    ),
    *rows(
        "dollar",
        SE("", "%TYPED", filterable_data={"operation": "push"}),
        ("typed call", "$type_name == '%TYPED' and $operation == 'push'", YES),
    ),
]
PARTS = rows(
    "part",
    DATA,
    ("name of a struct", "$.o.a == 1 and $.d.y.z == 2", YES),
    ("name that is missing", "exist $.o.q", NO),
    ("name of a scalar", "exist $.n.real or exist $.s.upper or exist $.h.value", NO),
    ("name of the active member", "$.u.L == 10", YES),
    ("name of another member", "exist $.u.K", NO),
    ("position", "$.o.0 == 1 and $.d.1.0 == 2", YES),
    ("position out of range", "exist $.o.2", NO),
    ("position far out of range", "exist $.o.99999999999999999999", NO),
    ("position far out of a dictionary", "exist $.99999999999999999999", NO),
    ("position in a union", "$.u.1 == 10 and not exist $.u.0", YES),
    ("element", "$.l[0] == 1 and $.tuple[1] == 2", YES),
    ("element out of range", "exist $.l[3]", NO),
    ("element far out of range", "exist $.l[99999999999999999999]", NO),
    ("element of no list", "exist $.s[0] or exist $.n[0] or exist $.d[0]", NO),
    ("property", "$.pairs(b) == 2 and $.d(x) == 1", YES),
    ("property given twice", "$.pairs(a) == 1", YES),
    ("property that is absent", "exist $.pairs(c)", NO),
    ("tag", "$.u.(1) == 10 and $.u.(+1) == 10 and not exist $.u.(0)", YES),
    ("tag that is a character", "$.char.('c') == 10 and not exist $.char.('d')", YES),
    ("tag that is a boolean", "$.flag.(TRUE) == 10 and not exist $.flag.(FALSE)", YES),
    ("tag that is a label", "$.house.(HOUSE) == 10 and not exist $.house.(HUT)", YES),
    ("tag that is an ordinal", "$.house.(1) == 10 and not exist $.house.(20)", YES),
    ("tag of no union", "exist $.n.(5)", NO),
    ("default member", "$.other.() == 10", YES),
    ("default member that is not active", "exist $.u.()", NO),
    ("discriminator", "$.u._d == 1 and $.house._d == HOUSE and $.char._d == 'c'", YES),
    ("discriminator of no union", "exist $.n._d", NO),
    ("length", "$.l._length == 3 and $.tuple._length == 2 and $.empty._length == 0", YES),
    ("length of a string", "exist $.s._length", NO),
    ("length of a struct", "exist $.d._length or exist $.o._length", NO),
    ("type", "$.o._type_id == 'Inner' and $.h._type_id == 'House'", YES),
    ("type that is not known", "exist $.n._type_id or exist $.u._repos_id", NO),
    ("alias of a label", "exist $.alias.(0)", NO),
    ("alias of a label that is the tag", "$.alias.(2) == 10", YES),
    ("unlabelled number", "exist $.other.(998)", NO),
    ("unlabelled number that is the tag", "$.other.(999) == 10", YES),
)
PARTS += [
    row
    for tag in (2147483647, 4294967295, 18446744073709551615, -2147483648, -9223372036854775808)
    for row in rows(
        "part", Union(tag, "m", 1), ("tag of any width", f"$.({tag}) == 1 and $._d == {tag}", YES)
    )
]
PARTS += [
    row
    for several in (
        {"a": 1, "b": 2},
        [("a", 1), ("b", 2)],
        (["a", 1], ["b", 2]),
        [{"name": "a", "value": 1}, {"name": "b", "value": 2}],
        [{"key": "a", "worth": 1}, {"key": "b", "worth": 2}],
        [Property("a", 1), Property("b", 2)],
        [Slotted("a", 1), Slotted("b", 2)],
        [SimpleNamespace(name="a", value=1), SimpleNamespace(name="b", value=2)],
    )
    for row in rows("part", several, ("property in any form", "$(b) == 2 and $b == 2", YES))
]
OPERATORS = rows(
    "operator",
    DATA,
    ("and or stop early", "TRUE or $.q == 1", YES),
    ("and or stop early", "not (FALSE and $.q == 1)", YES),
    ("and or go left to right", "$.q == 1 or TRUE", NO),
    ("and or take booleans", "$.n or TRUE", NO),
    ("and or take booleans", "TRUE and $.s", NO),
    ("not takes a boolean", "not $.n", NO),
    ("not of a boolean", "not $.t", NO),
    ("comparison of numbers", "$.n > 2.5 and $.n == 5.0 and $.f < 3", YES),
    ("comparison of booleans as numbers", "$.t == 1 and FALSE < $.t and TRUE != 0", YES),
    ("comparison of strings", "$.s < 'help' and 'Z' < 'a' and '10' < '9'", YES),
    ("comparison of enums", r"$.h == HOUSE and $.h != HUT and $.h == $.\in", YES),
    ("comparison of enums has no order", r"$.h < $.\in", NO),
    ("comparison of enums with numbers", "$.h == 20", NO),
    ("comparison of enums with strings", "$.h == 'HOUSE'", NO),
    ("comparison of other kinds", "$.s != 7", NO),
    ("comparison of other kinds", "not ($.s == 7)", NO),
    ("comparison of other kinds", "$.n != 'abc'", NO),
    ("comparison of nothing", "$.none == $.none or TRUE", NO),
    ("comparison of compounds", "$.l == $.l or TRUE", NO),
    ("arithmetic", "$.n + 1 == 6 and $.n - 6 == -1 and $.n * 2 == 10 and $.n / 2 == 2", YES),
    ("arithmetic of strings", "$.s + 1 == 1 or TRUE", NO),
    ("division by zero", "$.n / 0 == 1 or TRUE", NO),
    ("division by zero", "(($.n / 0.0) == 666) or true", NO),
    ("division by zero", "$.n % 0 == 1 or TRUE", NO),
    ("substring", "'ell' ~ $.s and '' ~ $.s and not ($.s ~ 'ell')", YES),
    ("substring of a number", "'5' ~ $.n", NO),
    ("in", "1 in $.l and 2.0 in $.tuple and 'a' in $.words and HUT in $.houses", YES),
    ("in an empty list", "not (1 in $.empty)", YES),
    ("in a list of another kind", "not ('abc' in $.l)", NO),
    ("in a list of another kind", "not (1 in $.words)", NO),
    ("in no list", "not ('h' in $.s)", NO),
    ("in of a compound", "$.l in $.l", NO),
    ("exist never fails", "not exist $.n.x[0](y).(1)._d", YES),
    ("exist of nothing", "exist $.none", YES),
    ("default", "default $.other._d", YES),
    ("default of another member", "not default $.u._d", YES),
    ("default of a union without one", "not default $.alias._d", YES),
    ("default of no union", "not default $.n._d", NO),
    ("character literal", "'H' + 1 > 32 and 'A' == 65", YES),
    ("character literal in a list", "'a' in $.words and not ('a' in $.l)", YES),
    ("character of an event", "$.words[0] + 1 > 32", NO),
    ("booleans count", "('a' in $.words) + ('b' in $.words) + ('c' in $.words) == 2", YES),
    ("division cuts", "2/3 > 0", NO),
    ("division cuts", "(1.0 * 2/3) > 0", YES),
    ("division cuts towards zero", "-7/2 == -3 and -7 % 2 == -1 and 7 % -2 == 1", YES),
)
OPERATORS += [
    *rows(
        "operator",
        139192928000000000,
        ("whole numbers are exact", "$ >= 139192928000000000", YES),
        ("whole numbers are exact", "$ >= 139192928000000001", NO),
    ),
    *rows("operator", 2**53 + 1, ("float is not near", "$ == 9007199254740992.0", NO)),
    *rows("operator", 7.0, ("float equal to an int", "$ == 7", YES)),
    *rows("operator", 7.5, ("float is not cut", "$ == 7", NO)),
]
STAGES = rows(
    "stage",
    DATA,
    *(("parse", text, SYNTAX) for text in ("$..", "ab +-/ abc", "foo bar zot", "<doc></doc>")),
    *(("static", text, TYPE) for text in ("5 + 'al' > 1", "5 ~ 'a'", "'a' and 'b'", "1 and TRUE")),
    *(("static result", text, TYPE) for text in ("1 + 1", "5 + 'a'", "HOUSE", "'abc'", "-1")),
    ("static label", "HOUSE == 'HOUSE'", TYPE),
    ("static label", "HOUSE < $.h", TYPE),
    ("static is fine", "5 + 'a' > 5 and 1 * (TRUE and TRUE) == 1", YES),
    ("evaluation missing member", "$.q == 1", NO),
    ("evaluation missing variable", "$q == 1", NO),
    ("evaluation inactive member", "$.u.(0) == 10", NO),
    ("evaluation type mismatch", "$.n ~ 'abc'", NO),
    ("evaluation division by zero", "1 / 0 == 1", NO),
    ("evaluation no boolean", "$.n", NO),
    ("guard", "exist $.u._d and $.u._d == 1 and $.u.(1) == 10", YES),
    ("guard", "exist $.q._d and $.q._d == 1 and $.q.(1) == 10", NO),
)
DIFFERS = [
    *rows(
        "differs",
        ALARM,
        ("no constraint matches", "", YES),
        ("keyword case", "true AND NOT false", YES),
        ("dollar is the structured event", "exist $.header and not exist $.x", YES),
        ("member beyond the top", "exist $.severity or exist $.domain_name", NO),
        ("member beyond the top", "$(severity) == 4", NO),
    ),
    *rows(
        "differs",
        DATA,
        ("bare identifier is a label", "n == 5", TYPE),
        ("bare identifier is a label", "$.h == HOUSE", YES),
        ("alias of a label", "exist $.alias.(0)", NO),
        ("integer division", "7 / 2 == 3", YES),
        ("default", "default $.u._d", NO),
        ("constraint that is no boolean", "1 + 1", TYPE),
        ("remainder of integers", "7 % 3 == 1", YES),
        ("remainder of floats", "7.5 % 3 == 1", TYPE),
    ),
]
DECIDED = [
    *rows("decided", SE(), ("filter without constraints", "  ", YES)),
    *rows(
        "decided",
        Outer(),
        ("attribute of a typed object", "$.first == 1 and $.inner.b == 'two'", YES),
        ("names of the type", "$._type_id == 'Outer' and $._repos_id == 'test.Outer'", YES),
        ("lists and tuples", "$.several[2] == 3 and $.several._length == 3", YES),
        ("position of a field", "$.0 == 1 and $.1.0 == 1 and $.2[0] == 1", YES),
        ("failing", "$.first.x == 1 or TRUE", NO),
        ("method is no attribute", "exist $.method", NO),
    ),
    *rows("decided", SimpleNamespace(x=1, y=2), ("position of any object", "$.1 == 2", YES)),
    *rows("decided", Slotted("a", 2), ("position of a slot", "$.1 == 2 and $.worth == 2", YES)),
    *rows("decided", {"a": 1, "b": 2}, ("position in a dictionary", "$.1 == 2 and $(b) == 2", YES)),
    *rows("decided", House.HUT, ("label of an enum member", "$ == HUT and $ != HOUSE", YES)),
    *rows("decided", Words["in"], ("label that is a keyword", r"$ == \in", YES)),
    *rows("decided", Union(Words["in"], "m", 1), ("tag that is a keyword", r"$.(\in) == 1", YES)),
    *(
        row
        for event, text in [(7, "$ == 7"), ("x", "$ == 'x'"), (True, "$"), ([1], "1 in $")]
        for row in rows("decided", event, ("plain value", text, YES))
    ),
    *rows("decided", None, ("plain value", "exist $ and not exist $.x", YES)),
]
TABLE = LEXICAL + GRAMMAR + DOLLAR + PARTS + OPERATORS + STAGES + DIFFERS + DECIDED


@pytest.mark.parametrize(
    ("text", "event", "wanted"),
    [pytest.param(text, event, wanted, id=name) for name, text, event, wanted in TABLE],
)
def test_each_rule_holds(text: str, event: Any, wanted: str) -> None:
    assert verdict(text, event) == wanted


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        *(("", "any", True), ("*", "any", True), ("*", "", True), ("**", "any", True)),
        *(("hao", "hao", True), ("hao", "Hao", False), ("hao", "haos", False)),
        *(("ha*o", "hao", True), ("ha*o", "hallo", True), ("ha*o", "ha", False)),
        *(("ha*o", "haox", False), ("*lo", "hallo", True), ("*l*l*", "hallo", True)),
        *(("*l*l*", "halo", False), ("ab*ba", "aba", False), ("a.c", "abc", False)),
        *(("a.c", "a.c", True), ("a+", "aa", False), ("[ab]", "a", False), ("a?", "ab", False)),
        *(("%ANY", "%ANY", True), ("%ANY", "%TYPED", False)),
    ],
    ids=lambda each: f"type-{each!r}",
)
def test_a_pattern_covers_names_in_either_place(pattern: str, name: str, covered: bool) -> None:
    matcher: pc.Matcher[str] = pc.Matcher()
    matcher.add("domain", pc.structured(pattern, "*"))
    matcher.add("type", pc.structured("", pattern))
    assert sorted(matcher.match(SE(name, name))) == ["domain", "type"] * covered


@pytest.mark.parametrize(("domain", "accepted"), [("", True), ("*", True), ("d", False)])
def test_all_types_are_of_all_domains(domain: str, accepted: bool) -> None:
    matcher: pc.Matcher[int] = pc.Matcher()
    if not accepted:
        with pytest.raises(pc.BadOptionError, match="%ALL"):
            pc.structured(domain, "%ALL")
        return
    matcher.add(1, pc.structured(domain, "%ALL"))
    assert matcher.match(SE("d", "t")) == [1]
