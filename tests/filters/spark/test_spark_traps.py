"""Where SQL and Python differ: each trap by itself, against what Python says."""

from __future__ import annotations

import datetime
import itertools
import math
import sys
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from pyspark.sql import SparkSession
from spark_events import (
    DAYS,
    DECIMALS,
    FLOATS,
    INTS,
    TEXTS,
    TIMES,
    Colour,
    Level,
    Line,
    Order,
    Word,
    disagreements,
    some_order,
    table,
    tree_of,
)

from polycast.filters.backends.interpreter import matches
from polycast.filters.backends.spark import column

ORDERS = ("==", "!=", "<", "<=", ">", ">=")


def agree(spark: SparkSession, events: list[Order], *texts: str) -> None:
    """Columns say what Python says, and each filter keeps one of the events and not another."""
    trees = [tree_of(text) for text in texts]
    assert disagreements(table(spark, events), events, trees, Order) == []


def test_failing_is_not_false(spark: SparkSession) -> None:
    events = [Order(maybe=maybe, total=total) for maybe in (None, 0, 5) for total in (0, 3)]
    texts = [
        "t.maybe < 3",
        "not t.maybe < 3",
        "not (not t.maybe < 3)",
        "t.maybe < 3 or t.total == 3",
        "t.total == 3 or t.maybe < 3",
        "t.maybe < 3 and t.total == 3",
        "not (t.total == 3 and t.maybe < 3)",
        "1 / t.rate == 1 or True",
        "True or 1 / t.rate == 1",
        "t.extra.price == 1 or True",
        "not t.extra.price",
        "'a' < 3 or True",
        "not ('a' < 3)",
        "not (t.total < 'a')",
        "t.table['a'] or True",
        "t.comment.startswith('a') or True",
        "(t.maybe or t.extra.price) != 7",
        "(t.maybe and t.extra.price) == 0",
    ]
    agree(spark, events, *texts)


def test_none_is_a_value(spark: SparkSession) -> None:
    events = [
        Order(maybe=maybe, comment=comment, sure=sure, extra=extra)
        for maybe in (None, 3)
        for comment in (None, "", "a")
        for sure in (None, True, False)
        for extra in (None, Line())
    ]
    paths = ("t.maybe", "t.comment", "t.sure", "t.fraction", "t.when", "t.level", "t.marks")
    texts = [f"{path} {test}" for path in paths for test in ("== None", "!= None", "is None")]
    texts += ["t.maybe == 3", "t.maybe != 3", "t.maybe == t.sure", "t.comment != t.maybe"]
    texts += ["t.extra is not None", "t.extra", "not t.extra", "t.sure is True", "t.sure is False"]
    texts += [
        "t.extra and t.extra.price > 0",
        "not t.sure",
        "t.maybe in (3, None)",
        "None in t.holes",
    ]
    agree(spark, events, *texts)


def test_what_counts_as_true(spark: SparkSession) -> None:
    random = Random(1)
    names = [name for name in Order.__dataclass_fields__ if name != "x_0"]
    texts = [text for name in names for text in (f"t.{name}", f"not t.{name}")]
    agree(spark, [some_order(random) for _ in range(150)], *texts)


def test_nan_is_in_no_order_and_zero_has_no_sign(spark: SparkSession) -> None:
    events = [Order(rate=a, fraction=b) for a, b in itertools.product(FLOATS, [None, *FLOATS])]
    texts = [f"t.rate {sign} t.fraction" for sign in ORDERS]
    texts += [f"not (t.rate {sign} t.fraction)" for sign in ORDERS]
    texts += [f"t.rate {sign} {other}" for sign in ORDERS for other in ("NAN", "0.0", "INF", "2.5")]
    texts += ["t.rate != t.rate", "max(t.rate, t.fraction) > 1", "max(t.fraction, t.rate) == 2.5"]
    texts += ["min(t.rate, 1.0, t.fraction) < 1", "t.rate in (0.0, 2.5)", "t.rate - t.rate == 0"]
    agree(spark, events, *texts)


def test_an_int_and_a_float_are_compared_exactly(spark: SparkSession) -> None:
    ints = [*INTS, 2**62 + 1, -(2**62) - 1, 2**63 - 512, 2**63 - 513]
    floats = [*FLOATS, -0.5, 0.5, -2.5, 2.0**62, -(2.0**53), 2.0**63 - 1024, -9.3e18, 9.3e18]
    events = [Order(total=a, rate=b) for a, b in itertools.product(ints, floats)]
    known = ("9007199254740993", "9007199254740992.0", "-0.5", "9223372036854775807", str(2**63))
    known = (*known, str(10**40), str(10**400), str(-(10**400)), "1e300", "-2.5", "True")
    texts = [f"t.total {sign} t.rate" for sign in ORDERS]
    texts += [f"t.rate {sign} t.total" for sign in ORDERS]
    texts += [f"t.total {sign} {other}" for sign in ORDERS for other in known]
    texts += [f"{other} {sign} t.rate" for sign in ORDERS for other in known]
    agree(spark, events, *texts)


