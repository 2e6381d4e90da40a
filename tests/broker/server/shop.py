"""The classes of a shop, which the broker does not have."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Gift", "Item", "Order", "is_odd"]


@dataclass(frozen=True)
class Item:
    name: str
    price: float


@dataclass(frozen=True)
class Order:
    number: int
    customer: str = "somebody"
    items: tuple[Item, ...] = field(default=())

    @property
    def total(self) -> float:
        return sum(item.price for item in self.items)


@dataclass(frozen=True)
class Gift(Order):
    note: str = ""


def is_odd(number: int) -> bool:
    return number % 2 == 1
