"""Contexts as XML and as data for a store, and back."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import logistics
import pytest
from hypothesis import given
from hypothesis import strategies as st

import polycast as pc
from polycast.contexts.declare.context_state import context_from, read_state, state_of
from polycast.typesystem import describe, wire_name


def read_again(us: pc.Context, folder: Path) -> pc.Context:
    path = folder / f"{us.name}.xml"
    path.write_text(us.dump(), encoding="utf-8")
    return pc.Context.load(path, parent=us.parents, modules=["logistics"])


def likeness(context: pc.Context) -> Any:
    """All that makes a context, but where its lines are."""
    return (
        context.name,
        context.types,
        [(line.source, line.target, line.direction) for line in context.mapping_lines],
        [(line.pattern, line.function) for line in context.rule_lines],
        [(line.source, line.function) for line in context.whole_lines],
    )


def test_a_dump_is_xml() -> None:
    us = logistics.make_us()
    us.rule("Money", "-")
    us.rule("InvoiceLine.note", pc.rules.identity)
    us.whole(logistics.InvoiceLine, logistics.signed)
    assert us.dump() == (
        """\
<context name="us">
  <types>
    <type name="logistics.USInvoiceLine"/>
    <type name="logistics.USItemSpecification"/>
  </types>
  <mappings>
    <mapping from="logistics.InvoiceLine" to="logistics.USInvoiceLine" dir="?"/>
    <mapping from="logistics.USInvoiceLine" to="logistics.InvoiceLine" dir="!"/>
  </mappings>
  <rules>
    <rule pattern="ItemSpecification" function="logistics.to_us"/>
    <rule pattern="InvoiceLine.amountToPay" function="logistics.to_dollars"/>
    <rule pattern="USInvoiceLine.spec" function="logistics.to_eu"/>
    <rule pattern="Money" function="-"/>
    <rule pattern="InvoiceLine.note" function="identity"/>
    <whole type="logistics.InvoiceLine" function="logistics.signed"/>
  </rules>