def test_arithmetic_of_ints_leaves_64_bits(spark: SparkSession) -> None:
    events = [Order(total=a, maybe=b) for a, b in itertools.product(INTS, [None, *INTS])]
    texts = [
        f"t.total {sign} t.maybe {order} {limit}"
        for sign in ("+", "-", "*")
        for order, limit in [("==", 2**63), (">", 10**30), ("<", -(2**63)), ("!=", 0)]
    ]
    texts += [f"abs(t.total) == {2**63}", f"-t.total == {2**63}", "~t.total < 0", "+t.total > 0"]
    texts += [f"t.total * 60 * 60 * 24 > {10**20}", "t.total < 2 ** 40", "t.total & 6 == 2"]
    texts += [
        "t.total | t.maybe == -1",
        "t.total ^ t.maybe == 0",
        "t.flag & True",
        "t.flag ^ 3 == 3",
    ]
    texts += ["t.total + t.rate == t.total", "t.total * 0.5 > t.maybe", "t.total / 4 > 1e18"]
    agree(spark, events, *texts)


def test_division_floors_and_by_zero_fails(spark: SparkSession) -> None:
    ints = [*INTS, -2, -3, 7, 10]
    events = [Order(total=a, maybe=b, rate=float(b)) for a, b in itertools.product(ints, ints)]
    texts = [f"t.total {sign} t.maybe {test}" for sign in ("//", "%") for test in ("== 1", "< 0")]
    texts += [f"t.total // t.maybe == {2**63}", "t.total // -1 > 0", "t.total // 10 == -1"]
    texts += [
        "t.total % 3 == 2",
        "t.total % -3 == -1",
        "t.total % 0 == 0 or True",
        "1 % t.maybe == 1",
    ]
    texts += ["t.total // 0 == 0 or True", "not (t.total % t.maybe)", "t.rate % 3 == 2"]
    texts += [
        "t.total / t.rate > 1",
        "5 % t.rate == 1",
        "t.rate % -2.5 < 0",
        "len(t.note) / 3 == 0",
    ]
    agree(spark, events, *texts)
    agree(
        spark,
        [Order(rate=a, fraction=b) for a, b in itertools.product(FLOATS, FLOATS)],
        *("t.rate % t.fraction >= 0", "t.rate / t.fraction < 1", "not (t.rate % t.fraction)"),
        *("t.rate % t.fraction == t.rate", "t.rate * t.fraction > 1", "t.rate + t.fraction == 0"),
    )


def test_texts_are_compared_and_searched_by_code_points(spark: SparkSession) -> None:
    events = [Order(note=a, comment=b) for a, b in itertools.product(TEXTS, [None, *TEXTS])]
    texts = [f"t.note {sign} t.comment" for sign in (*ORDERS, "in", "not in")]
    texts += [f"t.note.{name}(t.comment)" for name in ("startswith", "endswith", "find")]
    texts += [
        "len(t.note) == 3",
        "t.note[0] == t.comment[-1]",
        "t.note[2] == 'c'",
        "t.note[-3] > 'A'",
    ]
    texts += [
        "t.note + t.comment == 'abc'",
        "t.note.startswith(('a', 'İ'))",
        "t.note.startswith(())",
    ]
    texts += [
        "'' in t.comment",
        "None in t.note or True",
        "3 in t.note or True",
        "t.note.find('') == 0",
    ]
    texts += ["t.note.find(t.comment) == 1", "t.note in WORDS", "t.comment not in WORDS"]
    texts += [f"t.note[{2**63 - 1}] == 'a' or True", f"t.note[{-(2**63)}] == 'a' or True"]
    agree(spark, events, *texts)


def test_letters_change_as_in_python(spark: SparkSession) -> None:
    @dataclass
    class Letters:
        text: str
        lower: str
        upper: str
        folded: str
        stripped: str

    def changed(text: str) -> Letters:
        return Letters(text, text.lower(), text.upper(), text.casefold(), text.strip())

    codes = [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]
    assigned = [letter for letter in map(chr, codes) if letter.upper() != letter.lower()]
    special = [letter for letter in map(chr, codes) if len(letter.upper()) > 1 or letter.isspace()]
    special += [*"a\u03a3\u03c2\u03c3\u0301.'\u00ad1Ii\u0130\u0131\u017f\u212a\U00010400\u01c5"]
    random = Random(3)
    events = [changed("".join(assigned[n : n + 100])) for n in range(0, len(assigned), 100)]
    events += [changed(f"a{letter}Σ{letter} Σ{letter}a") for letter in random.sample(assigned, 300)]
    events += [changed("".join(random.choices(special, k=8))) for _ in range(1000)]
    texts = ["t.text.lower() == t.lower", "t.text.upper() == t.upper"]
    texts += ["t.text.casefold() == t.folded", "t.text.strip() == t.stripped"]
    data = table(spark, events)
    for text in texts:
        assert data.where(~column(tree_of(text), Letters)).collect() == []


