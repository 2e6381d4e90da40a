"""Two versions of a class at work together, over a file.

A shop's `Order` had an amount and a text for the address. Version 2 has money, and an address in
parts. Nobody is stopped for that: old programs live in a context of their own, with a mapping in
each direction, and go on with version 1. Old orders reach new programs as version 2, and new ones
reach old programs as version 1. Run it:
python examples/versions.py
"""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polycast as pc

# -- version 1 -------------------------------------------------------------------------------------


@pc.event(name="shop.Order", version=1)
@dataclass(frozen=True)
class OrderV1:
    number: int
    total: float  # in euro
    address: str  # "street, town"


# -- version 2, which is the one that all refer to -------------------------------------------------


@pc.event(name="shop.Money")
@dataclass(frozen=True)
class Money:
    amount: float
    currency: str = "EUR"


@pc.event(name="shop.Address")
@dataclass(frozen=True)
class Address:
    street: str
    town: str


@pc.event(name="shop.Order", version=2)
@dataclass(frozen=True)
class Order:
    number: int
    total: Money
    address: Address
    gift: bool = False


# -- between them ----------------------------------------------------------------------------------

EURO = {"EUR": 1.0, "USD": 0.8}


def to_money(euro: float) -> Money:
    return Money(euro)


def to_euro(money: Money) -> float:
    return round(money.amount * EURO[money.currency], 2)


def to_address(text: str) -> Address:
    street, _, town = text.rpartition(", ")
    return Address(street, town)


def to_line(address: Address) -> str:
    return f"{address.street}, {address.town}"


def versions() -> tuple[pc.Context, pc.Context]:
    """The root with version 2, and the context of those who know version 1."""
    root = pc.Context("now", types=[Order, Money, Address])
    old = pc.Context("version-1", parent=root, types=[OrderV1])
    old.map(OrderV1, Order, "!")
    old.map(Order, OrderV1, "?")
    old.rule("OrderV1.total", to_money)
    old.rule("OrderV1.address", to_address)
    old.rule("Order.total", to_euro)
    old.rule("Order.address", to_line)
    return root, old


class Listener:
    """Tells what it hears, one after the other, and lets others wait for it."""

    _changed = threading.Condition()

    def __init__(self, who: str) -> None:
        self._who = who
        self._heard: list[Any] = []

    def hear(self, order: Any) -> None:
        with self._changed:
            print(f"   {self._who} hears {order}")
            self._heard.append(order)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._heard) >= count, 30.0):
                raise SystemExit(f"{self._who} has heard {len(self._heard)} orders of {count}")
            return sorted(self._heard, key=lambda order: order.number)


def shop(url: str) -> None:
    root, old = versions()
    federation = pc.Federation(root)
    federation.add(old)
    first = OrderV1(1, 30.0, "Rue de la Gare 5, Lausanne")
    third = Order(3, Money(50.0, "USD"), Address("Main St 1", "Springfield"), gift=True)

    print("An old till has sold something; nobody listens yet.")
    with pc.Bus(url, publisher="old till", context=old, federation=federation) as till:
        till.publish(first)

    print("A new program and an old one open the same file, and ask for all that was:")
    with (
        pc.Bus(url, publisher="new till", federation=federation) as now,
        pc.Bus(url, publisher="old till", context=old, federation=federation) as then,
    ):
        new_program, old_program = Listener("version 2"), Listener("version 1")
        now.subscribe(Order, new_program.hear, durable="billing", since="beginning")
        then.subscribe(OrderV1, old_program.hear, durable="packing", since="beginning")
        new_program.wait_for(1)
        old_program.wait_for(1)

        print("Now an old till and a new one sell:")
        then.publish(OrderV1(2, 12.5, "Hauptstrasse 9, Bern"))
        now.publish(third)
        heard = new_program.wait_for(3), old_program.wait_for(3)

    back = federation.translate(heard[0][0], target=old)
    print(f"Version 1 to 2 and back is the same: {back == first}")
    print("What version 1 has no word for stays behind:")
    print(old.show(Order))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shop(f"sqlite:///{Path(folder) / 'shop.db'}")


if __name__ == "__main__":
    main()
