"""Structured events and ETCL filters over a broker, which asks them before it sends anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from shop import Order

import polycast as pc

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


@dataclass
class Ledger:
    """A class that only the clients know."""

    number: int
    owner: str = ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$price > 5 and $Priority == 3", ["a"]),
        ("$.filterable_data(price) > 5", ["a", "b"]),
        ("$.0.0.1 == 'c' or exist $Priority", ["a", "c"]),
        ("$remainder_of_body.x[1] == 2", ["c"]),
    ],
)
def test_a_broker_asks_filters_of_structured_events(
    serve: Any, open_bus: OpenBus, eventually: Eventually, text: str, wanted: list[str]
) -> None:
    url = serve().url
    subscriber, publisher = open_bus(url), open_bus(url)
    seen: list[str] = []

    def take(event: pc.StructuredEvent) -> None:
        seen.append(event.event_name)

    about = pc.structured("Finance", "Quote*")
    subscriber.subscribe(about, take, where=pc.parse_filter(text, "etcl"))
    subscriber.subscribe(pc.structured("", "Last"), take)
    for name, header, data, body in (
        ("a", {"Priority": 3}, {"price": 6}, None),
        ("b", {}, {"price": 7}, None),
        ("c", {}, {"price": 1}, {"x": [1, 2]}),
    ):
        publisher.publish(pc.StructuredEvent("Finance", "Quote", name, header, data, body))
        publisher.publish(pc.StructuredEvent("Sports", "Quote", name, header, data, body))
    publisher.publish(pc.StructuredEvent("", "Last", "last"))
    eventually(lambda: "last" in seen)  # two subscriptions are called side by side
    subscriber.flush()
    assert sorted(seen) == sorted([*wanted, "last"])


def test_a_broker_asks_filters_of_classes_it_does_not_know(
    elsewhere: str, open_bus: OpenBus, eventually: Eventually
) -> None:
    subscriber, publisher = open_bus(elsewhere), open_bus(elsewhere)
    seen: list[int] = []

    def take(event: Ledger) -> None:
        seen.append(event.number)

    for text in ("$.number > 5", "$owner == 'me'", "$._type_id == 'Ledger' and $.0 == 1"):
        subscriber.subscribe(Ledger, take, where=pc.parse_filter(text, "etcl"))
    publisher.publish(Order(1))
    for number in range(8):
        publisher.publish(Ledger(number, "me" if number == 3 else ""))
    eventually(lambda: len(seen) == 4)
    assert sorted(seen) == [1, 3, 6, 7]