def test_strip_takes_letters(spark: SparkSession) -> None:
    events = [Order(note=text) for text in [*TEXTS, "abca", "\x1f\x85a\xa0", "ab", "\u200b a"]]
    texts = ["t.note.strip('ab') == ''", "t.note.strip() == 'a'", "t.note.strip('') == t.note"]
    texts += ["len(t.note.strip()) > 1", "t.note.strip(None) == 'x'", "t.note.strip('😀c') == 'a'"]
    agree(spark, events, *texts)


def test_members_of_an_enum_compare_as_their_class_says(spark: SparkSession) -> None:
    events = [
        Order(colour=colour, level=level, word=word)
        for colour in Colour
        for level in [None, *Level]
        for word in Word
    ]
    texts = [
        "t.colour == Colour.CRIMSON",
        "t.colour is Colour.RED",
        "t.colour == 1",
        "t.colour != 1",
    ]
    texts += [
        "t.colour < Colour.BLUE or True",
        "t.level < Level.HIGH",
        "t.level == 1",
        "t.level > 0.5",
    ]
    texts += ["t.word == 'abc'", "t.word in ('one', Colour.RED)", "'b' in t.word", "t.word < 'b'"]
    texts += [
        "t.level in (1, None)",
        "t.level is None",
        "t.colour in (Colour.BLUE, Colour.CRIMSON)",
    ]
    texts += ["t.colour == t.colour", "t.colour.value > 1", "t.colour.name == 'RED'", "not t.word"]
    texts += ["t.word.value == ''", "t.level.value + 1 == 2", "t.colour == Level.LOW"]
    texts += ["t.total == Level.ZERO", "t.note == Word.EMPTY", "t.note in (Word.ABC, Word.EMPTY)"]
    agree(spark, events, *texts)


def test_times_with_and_without_a_zone_do_not_meet(spark: SparkSession) -> None:
    events = [Order(at=a, when=b) for a, b in itertools.product(TIMES, [None, *TIMES])]
    others = ("t.when", "NAIVE", "AWARE", "DAY")
    texts = [f"t.at {sign} {other}" for sign in ORDERS for other in others]
    texts += [f"not (t.at {sign} {other})" for sign in ORDERS for other in others]
    texts += ["(t.when or NAIVE) < t.at", "t.at in (NAIVE, AWARE)", "max(t.at, t.when) == AWARE"]
    agree(spark, events, *texts)


def test_days_bytes_keys_and_decimals(spark: SparkSession) -> None:
    days = [Order(day=a, due=b) for a, b in itertools.product(DAYS, [None, *DAYS])]
    agree(spark, days, *(f"t.day {sign} {o}" for sign in ORDERS for o in ("t.due", "DAY", "NAIVE")))
    costs = itertools.product(DECIMALS, [None, *DECIMALS], (0, 2**63 - 1, -3))
    decimals = [Order(amount=a, cost=b, total=c) for a, b, c in costs]
    others = ("t.cost", "COST", "t.total", "1", "True")
    agree(spark, decimals, *(f"t.amount {sign} {o}" for sign in ORDERS for o in others))
    blobs = [b"", b"a", b"a\x00", b"\x7f", b"\x80", b"\xff"]
    agree(spark, [Order(blob=b) for b in blobs], *(f"t.blob {sign} b'\\x7f'" for sign in ORDERS))
    agree(spark, [Order()], *(f"t.key {sign} KEY" for sign in ORDERS), "t.key == 'a'")


def test_the_first_element_that_fails_or_decides_counts(spark: SparkSession) -> None:
    values = [None, 0, 1, 5]
    lists = [list(chosen) for n in range(4) for chosen in itertools.product(values, repeat=n)]
    events = [Order(holes=holes, marks=[v for v in holes if v is not None]) for holes in lists]
    texts = [
        f"{kind}({test} for x in t.holes{condition})"
        for kind in ("any", "all")
        for test in ("x > 3", "x", "not x", "10 % x == 0", "x is None")
        for condition in ("", " if x is not None", " if x < 3", " if x")
    ]
    texts += [f"not {text}" for text in texts]
    texts += [
        "any(any(x < y for y in t.marks) for x in t.holes)",
        "all(x in t.marks for x in t.holes)",
    ]
    texts += ["t.marks[0] == t.holes[-1]", "t.holes[t.marks[0]] == 5", "t.marks[3] == 1 or True"]
    texts += ["t.marks == t.marks", "max(t.marks) == 5", "min(t.marks) == 1", "1 in t.marks"]
    agree(spark, events, *texts)


