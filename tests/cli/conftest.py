"""Runs commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import shop_events

from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.cli import main


@dataclass(frozen=True)
class Ran:
    """What a command has printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """The JSON documents on stdout, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command."""

    def run(*words: object, clock: Any = None) -> Ran:
        capsys.readouterr()
        status = main([str(word) for word in words], clock=clock)
        return Ran(status, *capsys.readouterr())

    return run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with events, subscriptions and dead letters, which nobody has open."""
    path = tmp_path / "events.db"
    shop_events.fill(path)
    return path


@pytest.fixture
def broker(store: Path) -> Iterator[str]:
    """The URL of a broker over the same store."""
    with Serving(Broker(shop_events.url(store))) as serving:
        yield serving.url


@pytest.fixture(params=["file", "broker"])
def place(request: pytest.FixtureRequest, store: Path) -> str:
    """The store, as a file or through a broker."""
    return str(store if request.param == "file" else request.getfixturevalue("broker"))
