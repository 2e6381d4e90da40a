"""The rules of federation in small examples: who wins and why, and what becomes of an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from reflective import reflect

import polycast as pc
from polycast.contexts.resolve.inheritance import settle


@dataclass(frozen=True)
class Money:
    amount: float
    currency: str = "EUR"


@dataclass(frozen=True)
class ItemSpecification:
    height: float = 1.0


@dataclass(frozen=True)
class WeightedItemSpec(ItemSpecification):
    weight: float = 0.0


@dataclass(frozen=True)
class SizedItemSpec(ItemSpecification):
    size: float = 0.0


@dataclass(frozen=True)
class BothItemSpec(SizedItemSpec, WeightedItemSpec):
    pass


@dataclass(frozen=True)
class InvoiceLine:
    amountToPay: Money
    price: Money
    spec: ItemSpecification


@dataclass(frozen=True)
class CustomsDeclaration:
    spec: ItemSpecification


@dataclass(frozen=True)
class Invoice:
    first: InvoiceLine
    others: tuple[InvoiceLine, ...] = ()


@dataclass(frozen=True)
class Shipment:
    invoice: Invoice | None
    load: ItemSpecification | Money = ItemSpecification()


@dataclass(frozen=True)
class USShipment:
    invoice: Invoice | None
    load: ItemSpecification | Money = ItemSpecification()


@dataclass(frozen=True)
class USInvoiceLine:
    amountToPay: Money
    price: Money
    spec: ItemSpecification


@dataclass(frozen=True)
class USCustomsDeclaration:
    spec: ItemSpecification


@dataclass(frozen=True)
class USInvoice:
    first: InvoiceLine
    others: tuple[InvoiceLine, ...] = ()


ROOT = pc.Context(
    "root",
    types=[
        *(Money, ItemSpecification, WeightedItemSpec, SizedItemSpec, BothItemSpec),
        *(InvoiceLine, CustomsDeclaration, Invoice, Shipment),
    ],
)
PAIRS = {
    InvoiceLine: USInvoiceLine,
    CustomsDeclaration: USCustomsDeclaration,
    Invoice: USInvoice,
    Shipment: USShipment,
}


def context(
    *patterns: str | tuple[str, Any], types: Any = (), name: str = "us", parent: Any = ROOT
) -> pc.Context:
    """A context of the pairs, with rules that keep what they are given unless they say else."""
    made = pc.Context(name, parent=parent, types=[*PAIRS.values(), *types])
    for source, target in PAIRS.items():
        made.map(source, target, "?")
    for pattern in patterns:
        made.rule(*((pattern, pc.rules.identity) if isinstance(pattern, str) else pattern))
    return made


def seen(made: pc.Context, event: Any) -> Any:
    """An event as a context sees it; the reflective way agrees."""
    federation = pc.Federation(made.root)
    federation.add(made)
    found = federation.translate(event, target=made)
    assert reflect(settle(made), "?", event) == found
    return found


def decided(event: type, path: str, met: type, *patterns: str) -> tuple[str, str, str | None]:
    """Who wins at a path, by which priority, and over whom; whatever the order of lines."""
    found = set()
    for order in (patterns, patterns[::-1]):
        rows = context(*order).resolve(event)
        (row,) = [r for r in rows if ".".join(r.attributes) == path and r.types[-1] is met]
        found.add((row.pattern, row.reason, row.runner_up))
    (only,) = found
    return only


@pytest.mark.parametrize(
    ("event", "path", "met", "winner", "reason", "runner_up"),
    [
        (
            *(CustomsDeclaration, "spec", ItemSpecification),
            *("CustomsDeclaration.ItemSpecification", "P1", "ItemSpecification"),
        ),
        (InvoiceLine, "amountToPay", Money, "InvoiceLine.amountToPay", "P1", "Money"),
        (InvoiceLine, "price", Money, "InvoiceLine.price", "P2", "InvoiceLine.Money"),
        (
            *(InvoiceLine, "spec", WeightedItemSpec),
            *("InvoiceLine.spec(WeightedItemSpec)", "P3", "InvoiceLine.spec"),
        ),
        (
            *(InvoiceLine, "spec", BothItemSpec),
            *("InvoiceLine.SizedItemSpec", "P4", "InvoiceLine.WeightedItemSpec"),
        ),
        (
            *(Shipment, "invoice.first.price", Money),
            *("Shipment.invoice.Money", "P5", "Shipment.Invoice.InvoiceLine.Money"),
        ),
        (InvoiceLine, "spec", WeightedItemSpec, "WeightedItemSpec", "P6", "InvoiceLine.spec"),
        (
            *(Invoice, "first.spec", WeightedItemSpec),
            *("WeightedItemSpec", "P6", "Invoice.first.ItemSpecification"),
        ),
    ],
)
def test_each_priority_decides_and_names_the_one_that_was_next(
    event: type, path: str, met: type, winner: str, reason: str, runner_up: str
) -> None:
    assert decided(event, path, met, winner, runner_up) == (winner, reason, runner_up)


def test_a_rule_without_a_rival_is_the_only_one() -> None:
    assert decided(InvoiceLine, "price", Money, "Money") == ("Money", "only", None)


def test_the_runner_up_is_the_next_best_of_many() -> None:
    patterns = ("Money", "InvoiceLine.Money", "InvoiceLine.price")
    found = decided(InvoiceLine, "price", Money, *patterns)
    assert found == ("InvoiceLine.price", "P2", "InvoiceLine.Money")


def test_an_attribute_of_the_event_does_not_reach_further_in() -> None:
    rows = context("InvoiceLine.amountToPay").resolve(Invoice)
    assert rows == []


def test_a_type_in_the_middle_may_be_one_that_only_a_subtype_of_what_is_declared_has() -> None:
    @dataclass(frozen=True)
    class Sealed:
        seal: Money

    @dataclass(frozen=True)
    class SealedItemSpec(ItemSpecification, Sealed):
        pass

    made = context("CustomsDeclaration.Sealed.Money", types=[SealedItemSpec])
    assert not made.check().errors
    (row,) = made.resolve(CustomsDeclaration)
    assert row.types == (CustomsDeclaration, SealedItemSpec, Money)


def test_an_attribute_of_a_union_beats_a_type_though_it_names_more() -> None:
    # Only where nothing else decides is the narrower of two the stronger.
    found = decided(
        Shipment,
        "load",
        Money,
        "Shipment.load",
        "Shipment.Money",
    )
    assert found == ("Shipment.load", "P2", "Shipment.Money")
    narrowed = decided(Shipment, "load", Money, "Shipment.load(Money)", "Shipment.load")
    assert narrowed == ("Shipment.load(Money)", "P3", "Shipment.load")


def test_an_attribute_further_out_beats_one_further_in_though_it_is_of_a_union() -> None:
    patterns = ("Shipment.load.float", "Shipment.Money.amount")
    assert decided(Shipment, "load.amount", float, *patterns)[:2] == (patterns[0], "P2")


def test_a_type_that_a_union_names_twice_is_met_once() -> None:
    @dataclass(frozen=True)
    class Event:
        spec: ItemSpecification | WeightedItemSpec

    made = pc.Context("us", parent=ROOT, types=[Event])
    made.rule("Event.WeightedItemSpec", pc.rules.identity)
    assert len([row for row in made.resolve(Event) if row.types[-1] is WeightedItemSpec]) == 1


def double(money: Money) -> Money:
    return replace(money, amount=money.amount * 2)


def test_the_outermost_winner_ends_the_descent() -> None:
    def halve(amount: float) -> float:
        return amount / 2

    made = context(("InvoiceLine.price", double), ("Money.amount", halve), ("float", halve))
    line = InvoiceLine(Money(4.0), Money(4.0), ItemSpecification(4.0))
    assert seen(made, line) == USInvoiceLine(Money(2.0), Money(8.0), ItemSpecification(2.0))
    shadowed = [row for row in made.resolve(InvoiceLine) if row.shadowed]
    assert {row.shadowed_by for row in shadowed} == {"InvoiceLine.price"}


def test_a_disabled_rule_lets_the_next_best_apply_and_identity_does_not() -> None:
    line = InvoiceLine(Money(4.0), Money(4.0), ItemSpecification())
    parent = context(("InvoiceLine.price", pc.rules.identity), ("Money", double), name="parent")
    for function, expected in (("-", 8.0), (pc.rules.identity, 4.0)):
        child = pc.Context("child", parent=parent)
        child.rule("InvoiceLine.price", function)
        assert seen(child, line).price.amount == expected


def test_of_two_parents_the_first_decides_and_the_child_over_both() -> None:
    def triple(money: Money) -> Money:
        return replace(money, amount=money.amount * 3)

    one = context(("Money", double), name="one")
    two = pc.Context("two", parent=ROOT)
    two.rule("Money", triple)
    line = InvoiceLine(Money(4.0), Money(4.0), ItemSpecification())
    for parents, expected in (([one, two], 8.0), ([two, one], 12.0)):
        child = pc.Context("child", parent=parents)
        assert seen(child, line).price.amount == expected
        assert [warning.code for warning in child.check().warnings] == ["parents-differ"]
        child = pc.Context("child", parent=parents)
        child.rule("Money", pc.rules.identity)
        assert seen(child, line).price.amount == 4.0
        assert not child.check().warnings


def test_a_class_on_both_sides_is_mapped_to_itself() -> None:
    made = pc.Context("us", parent=ROOT, types=[Invoice])
    made.map(Invoice, Invoice, "?")
    made.rule("Invoice.first.price", double)
    line = InvoiceLine(Money(4.0), Money(4.0), ItemSpecification())
    assert seen(made, Invoice(line)) == Invoice(replace(line, price=Money(8.0)))


@dataclass(frozen=True)
class Part:
    money: Money


@dataclass(frozen=True)
class Box:
    part: Part


@dataclass(frozen=True)
class USBox:
    part: Part


@dataclass(frozen=True)
class Dollar:
    amount: float


def boxes(*rules: tuple[str, Callable[..., Any]]) -> tuple[pc.Context, pc.Federation]:
    root = pc.Context("root", types=[Box, Part, Money])
    made = pc.Context("us", parent=root, types=[USBox, Dollar])
    made.map(Box, USBox, "?")
    for pattern, function in rules:
        made.rule(pattern, function)
    federation = pc.Federation(root)
    federation.add(made)
    return made, federation


def test_a_subtype_nobody_knew_is_resolved_when_it_is_met() -> None:
    @dataclass(frozen=True)
    class Bought(Part):
        paid: Money

    made, federation = boxes(("Money", double))
    box = Box(Bought(Money(1.0), paid=Money(2.0)))
    assert federation.translate(box, target=made) == USBox(Bought(Money(2.0), paid=Money(4.0)))
    assert reflect(settle(made), "?", box) == USBox(Bought(Money(2.0), paid=Money(4.0)))
    assert not federation.findings


def test_a_subtype_whose_check_fails_goes_on_under_the_view_of_its_supertype(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @dataclass(frozen=True)
    class Counted(Part):
        count: int

    def spell(count: int) -> str:
        return str(count)

    made, federation = boxes(("Money", double), ("int", spell))
    box = Box(Counted(Money(1.0), count=2))
    assert federation.translate(box, target=made) == USBox(Part(Money(2.0)))
    (name, finding), *others = federation.findings
    assert (name, finding.code, others) == ("us", "bad-result", [])
    assert "Box.part.count" in finding.text
    assert federation.translate(Box(Part(Money(1.0))), target=made) == USBox(Part(Money(2.0)))
    assert "bad-result" in caplog.text


def test_an_event_whose_check_fails_is_taken_for_the_nearest_type_that_was_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @dataclass(frozen=True)
    class Base:
        price: Money

    @dataclass(frozen=True)
    class Known(Base):
        pass

    @dataclass(frozen=True)
    class Strange(Known):
        note: str = ""

    @dataclass(frozen=True)
    class Seen:
        price: Money
        note: int = 7

    def count(note: str) -> str:
        return f"{len(note)}"

    root = pc.Context("root", types=[Base, Known, Money])
    made = pc.Context("us", parent=root, types=[Seen])
    made.map(Base, Seen, "?")
    made.rule("Known.price", double)
    made.rule("str", count)
    federation = pc.Federation(root)
    federation.add(made)
    strange = Strange(Money(1.0), "abc")
    assert federation.translate(strange, target=made) == Seen(Money(2.0), 7)
    assert [finding.code for _, finding in federation.findings] == ["bad-result"]
    assert caplog.text


@dataclass
class Basket:
    items: list[Money]
    names: dict[str, list[str]] = field(default_factory=dict)
    anything: Any = None


@dataclass
class USBasket:
    items: list[Money]
    names: dict[str, list[str]] = field(default_factory=dict)
    anything: Any = None


def test_nothing_that_can_be_changed_is_shared_with_the_source() -> None:
    root = pc.Context("root", types=[Basket, Money])
    made = pc.Context("us", parent=root, types=[USBasket])
    made.map(Basket, USBasket, "?")
    event = Basket([Money(1.0)], {"a": ["b"]}, [[1]])
    found = seen(made, event)
    found.items.append(Money(2.0))
    found.names["a"].append("c")
    found.anything[0].append(2)
    assert event == Basket([Money(1.0)], {"a": ["b"]}, [[1]])


@dataclass
class Purse:
    coins: list[int]


@dataclass
class Payment:
    purse: Purse


@dataclass
class USPayment:
    purse: Purse


def test_a_function_that_changes_its_argument_reaches_nobody_else() -> None:
    def emptied(purse: Purse) -> Purse:
        purse.coins.clear()
        return purse

    root = pc.Context("root", types=[Payment, Purse])
    made = pc.Context("us", parent=root, types=[USPayment])
    made.map(Payment, USPayment, "?")
    made.rule("Purse", emptied)
    event = Payment(Purse([1]))
    assert seen(made, event) == USPayment(Purse([]))
    assert event == Payment(Purse([1]))


@pytest.mark.parametrize("event_type", [CustomsDeclaration, Shipment, Invoice])
def test_a_frozen_object_may_hold_a_subtype_that_can_be_changed(event_type: Any) -> None:
    @dataclass(frozen=True)
    class Listed(ItemSpecification):
        sizes: list[int] = field(default_factory=list)

    def emptied(line: InvoiceLine) -> InvoiceLine:
        line.spec.sizes.clear()  # type: ignore[attr-defined]
        return line

    made = pc.Context("us", parent=ROOT, types=[USShipment, USInvoice])
    made.map(Shipment, USShipment, "?")  # where it stays as it is
    made.map(Invoice, USInvoice, "?")  # where a function has it
    made.rule("Invoice.first", emptied)
    line = InvoiceLine(Money(1.0), Money(2.0), Listed(sizes=[3]))
    event = {
        CustomsDeclaration: CustomsDeclaration(line.spec),
        Shipment: Shipment(Invoice(line)),
        Invoice: Invoice(line),
    }[event_type]
    found = seen(made, event)
    for attribute in ("spec", "invoice", "first", "first", "spec"):
        found = getattr(found, attribute, found)
    found.sizes.append(4)
    assert line.spec == Listed(sizes=[3])


def test_a_default_that_the_constructor_insists_on_is_given_to_it() -> None:
    class Plain:
        price: Money
        state: str = "NY"

        def __init__(self, price: Money, state: str) -> None:
            self.price, self.state = price, state

        def __eq__(self, other: object) -> bool:
            return vars(self) == vars(other)

        __hash__ = None  # type: ignore[assignment]

    root = pc.Context("root", types=[Part, Money])
    made = pc.Context("us", parent=root, types=[Plain, Dollar])

    @dataclass(frozen=True)
    class Priced:
        price: Money

    made.map(Priced, Plain, "?")
    assert seen(made, Priced(Money(1.0))) == Plain(Money(1.0), "NY")


def test_an_unchanged_frozen_object_is_kept_and_not_built_again() -> None:
    made, federation = boxes(("Dollar", pc.rules.identity))
    part = Part(Money(1.0))
    assert federation.translate(Box(part), target=made).part is part
