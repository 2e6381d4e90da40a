"""Structured events and ETCL filters of subscriptions that a pipeline routes."""

from __future__ import annotations

from typing import Any

import pytest
from stored_events import Sale
from stored_player import Player

import polycast as pc
from polycast.testing import Recorder


@pytest.mark.parametrize("text", ["$.number > 5", "$number > 5 and $._type_id == 'Sale'"])
def test_the_pipeline_asks_etcl_filters_of_classes(shop: pc.Bus, player: Player, text: str) -> None:
    seen: Recorder[Any] = Recorder()
    where = pc.parse_filter(text, "etcl")
    player.learn(shop.subscribe(Sale, seen, durable="d", engine="spark", where=where))
    shop.publish_many([Sale(number) for number in range(8)])
    player.play()
    assert shop.flush(5)
    assert [event.number for event in seen.events] == [6, 7]


def test_the_pipeline_asks_etcl_filters_of_structured_events(shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    where = pc.parse_filter("$price > 2 or $.filterable_data(price) == 0", "etcl")
    about = pc.structured("Finance", "Quote*")
    player.learn(shop.subscribe(about, seen, durable="d", engine="spark", where=where))
    for number in range(4):
        for kind in ("Quote", "Quotes", "Trade"):
            data = {"price": number}
            shop.publish(pc.StructuredEvent("Finance", kind, filterable_data=data))
    player.play()
    assert shop.flush(5)
    found = [(event.type_name, event.filterable_data["price"]) for event in seen.events]
    assert found == [("Quote", 0), ("Quotes", 0), ("Quote", 3), ("Quotes", 3)]
