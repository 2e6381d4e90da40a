"""Conjunctions of predicates say what the tree says, by their expressions and by their forms."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_index_property import DAY, A, Item, Settings, chains, items, leaves, trees

from polycast.filters.backends import interpreter
from polycast.filters.normal_form.disjunction import Conjunction, conjunctions
from polycast.filters.normal_form.ordered_domains import (
    ABSENT,
    Differs,
    Form,
    Interval,
    IsNone,
    Points,
    Truth,
    domain_of,
    domain_of_all,
    loose,
)
from polycast.filters.tree import nodes

Thorough = settings(Settings, max_examples=20 * Settings.max_examples)

# Few constants and one term or two, so that bounds often meet, and events lie on them.
few = st.sampled_from([1, 2, 2.0, 3, 2**60, math.nan, "a", "b", True, DAY])
signs = st.sampled_from(["<", "<=", ">", ">=", "=="])
near = st.one_of(
    st.tuples(signs, few).map(lambda f: nodes.Compare(A, ((f[0], nodes.Constant(f[1])),))),
    st.tuples(few, signs, signs, few).map(
        lambda f: nodes.Compare(nodes.Constant(f[0]), ((f[1], A), (f[2], nodes.Constant(f[3]))))
    ),
    leaves,
)
plain = st.lists(near, min_size=1, max_size=4).map(lambda parts: nodes.And(tuple(parts)))
met = st.one_of(few.map(lambda value: Item({"a": value, "b": value})), items)
either = st.one_of(plain, plain.map(nodes.Not), trees)


def asked(several: tuple[Conjunction, ...]) -> list[list[tuple[Any, Any]]]:
    return [[(each.term, each.form) for each in conjunction] for conjunction in several]


def says(form: Form, value: Any) -> bool:
    """What a form means, read slowly."""
    if isinstance(form, Points | Interval):
        value = form.domain.coerce(value)
        if value is ABSENT:
            return False
    match form:
        case Points(_, values):
            return any(value == each for each in values)
        case Interval(_, low, high, low_closed, high_closed, unordered_too):
            if value != value:
                return unordered_too
            above = low is None or low < value or (low_closed and low == value)
            return above and (high is None or value < high or (high_closed and high == value))
        case Differs(values):
            return all(loose(value) != each for each in values)
        case IsNone(wanted):
            return (value is None) is wanted
        case Truth(wanted):
            return bool(loose(value)) is wanted
    raise AssertionError(f"{form} is of another language")


@Thorough
@given(tree=either, event=met)
def test_at_most_one_conjunction_is_true_and_only_where_the_tree_is(tree: Any, event: Any) -> None:
    true = [
        all(interpreter.matches(each.node, event) for each in conjunction)
        for conjunction in conjunctions(tree)
    ]
    assert true.count(True) == interpreter.matches(tree, event)


@Thorough
@given(tree=either, event=met)
def test_what_is_asked_of_a_term_is_what_the_expression_says(tree: Any, event: Any) -> None:
    for node, term, form in (each for several in conjunctions(tree) for each in several):
        if term is None or form is None:
            continue
        try:
            found = says(form, interpreter.evaluate(term, event, ()))
        except Exception:  # noqa: S112  (it cannot be read, or its class decides how it compares)
            continue
        assert found is interpreter.matches(node, event)


@Thorough
@given(tree=plain)
def test_what_needs_no_splitting_gives_what_splitting_gives(tree: nodes.Node) -> None:
    assert conjunctions(tree) == conjunctions(nodes.Not(nodes.Not(tree)))


@Thorough
@given(chain=st.one_of(chains, near))
def test_a_chain_asks_of_its_term_what_its_links_ask(chain: nodes.Compare) -> None:
    assume(isinstance(chain, nodes.Compare) and len(chain.rest) == 2)
    (sign, term), (other, last) = chain.rest
    assume(not isinstance(term, nodes.Opaque))
    links = nodes.Compare(chain.first, ((sign, term),)), nodes.Compare(term, ((other, last),))
    assert asked(conjunctions(chain)) == asked(conjunctions(nodes.And(links)))


@Thorough
@given(
    values=st.lists(st.sampled_from([1, 2.5, True, "a", 2**60, math.nan, b"", None]), max_size=4)
)
def test_the_domain_of_many_is_the_one_that_each_has(values: list[Any]) -> None:
    found, each = domain_of_all(values), [domain_of(value) for value in values]
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        assert found is None
        return
    domains = {domain for domain, _ in known}
    assert found == (domains.pop() if len(domains) == 1 else None, tuple(values))
