"""Brokers, in this process and in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from broker_process import BrokerProcess

import polycast as pc
from polycast.server.broker import Broker
from polycast.server.serving import Serving

Serve = Callable[..., Serving]


@pytest.fixture
def around() -> Iterator[ExitStack]:
    """What is open until the test ends."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(around: ExitStack) -> Serve:
    """Start a broker in a thread."""

    def start(url: str = "memory:", *, tls: Any = None, **options: Any) -> Serving:
        return around.enter_context(Serving(Broker(url, **options), tls=tls))

    return start


@pytest.fixture
def open_bus(around: ExitStack) -> Callable[..., pc.Bus]:
    """Open a bus."""

    def start(url: str, **options: Any) -> pc.Bus:
        bus = pc.Bus(url, **options)
        around.callback(bus.close, 0.5)
        return bus

    return start


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The URL of a broker in a process of its own."""
    with BrokerProcess("memory:") as broker:
        yield broker.url
