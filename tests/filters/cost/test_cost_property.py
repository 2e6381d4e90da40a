"""An interpreter that counts what it does never counts more than was said before it ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.cost import cost_of
from polycast.filters.cost.operation_costs import METHODS
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse, render
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS
from polycast.typesystem import describe
from polycast.typesystem.type_expressions import expression_of


@dataclass
class Line:
    price: int
    tags: list[str]


@dataclass
class Bill:
    text: str
    number: int
    price: float
    words: list[str]
    numbers: list[int]
    lines: list[Line]


TYPES = {part.name: part.type for cls in (Bill, Line) for part in describe(cls).attributes}
TYPES["price"] = expression_of(float | int)  # of a bill, and of a line


class Counter:
    """Evaluates a tree as the reference does, and counts nodes and bytes."""

    def __init__(self, event: Bill) -> None:
        self.event, self.steps = event, 0.0

    def value(self, node: nodes.Node, scope: tuple[Any, ...] = ()) -> Any:  # noqa: C901 - a table
        self.steps += 1
        match node:
            case nodes.Event():
                return self.event
            case nodes.Variable(depth):
                return scope[depth]
            case nodes.Constant(value):
                return value
            case nodes.Attribute(of, name):
                return getattr(self.value(of, scope), name)
            case nodes.Call(of, method, arguments):
                return self._called(of, method, arguments, scope)
            case nodes.Function(name, arguments):
                given = [self.value(argument, scope) for argument in arguments]
                self.steps += 0 if name == "len" else sum(map(size, given)) / 4
                return BUILTINS[name](*given)
            case nodes.Item(of, key):
                return self.value(of, scope)[self.value(key, scope)]
            case nodes.And(parts):
                return all(self.value(part, scope) for part in parts)
            case nodes.Or(parts):
                return any(self.value(part, scope) for part in parts)
            case nodes.Not(operand):
                return not self.value(operand, scope)
            case nodes.Sign(operator, operand):
                return SIGNS[operator](self.value(operand, scope))
            case nodes.Arithmetic(operator, left, right):
                found = ARITHMETIC[operator](self.value(left, scope), self.value(right, scope))
                self.steps += size(found) / 4
                return found
            case nodes.Compare():
                return self._compared(node, scope)
            case nodes.Quantified():
                return self._quantified(node, scope)
        raise AssertionError(node)

    def _called(self, of: Any, method: str, arguments: Any, scope: Any) -> Any:
        given = [self.value(operand, scope) for operand in (of, *arguments)]
        if method not in ("startswith", "endswith"):
            self.steps += METHODS[method].steps * sum(map(size, given)) / 4
        return getattr(given[0], method)(*given[1:])

    def _compared(self, node: nodes.Compare, scope: Any) -> Any:
        left, result = self.value(node.first, scope), True
        for sign, operand in node.rest:
            right = self.value(operand, scope)
            about = size(right) if sign in ("in", "not in") else min(size(left), size(right))
            self.steps += about / 4
            result, left = COMPARISONS[sign](left, right), right
            if not result:
                return result
        return result

    def _quantified(self, node: nodes.Quantified, scope: Any) -> bool:
        for element in self.value(node.over, scope):
            self.steps += 1
            inner = (element, *scope)
            if not all(self.value(condition, inner) for condition in node.conditions):
                continue
            if bool(self.value(node.each, inner)) is (node.kind == "any"):
                return node.kind == "any"
        return node.kind == "all"


def size(value: Any) -> int:
    """Bytes, as in a record."""
    if isinstance(value, int):
        return value.bit_length() // 8 + 1
    return len(msgspec.msgpack.encode(value))


WORDS = st.text("abcü", max_size=30)
NUMBERS = st.integers(-(2**200), 2**200)
LINES = st.builds(Line, NUMBERS, st.lists(WORDS, max_size=6))
EVENTS = st.builds(
    *(Bill, WORDS, NUMBERS, st.floats(allow_nan=False)),
    *(st.lists(WORDS, max_size=12), st.lists(NUMBERS, max_size=12), st.lists(LINES, max_size=5)),
)


def texts(*terms: str) -> st.SearchStrategy[str]:
    """What is a text, of these and of what is made of them."""
    simple = st.sampled_from([*terms, "event.text", "'ab'", "'c'"])
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.builds("({}).{}()".format, inner, st.sampled_from(["lower", "upper", "strip"])),
            st.builds("({} + {})".format, inner, inner),
            st.builds("({} * {})".format, inner, st.integers(0, 20)),
        ),
        max_leaves=3,
    )


def numbers(*terms: str) -> st.SearchStrategy[str]:
    simple = st.sampled_from([*terms, "event.number", "event.price", "7", "len(event.words)"])
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "%"]), inner),
            st.builds("(-{})".format, inner),
            st.builds("max({}, {})".format, inner, inner),
        ),
        max_leaves=3,
    )


def conditions(words: tuple[str, ...] = (), counts: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    word, count = texts(*words), numbers(*counts)
    signs = st.sampled_from(["==", "!=", "<", ">="])
    return st.one_of(
        st.builds("({} {} {})".format, word, signs, word),
        st.builds("({} {} {})".format, count, signs, count),
        st.builds("({} in {})".format, word, word),
        st.builds("({}).startswith({})".format, word, word),
        st.builds("({} in event.words)".format, word),
    )


KINDS = st.sampled_from(["any", "all"])
CONDITIONS = st.one_of(
    conditions(),
    st.builds("{}({} for w in event.words)".format, KINDS, conditions(words=("w",))),
    st.builds("{}({} for n in event.numbers)".format, KINDS, conditions(counts=("n",))),
    st.builds(
        "{}({}({} for t in l.tags) for l in event.lines if {})".format,
        *(
            KINDS,
            KINDS,
            conditions(words=("t",), counts=("l.price",)),
            conditions(counts=("l.price",)),
        ),
    ),
    st.builds("any({} for w in event.text.split('a'))".format, conditions(words=("w",))),
    st.builds("any({} for w in ('a', 'b'))".format, conditions(words=("w",))),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=3,
)


def bytes_of(event: Bill) -> int:
    """About as many as its record takes; long numbers are written in hex."""
    numbers = [hex(number) for number in event.numbers]
    lines = [(hex(line.price), line.tags) for line in event.lines]
    parts = (event.text, hex(event.number), event.price, event.words, numbers, lines)
    return len(msgspec.msgpack.encode(parts))


@settings(max_examples=60)
@given(FILTERS, EVENTS)
def test_no_event_takes_more_steps_than_its_size_allows(text: str, event: Bill) -> None:
    tree = parse(text)
    try:
        bound = cost_of(tree, fields=TYPES.get)
    except pc.FilterTooCostlyError:
        return
    counter = Counter(event)
    try:
        counter.value(tree)
    except (ArithmeticError, TypeError, OverflowError):
        pass
    assert counter.steps <= bound.at(bytes_of(event)), render(tree)


@settings(max_examples=20)
@given(EVENTS)
def test_a_bound_that_is_too_low_would_be_found(event: Bill) -> None:
    counter = Counter(event)
    counter.value(parse("all(len(w) >= 0 for w in event.words)"))
    assert counter.steps >= 3 * len(event.words)