</context>
"""
    )


def test_what_is_read_again_is_the_same(tmp_path: Path) -> None:
    us = logistics.make_us()
    again = read_again(us, tmp_path)
    assert likeness(again) == likeness(us)
    assert again.source(logistics.InvoiceLine) == us.source(logistics.InvoiceLine)
    assert list(map(str, again.resolve(logistics.InvoiceLine))) == list(
        map(str, us.resolve(logistics.InvoiceLine))
    )
    kinds = [(finding.code, finding.text) for finding in us.check().findings]
    assert [(finding.code, finding.text) for finding in again.check().findings] == kinds


def test_an_empty_context_is_an_empty_element(tmp_path: Path) -> None:
    us = pc.Context("a<b&'c\"", parent=logistics.make_root())
    path = tmp_path / "empty.xml"
    path.write_text(us.dump(), encoding="utf-8")
    assert pc.Context.load(path).name == us.name


MAPPINGS = st.sampled_from(
    [
        (logistics.InvoiceLine, logistics.USInvoiceLine, "?"),
        (logistics.USInvoiceLine, logistics.InvoiceLine, "!"),
        (logistics.ItemSpecification, logistics.USItemSpecification, "?"),
        (logistics.Money, logistics.Money, "?"),
    ]
)
FUNCTIONS: list[Any] = [
    *("-", pc.rules.identity, logistics.to_us, logistics.to_eu, logistics.to_dollars),
    *(logistics.ItemSpecification.to_upper, logistics.ItemSpecification.to_plain),
    *(logistics.loosely, logistics.to_todays_dollars, logistics.USItemSpecification),
]
CHOICES = st.integers(0, len(FUNCTIONS) - 1)
PATTERNS = st.one_of(
    st.sampled_from(["Money", "InvoiceLine.spec", "InvoiceLine.:Money", "logistics.Money"]),
    st.text("aM.:() <>&'\"é\n", max_size=10),
)


@st.composite
def contexts(draw: st.DrawFn) -> pc.Context:
    types = draw(st.lists(st.sampled_from([*logistics.LOCAL, *logistics.REFERENCE])))
    context = pc.Context("us", parent=logistics.make_root(), types=types)
    for source, target, direction in draw(st.lists(MAPPINGS)):
        context.map(source, target, direction)  # type: ignore[arg-type]
    for pattern, choice in draw(st.lists(st.tuples(PATTERNS, CHOICES))):
        if pattern.strip() == pattern != "":
            context.rule(pattern, FUNCTIONS[choice])
    for choice in draw(st.lists(CHOICES, max_size=2)):
        context.whole(logistics.InvoiceLine, FUNCTIONS[choice or 1])
    return context


@given(contexts())
def test_any_context_is_read_again_from_its_xml(
    tmp_path_factory: pytest.TempPathFactory, context: pc.Context
) -> None:
    again = read_again(context, tmp_path_factory.mktemp("xml"))
    assert likeness(again) == likeness(context)
    assert again.dump() == context.dump()


@given(contexts())
def test_any_context_is_read_again_from_its_state(context: pc.Context) -> None:
    again = restored(state_of(context), context)
    assert likeness(again)[:3] == likeness(context)[:3]
    assert state_of(again) == state_of(context)


def local_function(money: logistics.Money) -> logistics.Money:
    def inner(money: logistics.Money) -> logistics.Money:
        return money

    return inner  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda money: money, "it is a lambda without a name"),
        (local_function(logistics.Money(1.0)), "local_function.inner is local to another function"),
        (functools.partial(logistics.to_dollars), "a partial has no name"),
        (
            pc.unchecked(logistics.to_dollars),
            "unchecked(to_dollars) is not in logistics under a name of its own",
        ),
    ],
)
def test_what_has_no_name_is_not_dumped(function: Any, why: str) -> None:
    us = logistics.make_us()
    us.rule("Money", function)
    with pytest.raises(pc.BadContextError) as raised:
        us.dump()
    text = str(raised.value)
    assert text.startswith("us: in the rule 'Money' was ")
    assert text.endswith(f"; accepted: what a module defines under a name, and {why}")


def test_a_type_without_a_name_is_not_dumped() -> None:
    class Local:
        pass

    with pytest.raises(pc.BadContextError, match="Local is local to another function"):
        pc.Context("us", types=[Local]).dump()


# -- states ----------------------------------------------------------------------------------------


def class_named(name: str, version: int) -> type:
    assert version == 1
    return next(cls for cls in [*logistics.LOCAL, *logistics.REFERENCE] if wire_name(cls) == name)


def function_named(name: str) -> Any:
    module, _, path = name.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


def restored(state: bytes, like: pc.Context) -> pc.Context:
    parents = {parent.name: parent for parent in like.parents}
    return context_from(
        state, class_named=class_named, function_named=function_named, parents=parents
    )


def test_a_state_says_names_only() -> None:
    us = logistics.make_us()
    us.rule("Money", pc.unchecked(lambda money: money.amount * 1.5))
    found = read_state(state_of(us))
    assert (found.name, found.parents) == ("us", ("root",))
    assert [(cls.name, cls.hash) for cls in found.types] == [
        (wire_name(cls), describe(cls).hash) for cls in logistics.LOCAL
    ]
    assert [(rule.pattern, rule.function.name) for rule in found.rules] == [
        ("ItemSpecification", "logistics:to_us"),
        ("InvoiceLine.amountToPay", "logistics:to_dollars"),
        ("USInvoiceLine.spec", "logistics:to_eu"),
        ("Money", ""),
    ]
    assert found.rules[-1].function.tree == {"format": 1, "filter": "event.amount * 1.5"}


def test_a_lambda_that_can_be_lifted_comes_back() -> None:
    us = pc.Context("us", parent=logistics.make_root())
    us.rule("Money", pc.unchecked(lambda money: money.amount * 1.5))
    again = restored(state_of(us), us)
    assert again.rule_lines[0].function(logistics.Money(2.0)) == 3.0
    assert again.check().errors == ()


def test_marks_come_back() -> None:
    us = pc.Context("us", parent=logistics.make_root())
    us.rule("Money", pc.unchecked(pc.impure(logistics.to_dollars)))
    us.rule("InvoiceLine.amountToPay", logistics.to_todays_dollars)
    again = restored(state_of(us), us)
    marks = [(line.function.is_unchecked, line.function.is_impure) for line in again.rule_lines]
    assert marks == [(True, True), (False, True)]


def test_a_function_that_nobody_could_find_is_refused() -> None:
    us = pc.Context("us", parent=logistics.make_root())
    us.rule("Money", pc.unchecked(lambda money: print(money)))
    with pytest.raises(pc.BadContextError) as raised:
        state_of(us)
    text = str(raised.value)
    assert text.startswith("us: in the rule 'Money' was unchecked(")
    assert text.endswith(
        "accepted: a function that a module has under its name, or one that can be lifted: a part "
        "of the filter cannot leave this process: print(money): print cannot be looked into"
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (b"{", "the state of a context was"),
        (b'{"format":1}', "the state of a context was"),
        (b'{"format":2,"name":"us"}', "the format of a context was 2 (int); accepted: format 1"),
        (
            b'{"format":1,"name":"us","parents":["eu"]}',
            "us: a parent was 'eu' (str); accepted: one that is known: root",
        ),
    ],
)
def test_a_state_that_is_none_is_refused(state: bytes, said: str) -> None:
    with pytest.raises(pc.BadContextError) as raised:
        restored(state, logistics.make_us())
    assert str(raised.value).startswith(said)
