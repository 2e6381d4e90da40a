"""Parcels, and an American context of which every function is Spark's too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import polycast as pc


@dataclass(frozen=True)
class Price:
    amount: float
    currency: str = "EUR"


@dataclass(frozen=True)
class Item:
    name: str
    weight: Annotated[float, pc.Unit("kg")] = 0.0


@dataclass(frozen=True)
class HeavyItem(Item):
    crane: bool = True


@dataclass(frozen=True)
class Parcel:
    number: int
    price: Price
    items: tuple[Item, ...] = ()
    spare: Item | None = None
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Express(Parcel):
    hours: int = 24


@dataclass
class OwnItem:
    name: str
    weight: Annotated[float, pc.Unit("lb")] = 0.0


@dataclass
class OwnParcel:
    number: float
    price: Price
    items: tuple[OwnItem, ...]
    spare: OwnItem | None
    counts: dict[str, int]
    source: str = "abroad"
    notes: list[str] = field(default_factory=list)


def to_dollars(amount: float) -> float:
    return amount * 2


def in_dollars(currency: str) -> str:
    return "USD"


def halved(number: int) -> float:
    return number / 2


def share(count: int) -> int:
    return 12 // count


def american(*types: type) -> pc.Context:
    """What the Americans make of parcels."""
    root = pc.Context("root", types=[Parcel, Price, Item, *types])
    us = pc.Context("us", parent=root, types=[OwnParcel, OwnItem])
    us.map(Parcel, OwnParcel, "?")
    us.map(Item, OwnItem, "?")
    us.rule("Parcel.number", halved)
    us.rule("Parcel.price.amount", to_dollars)
    us.rule("Parcel.price.currency", in_dollars)
    us.rule("Parcel.counts", share)
    return us


PARCELS = [
    Parcel(1, Price(10.0)),
    Parcel(2, Price(1.5), (Item("box", 2.0), HeavyItem("crate", 50.0)), Item("bag", 1.0), {"a": 5}),
    Parcel(3, Price(1.0), counts={"a": 1, "b": 0}),  # it cannot be shared
    Express(4, Price(2.0), spare=HeavyItem("crate"), hours=2),
]
