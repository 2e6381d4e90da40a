"""For every liftable lambda and every event: calling it, the tree, the code and the text agree."""

from __future__ import annotations

import itertools
import linecache
import warnings
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.tree.canonical_text import parse

_numbers = itertools.count()


@dataclass
class Line:
    price: Any = 1
    name: Any = "a"


@dataclass
class Order:
    total: Any = 0
    note: Any = "x"
    lines: Any = field(default_factory=list)
    line: Any = None

    @property
    def broken(self) -> int:
        raise OSError("broken")

    def first(self) -> Any:
        return self.lines[0]


def compiled(text: str, **names: Any) -> Any:
    """A lambda whose source can be found, as in a notebook."""
    source = f"made = lambda t: {text}\n"
    filename = f"<cell {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, [source], filename)
    space: dict[str, Any] = {**names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, filename, "exec"), space)
    return space["made"]


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**30),
    st.floats(allow_nan=True, width=16),
    st.text("abX ", max_size=3),
    st.lists(st.integers(-2, 2), max_size=3),
)
literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**30),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.text("abX'\\\n", max_size=3),
).map(repr)
lines = st.builds(Line, values, values)
orders = st.builds(
    Order, values, values, st.one_of(st.lists(lines, max_size=3), values), st.one_of(lines, values)
)
PATHS = (
    "t.total t.note t.lines t.line t.line.price t.line.name t.missing t.broken t.first().price "
    "t.lines[0].name t.lines[-1] t.note.lower() t LIMIT NAMES"
)
paths = st.sampled_from(PATHS.split())


def extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    comparison = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"])
    return st.one_of(
        st.tuples(inner, comparison, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, comparison, inner, comparison, inner).map(lambda p: f"({' '.join(p)})"),
        two.map(lambda p: f"({p[0]} and {p[1]})"),
        two.map(lambda p: f"({p[0]} or {p[1]})"),
        inner.map(lambda p: f"(not {p})"),
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda p: f"({' '.join(p)})"),
        inner.map(lambda p: f"(-{p})"),
        inner.map(lambda p: f"len({p})"),
        two.map(lambda p: f"max({p[0]}, {p[1]})"),
        inner.map(lambda p: f"isinstance({p}, (int, Line))"),
        two.map(lambda p: f"({p[0]}, {p[1]})"),
        two.map(lambda p: f"{p[0]}[{p[1]}]"),
        inner.map(lambda p: f"str({p})"),  # opaque
        inner.map(lambda p: f"any(x.price == {p} for x in t.lines if x.name)"),
        inner.map(lambda p: f"all(x != {p} for x in {p})"),
        st.just("any(any(x.price is y for y in t.lines) for x in t.lines)"),
    )


expressions = st.recursive(st.one_of(paths, literals), extended, max_leaves=8)
NAMES = (1, 2.0, "a", None)


def outcome(function: Any, event: Any) -> Any:
    try:
        return bool(function(event))
    except Exception:
        return "fails"


@settings(max_examples=600, deadline=None)
@given(text=expressions, event=orders)
def test_a_lifted_lambda_means_what_calling_it_means(text: str, event: Order) -> None:
    function = compiled(text, LIMIT=2, NAMES=NAMES, Line=Line)
    lifted = pc.lift(function)
    expected = outcome(function, event)
    assert outcome(lifted, event) == expected
    assert lifted.matches(event) == (expected is True)
    assert lifted.interpret(event) == (expected is True)


@settings(max_examples=300, deadline=None)
@given(text=expressions)
def test_text_and_data_give_the_same_tree(text: str) -> None:
    lifted = pc.lift(compiled(text, LIMIT=2, NAMES=NAMES, Line=Line))
    if not lifted.opaque_parts():
        assert parse(str(lifted)) == lifted.tree
        try:
            data = lifted.to_json()
        except pc.FilterError:  # it asks for more than a filter from outside may
            return
        again = pc.Filter.from_json(data)
        assert again == lifted
        assert hash(again) == hash(lifted)
