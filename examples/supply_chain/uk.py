"""The context of the UK: pounds sterling and miles. Declared by a file, uk.xml.

Goods are described as in the reference types, so events that have only goods in them stay as they
are. Here are the classes and functions that the file names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, final

import polycast as pc
from supply_chain import events
from supply_chain.events import (
    Address,
    Family,
    Item,
    Money,
    OrderEvent,
    PurchaseEvent,
    Shipment,
    Statistics,
    Urgency,
)


@final
@dataclass(frozen=True, slots=True)
class UKAddress:
    lines: tuple[str, ...]  # ("39 Harbour Street", "Leeds")
    postcode: str
    country: str


@final
@dataclass(frozen=True, slots=True)
class Sterling:
    amount: Decimal


@final
@dataclass(frozen=True, slots=True)
class UKLine:
    product: int
    family: Family
    quantity: int
    unit_price: Sterling


@final
@dataclass(frozen=True, slots=True)
class UKCashDesk:
    number: int
    units: int
    revenue: Sterling


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UKOrder(OrderEvent):
    lines: list[UKLine]
    deliver_to: UKAddress
    urgency: Urgency

    def units(self) -> int:
        return sum(line.quantity for line in self.lines)

    def value(self) -> Decimal:
        return sum((line.quantity * line.unit_price.amount for line in self.lines), Decimal(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class UKOrderConfirmation(OrderEvent):
    lines: list[UKLine]
    deliver_to: UKAddress
    total: Sterling
    expected: date


@dataclass(frozen=True, slots=True, kw_only=True)
class UKShipmentInformation(Shipment):
    items: list[Item]
    origin: UKAddress
    deliver_to: UKAddress
    distance: Annotated[float, pc.Unit("mile")]
    value: Sterling

    def weight(self) -> float:
        return sum(item.quantity * item.spec.weight for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class UKShipmentConfirmation(OrderEvent):
    received: list[UKLine]
    hours_late: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UKCallForOffers(PurchaseEvent):
    lines: list[UKLine]
    deliver_to: UKAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class UKOffer(PurchaseEvent):
    lines: list[UKLine]
    total: Sterling
    valid_until: date


@dataclass(frozen=True, slots=True, kw_only=True)
class UKPurchaseOrder(PurchaseEvent):
    lines: list[UKLine]
    deliver_to: UKAddress
    bill_to: UKAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class UKPurchaseConfirmation(PurchaseEvent):
    lines: list[UKLine]
    total: Sterling


@dataclass(frozen=True, slots=True, kw_only=True)
class UKInvoice(PurchaseEvent):
    lines: list[UKLine]
    total: Sterling
    bill_to: UKAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class UKPurchaseShipment(PurchaseEvent):
    items: list[Item]
    distance: Annotated[float, pc.Unit("mile")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UKPriceUpdate(events.Event):
    product: int
    family: Family
    before: Sterling
    price: Sterling

    @property
    def change(self) -> Decimal:
        return (self.price.amount - self.before.amount) / self.before.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class UKSalesStatistics(Statistics):
    revenue: Sterling
    cash_desks: list[UKCashDesk]


@dataclass(frozen=True, slots=True, kw_only=True)
class UKOrderStatistics(Statistics):
    revenue: Sterling
    order: int


# -- how things come in, and go out ----------------------------------------------------------------

PENNY = Decimal("0.01")
POUNDS_FOR_A_EURO = Decimal("0.86")
KILOMETRES_IN_A_MILE = 1.609344


def to_sterling(there: Money) -> Sterling:
    return Sterling((there.amount * POUNDS_FOR_A_EURO).quantize(PENNY))


def to_euros(here: Sterling) -> Money:
    return Money((here.amount / POUNDS_FOR_A_EURO).quantize(PENNY))


def from_reference_address(there: Address) -> UKAddress:
    street, code = f"{there.number} {there.street}", there.postal_code
    town = there.city if there.state is None else f"{there.city}, {there.state}"
    return UKAddress((street, town), code, there.country)


def to_reference_address(here: UKAddress) -> Address:
    number, _, street = here.lines[0].partition(" ")
    city, _, state = here.lines[1].partition(", ")
    return Address(street, int(number), here.postcode, city, here.country, state or None)


def to_miles(kilometres: float) -> float:
    return kilometres / KILOMETRES_IN_A_MILE


def to_kilometres(miles: float) -> float:
    return miles * KILOMETRES_IN_A_MILE
