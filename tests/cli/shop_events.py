"""Events, subscribers and stores for the tests of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polycast as pc
from polycast.config import SystemClock


@dataclass
class Sale:
    number: int
    note: str = ""


@dataclass
class BigSale(Sale):
    customer: str = "nobody"


@dataclass
class Refund:
    number: int


class Later:
    """A clock that is so many seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._clock = seconds, SystemClock()

    def time(self) -> float:
        return self._clock.time() + self._seconds

    def monotonic(self) -> float:
        return self._clock.monotonic()


def url(path: Path) -> str:
    """The URL of the store in a file."""
    return f"sqlite:///{path}"


def refuse(event: Any) -> None:
    raise ValueError(f"no customer for {event.number}")


def fill(path: Path) -> None:
    """A store with ten events, a durable that is done, one that is behind, and dead letters."""
    with pc.Bus(url(path), publisher="till-7") as bus:
        bus.subscribe(Refund, refuse, durable="refunds", attempts=1)
        billing = bus.subscribe(Sale, lambda sale: None, durable="billing")
        bus.publish_many([Sale(n) for n in range(4)], topic="/shop/front")
        bus.publish_many([Refund(0), Refund(1)])
        bus.flush(30)
        billing.detach()
        bus.publish_many([Sale(4), BigSale(5, customer="Ann"), Sale(6)], topic="/shop/back")
        bus.publish(Sale(7), headers={"lane": "3"})
        bus.flush(30)
