"""`polycast explain`: why a kept subscription gets an event or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shop_events import BigSale, Sale, url

import polycast as pc

NAMES = ("big", "lucky", "split", "billing")


def is_lucky(sale: Sale) -> bool:
    return hash(sale.note) == 7


@pytest.fixture
def filtered(store: Path) -> Path:
    """A store with subscriptions that have filters."""
    with pc.Bus(url(store)) as bus:
        bus.subscribe(
            Sale,
            print,
            durable="big",
            where=lambda sale: sale.number > 3 and sale.note != "no",
            topic="/shop/back",
            since="beginning",
        ).detach()
        bus.subscribe(Sale, print, durable="lucky", where=is_lucky).detach()
        bus.subscribe(
            Sale,
            print,
            durable="split",
            where=lambda sale: sale.number > 3 and is_lucky(sale),
            since="beginning",
        ).detach()
        bus.subscribe(BigSale, print, durable="exact", exact=True, group="g").detach()
    return store


@pytest.mark.parametrize(
    ("name", "position", "wanted", "said"),
    [
        ("billing", 1, True, "it was delivered"),
        ("billing", 8, True, "shop_events.BigSale does conform to shop_events.Sale"),
        ("billing", 8, True, "it is to be delivered"),
        ("billing", 5, False, "shop_events.Refund does not conform to shop_events.Sale"),
        ("refunds", 5, True, "it is a dead letter"),
        ("big", 1, False, "topic '/shop/front' does not match /shop/back"),
        ("big", 7, True, "`event.number > 3` is True"),
        ("exact", 8, True, "does conform to exactly shop_events.BigSale"),
        ("exact", 8, True, "where the subscription begins"),
        ("lucky", 7, None, "only the subscriber"),
        ("split", 1, False, "it is not delivered"),
        ("split", 8, None, "the rest of the filter only the subscriber can ask"),
    ],
)
def test_each_test_of_an_event_is_told(
    run: Any, filtered: Path, name: str, position: int, wanted: bool | None, said: str
) -> None:
    ran = run("explain", filtered, name, "--position", position, "--json")
    assert ran.data["wanted"] is wanted
    assert said in "\n".join(ran.data["reasons"])
    assert said in run("explain", filtered, name, "--position", position).out


def test_what_of_a_filter_a_broker_asks_is_told(run: Any, filtered: Path) -> None:
    asked = {name: run("explain", filtered, name, "--json").data["at_broker"] for name in NAMES}
    assert asked == {
        "big": "the broker asks `(event.number > 3) and (event.note != 'no')`, which is all of "
        "the filter",
        "lucky": "the broker sends every event of these types; the subscriber asks the filter",
        "split": "the broker asks `event.number > 3`; the subscriber asks the whole filter",
        "billing": "the broker sends every event of these types",
    }


def test_in_words_it_has_what_is_promised_and_where_it_is(run: Any, filtered: Path) -> None:
    out = run("explain", filtered, "exact").out
    assert "shop_events.BigSale, without subtypes" in out
    assert "one of the group 'g': an event goes to one member" in out
    assert "from position 11" in out


def test_a_name_that_is_not_there_is_an_error_with_the_nearest(run: Any, place: str) -> None:
    ran = run("explain", place, "biling", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "bad-option")
    assert "did you mean 'billing'?" in ran.data["error"]["message"]


def test_a_position_that_is_not_there_is_an_error(run: Any, place: str) -> None:
    ran = run("explain", place, "billing", "--position", 99, "--json")
    assert "1 to 10" in ran.data["error"]["message"]
