"""Events of a shop, as a program has them in a module that workers may or may not import."""

from __future__ import annotations

import enum
from abc import ABC
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol, runtime_checkable

import polycast as pc


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


@dataclass
class Article:
    name: str = ""
    size: Size = Size.SMALL
    price: Decimal = Decimal(1)


@dataclass
class Sale:
    number: int
    customer: str = ""
    article: Article = field(default_factory=Article)

    def is_even(self) -> bool:
        return self.number % 2 == 0


@dataclass
class OnlineSale(Sale):
    site: str = "home"


@dataclass
class Refund(OnlineSale):
    reason: str = ""


@dataclass
class Visit:
    customer: str
    pages: int = 1
    number: int | None = None


@dataclass
class Leg:
    start: datetime
    miles: int


@dataclass
class Trip:
    first: datetime | None = None
    leg: Leg | None = None
    times: list[datetime | None] = field(default_factory=list)


@runtime_checkable
class Numbered(Protocol):
    number: int
    customer: str


class Bookable(ABC):  # noqa: B024 - whoever registers is one
    pass


@dataclass
class Booked:
    number: int = 0


Bookable.register(Booked)


@pc.event(name="shop.Parcel", version=2)
@dataclass
class Parcel:
    number: int
    weight: float = 0
    carrier: str = "mail"
    stops: list[str] = field(default_factory=list)


def is_odd(sale: Sale) -> bool:
    """What no filter can look into."""
    return int(str(sale.number), 10) % 2 == 1
