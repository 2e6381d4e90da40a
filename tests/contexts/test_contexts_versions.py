"""Two versions of one type, in two contexts over one store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polycast as pc
from polycast.testing import Recorder


@pc.event(name="till.Order", version=2)
@dataclass(frozen=True)
class Order:
    number: int


@pc.event(name="till.Order", version=1)
@dataclass(frozen=True)
class OldOrder:
    number: int


def versions() -> tuple[pc.Federation, pc.Context]:
    root = pc.Context("now", types=[Order])
    old = pc.Context("old", parent=root, types=[OldOrder])
    old.map(OldOrder, Order, "!")
    old.map(Order, OldOrder, "?")
    fed = pc.Federation(root)
    fed.add(old)
    return fed, old


def test_a_bus_that_knew_one_version_gets_events_of_the_other(tmp_path: Path) -> None:
    fed, old = versions()
    url = f"sqlite:///{tmp_path / 'till.db'}"
    with pc.Bus(url, federation=fed, context=old) as till:
        till.publish(OldOrder(1))
    new, before = Recorder[Order](), Recorder[OldOrder]()
    with (
        pc.Bus(url, federation=fed) as shop,
        pc.Bus(url, federation=fed, context=old) as till,
    ):
        shop.subscribe(Order, new, durable="new", since="beginning")
        till.subscribe(OldOrder, before, durable="old", since="beginning")
        till.flush(5)
        shop.publish(Order(2))
        shop.flush(5)
        till.flush(5)
    assert (new.events, before.events) == ([Order(1), Order(2)], [OldOrder(1), OldOrder(2)])
