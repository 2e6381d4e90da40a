"""The types of the paper's example, and what the United States make of them."""

from __future__ import annotations

from dataclasses import dataclass
from os import system  # noqa: F401  (imported, so that a context may try to use it)

import polycast as pc


@dataclass(frozen=True)
class Money:
    amount: float


@dataclass(frozen=True)
class ItemSpecification:
    name: str

    def to_upper(self) -> USItemSpecification:
        return USItemSpecification(self.name.upper())

    @staticmethod
    def to_plain(spec: ItemSpecification) -> USItemSpecification:
        return USItemSpecification(spec.name)


@dataclass(frozen=True)
class WeightedItemSpec(ItemSpecification):
    weight: float = 0.0


@dataclass(frozen=True)
class InvoiceLine:
    spec: ItemSpecification
    amountToPay: Money
    note: str = ""


@dataclass(frozen=True)
class USItemSpecification:
    label: str


@dataclass(frozen=True)
class USInvoiceLine:
    spec: USItemSpecification
    amountToPay: Money


def to_dollars(money: Money) -> Money:
    return Money(money.amount * 2)


def to_us(spec: ItemSpecification) -> USItemSpecification:
    return USItemSpecification(spec.name)


def to_eu(spec: USItemSpecification) -> ItemSpecification:
    return ItemSpecification(spec.label)


def signed(line: InvoiceLine) -> USInvoiceLine:
    return USInvoiceLine(line.spec.to_upper(), Money(line.amountToPay.amount * 2))


@pc.impure
def to_todays_dollars(money: Money) -> Money:
    return money


loosely = pc.unchecked(lambda money: Money(money.amount))
REFERENCE = [InvoiceLine, ItemSpecification, WeightedItemSpec, Money]
LOCAL = [USInvoiceLine, USItemSpecification]


def make_root() -> pc.Context:
    return pc.Context("root", types=REFERENCE)


def make_us(root: pc.Context | None = None) -> pc.Context:
    us = pc.Context("us", parent=root or make_root(), types=LOCAL)
    us.map(InvoiceLine, USInvoiceLine, "?")
    us.map(USInvoiceLine, InvoiceLine, "!")
    us.rule("ItemSpecification", to_us)
    us.rule("InvoiceLine.amountToPay", to_dollars)
    us.rule("USInvoiceLine.spec", to_eu)
    return us
