"""Orders as three parties see them: the root in euro, `us` in dollars, `uk` in pounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polycast as pc

calls: Counter[str] = Counter()
"""How often each function was called; emptied before each test."""


@dataclass(frozen=True)
class Euro:
    amount: float


@dataclass(frozen=True)
class Dollar:
    amount: float


@dataclass(frozen=True)
class Pound:
    amount: float


# -- the root --------------------------------------------------------------------------------------


@dataclass
class Order:
    number: int
    price: Euro
    items: list[str] = field(default_factory=list)


@dataclass
class RushOrder(Order):
    hours: int = 1


@dataclass
class Note:
    """A type of the root that nobody maps."""

    text: str
    marks: list[str] = field(default_factory=list)


# -- us --------------------------------------------------------------------------------------------


@dataclass
class USOrder:
    number: int
    price: Dollar
    items: list[str] = field(default_factory=list)


@dataclass
class USRushOrder(USOrder):
    hours: int = 1


@dataclass
class USMemo:
    """A type of `us` that does not leave it."""

    text: str


# -- uk --------------------------------------------------------------------------------------------


@dataclass
class UKOrder:
    number: int
    price: Pound
    items: list[str] = field(default_factory=list)


class Refused(Exception):
    """A function does not like a price."""


def to_dollars(price: Euro) -> Dollar:
    calls["to_dollars"] += 1
    if price.amount < 0:
        raise Refused(price.amount)
    return Dollar(price.amount * 2)


def to_dollars_always(price: Euro) -> Dollar:
    calls["to_dollars_always"] += 1
    return Dollar(price.amount * 4)


def from_dollars(price: Dollar) -> Euro:
    calls["from_dollars"] += 1
    if price.amount < 0:
        raise Refused(price.amount)
    return Euro(price.amount / 2)


def from_dollars_always(price: Dollar) -> Euro:
    calls["from_dollars_always"] += 1
    return Euro(price.amount / 4)


def from_dollars_never(price: Dollar) -> Euro:
    return Euro(price.amount / 0)


def to_pounds(price: Euro) -> Pound:
    calls["to_pounds"] += 1
    return Pound(price.amount + 1)


def from_pounds(price: Pound) -> Euro:
    calls["from_pounds"] += 1
    return Euro(price.amount - 1)


Function = Callable[[Any], Any]


def make_root() -> pc.Context:
    return pc.Context("root", types=[Order, RushOrder, Note, Euro])


def make_us(
    root: pc.Context, *, incoming: Function = to_dollars, outgoing: Function = from_dollars
) -> pc.Context:
    us = pc.Context("us", parent=root, types=[USOrder, USRushOrder, USMemo, Dollar])
    us.map(Order, USOrder, "?")
    us.map(USOrder, Order, "!")
    us.rule("Order.price", incoming)
    us.rule("USOrder.price", outgoing)
    return us


def make_uk(root: pc.Context) -> pc.Context:
    uk = pc.Context("uk", parent=root, types=[UKOrder, Pound])
    uk.map(Order, UKOrder, "?")
    uk.map(UKOrder, Order, "!")
    uk.rule("Order.price", to_pounds)
    uk.rule("UKOrder.price", from_pounds)
    return uk


def make_ca(us: pc.Context) -> pc.Context:
    """A child of `us` with prices of its own."""
    ca = pc.Context("ca", parent=us)
    ca.rule("Order.price", to_dollars_always)
    return ca


@dataclass
class Parties:
    """A federation of both, and how to mend `us`."""

    root: pc.Context
    us: pc.Context
    uk: pc.Context
    federation: pc.Federation

    def mend(self) -> None:
        """Replace the functions of `us` by such that never raise."""
        self.federation.replace(
            make_us(self.root, incoming=to_dollars_always, outgoing=from_dollars_always)
        )


def make_parties() -> Parties:
    root = make_root()
    us, uk = make_us(root), make_uk(root)
    federation = pc.Federation(root)
    federation.add(us)
    federation.add(uk)
    return Parties(root, us, uk, federation)


def order(number: int = 1, euro: float = 10.0) -> Order:
    return Order(number, Euro(euro), ["tea"])


def us_order(number: int = 1, dollars: float = 20.0) -> USOrder:
    return USOrder(number, Dollar(dollars), ["tea"])


def uk_order(number: int = 1, pounds: float = 11.0) -> UKOrder:
    return UKOrder(number, Pound(pounds), ["tea"])


# -- versions whose rules belong together ----------------------------------------------------------


def mark_a(item: str) -> str:
    return f"{item} A"


def mark_b(item: str) -> str:
    return f"{item} B"


def make_marked_us(root: pc.Context, version: str) -> pc.Context:
    """Version A doubles prices and marks items with A; B makes them fourfold and marks with B."""
    us = make_us(root, incoming=to_dollars if version == "A" else to_dollars_always)
    us.rule("Order.items", mark_a if version == "A" else mark_b)
    return us
