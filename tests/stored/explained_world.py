"""Types, filters and a context about which subscriptions are explained."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import polycast as pc


@dataclass
class Ware:
    price: int = 0
    name: str = "a"

    def is_dear(self) -> bool:
        """What only the class itself can say."""
        return self.price > 5


@dataclass
class Toy(Ware):
    age: int = 3


@dataclass
class Letter:
    name: str = "a"


@dataclass
class Coin:
    value: int = 0


@dataclass
class Bill:
    """Its price is no number."""

    price: Coin


@runtime_checkable
class Priced(Protocol):
    price: int


class Sellable(ABC):  # noqa: B024
    """A class is registered with it."""


Sellable.register(Ware)


@dataclass
class LocalWare:
    price: int = 0
    name: str = "a"


@dataclass
class LocalNote:
    """It does not leave the context."""

    price: int = 0
    name: str = "a"


def doubled(price: int) -> int:
    """The rule of the context: it does not like one price."""
    if price == 9:
        raise ValueError("no such price")
    return 2 * price


def halved(price: int) -> int:
    """The way back."""
    return price // 2


def federation() -> pc.Federation:
    """The root and the context `us`."""
    root = pc.Context("world", types=[Ware, Toy, Letter])
    us = pc.Context("us", parent=root, types=[LocalWare, LocalNote])
    us.map(Ware, LocalWare, "?")
    us.map(LocalWare, Ware, "!")
    us.rule("Ware.price", doubled)
    us.rule("LocalWare.price", halved)
    found = pc.Federation(root)
    found.add(us)
    return found


def is_odd(price: int) -> bool:
    """Nothing of it is data."""
    return price % 2 == 1


def raises_for_few(event: Any) -> bool:
    """A filter that fails for some events."""
    return bool(10 // event.price > 2)


FILTERS: dict[str, Any] = {
    "none": None,
    "lifted": lambda event: event.price > 4,
    "text": lambda event: event.name == "a" and event.price in (1, 3, 5, 7, 8),
    "failing": lambda event: 10 / event.price > 2,
    "opaque": lambda event: is_odd(event.price),
    "split": lambda event: event.price > 4 and is_odd(event.price),
    "either": lambda event: event.price > 7 or is_odd(event.price),
    "named": raises_for_few,
    "method": lambda event: event.is_dear(),
    "method and more": lambda event: event.price < 8 and event.is_dear(),
}
SURE = ("none", "lifted", "text", "failing")
"""Those of which all is data."""
