"""Drafts to append, and stores that are closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from store_drafts import MakeDrafts, make_drafts

from polycast.stores import MemoryStore, Store
from polycast.stores.sqlite import SqliteStore
from polycast.testing import ManualClock


@pytest.fixture
def drafts() -> MakeDrafts:
    """Drafts with these sequence numbers."""
    return make_drafts


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store of each kind."""
    made: Store
    if request.param == "memory":
        made = MemoryStore(clock=clock)
    else:
        made = SqliteStore(tmp_path / "store.db", clock=clock)
    yield made
    made.close()


@pytest.fixture
def open_sqlite(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., SqliteStore]]:
    """Open a sqlite store; the one in the test's folder unless told otherwise."""
    opened: list[SqliteStore] = []

    def open_one(path: Path | None = None, **options: object) -> SqliteStore:
        options.setdefault("clock", clock)
        made = SqliteStore(path or tmp_path / "store.db", **options)  # type: ignore[arg-type]
        opened.append(made)
        return made

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def positions() -> Callable[[Store, int], Sequence[int]]:
    """All positions from one on, read to the end."""

    def read(store: Store, start: int = 1) -> list[int]:
        found: list[int] = []
        while start <= store.newest():
            batch = store.read(start)
            found += [each.position for each in batch.entries]
            start = batch.upto
        return found

    return read
