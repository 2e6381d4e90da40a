"""The context of the US: dollars, pounds, inches and miles. Declared by annotations.

`@pc.maps_to` stands at each class. Where both ends of a mapping name a unit, polycast has the
factor; what a dollar is worth, and how an address is written, is said by functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, TypeVar, final

import polycast as pc
from supply_chain import events
from supply_chain.events import (
    Address,
    Family,
    Money,
    OrderEvent,
    PurchaseEvent,
    Shipment,
    Statistics,
    Urgency,
    root,
)

T = TypeVar("T")


def both_ways(there: type) -> Callable[[type[T]], type[T]]:
    """What comes in as such a type also goes out as one."""
    return lambda cls: pc.maps_to(there, "?")(pc.maps_to(there, "!")(cls))


@final
@dataclass(frozen=True, slots=True)
class USAddress:
    line: str  # "39 Harbor Street"
    city: str
    state: str | None  # elsewhere there are none
    zip: str
    country: str


@final
@dataclass(frozen=True, slots=True)
class Dollars:
    amount: Decimal


@both_ways(events.Specification)
@final
@dataclass(frozen=True, slots=True)
class USSpecification:
    weight: Annotated[float, pc.Unit("lb")]
    height: Annotated[float, pc.Unit("inch")]
    width: Annotated[float, pc.Unit("inch")]
    depth: Annotated[float, pc.Unit("inch")]


@both_ways(events.Line)
@final
@dataclass(frozen=True, slots=True)
class USLine:
    product: int
    family: Family
    quantity: int
    unit_price: Dollars


@both_ways(events.Item)
@final
@dataclass(frozen=True, slots=True)
class USItem:
    product: int
    family: Family
    quantity: int
    tag: str
    spec: USSpecification


@both_ways(events.CashDesk)
@final
@dataclass(frozen=True, slots=True)
class USCashDesk:
    number: int
    units: int
    revenue: Dollars


@both_ways(events.ProductDescription)
@final
@dataclass(frozen=True, slots=True)
class USProductDescription:
    product: int
    name: str
    spec: USSpecification


# -- events ----------------------------------------------------------------------------------------


@both_ways(events.Order)
@dataclass(frozen=True, slots=True, kw_only=True)
class USOrder(OrderEvent):
    lines: list[USLine]
    deliver_to: USAddress
    urgency: Urgency

    def units(self) -> int:
        return sum(line.quantity for line in self.lines)

    def value(self) -> Decimal:
        return sum((line.quantity * line.unit_price.amount for line in self.lines), Decimal(0))


@both_ways(events.OrderConfirmation)
@dataclass(frozen=True, slots=True, kw_only=True)
class USOrderConfirmation(OrderEvent):
    lines: list[USLine]
    deliver_to: USAddress
    total: Dollars
    expected: date


@both_ways(events.ShipmentDeparture)
@dataclass(frozen=True, slots=True, kw_only=True)
class USShipmentDeparture(Shipment):
    items: list[USItem]


@both_ways(events.ShipmentInformation)
@dataclass(frozen=True, slots=True, kw_only=True)
class USShipmentInformation(Shipment):
    items: list[USItem]
    origin: USAddress
    deliver_to: USAddress
    distance: Annotated[float, pc.Unit("mile")]
    value: Dollars

    def weight(self) -> float:
        return sum(item.quantity * item.spec.weight for item in self.items)


@both_ways(events.ShipmentConfirmation)
@dataclass(frozen=True, slots=True, kw_only=True)
class USShipmentConfirmation(OrderEvent):
    received: list[USLine]
    hours_late: float


@both_ways(events.CallForOffers)
@dataclass(frozen=True, slots=True, kw_only=True)
class USCallForOffers(PurchaseEvent):
    lines: list[USLine]
    deliver_to: USAddress


@both_ways(events.Offer)
@dataclass(frozen=True, slots=True, kw_only=True)
class USOffer(PurchaseEvent):
    lines: list[USLine]
    total: Dollars
    valid_until: date


@both_ways(events.PurchaseOrder)
@dataclass(frozen=True, slots=True, kw_only=True)
class USPurchaseOrder(PurchaseEvent):
    lines: list[USLine]
    deliver_to: USAddress
    bill_to: USAddress


@both_ways(events.PurchaseConfirmation)
@dataclass(frozen=True, slots=True, kw_only=True)
class USPurchaseConfirmation(PurchaseEvent):
    lines: list[USLine]
    total: Dollars


@both_ways(events.Invoice)
@dataclass(frozen=True, slots=True, kw_only=True)
class USInvoice(PurchaseEvent):
    lines: list[USLine]
    total: Dollars
    bill_to: USAddress


@both_ways(events.PurchaseShipment)
@dataclass(frozen=True, slots=True, kw_only=True)
class USPurchaseShipment(PurchaseEvent):
    items: list[USItem]
    distance: Annotated[float, pc.Unit("mile")]


@both_ways(events.PurchaseShipmentConfirmation)
@dataclass(frozen=True, slots=True, kw_only=True)
class USPurchaseShipmentConfirmation(PurchaseEvent):
    items: list[USItem]


@both_ways(events.PriceUpdate)
@dataclass(frozen=True, slots=True, kw_only=True)
class USPriceUpdate(events.Event):
    product: int
    family: Family
    before: Dollars
    price: Dollars

    @property
    def change(self) -> Decimal:
        return (self.price.amount - self.before.amount) / self.before.amount


@both_ways(events.InventoryMovement)
@dataclass(frozen=True, slots=True, kw_only=True)
class USInventoryMovement(events.Event):
    family: Family
    items: list[USItem]
    left: int


@both_ways(events.SalesStatistics)
@dataclass(frozen=True, slots=True, kw_only=True)
class USSalesStatistics(Statistics):
    revenue: Dollars
    cash_desks: list[USCashDesk]


@both_ways(events.OrderStatistics)
@dataclass(frozen=True, slots=True, kw_only=True)
class USOrderStatistics(Statistics):
    revenue: Dollars
    order: int


@both_ways(events.ShipmentStatistics)
@dataclass(frozen=True, slots=True, kw_only=True)
class USShipmentStatistics(Statistics):
    items: list[USItem]


@both_ways(events.ProductAnnouncement)
@dataclass(frozen=True, slots=True, kw_only=True)
class USProductAnnouncement(events.Notice):
    products: list[USProductDescription]
    family: Family


# -- what polycast cannot know ---------------------------------------------------------------------

CENT = Decimal("0.01")
DOLLARS_FOR_A_EURO, IN_THE_NEW_QUARTER = Decimal("1.08"), Decimal("1.20")


def from_reference_address(there: Address) -> USAddress:
    line = f"{there.number} {there.street}"
    return USAddress(line, there.city, there.state, there.postal_code, there.country)


def to_reference_address(here: USAddress) -> Address:
    number, _, street = here.line.partition(" ")
    return Address(street, int(number), here.zip, here.city, here.country, here.state)


def to_dollars(there: Money) -> Dollars:
    return Dollars((there.amount * DOLLARS_FOR_A_EURO).quantize(CENT))


def to_euros(here: Dollars) -> Money:
    return Money((here.amount / DOLLARS_FOR_A_EURO).quantize(CENT))


def to_dollars_anew(there: Money) -> Dollars:
    return Dollars((there.amount * IN_THE_NEW_QUARTER).quantize(CENT))


def to_euros_anew(here: Dollars) -> Money:
    return Money((here.amount / IN_THE_NEW_QUARTER).quantize(CENT))


context = pc.Context(
    "us",
    parent=root,
    types=[
        *(USAddress, Dollars, USSpecification, USLine, USItem, USCashDesk, USProductDescription),
        *(USOrder, USOrderConfirmation, USShipmentDeparture, USShipmentInformation),
        *(USShipmentConfirmation, USCallForOffers, USOffer, USPurchaseOrder),
        *(USPurchaseConfirmation, USInvoice, USPurchaseShipment, USPurchaseShipmentConfirmation),
        *(USPriceUpdate, USInventoryMovement, USSalesStatistics, USOrderStatistics),
        *(USShipmentStatistics, USProductAnnouncement),
    ],
)
context.rule("Address", from_reference_address)
context.rule("USAddress", to_reference_address)

# The same with another rate: it takes the place of the first while events flow.
new_quarter = context.copy()
for version, incoming, outgoing in (
    (context, to_dollars, to_euros),
    (new_quarter, to_dollars_anew, to_euros_anew),
):
    version.rule("Money", incoming)
    version.rule("Dollars", outgoing)
