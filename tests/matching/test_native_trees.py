"""The kernel reads most filters from their trees itself, and says what it would say otherwise."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.backends import interpreter
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse
from polycast.matching.native import available
from polycast.matching.native.native_index import KernelLimits, NativeIndex

pytestmark = pytest.mark.skipif(available() is None, reason="the kernel is not built")

Settings = settings(max_examples=200, deadline=None)
LIMITS = (KernelLimits(few=48, cuts=16_383, codes=249), KernelLimits(few=0, cuts=6, codes=3))
COLUMNS = ("event.p > 1", "event.p > 'a'", "event.q > 1", "event.q > 'a'")


@dataclass
class Pair:
    p: Any
    q: Any


def index(limits: KernelLimits = LIMITS[0]) -> NativeIndex:
    return NativeIndex(threading.RLock(), available(), limits=limits)


def takes(text: str) -> bool:
    """Whether the kernel reads a filter itself, where its columns are known."""
    known = index()
    for number, column in enumerate(COLUMNS):
        known.add(parse(column), number)
    return bool(known.kernel.take(99, parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "event.p == 1",
        "event.p != 'a'",
        "event.p < 1.5 and event.q >= 'm'",
        "1 <= event.p < 3.5",
        "3 > event.p > True",
        "2 < event.p",
        "event.p in (1, 2, 2.5) and event.q in ('a', 'b')",
        "event.p.startswith('ab')",
        "event.p > 1 and event.q == 'a' and event.p <= 7",
    ],
)
def test_comparisons_of_attributes_are_read_from_the_tree(text: str) -> None:
    assert takes(text)


@pytest.mark.parametrize(
    "text",
    [
        "event.p == 1 or event.q == 2",
        "not event.p == 1",
        "event.p == None",
        "event.p is None",
        "event.p == 9007199254740993",
        "event.p == 1e400 - 1e400",
        "event.p == 'é'",
        "event.p in (1, 'a')",
        "event.p in ()",
        "event.p in (1, 2, 1.0)",
        "event.p not in (1, 2)",
        "event.p == event.q",
        "event.p.q == 1",
        "event.p.startswith('')",
        "event.p.startswith('\\x7f')",
        "event.p.endswith('a')",
        "event.p(1) == 1",
        "1 < event.p > 0",
        "1 < event.p < 'a'",
        "1 < event.p < 5 < event.q",
        "1 == 1",
        "event.r == 1",
        "event.p",
    ],
)
def test_python_sees_to_what_is_anything_else(text: str) -> None:
    assert not takes(text)


def test_a_column_that_is_not_there_yet_is_made_once() -> None:
    known = index()
    for number in range(3):
        known.add(parse(f"event.p == {number}"), number)
    assert known.kernel.columns == 1
    assert known.match(Pair(1, None)) == [1]


def test_numbers_that_compare_in_another_domain_have_a_column_of_their_own() -> None:
    known = index()
    known.add(parse(f"event.p > {2**70}"), "great")
    known.add(parse("event.p > 5"), "small")
    assert sorted(known.match(Pair(2**71, None))) == ["great", "small"]
    assert known.match(Pair(6, None)) == ["small"]


# -- the same as without ---------------------------------------------------------------------------

constants = st.sampled_from(
    [0, 1, 2, -3, 2**53, 0.0, -0.0, 1.0, 1.5, float("inf"), True, "", "a", "ab", "b", "a\x00", "~"]
)
attributes = st.sampled_from(["p", "q"]).map(lambda name: nodes.Attribute(nodes.Event(), name))
ordering = st.sampled_from(["<", "<=", ">", ">="])
signs = st.one_of(ordering, st.sampled_from(["==", "!="]))
compared = st.builds(
    lambda term, sign, value: nodes.Compare(term, ((sign, nodes.Constant(value)),)),
    attributes,
    signs,
    constants,
)
turned = st.builds(
    lambda value, sign, term: nodes.Compare(nodes.Constant(value), ((sign, term),)),
    constants,
    signs,
    attributes,
)
enclosed = st.builds(
    lambda low, one, term, other, high: nodes.Compare(
        nodes.Constant(low), ((one, term), (other, nodes.Constant(high)))
    ),
    constants,
    ordering,
    attributes,
    ordering,
    constants,
)
among = st.builds(
    lambda term, values: nodes.Compare(term, (("in", nodes.Constant(tuple(values))),)),
    attributes,
    st.lists(constants, max_size=4),
)
begun = st.builds(
    lambda term, prefix: nodes.Call(term, "startswith", (nodes.Constant(prefix),)),
    attributes,
    constants,
)
parts = st.one_of(compared, turned, enclosed, among, begun)
trees = st.one_of(
    parts, st.lists(parts, min_size=2, max_size=5).map(lambda found: nodes.And(tuple(found)))
)
strange = st.sampled_from([None, float("nan"), Fraction(3, 2), 2**80, "aé", "a\ud800", [], b"a"])
pairs = st.builds(Pair, st.one_of(constants, strange), st.one_of(constants, strange))


class Unread(NativeIndex):
    """The same, but all its filters come as the conjunctions that Python makes."""

    def _took(self, known: Any, key: Any) -> bool:
        return False


@Settings
@given(
    wanted=st.lists(trees, min_size=1, max_size=12),
    events=st.lists(pairs, min_size=1, max_size=6),
    limits=st.sampled_from(LIMITS),
)
def test_it_finds_what_the_filters_and_their_conjunctions_say(
    wanted: list[nodes.Node], events: list[Pair], limits: KernelLimits
) -> None:
    known = index(limits)
    unread = Unread(threading.RLock(), available(), limits=limits)
    for column in COLUMNS:
        known.add(parse(column), -1)
        unread.add(parse(column), -1)
    for number, tree in enumerate(wanted):
        known.add(tree, number)
        unread.add(tree, number)
    for event in events:
        says = [n for n, tree in enumerate(wanted) if interpreter.matches(tree, event)]
        assert sorted(key for key in known.match(event) if key >= 0) == says
        assert sorted(known.match(event)) == sorted(unread.match(event))
    facts = [[each.facts for each in native.kernel.segments] for native in (known, unread)]
    assert facts[0] == facts[1]


@Settings
@given(one=trees, other=trees)
def test_equal_trees_have_equal_hashes(one: nodes.Node, other: nodes.Node) -> None:
    module: Any = available()
    again = pc.Filter[Any].from_json(pc.Filter[Any](one).to_json()).tree
    if again == one:
        assert module.hash_tree(again) == module.hash_tree(one)
    if module.hash_tree(one) is not None and module.hash_tree(one) == module.hash_tree(other):
        assert one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("event.p == 1", "event.p == True"),
        ("event.p == 1", "event.p == 1.0"),
        ("event.p == 0.0", "event.p == -0.0"),
        ("event.p == 1", "1 == event.p"),
        ("event.p in (1, 2)", "event.p in (1, 2.0)"),
        ("event.p == 'a'", "event.q == 'a'"),
        ("event.p == 'a'", "event.p.startswith('a')"),
        ("1 < event.p", "event.p > 1"),
    ],
)
def test_what_differs_has_another_hash(one: str, other: str) -> None:
    module: Any = available()
    assert module.hash_tree(parse(one)) != module.hash_tree(parse(other))


def test_filters_that_are_equal_are_one() -> None:
    known = index()
    for key in range(20):
        known.add(parse("event.p == 1 and event.q in ('a', 'b')"), key)
    assert len(known) == 1
    assert sorted(known.match(Pair(1, "a"))) == list(range(20))
    for key in range(20):
        known.remove(parse("event.p == 1 and event.q in ('a', 'b')"), key)
    assert len(known) == 0
    assert known.match(Pair(1, "a")) == []


@pytest.mark.parametrize("wrong", [(), (1,), (1, None, None), ("x", None)])
def test_a_wrong_call_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        index().kernel.take(*wrong)


def test_a_number_that_no_filter_can_have_is_refused() -> None:
    known = index()
    known.add(parse("event.p == 1"), 1)
    with pytest.raises(OverflowError):
        known.kernel.take(-1, parse("event.p == 2"))
