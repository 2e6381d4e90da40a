"""Events of several shapes: in the root, in a context, and translated by hand.

What is written by hand is what a programmer would write who knows the types: no check for subtypes
where there are none, no copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polycast as pc

Translate = Callable[[Any], Any]

RATE = 1.25


@dataclass(frozen=True)
class Money:
    amount: float
    currency: str


@dataclass(frozen=True)
class Size:
    height: float
    width: float


@dataclass(frozen=True)
class WeightedSize(Size):
    weight: float


@dataclass(frozen=True)
class USSize:
    height: float
    width: float


@dataclass(frozen=True)
class USWeightedSize(USSize):
    weight: float


def to_dollars(money: Money) -> Money:
    return Money(money.amount * RATE, "USD")


def amount_to_dollars(amount: float) -> float:
    return amount * RATE


def to_inches(size: Size) -> USSize:
    return USSize(size.height / 2.54, size.width / 2.54)


def to_pounds(size: WeightedSize) -> USWeightedSize:
    return USWeightedSize(size.height / 2.54, size.width / 2.54, size.weight * 2.2046)


# -- flat ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sale:
    number: int
    shop: str
    item: str
    price: float
    tax: float
    card: str
    count: int
    day: str


@dataclass(frozen=True)
class USSale:
    number: int
    shop: str
    item: str
    price: float
    tax: float
    card: str
    count: int
    day: str


def sale_by_hand(e: Sale) -> USSale:
    return USSale(
        e.number,
        e.shop,
        e.item,
        amount_to_dollars(e.price),
        amount_to_dollars(e.tax),
        e.card,
        e.count,
        e.day,
    )


# -- nested ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    item: str
    price: Money
    size: Size


@dataclass(frozen=True)
class USLine:
    item: str
    price: Money
    size: USSize


@dataclass(frozen=True)
class Invoice:
    number: int
    total: Money
    first: Line
    note: str


@dataclass(frozen=True)
class USInvoice:
    number: int
    total: Money
    first: USLine
    note: str


def invoice_by_hand(e: Invoice) -> USInvoice:
    line = e.first
    return USInvoice(
        e.number,
        to_dollars(e.total),
        USLine(line.item, to_dollars(line.price), to_inches(line.size)),
        e.note,
    )


# -- lists -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Delivery:
    number: int
    lines: tuple[Line, ...]
    deposits: tuple[Money, ...]


@dataclass(frozen=True)
class USDelivery:
    number: int
    lines: tuple[USLine, ...]
    deposits: tuple[Money, ...]


def delivery_by_hand(e: Delivery) -> USDelivery:
    return USDelivery(
        e.number,
        tuple([USLine(x.item, to_dollars(x.price), to_inches(x.size)) for x in e.lines]),
        tuple([to_dollars(x) for x in e.deposits]),
    )


# -- subtypes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parcel:
    number: int
    size: Size
    spare: Size
    worth: Money


@dataclass(frozen=True)
class USParcel:
    number: int
    size: USSize
    spare: USSize
    worth: Money


def size_by_hand(size: Size) -> USSize:
    return to_pounds(size) if isinstance(size, WeightedSize) else to_inches(size)


def parcel_by_hand(e: Parcel) -> USParcel:
    return USParcel(e.number, size_by_hand(e.size), size_by_hand(e.spare), to_dollars(e.worth))


# -- together --------------------------------------------------------------------------------------

LINE = Line("bolt", Money(2.0, "EUR"), Size(3.0, 4.0))
EURO = Money(10.0, "EUR")


@dataclass(frozen=True)
class Shape:
    """One kind of event, and how it is translated by hand."""

    name: str
    event: Any
    target: type
    by_hand: Translate


SHAPES = (
    Shape("flat", Sale(1, "s", "i", 2.0, 0.4, "c", 3, "d"), USSale, sale_by_hand),
    Shape("nested", Invoice(1, EURO, LINE, "n"), USInvoice, invoice_by_hand),
    Shape("lists of 5", Delivery(1, (LINE,) * 5, (EURO,) * 5), USDelivery, delivery_by_hand),
    Shape(
        "subtypes",
        Parcel(1, WeightedSize(1.0, 2.0, 3.0), Size(1.0, 2.0), EURO),
        USParcel,
        parcel_by_hand,
    ),
)
NESTED = SHAPES[1]
LOCAL = [USSale, USLine, USInvoice, USDelivery, USParcel, USSize, USWeightedSize]
REFERENCE = [Sale, Line, Invoice, Delivery, Parcel, Money, Size, WeightedSize]


def make_federation() -> tuple[pc.Federation, pc.Context]:
    """The root with a context, compiled."""
    root = pc.Context("root", types=REFERENCE)
    us = pc.Context("us", parent=root, types=LOCAL)
    us.map(Line, USLine, "?")
    for shape in SHAPES:
        us.map(type(shape.event), shape.target, "?")
    us.rule("Money", to_dollars)
    us.rule("Size", to_inches)
    us.rule("WeightedSize", to_pounds)
    us.rule("Sale.price", amount_to_dollars)
    us.rule("Sale.tax", amount_to_dollars)
    federation = pc.Federation(root)
    federation.add(us)
    return federation, us
