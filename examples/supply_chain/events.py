"""The reference types, which all parties refer to: the root of the contexts.

Money is in euros, weights are in kilograms, sizes in metres, distances in kilometres. The types in
the middle of the tree have nothing in them that anybody would want to see in another way, so the
local types of every context extend them, too.

Event
├── OrderEvent                      a supermarket and its distribution centre
│   ├── Order
│   ├── OrderConfirmation
│   ├── Shipment
│   │   ├── ShipmentDeparture
│   │   └── ShipmentInformation
│   └── ShipmentConfirmation
├── PurchaseEvent                   a distribution centre and its suppliers
│   ├── CallForOffers
│   ├── Offer
│   ├── PurchaseOrder
│   ├── PurchaseConfirmation
│   ├── Invoice
│   ├── PurchaseShipment
│   └── PurchaseShipmentConfirmation
├── PriceUpdate
├── InventoryMovement
├── Statistics
│   ├── SalesStatistics
│   ├── OrderStatistics
│   └── ShipmentStatistics
└── Notice
    ├── ProductAnnouncement
    └── CardHotList
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, final

import polycast as pc


class Family(Enum):
    """Product families."""

    BAKERY = "bakery"
    DAIRY = "dairy"
    FROZEN = "frozen"
    FRUIT = "fruit"
    DRINKS = "drinks"
    COFFEE = "coffee"
    CARE = "care"
    TOYS = "toys"
    GARDEN = "garden"
    BOOKS = "books"
    TOOLS = "tools"
    LIGHT = "light"


class Region(Enum):
    EU_NORTH = "eu north"
    US_EAST = "us east"
    UK = "uk"
    EU_SOUTH = "eu south"
    US_WEST = "us west"


class Urgency(Enum):
    NORMAL = 1
    SOON = 2
    NOW = 3


PERISHABLE = (Family.BAKERY, Family.DAIRY, Family.FROZEN, Family.FRUIT)


# -- what events have in them ----------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Address:
    street: str
    number: int
    postal_code: str
    city: str
    country: str
    state: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@final
@dataclass(frozen=True, slots=True)
class Specification:
    """What one piece of something weighs, and how large it is."""

    weight: Annotated[float, pc.Unit("kg")]
    height: Annotated[float, pc.Unit("m")]
    width: Annotated[float, pc.Unit("m")]
    depth: Annotated[float, pc.Unit("m")]


@final
@dataclass(frozen=True, slots=True)
class Line:
    """One line of an order, an offer or an invoice."""

    product: int
    family: Family
    quantity: int
    unit_price: Money


@final
@dataclass(frozen=True, slots=True)
class Item:
    """Goods that are moved; the tag is read by radio."""

    product: int
    family: Family
    quantity: int
    tag: str
    spec: Specification


@final
@dataclass(frozen=True, slots=True)
class CashDesk:
    number: int
    units: int
    revenue: Money


@final
@dataclass(frozen=True, slots=True)
class ProductDescription:
    product: int
    name: str
    spec: Specification


# -- events ----------------------------------------------------------------------------------------


# The name is what every program calls the class, wherever it lives.
@pc.event(name="chain.Event")
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every message has. `receiver` is empty if it is for whoever it may concern."""

    sender: str
    receiver: str
    region: Region
    sent: datetime


