"""The context of the EU: its own addresses, and sizes in centimetres. Declared by Python calls.

Money stays as it is in the reference types, and so do all events that have neither an address nor
goods in them: what has no mapping comes and goes unchanged.
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
    Line,
    Money,
    OrderEvent,
    ProductDescription,
    PurchaseEvent,
    Shipment,
    Specification,
    Statistics,
    Urgency,
    root,
)


@final
@dataclass(frozen=True, slots=True)
class EUAddress:
    street: str  # "Hafenstraße 39"
    postal_code: str  # "DE-20095"
    city: str


@final
@dataclass(frozen=True, slots=True)
class EUSpecification:
    weight: float  # kilograms
    height: float  # centimetres
    width: float
    depth: float


@final
@dataclass(frozen=True, slots=True)
class EUItem:
    product: int
    family: Family
    quantity: int
    tag: str
    spec: EUSpecification


@final
@dataclass(frozen=True, slots=True)
class EUProductDescription:
    product: int
    name: str
    spec: EUSpecification


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EUOrder(OrderEvent):
    lines: list[Line]
    deliver_to: EUAddress
    urgency: Urgency

    def units(self) -> int:
        return sum(line.quantity for line in self.lines)

    def value(self) -> Decimal:
        return sum((line.quantity * line.unit_price.amount for line in self.lines), Decimal(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EUOrderConfirmation(OrderEvent):
    lines: list[Line]
    deliver_to: EUAddress
    total: Money
    expected: date


@dataclass(frozen=True, slots=True, kw_only=True)
class EUShipmentDeparture(Shipment):
    items: list[EUItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class EUShipmentInformation(Shipment):
    items: list[EUItem]
    origin: EUAddress
    deliver_to: EUAddress
    distance: Annotated[float, pc.Unit("km")]
    value: Money

    def weight(self) -> float:
        return sum(item.quantity * item.spec.weight for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class EUCallForOffers(PurchaseEvent):
    lines: list[Line]
    deliver_to: EUAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class EUPurchaseOrder(PurchaseEvent):
    lines: list[Line]
    deliver_to: EUAddress
    bill_to: EUAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class EUInvoice(PurchaseEvent):
    lines: list[Line]
    total: Money
    bill_to: EUAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class EUPurchaseShipment(PurchaseEvent):
    items: list[EUItem]
    distance: Annotated[float, pc.Unit("km")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EUPurchaseShipmentConfirmation(PurchaseEvent):
    items: list[EUItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class EUInventoryMovement(events.Event):
    family: Family
    items: list[EUItem]
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EUShipmentStatistics(Statistics):
    items: list[EUItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class EUProductAnnouncement(events.Notice):
    products: list[EUProductDescription]
    family: Family


# -- how things come in, and go out ----------------------------------------------------------------


def from_reference_address(there: Address) -> EUAddress:
    street, code = f"{there.street} {there.number}", f"{there.country}-{there.postal_code}"
    return EUAddress(street, code, there.city)


def to_reference_address(here: EUAddress) -> Address:
    street, _, number = here.street.rpartition(" ")
    country, _, code = here.postal_code.partition("-")
    return Address(street, int(number), code, here.city, country)


def to_centimetres(there: Specification) -> EUSpecification:
    return EUSpecification(there.weight, 100 * there.height, 100 * there.width, 100 * there.depth)


def to_metres(here: EUSpecification) -> Specification:
    return Specification(here.weight, here.height / 100, here.width / 100, here.depth / 100)


SEEN_AS = {
    Item: EUItem,
    ProductDescription: EUProductDescription,
    events.Order: EUOrder,
    events.OrderConfirmation: EUOrderConfirmation,
    events.ShipmentDeparture: EUShipmentDeparture,
    events.ShipmentInformation: EUShipmentInformation,
    events.CallForOffers: EUCallForOffers,
    events.PurchaseOrder: EUPurchaseOrder,
    events.Invoice: EUInvoice,
    events.PurchaseShipment: EUPurchaseShipment,
    events.PurchaseShipmentConfirmation: EUPurchaseShipmentConfirmation,
    events.InventoryMovement: EUInventoryMovement,
    events.ShipmentStatistics: EUShipmentStatistics,
    events.ProductAnnouncement: EUProductAnnouncement,
}

context = pc.Context("eu", parent=root, types=[*SEEN_AS.values(), EUAddress, EUSpecification])
for theirs, ours in SEEN_AS.items():
    context.map(theirs, ours, "?")
    context.map(ours, theirs, "!")
context.rule("Address", from_reference_address)
context.rule("EUAddress", to_reference_address)
context.rule("Specification", to_centimetres)
context.rule("EUSpecification", to_metres)
