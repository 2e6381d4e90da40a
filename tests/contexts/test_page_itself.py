"""The judge says what the paper and the rules of federation say in their own examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from page import (
    CANNOT_LEAVE,
    ContextData,
    Refused,
    World,
    identity,
    known,
    parse,
    rows,
    translate,
    winner,
)
from page_types import breadth_first, derived, fits, longest_chain


@dataclass
class Money:
    amount: float
    currency: str


@dataclass
class ItemSpecification:
    height: float


@dataclass
class WeightedItemSpec(ItemSpecification):
    weight: float = 0.0


@dataclass
class InvoiceLine:
    amountToPay: Money
    price: Money
    spec: ItemSpecification


@dataclass
class CustomsDeclaration:
    spec: ItemSpecification


@dataclass
class Invoice:
    first: InvoiceLine
    others: list[InvoiceLine] = field(default_factory=list)
    noted: dict[str, Money] | None = None


@dataclass
class Node:
    worth: Money
    next: Node | None = None


@dataclass
class USItemSpecification:
    inches: float


@dataclass
class USInvoiceLine:
    amountToPay: Money
    price: Money
    spec: USItemSpecification


@dataclass
class USInvoice:
    first: USInvoiceLine
    others: list[USInvoiceLine]
    place: str = "here"


ROOT = [Money, ItemSpecification, WeightedItemSpec, InvoiceLine, CustomsDeclaration, Invoice, Node]
US = [USItemSpecification, USInvoiceLine, USInvoice]


def to_dollars(money: Money) -> Money:
    money.amount, money.currency = money.amount * 2, "usd"  # it changes its argument, as printed
    return money


def to_us(spec: ItemSpecification) -> USItemSpecification:
    return USItemSpecification(spec.height * 40)


def world(*rules: tuple[str, Any], mappings: Any = (), types: Any = US) -> World:
    return World(ROOT, {"us": ContextData([], list(types), list(mappings), list(rules))})


def wins(patterns: str, types: list[type], attributes: str) -> str | None:
    """Which of some patterns wins at a path, whatever their order."""
    lines = [(pattern, identity) for pattern in patterns.split()]
    path = (tuple(types), tuple(attributes.split(".")))
    first, second = winner(world(*lines), "us", *path), winner(world(*lines[::-1]), "us", *path)
    assert first == second
    return first


SPEC, WEIGHTED = [InvoiceLine, ItemSpecification], [InvoiceLine, WeightedItemSpec]
IN_INVOICE = [Invoice, InvoiceLine, Money]


@pytest.mark.parametrize(
    ("patterns", "types", "attributes", "expected"),
    [
        ("ItemSpecification", SPEC, "spec", "ItemSpecification"),
        (
            "ItemSpecification CustomsDeclaration.ItemSpecification",
            [CustomsDeclaration, ItemSpecification],
            "spec",
            "CustomsDeclaration.ItemSpecification",
        ),
        (
            "ItemSpecification CustomsDeclaration.ItemSpecification",
            SPEC,
            "spec",
            "ItemSpecification",
        ),
        (
            "InvoiceLine.amountToPay Money",
            [InvoiceLine, Money],
            "amountToPay",
            "InvoiceLine.amountToPay",
        ),
        ("InvoiceLine.amountToPay Money", [InvoiceLine, Money], "price", "Money"),
        (
            "InvoiceLine.Money InvoiceLine.price",
            [InvoiceLine, Money],
            "price",
            "InvoiceLine.price",
        ),
        (
            "InvoiceLine.spec InvoiceLine.spec(WeightedItemSpec)",
            WEIGHTED,
            "spec",
            "InvoiceLine.spec(WeightedItemSpec)",
        ),
        (
            "InvoiceLine.spec InvoiceLine.spec(WeightedItemSpec)",
            SPEC,
            "spec",
            "InvoiceLine.spec",
        ),
        ("WeightedItemSpec InvoiceLine.spec", WEIGHTED, "spec", "WeightedItemSpec"),
        ("InvoiceLine.amountToPay", IN_INVOICE, "first.amountToPay", None),
        ("InvoiceLine.Money Money", IN_INVOICE, "first.amountToPay", "Money"),
        ("Invoice.Money Money", IN_INVOICE, "first.amountToPay", "Invoice.Money"),
        ("Invoice.first.amountToPay", IN_INVOICE, "others.amountToPay", None),
        (
            "Invoice.InvoiceLine.Money Invoice.first.Money",
            IN_INVOICE,
            "first.price",
            "Invoice.first.Money",
        ),
        (
            "Invoice.InvoiceLine.Money.float Invoice.first(InvoiceLine).float",
            [*IN_INVOICE, float],
            "first.price.amount",
            "Invoice.first(InvoiceLine).float",
        ),
    ],
)
def test_the_winner_is_the_one_the_examples_name(
    patterns: str, types: list[type], attributes: str, expected: str | None
) -> None:
    assert wins(patterns, types, attributes) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Nothing",
        "InvoiceLine.nothing",
        "InvoiceLine.spec(Money)",
        "InvoiceLine.nothing(Money)",
        "Invoice.ItemSpecification.height",
        "CustomsDeclaration.Money",
        "Node.next(Node)",
        "Invoice.InvoiceLine.InvoiceLine",
    ],
)
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse(known(world(), "us"), text)


@pytest.mark.parametrize(
    "text",
    [
        "InvoiceLine.WeightedItemSpec",
        "Invoice.float",
        "InvoiceLine.WeightedItemSpec.weight",
        "Invoice.noted.amount",
        "Node.next.next.worth",
        "Invoice.others.:Money",
    ],
)
def test_a_valid_pattern_is_read(text: str) -> None:
    parse(known(world(), "us"), text)


def test_patterns_are_identical_once_types_are_filled_in() -> None:
    there = known(world(), "us")
    assert parse(there, "InvoiceLine.spec") == parse(there, "InvoiceLine.spec(ItemSpecification)")
    assert parse(there, "InvoiceLine.spec") != parse(there, "InvoiceLine.ItemSpecification")


def test_how_derived_is_the_longest_chain_and_then_breadth_first() -> None:
    class A: ...

    class B(A): ...

    class C: ...

    class D(C, B): ...

    class E(D, A): ...

    assert breadth_first(E) == [E, D, A, C, B]
    assert longest_chain(E, A) == 3
    assert derived(D, frozenset([C])) < derived(D, frozenset([B])) < derived(D, frozenset([A]))


def test_rows_tell_every_path_and_what_is_shadowed() -> None:
    found = rows(world(("InvoiceLine.price", identity), ("float", identity)), "us", InvoiceLine)
    assert ((InvoiceLine, Money), ("price",), "InvoiceLine.price", False) in found
    assert ((InvoiceLine, Money, float), ("price", "amount"), "float", True) in found
    assert ((InvoiceLine, Money, float), ("amountToPay", "amount"), "float", False) in found
    assert ((InvoiceLine, WeightedItemSpec, float), ("spec", "weight"), "float", False) in found
    assert len(found) == 6


def test_rows_stop_at_a_repeated_type() -> None:
    found = rows(world(("Money", identity), ("Node.next", identity)), "us", Node)
    assert found == [
        ((Node, Money), ("worth",), "Money", False),
        ((Node, Node), ("next",), "Node.next", False),
    ]


RULES = [
    ("InvoiceLine.amountToPay", to_dollars),
    ("Invoice.InvoiceLine.amountToPay", to_dollars),
    ("ItemSpecification", to_us),
]
IN = [(InvoiceLine, USInvoiceLine, "?"), (Invoice, USInvoice, "?")]


def line() -> InvoiceLine:
    return InvoiceLine(Money(1, "eur"), Money(2, "eur"), WeightedItemSpec(3, 4))


US_LINE = USInvoiceLine(Money(2, "usd"), Money(2, "eur"), USItemSpecification(120))


def test_the_invoice_line_of_the_paper_becomes_a_us_one_and_stays_itself() -> None:
    event = line()
    assert translate(world(*RULES, mappings=IN), event, None, "us") == US_LINE
    assert event == line()


def test_a_nested_value_is_rebuilt_by_its_mapping_in_containers_too() -> None:
    event = Invoice(line(), [line(), line()], {"a": Money(1, "eur")})
    found = translate(world(*RULES, mappings=IN), event, None, "us")
    assert found == USInvoice(US_LINE, [US_LINE, US_LINE], "here")


def test_without_a_mapping_a_root_event_passes_and_a_local_one_cannot_leave() -> None:
    event = CustomsDeclaration(ItemSpecification(1))
    assert translate(world(*RULES), event, None, "us") is event
    assert translate(world(*RULES), US_LINE, "us", None) == CANNOT_LEAVE
    assert translate(world(*RULES), US_LINE, "us", "us") is US_LINE


def test_an_attribute_that_nothing_produces_is_refused() -> None:
    with pytest.raises(Refused):
        translate(world(mappings=IN), line(), None, "us")


def test_a_result_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Refused):
        translate(world(("Money", to_us), *RULES, mappings=IN), line(), None, "us")


def test_a_recursive_event_is_treated_as_at_its_first_occurrence() -> None:
    chain = Node(Money(1, "eur"), Node(Money(2, "eur"), Node(Money(3, "eur"))))
    here = world(("Node.worth", to_dollars), mappings=[(Node, Node, "?")])
    expected = Node(Money(2, "usd"), Node(Money(4, "usd"), Node(Money(6, "usd"))))
    assert translate(here, chain, None, "us") == expected


def inherited(child: Any, **others: Any) -> str | None:
    contexts = {
        "one": ContextData(rules=[("Money", identity), ("InvoiceLine.price", identity)]),
        "two": ContextData(rules=[("InvoiceLine.price(Money)", to_dollars)]),
        "child": ContextData(rules=child, **others),
    }
    return winner(World(ROOT, contexts), "child", (InvoiceLine, Money), ("price",))


def test_a_disabled_rule_gives_way_to_the_next_best() -> None:
    assert inherited([], parents=["one"]) == "InvoiceLine.price"
    assert inherited([("InvoiceLine.price(Money)", "-")], parents=["one"]) == "Money"


def test_the_order_of_parents_decides_between_identical_patterns() -> None:
    assert inherited([], parents=["one", "two"]) == "InvoiceLine.price"
    assert inherited([], parents=["two", "one"]) == "InvoiceLine.price(Money)"


@pytest.mark.parametrize(
    ("given", "needed", "expected"),
    [
        (WeightedItemSpec, ItemSpecification, True),
        (ItemSpecification, WeightedItemSpec, False),
        (int, float, True),
        (bool, int, True),
        (float, int, False),
        (list[int], list[float], True),
        (list[int], tuple[float, ...], False),
        (dict[str, int], dict[int, int], False),
        (int | None, int, False),
        (int, int | None, True),
        (Any, int, True),
        (int, Any, True),
        (tuple[int, str], tuple[int, str], True),
    ],
)
def test_what_fits(given: Any, needed: Any, expected: bool) -> None:
    assert fits(given, needed) is expected