@pc.event(name="chain.OrderEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEvent(Event):
    order: int


@pc.event(name="chain.Order")
@dataclass(frozen=True, slots=True, kw_only=True)
class Order(OrderEvent):
    lines: list[Line]
    deliver_to: Address
    urgency: Urgency

    def units(self) -> int:
        return sum(line.quantity for line in self.lines)

    def value(self) -> Decimal:
        return sum((line.quantity * line.unit_price.amount for line in self.lines), Decimal(0))


@pc.event(name="chain.OrderConfirmation")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderConfirmation(OrderEvent):
    lines: list[Line]
    deliver_to: Address
    total: Money
    expected: date


@pc.event(name="chain.Shipment")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment(OrderEvent):
    """Goods on their way to a supermarket."""

    lorry: str


@pc.event(name="chain.ShipmentDeparture")
@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentDeparture(Shipment):
    items: list[Item]


@pc.event(name="chain.ShipmentInformation")
@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentInformation(Shipment):
    items: list[Item]
    origin: Address
    deliver_to: Address
    distance: Annotated[float, pc.Unit("km")]
    value: Money

    def weight(self) -> float:
        return sum(item.quantity * item.spec.weight for item in self.items)


@pc.event(name="chain.ShipmentConfirmation")
@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentConfirmation(OrderEvent):
    received: list[Line]
    hours_late: float


# -- purchases -------------------------------------------------------------------------------------


@pc.event(name="chain.PurchaseEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseEvent(Event):
    purchase: int
    family: Family


@pc.event(name="chain.CallForOffers")
@dataclass(frozen=True, slots=True, kw_only=True)
class CallForOffers(PurchaseEvent):
    lines: list[Line]
    deliver_to: Address


@pc.event(name="chain.Offer")
@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(PurchaseEvent):
    lines: list[Line]
    total: Money
    valid_until: date


@pc.event(name="chain.PurchaseOrder")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseOrder(PurchaseEvent):
    lines: list[Line]
    deliver_to: Address
    bill_to: Address


@pc.event(name="chain.PurchaseConfirmation")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseConfirmation(PurchaseEvent):
    lines: list[Line]
    total: Money


@pc.event(name="chain.Invoice")
@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice(PurchaseEvent):
    lines: list[Line]
    total: Money
    bill_to: Address


@pc.event(name="chain.PurchaseShipment")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseShipment(PurchaseEvent):
    """Goods on their way from a supplier."""

    items: list[Item]
    distance: Annotated[float, pc.Unit("km")]


@pc.event(name="chain.PurchaseShipmentConfirmation")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseShipmentConfirmation(PurchaseEvent):
    items: list[Item]


# -- the rest --------------------------------------------------------------------------------------


@pc.event(name="chain.PriceUpdate")
@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate(Event):
    product: int
    family: Family
    before: Money
    price: Money

    @property
    def change(self) -> Decimal:
        """As a part of the price before."""
        return (self.price.amount - self.before.amount) / self.before.amount


@pc.event(name="chain.InventoryMovement")
@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryMovement(Event):
    family: Family
    items: list[Item]
    left: int


@pc.event(name="chain.Statistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(Event):
    family: Family
    units: int


@pc.event(name="chain.SalesStatistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class SalesStatistics(Statistics):
    revenue: Money
    cash_desks: list[CashDesk]


@pc.event(name="chain.OrderStatistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatistics(Statistics):
    revenue: Money
    order: int


@pc.event(name="chain.ShipmentStatistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentStatistics(Statistics):
    items: list[Item]


@pc.event(name="chain.Notice")
@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """For everybody."""


@pc.event(name="chain.ProductAnnouncement")
@dataclass(frozen=True, slots=True, kw_only=True)
class ProductAnnouncement(Notice):
    products: list[ProductDescription]
    family: Family


@pc.event(name="chain.CardHotList")
@dataclass(frozen=True, slots=True, kw_only=True)
class CardHotList(Notice):
    cards: list[str]
    severity: int


root = pc.Context(
    "root",
    types=[
        *(Address, Money, Specification, Line, Item, CashDesk, ProductDescription),
        *(Event, OrderEvent, Order, OrderConfirmation, Shipment, ShipmentDeparture),
        *(ShipmentInformation, ShipmentConfirmation, PurchaseEvent, CallForOffers, Offer),
        *(PurchaseOrder, PurchaseConfirmation, Invoice, PurchaseShipment),
        *(PurchaseShipmentConfirmation, PriceUpdate, InventoryMovement, Statistics),
        *(SalesStatistics, OrderStatistics, ShipmentStatistics),
        *(Notice, ProductAnnouncement, CardHotList),
    ],
)


# -- a question of its own -------------------------------------------------------------------------


def is_risky(invoice: Invoice) -> bool:
    """A plain function: polycast does not look into it, it is asked as it is."""
    digits = f"{invoice.total.amount:.2f}".replace(".", "")
    return invoice.total.amount > 500 and digits.endswith(("00", "99"))