def test_sets_and_dicts(spark: SparkSession) -> None:
    bags = [set(), {1}, {1, 5}, {2**53 + 1}]
    tables = [{}, {"a": 1}, {"a": 0, "": 5}]
    comments = [None, "a", "b", ""]
    events = [
        Order(bag=bag, table=data, comment=comment)
        for bag, data, comment in itertools.product(bags, tables, comments)
    ]
    texts = ["1 in t.bag", "t.maybe in t.bag", "len(t.bag) > 1", "any(x > 3 for x in t.bag)"]
    texts += ["t.comment in t.table", "t.table[t.comment] == 1", "t.table.get(t.comment) is None"]
    texts += [
        "t.table.get('a') == 1",
        "not t.table['a']",
        "len(t.table)",
        "9007199254740992.0 in t.bag",
    ]
    texts += ["t.bag[0] or True", "t.table[1] or True", "not t.table", "max(t.bag) > 1"]
    agree(spark, events, *texts)


@dataclass
class Leaf:
    size: int | None = None


@dataclass
class Tree:
    leaves: list[Leaf | None] = field(default_factory=list)
    grid: list[list[float | None]] = field(default_factory=list)
    named: dict[str, list[Leaf]] = field(default_factory=dict)


def test_elements_and_parts_at_any_depth(spark: SparkSession) -> None:
    events = [
        Tree(leaves, grid, named)
        for leaves in ([], [None], [Leaf()], [Leaf(3), None], [Leaf(1), Leaf(9)])
        for grid in ([], [[]], [[1.0, None]], [[math.nan], [2.0]])
        for named in ({}, {"a": []}, {"a": [Leaf(5)], "b": [Leaf()]})
    ]
    texts = ["any(x.size > 2 for x in t.leaves)", "all(x.size for x in t.leaves if x)"]
    texts += ["any(any(y > 1 for y in x) for x in t.grid)", "all(y == y for y in t.grid[0])"]
    texts += ["t.named['a'][0].size == 5", "any(x.size is None for x in t.named['b'])"]
    texts += ["len(t.grid[-1]) == 1", "any(any(y == x.size for y in t.grid[0]) for x in t.leaves)"]
    trees = [tree_of(text) for text in texts]
    assert disagreements(table(spark, events), events, trees, Tree) == []


def test_isinstance_is_decided_by_what_is_declared(spark: SparkSession) -> None:
    events = [Order(), Order(maybe=1, extra=Line(), comment="a")]
    texts = ["isinstance(t, Order)", "isinstance(t.total, int)", "isinstance(t.maybe, (int, str))"]
    texts += [
        "isinstance(t.extra, Line)",
        "not isinstance(t.comment, str)",
        "isinstance(t.at, date)",
    ]
    texts += ["isinstance(t.note, int)", "isinstance(t.colour, Colour)", "isinstance(t.level, int)"]
    agree(spark, events, *texts)


def test_a_filter_keeps_the_rows_that_match(spark: SparkSession) -> None:
    random = Random(7)
    events = [replace(some_order(random), x_0=n) for n in range(100)]
    tree = tree_of("t.maybe > 3 or t.comment.startswith('a')")
    kept = table(spark, events).where(column(tree, Order)).select("x_0").collect()
    assert [row.x_0 for row in kept] == [event.x_0 for event in events if matches(tree, event)]
    assert 0 < len(kept) < 100


@pytest.mark.parametrize("sign", ["and", "or"])
def test_many_conditions_are_no_problem(spark: SparkSession, sign: str) -> None:
    events = [Order(maybe=maybe) for maybe in (None, 0, 77, 199)]
    many = f" {sign} ".join(f"t.maybe {'!=' if sign == 'and' else '=='} {n}" for n in range(200))
    fallible = f" {sign} ".join(f"t.maybe {'>' if sign == 'and' else '<'} {-n}" for n in range(100))
    listed = f"t.maybe in {tuple(range(0, 1000, 7))}"
    agree(spark, events, many, fallible, listed)


def test_times_at_the_ends_of_a_zone_are_exact(spark: SparkSession) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-14, microseconds=1))
    events = [Order(at=datetime.datetime(2024, 1, 1, 0, 0, 0, n, zone)) for n in (0, 1, 2)]
    limit = datetime.datetime(2024, 1, 1, 14, tzinfo=datetime.UTC)
    trees = [tree_of(f"t.at {sign} LIMIT", LIMIT=limit) for sign in ORDERS]
    assert disagreements(table(spark, events), events, trees, Order) == []
