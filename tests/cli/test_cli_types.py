"""`polycast types`: what a store knows of event types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shop_events import url

import polycast as pc


def test_every_type_has_its_attributes_and_supertypes(run: Any, place: str) -> None:
    found = {each["name"]: each for each in run("types", place, "--json").data["types"]}
    assert list(found) == ["shop_events.BigSale", "shop_events.Refund", "shop_events.Sale"]
    big = found["shop_events.BigSale"]
    assert (big["version"], big["kind"]) == (1, "dataclass")
    assert big["supertypes"] == ["shop_events.Sale"]
    assert big["attributes"] == [
        {"name": "number", "type": "int", "required": True},
        {"name": "note", "type": "str", "required": False},
        {"name": "customer", "type": "str", "required": False},
    ]


def test_events_are_counted_if_it_is_asked_for(run: Any, place: str) -> None:
    found = run("types", place, "--count", "--json").data["types"]
    assert [each["events"] for each in found] == [1, 2, 7]
    assert "events" not in run("types", place, "--json").data["types"][0]


def test_one_type_is_shown_whole(run: Any, store: Path) -> None:
    assert run("types", store, "BigSale").out.splitlines() == [
        "shop_events.BigSale, version 1, dataclass",
        "  supertypes  shop_events.Sale",
        "  attribute  type  if left out",
        "  number     int   refused",
        "  note       str   ''",
        "  customer   str   'nobody'",
    ]


def test_a_type_that_is_not_there_is_an_error_with_the_nearest(run: Any, store: Path) -> None:
    ran = run("types", store, "Sail", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "bad-option")


def test_without_any_it_says_so(run: Any, tmp_path: Path) -> None:
    pc.Bus(url(tmp_path / "a.db")).close()
    assert run("types", tmp_path / "a.db").out == "no types are described\n"
