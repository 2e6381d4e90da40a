"""`polycast dlq replay` of events that could not leave their context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import shop_contexts

import polycast as pc

Run = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A store with an event that could not leave `us`, and a durable that waits for it."""
    path = tmp_path / "events.db"
    with pc.Bus(f"sqlite:///{path}") as bus:
        us = bus.within(shop_contexts.us)
        bus.subscribe(shop_contexts.Bill, print, durable="books").detach()
        shop_contexts.broken.append(True)
        us.publish(shop_contexts.USBill(4.0))
        assert bus.flush(5)
    shop_contexts.broken.clear()
    yield path
    shop_contexts.broken.clear()


def delivered(path: Path) -> list[Any]:
    seen: list[Any] = []
    with pc.Bus(f"sqlite:///{path}") as bus:
        bus.subscribe(shop_contexts.Bill, lambda event: seen.append(event), durable="books")
        assert bus.flush(5)
    return seen


def test_with_the_module_of_the_context_it_goes_to_all_others(store: Path, run: Run) -> None:
    ran = run("dlq", "replay", store, "--all", "--yes", "--import", "shop_contexts")
    assert ran.out == "1 dead letter replayed\n"
    assert delivered(store) == [shop_contexts.Bill(2.0)]


def test_without_it_stays_and_what_is_missing_is_told(store: Path, run: Run) -> None:
    ran = run("dlq", "replay", store, "--all", "--yes", "--json")
    [stays] = ran.data["staying"]
    assert stays["why"] == (
        "its event could not leave context 'us', which needs the functions of that context: name "
        "the module that declares it as it is in the store, --import MODULE"
    )
    assert ran.data["replayed"] == []
    assert delivered(store) == []


def test_if_the_function_still_raises_it_stays(store: Path, run: Run) -> None:
    shop_contexts.broken.append(True)
    ran = run("dlq", "replay", store, "--all", "--yes", "--import", "shop_contexts")
    assert ran.out.splitlines()[0] == "0 dead letters replayed"
    assert "stays: its event still cannot leave context 'us'" in ran.out
    assert run("dlq", "list", store, "--json").data["total"] == 1
