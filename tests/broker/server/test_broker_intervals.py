"""Over a broker, what lies between two integers arrives: all that was acknowledged, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shop import Item

import polycast as pc
from polycast.testing import Recorder

OpenBus = Callable[..., pc.Bus]

OPEN: list[Callable[[Item], object]] = [
    lambda item: 0 < item.price < 1,
    lambda item: item.price > 0 and item.price < 1,
    lambda item: not (item.price <= 0 or item.price >= 1),
]
PRICES = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("where", OPEN, ids=["chain", "and", "not or"])
@pytest.mark.parametrize("options", [{}, {"durable": "cheap"}], ids=["plain", "durable"])
def test_three_of_three_arrive(
    elsewhere: str,
    open_bus: OpenBus,
    where: Callable[[Item], object],
    options: dict[str, Any],
) -> None:
    shop, desk = open_bus(elsewhere), open_bus(elsewhere)
    seen: Recorder[Item] = Recorder()
    subscription = desk.subscribe(Item, seen, where=where, **options)
    receipts = shop.publish_many([Item("tea", price) for price in PRICES])
    assert len(receipts) == len(PRICES)
    assert desk.flush(10)
    assert [item.price for item in seen.events] == [0.25, 0.5, 0.75]
    assert list(desk.dead_letters()) == []
    subscription.cancel()
