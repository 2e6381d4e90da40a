"""A filter of which a part is missing lets pass all that the whole filter does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polycast as pc
from polycast.filters import Filter
from polycast.filters.tree.nodes import (
    And,
    Attribute,
    Compare,
    Constant,
    Event,
    Node,
    Not,
    Or,
    walk,
)
from polycast.filters.tree.relaxation import is_open, relaxed


def _asks(name: str) -> Node:
    return Compare(Attribute(Event(), name), (("==", Constant(1)),))


leaves = st.sampled_from([_asks(name) for name in "abcxyz"])  # x, y and z cannot be asked
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts)))
        | inner.map(Not)
    ),
    max_leaves=8,
)
# An attribute that is not there makes what asks for it fail.
events = st.dictionaries(st.sampled_from("abcxyz"), st.integers(0, 1)).map(
    lambda state: SimpleNamespace(**state)
)


def can_ask(tree: Node) -> bool:
    return not any(isinstance(part, Attribute) and part.name in "xyz" for part in walk(tree))


@given(trees, events)
def test_it_lets_pass_no_less(tree: Node, event: Any) -> None:
    less = relaxed(tree, can_ask)
    assert can_ask(less)
    if Filter(tree).matches(event):
        assert Filter(less).matches(event)


@given(trees.filter(can_ask))
def test_what_can_be_asked_stays_as_it_is(tree: Node) -> None:
    assert relaxed(tree, can_ask) == tree


def opaque(event: Any) -> bool:
    for _ in ():
        return True
    return bool(event.b)


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (lambda e: e.a > 3 and opaque(e), "event.a > 3"),
        (lambda e: opaque(e) and e.a > 3, "event.a > 3"),
        (lambda e: (e.a > 3 and opaque(e)) or e.b == 1, "(event.a > 3) or (event.b == 1)"),
        (lambda e: (opaque(e) and e.a > 3) or e.b == 1, "True"),
        (lambda e: e.a > 3 or opaque(e), "True"),
        (lambda e: e.a > 3 and not opaque(e), "event.a > 3"),
    ],
)
def test_what_is_left(where: Any, left: str) -> None:
    found: Filter[Any] = pc.lift(where)
    assert str(Filter(relaxed(found.tree, is_open))) == left
