"""A bus whose file was removed: no receipt is given, and it says that it is not well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from stored_events import Sale

import polycast as pc


def remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def test_no_receipt_is_given_for_what_goes_into_a_removed_file(
    open_bus: Callable[..., pc.Bus], path: Path
) -> None:
    bus = open_bus()
    assert bus.publish(Sale(1)).position == 1
    remove(path)
    for _ in range(3):
        with pytest.raises(pc.StoreReplacedError):
            bus.publish(Sale(2))
    health = bus.health()
    assert not health.ok
    assert any("removed or replaced" in each for each in health.problems)


def test_one_that_is_idle_says_so_when_it_is_asked(
    open_bus: Callable[..., pc.Bus], path: Path
) -> None:
    bus = open_bus()
    bus.subscribe(Sale, lambda sale: None, durable="all")
    bus.flush()
    remove(path)
    assert any("removed or replaced" in each for each in bus.health().problems)
    bus.close(timeout=1)


def test_no_new_store_begins_beside_the_log_of_one_that_was_moved(tmp_path: Path) -> None:
    """SQLite would delete the log, and what is nowhere else with it."""
    path, elsewhere = tmp_path / "events.db", tmp_path / "moved.db"
    url = f"sqlite:///{path}"
    bus = pc.Bus(url)
    assert all(receipt.durable for receipt in bus.publish_many([Sale(1), Sale(2)]))
    path.rename(elsewhere)
    with pytest.raises(pc.StoreReplacedError):
        bus.publish(Sale(3))
    bus.close()
    with pytest.raises(pc.NotAStoreError, match=r"its write-ahead log is.*move the log away"):
        pc.Bus(url)
    elsewhere.rename(path)
    got: list[Sale] = []
    with pc.Bus(url) as again:
        again.subscribe(Sale, got.append, since="beginning")
        assert again.flush(10)
    assert got == [Sale(1), Sale(2)]
