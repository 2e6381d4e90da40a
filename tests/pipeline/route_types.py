"""Event types of all kinds, with fields, methods, properties and ways of their own to be compared.

Workers of the pipeline do not import this module unless they are told to.
"""

from __future__ import annotations

import datetime
import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

import attrs
import msgspec

import polycast as pc


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Grade(enum.IntEnum):
    LOW = 1
    HIGH = 5


@dataclass(frozen=True, order=True)
class Money:
    amount: Decimal
    currency: str = "EUR"

    def __bool__(self) -> bool:
        return self.amount != 0


@dataclass(frozen=True)
class Line:
    quantity: int
    product: str


class Priced(Protocol):
    price: Money

    def total(self) -> int: ...


class Located(ABC):
    @abstractmethod
    def place(self) -> str: ...


@dataclass(frozen=True)
class Base:
    number: int
    text: str = ""


@dataclass(frozen=True)
class Order(Base):
    price: Money = Money(Decimal(0))
    paid: Money = Money(Decimal(0))
    colour: Colour = Colour.RED
    lines: tuple[Line, ...] = ()
    day: datetime.date | None = None

    def total(self) -> int:
        return sum(line.quantity for line in self.lines)

    @property
    def half(self) -> float:
        return self.number / 2


@dataclass(frozen=True)
class Rush(Order, Located):
    grade: Grade = Grade.LOW
    ratio: float = 0.0

    def place(self) -> str:
        return self.text


class Reading(msgspec.Struct, frozen=True):
    number: int
    text: str = ""
    ratio: float = 0.0
    tags: list[str] = []
    data: Any = None
    table: dict[str, int] = {}


@attrs.frozen
class Parcel:
    number: int
    text: str = ""
    weight: float = 0.0
    parts: list[Line] = attrs.field(factory=list)
    when: datetime.datetime = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pc.event(name="route.Note", version=2, aliases=["route.Memo"])
@dataclass(frozen=True)
class Note:
    number: int
    text: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def is_odd(event: Any) -> bool:
    """It does more than return one expression, so nobody can look into it."""
    found = event.number
    return bool(found % 2)


def is_short(event: Any) -> bool:
    for letter in event.text:
        if letter == "z":
            return False
    return len(event.text) < 4
