"""Buses with contexts, in memory and over a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import parties
import pytest

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving

OpenBus = Callable[..., pc.Bus]


@pytest.fixture(params=["memory", "sqlite", "remote"])
def place(request: pytest.FixtureRequest) -> str:
    """Where events are kept."""
    return str(request.param)


@pytest.fixture
def party() -> parties.Parties:
    """The root, `us` and `uk`, and a federation of them."""
    parties.calls.clear()
    return parties.make_parties()


@pytest.fixture
def open_bus(place: str, tmp_path: Path) -> Iterator[OpenBus]:
    """Open a bus; all are closed afterwards."""
    opened: list[pc.Bus] = []
    url = f"sqlite:///{tmp_path / 'events.db'}"
    with ExitStack() as around:
        if place == "remote":
            url = around.enter_context(Serving(Broker(url))).url

        def open_one(**options: Any) -> pc.Bus:
            bus = pc.Bus(history=10000, **options) if place == "memory" else pc.Bus(url, **options)
            opened.append(bus)
            return bus

        yield open_one
        for bus in opened:
            bus.close(timeout=0.5)


@pytest.fixture
def market(open_bus: OpenBus, party: parties.Parties) -> pc.Bus:
    """A bus with the federation."""
    return open_bus(federation=party.federation)
