"""Classes of events that several processes can name, and what tests say about them."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from polycast.testing import Recorder

__all__ = [
    "AlsoRegistered",
    "BigSale",
    "Priced",
    "Refund",
    "Registered",
    "Sale",
    "big",
    "numbers",
    "sales",
]


@dataclass
class Sale:
    number: int = 0


@dataclass
class BigSale(Sale):
    note: str = ""


@dataclass
class Refund:
    number: int = 0


class Registered(ABC):  # noqa: B024
    """Classes are registered with it while a test runs, for good."""


class AlsoRegistered(ABC):  # noqa: B024
    """The same, for another test."""


@runtime_checkable
class Priced(Protocol):
    price: int


def big(sale: Any) -> bool:
    """A filter that every process can name."""
    return bool(sale.number > 5)


def sales(*numbers: int) -> list[Sale]:
    """Some sales."""
    return [Sale(number) for number in numbers]


def numbers(seen: Recorder[Any]) -> list[int]:
    """What was handled, in order."""
    return [event.number for event in seen.events]
