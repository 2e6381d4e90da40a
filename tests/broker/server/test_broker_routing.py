"""A broker that has none of its users' classes routes by descriptions and the parts of filters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from shop import Gift, Item, Order, is_odd

import polycast as pc
from polycast.testing import Recorder

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]


@pytest.fixture
def buses(elsewhere: str, open_bus: OpenBus) -> tuple[pc.Bus, pc.Bus]:
    """Who publishes, and who subscribes."""
    return open_bus(elsewhere), open_bus(elsewhere)


def numbers(seen: Recorder[Any]) -> list[int]:
    return [event.number for event in seen.events]


def test_subtypes_come_whole(buses: tuple[pc.Bus, pc.Bus]) -> None:
    shop, desk = buses
    seen: Recorder[Order] = Recorder()
    desk.subscribe(Order, seen)
    shop.publish(Gift(1, "Ada", (Item("tea", 4.5),), note="for you"))
    assert desk.flush(5)
    assert seen.events == [Gift(1, "Ada", (Item("tea", 4.5),), note="for you")]


def test_what_a_filter_refuses_is_not_sent(buses: tuple[pc.Bus, pc.Bus]) -> None:
    shop, desk = buses
    seen: Recorder[Order] = Recorder()
    sub = desk.subscribe(Order, seen, where=lambda order: order.customer == "Bob")
    before = received(desk)
    shop.publish_many([Order(n, "Bob" if n % 10 == 0 else "Ada") for n in range(100)])
    assert desk.flush(5)
    assert numbers(seen) == list(range(0, 100, 10))
    assert received(desk) - before == 10
    assert "the broker asks `event.customer == 'Bob'`, which is all of the filter" in str(
        sub.explain()
    )


def received(bus: pc.Bus) -> int:
    """How many events the broker has sent to a bus."""
    return int(bus._engine.store._inbound.events)  # type: ignore[attr-defined]


def test_the_rest_of_a_filter_is_asked_here(buses: tuple[pc.Bus, pc.Bus]) -> None:
    shop, desk = buses
    seen: Recorder[Order] = Recorder()
    sub = desk.subscribe(
        Order, seen, where=lambda order: order.customer == "Cleo" and order.total > 5
    )
    before = received(desk)
    orders = [Order(n, "Cleo", (Item("tea", float(n)),)) for n in range(10)]
    shop.publish_many([*orders, *(Order(n, "Ada") for n in range(50))])
    assert desk.flush(5)
    assert numbers(seen) == [6, 7, 8, 9]
    assert received(desk) - before == 10
    told = str(sub.explain())
    assert (
        "the broker asks `event.customer == 'Cleo'`; the subscriber asks the whole filter" in told
    )


def test_a_filter_that_nobody_can_look_into_is_asked_here(buses: tuple[pc.Bus, pc.Bus]) -> None:
    shop, desk = buses
    seen: Recorder[Order] = Recorder()
    odd = vars().get("odd", is_odd)
    sub = desk.subscribe(Gift, seen, where=lambda order: odd(order.number))
    shop.publish_many([Gift(n) for n in range(6)])
    assert desk.flush(5)
    assert numbers(seen) == [1, 3, 5]
    assert "the broker sends every event of these types; the subscriber asks the filter" in str(
        sub.explain()
    )


def test_what_is_asked_of_a_filter_is_told_to_its_own_connection_alone(
    buses: tuple[pc.Bus, pc.Bus],
) -> None:
    mine, other = buses
    sub = mine.subscribe(Order, print, where=lambda order: order.number > 3, durable="desk")
    stores = [bus._engine.store for bus in (mine, other)]  # type: ignore[attr-defined]
    key = f"{sub.name}#1"
    assert [each.where for each in stores[0].asked(key)] == ["event.number > 3"]
    assert stores[1].asked(key) == []


UNKNOWN = """
import sys
from dataclasses import dataclass
from shop import Order
import polycast as pc

@pc.event(name="far.Parcel")
@dataclass(frozen=True)
class Parcel(Order):
    weight: float = 0.0

with pc.Bus(sys.argv[1]) as bus:
    bus.publish(Parcel(7, "Eve", weight=2.5))
"""


def test_a_class_never_seen_comes_whole(
    elsewhere: str, open_bus: OpenBus, tmp_path: Path, eventually: Eventually
) -> None:
    desk, seen = open_bus(elsewhere), Recorder[Any]()
    desk.subscribe(Order, seen, where=lambda order: order.customer == "Eve")
    script = tmp_path / "far.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{UNKNOWN}")
    subprocess.run([sys.executable, str(script), elsewhere], check=True, timeout=30)
    eventually(lambda: seen.events)
    [parcel] = seen.events
    assert isinstance(parcel, Order)
    assert (type(parcel).__name__, parcel.weight) == ("Parcel", 2.5)
    desk.publish(parcel)  # and goes on whole
    eventually(lambda: len(seen.events) == 2)
    assert seen.events[1].weight == 2.5


def test_many_subscriptions_share_what_is_sent(buses: tuple[pc.Bus, pc.Bus]) -> None:
    shop, desk = buses
    every = [Recorder[Order]() for _ in range(20)]
    for seen in every:
        desk.subscribe(Gift, seen)
    before = received(desk)
    shop.publish_many([Gift(n) for n in range(50)])
    assert desk.flush(5)
    assert all(numbers(seen) == list(range(50)) for seen in every)
    assert received(desk) - before == 50


def test_clients_move_to_the_other_broker_of_a_store(
    tmp_path: Path, open_bus: OpenBus, eventually: Eventually
) -> None:
    store = f"sqlite:///{tmp_path / 'events.db'}"
    with BrokerProcess(store) as second:
        with BrokerProcess(store) as first:
            url = f"{first.url},{second.url.removeprefix('polycast://')}"
            shop, desk = open_bus(url, publisher="shop"), open_bus(url)
            seen, kept, crew = Recorder[Order](), Recorder[Order](), Recorder[Order]()
            desk.subscribe(Order, seen)
            desk.subscribe(Order, kept, durable="kept")
            desk.subscribe(Order, crew, group="crew")
            shop.publish_many([Order(n) for n in range(20)])
            assert desk.flush(10)
            first.kill()
            shop.publish_many([Order(n) for n in range(20, 40)])
            shop.publish(Order(40))
        eventually(lambda: len(seen.events) == len(kept.events) == len(crew.events) == 41)
        assert desk.flush(10)
        assert numbers(seen) == numbers(kept) == list(range(41))
        assert sorted(numbers(crew)) == list(range(41))
