"""What the participants tell each other: a small tree of ordinary classes.

Event
├── OrderEvent                a supermarket and its distribution centre
│   ├── Order
│   ├── OrderConfirmation
│   └── Shipment
│       ├── ShipmentDeparted
│       └── ShipmentArrived
├── PurchaseEvent             a distribution centre and its suppliers
│   ├── CallForOffers
│   ├── Offer
│   ├── PurchaseOrder
│   └── Invoice
├── PriceUpdate
├── InventoryMovement
├── Statistics
│   ├── SalesStatistics
│   └── OrderStatistics
└── Notice
    ├── ProductAnnouncement
    └── CardHotList
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum

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
    NORTH = "north"
    EAST = "east"
    SOUTH = "south"
    WEST = "west"


class Urgency(Enum):
    NORMAL = 1
    SOON = 2
    NOW = 3


PERISHABLE = (Family.BAKERY, Family.DAIRY, Family.FROZEN, Family.FRUIT)


@dataclass(frozen=True, slots=True)
class Address:
    street: str
    city: str
    postal_code: str
    country: str


@dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an order, an offer or an invoice."""

    product: int
    family: Family
    quantity: int
    unit_price: Decimal


# The name is what every program calls the class, wherever it lives.
@pc.event(name="chain.Event")
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every message has. `receiver` is empty if it is for whoever it may concern."""

    sender: str
    receiver: str
    region: Region
    sent: datetime


# -- orders ----------------------------------------------------------------------------------------


@pc.event(name="chain.OrderEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEvent(Event):
    order: int
    lines: list[Line]

    def units(self) -> int:
        return sum(line.quantity for line in self.lines)

    def value(self) -> Decimal:
        return sum((line.quantity * line.unit_price for line in self.lines), Decimal(0))


@pc.event(name="chain.Order")
@dataclass(frozen=True, slots=True, kw_only=True)
class Order(OrderEvent):
    deliver_to: Address
    urgency: Urgency


@pc.event(name="chain.OrderConfirmation")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderConfirmation(OrderEvent):
    total: Money
    expected: date


@pc.event(name="chain.Shipment")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment(OrderEvent):
    deliver_to: Address
    kilometres: float


@pc.event(name="chain.ShipmentDeparted")
@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentDeparted(Shipment):
    lorry: str


@pc.event(name="chain.ShipmentArrived")
@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentArrived(Shipment):
    hours_late: float


# -- purchases -------------------------------------------------------------------------------------


@pc.event(name="chain.PurchaseEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseEvent(Event):
    purchase: int
    family: Family
    lines: list[Line]

    def value(self) -> Decimal:
        return sum((line.quantity * line.unit_price for line in self.lines), Decimal(0))


@pc.event(name="chain.CallForOffers")
@dataclass(frozen=True, slots=True, kw_only=True)
class CallForOffers(PurchaseEvent):
    deliver_to: Address


@pc.event(name="chain.Offer")
@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(PurchaseEvent):
    total: Money
    valid_until: date


@pc.event(name="chain.PurchaseOrder")
@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseOrder(PurchaseEvent):
    deliver_to: Address


@pc.event(name="chain.Invoice")
@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice(PurchaseEvent):
    total: Money
    bill_to: Address


# -- the rest --------------------------------------------------------------------------------------


@pc.event(name="chain.PriceUpdate")
@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate(Event):
    product: int
    family: Family
    before: Decimal
    price: Decimal

    @property
    def change(self) -> Decimal:
        """As a part of the price before."""
        return (self.price - self.before) / self.before


@pc.event(name="chain.InventoryMovement")
@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryMovement(Event):
    product: int
    family: Family
    moved: int
    left: int


@pc.event(name="chain.Statistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(Event):
    family: Family
    units: int
    revenue: Money


@pc.event(name="chain.SalesStatistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class SalesStatistics(Statistics):
    cash_desk: int


@pc.event(name="chain.OrderStatistics")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatistics(Statistics):
    order: int


@pc.event(name="chain.Notice")
@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """For everybody."""


@pc.event(name="chain.ProductAnnouncement")
@dataclass(frozen=True, slots=True, kw_only=True)
class ProductAnnouncement(Notice):
    products: list[int]
    family: Family


@pc.event(name="chain.CardHotList")
@dataclass(frozen=True, slots=True, kw_only=True)
class CardHotList(Notice):
    cards: list[str]
    severity: int


# -- a question of its own -------------------------------------------------------------------------


def is_risky(invoice: Invoice) -> bool:
    """A plain function: polycast does not look into it, it is asked as it is."""
    digits = f"{invoice.total.amount:.2f}".replace(".", "")
    return invoice.total.amount > 500 and digits.endswith(("00", "99"))
