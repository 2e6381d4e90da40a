"""`polycast subs`: who the store keeps a place for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shop_events import BigSale, Sale, url

import polycast as pc


def names(run: Any, store: Path) -> list[str]:
    """Of the subscriptions that are kept."""
    listed = run("subs", store, "--json").data
    return [each["name"] for each in listed["subscriptions"]]


def test_subscriptions_are_listed_the_greatest_lag_first(run: Any, store: Path) -> None:
    data = run("subs", store, "--json").data["subscriptions"]
    assert [(each["name"], each["lag"]) for each in data] == [("billing", 4), ("refunds", 0)]
    assert (data[0]["what"], data[0]["level"]) == ("shop_events.Sale", "sorted_set")


def test_the_options_may_come_first_and_the_word_list_may_be_said(run: Any, store: Path) -> None:
    for words in (["--json", store], ["list", store, "--json"]):
        assert len(run("subs", *words).data["subscriptions"]) == 2


def test_the_table_has_filters_groups_and_leases(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(
            BigSale, print, durable="big", where=lambda sale: sale.number > 3, lease=7_250
        )
        bus.subscribe(Sale, print, durable="shippers", group="ship")
        out = run("subs", path).out
    assert "shop_events.BigSale where event.number > 3" in out
    assert "ends in 2 h" in out
    assert "ship " in out
    assert "bus 1" in out


def test_without_any_it_says_so(run: Any, tmp_path: Path) -> None:
    pc.Bus(url(tmp_path / "a.db")).close()
    assert run("subs", tmp_path / "a.db").out == "no subscriptions are kept\n"


def test_one_that_nobody_attaches_to_is_cancelled(run: Any, store: Path) -> None:
    data = run("subs", "cancel", store, "billing", "--yes", "--json").data
    assert data == {"cancelled": True, "name": "billing", "lag": 4, "in_flight": 0}
    assert names(run, store) == ["refunds"]


def test_cancelling_is_not_done_unasked(run: Any, store: Path) -> None:
    ran = run("subs", "cancel", store, "billing")
    assert ran.status == 2
    assert "4 events behind" in ran.err
    assert "billing" in names(run, store)


def test_one_that_somebody_is_attached_to_is_not_cancelled(run: Any, store: Path) -> None:
    with pc.Bus(url(store)) as bus:
        bus.subscribe(Sale, lambda sale: None, durable="billing")
        ran = run("subs", "cancel", store, "billing", "--yes")
    assert ran.status == 1
    assert "is attached to bus" in ran.err
    assert "billing" in names(run, store)


def test_a_name_that_is_not_there_is_an_error_with_the_nearest(run: Any, store: Path) -> None:
    ran = run("subs", "cancel", store, "biling", "--yes")
    assert ran.status == 1
    assert "did you mean 'billing'?" in ran.err
