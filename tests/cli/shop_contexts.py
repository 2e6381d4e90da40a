"""A context whose way out can be broken and mended."""

from __future__ import annotations

from dataclasses import dataclass

import polycast as pc

broken: list[bool] = []


@dataclass(frozen=True)
class Bill:
    """An event of the root."""

    total: float


@dataclass(frozen=True)
class USBill:
    """What a bill is in `us`."""

    total: float


def to_euros(total: float) -> float:
    """The way out."""
    if broken:
        raise ValueError("no rate today")
    return total / 2


root = pc.Context("root", types=[Bill])
us = pc.Context("us", parent=root, types=[USBill])
us.map(USBill, Bill, "!")
us.rule("USBill.total", to_euros)

other = pc.Context("us", parent=root, types=[USBill])  # not as the store has it
other.map(USBill, Bill, "!")
