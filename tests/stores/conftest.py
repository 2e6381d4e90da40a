"""Drafts to append, and stores that are closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from reference_store import ReferenceStore
from store_drafts import MakeDrafts, make_drafts

from polycast.broker.client.client_connection import ConnectionOptions
from polycast.broker.client.dialer import addresses_of
from polycast.broker.client.remote_store import RemoteStore
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.stores import Store
from polycast.stores.memory_store import MemoryStore
from polycast.stores.sqlite import SqliteStore
from polycast.testing import ManualClock


@pytest.fixture
def drafts() -> MakeDrafts:
    """Drafts with these sequence numbers."""
    return make_drafts


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["reference", "memory", "sqlite", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store of each kind."""
    with ExitStack() as opened:
        if request.param == "reference":
            made: Store = ReferenceStore(clock=clock)
        elif request.param == "memory":
            made = MemoryStore(clock=clock)
        elif request.param == "sqlite":
            made = SqliteStore(tmp_path / "store.db", clock=clock)
        else:
            broker = Broker(f"sqlite:///{tmp_path / 'store.db'}", clock=clock)
            serving = opened.enter_context(Serving(broker))
            made = RemoteStore(ConnectionOptions(addresses_of(serving.url)), clock=clock)
        opened.callback(made.close)
        yield made


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
