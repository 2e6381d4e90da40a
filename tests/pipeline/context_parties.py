"""Parties that see parcels in their own ways: types, functions and contexts for tests."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import polycast as pc


@dataclass(frozen=True)
class Price:
    amount: float
    currency: str = "EUR"


@dataclass(frozen=True)
class Item:
    name: str
    weight: float


@dataclass(frozen=True)
class HeavyItem(Item):
    crane: bool = True


@dataclass(frozen=True)
class Parcel:
    number: int
    price: Price
    items: tuple[Item, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class Express(Parcel):
    within: float = 1.0


@dataclass(frozen=True)
class Notice:
    """Nobody maps it."""

    number: int


@dataclass
class PoundItem:
    name: str
    pounds: float = 0.0
    weight: float = 0.0


@dataclass
class AmericanParcel:
    number: int
    price: Price
    items: tuple[PoundItem, ...] = ()
    note: str | None = None


@dataclass
class AmericanMemo:
    """It cannot leave."""

    text: str


@dataclass(frozen=True)
class BritishParcel:
    number: int
    price: Price
    items: tuple[Item, ...] = ()
    note: str | None = None


class NoRate(Exception):
    """A price that nobody can change."""


def to_dollars(price: Price) -> Price:
    if price.amount > 90:
        raise NoRate(price)
    return Price(price.amount * 2, "USD")


def to_dollars_anew(price: Price) -> Price:
    return Price(price.amount * 3, "USD")


def from_dollars(price: Price) -> Price:
    if price.amount > 180:
        raise NoRate(price)
    return Price(price.amount / 2, "EUR")


def to_pounds(price: Price) -> Price:
    return Price(price.amount * 0.5, "GBP")


def from_pounds(price: Price) -> Price:
    return Price(price.amount / 0.5, "EUR")


def metric(item: PoundItem) -> Item:
    return Item(item.name, item.weight)


def as_tuple(parcel: AmericanParcel) -> Parcel:
    items = tuple(map(metric, parcel.items))
    return Parcel(parcel.number, from_dollars(parcel.price), items, parcel.note)


def to_items(item: Item) -> PoundItem:
    return PoundItem(item.name, item.weight * 2.25, item.weight)


def federation() -> pc.Federation:
    """The root, the Americans and the British."""
    root = pc.Context("root", types=[Parcel, Express, Price, Item, HeavyItem, Notice])
    found = pc.Federation(root)
    found.add(american(root))
    uk = pc.Context("uk", parent=root, types=[BritishParcel])
    uk.map(Parcel, BritishParcel, "?")
    uk.map(BritishParcel, Parcel, "!")
    uk.rule("Parcel.price", to_pounds)
    uk.rule("BritishParcel.price", from_pounds)
    found.add(uk)
    return found


def american(root: pc.Context, dollars: Any = to_dollars) -> pc.Context:
    us = pc.Context("us", parent=root, types=[AmericanParcel, AmericanMemo, PoundItem])
    us.map(Parcel, AmericanParcel, "?")
    us.map(AmericanParcel, Parcel, "!")
    us.rule("Parcel.price", dollars)
    us.rule("Parcel.items", to_items)
    us.whole(AmericanParcel, as_tuple)
    return us


def some_parcel(random: Random, context: str | None) -> Any:
    """An event that is published in a context."""
    number = random.randrange(100)
    amount = float(random.randrange(100))
    note = random.choice([None, "fragile"])
    if context == "us":
        if random.random() < 0.1:
            return AmericanMemo("hello")
        if random.random() < 0.1:
            return Parcel(number, Price(amount))  # a root type, as it is
        items = (PoundItem("box", 1.0, 2.0),) * random.randrange(3)
        return AmericanParcel(number, Price(amount * 2.1, "USD"), items, note)
    things = tuple(
        random.choice([Item, HeavyItem])("box", float(random.randrange(5)))
        for _ in range(random.randrange(3))
    )
    if context == "uk":
        return BritishParcel(number, Price(amount, "GBP"), things, note)
    kind = random.choice([Parcel, Parcel, Express, Notice])
    if kind is Notice:
        return Notice(number)
    return kind(number, Price(amount), things, note)


def some_wish(random: Random, context: str | None) -> tuple[Any, Any]:
    """What somebody in a context subscribes to, and with which filter."""
    limit = random.randrange(100)
    kinds: dict[str | None, list[Any]] = {
        None: [Parcel, Express, Notice, Parcel | Notice, object],
        "us": [AmericanParcel, AmericanMemo, Notice, AmericanParcel | Notice, object],
        "uk": [BritishParcel, Notice, object],
    }
    what = random.choice(kinds[context])
    if what in (Parcel, Express, AmericanParcel, BritishParcel):
        wheres: list[Any] = [
            None,
            lambda e: e.price.amount > limit,
            lambda e: e.number < limit and e.note is not None,
            lambda e: e.price.currency == "USD" or len(e.items) > 1,
        ]
        return what, random.choice(wheres)
    return what, None
