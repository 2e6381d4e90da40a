"""Brokers, in this process and in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.log_rate_limit import LogRateFilter, server_log
from polycast.broker.server.run import Serving
from polycast.broker.server.tokenfile import load_tokens, new_token

Serve = Callable[..., Serving]


@pytest.fixture(autouse=True)
def whole_log() -> None:
    """Lines of tests before this one do not count."""
    for name in ("polycast.broker", "polycast.broker.http"):
        for each in server_log(name).filters:
            if isinstance(each, LogRateFilter):
                each.begin_anew()


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


@pytest.fixture
def tokens(tmp_path: Path) -> Callable[..., tuple[Any, dict[str, str]]]:
    """A file of tokens, and the secret of each."""

    def make(**rights: str) -> tuple[Any, dict[str, str]]:
        secrets, lines = {}, []
        for name, text in rights.items():
            secrets[name], digest = new_token()
            lines.append(f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\n{text}\n')
        path = tmp_path / "tokens.toml"
        path.write_text("\n".join(lines))
        path.chmod(0o600)
        return load_tokens(str(path)), secrets

    return make
