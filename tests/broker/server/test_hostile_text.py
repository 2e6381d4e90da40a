"""What clients call themselves and others never moves the terminal that shows a broker's log."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from test_broker_clients import talk

import polycast as pc
from polycast.broker.server.run import Serving
from polycast.broker.server.tokenfile import load_tokens
from polycast.broker.wire.protocol import PROTOCOL, Call, Hello, Limits
from test_text import HOSTILE, obeyed

Serve = Callable[..., Serving]
Eventually = Callable[[Callable[[], object]], None]
LOGGERS = ("polycast", "uvicorn", "websockets")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged here, as a program that knows nothing of us has it written."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    yield written
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(handler)
    assert set(obeyed(written.getvalue())) <= {"\n"}
    assert not any(line.startswith("FORGED") for line in written.getvalue().splitlines())


@pytest.mark.parametrize(
    "message",
    [
        Hello(PROTOCOL, "again", HOSTILE),
        Call(1, HOSTILE, b""),
        Call(1, "newest", HOSTILE.encode()),
    ],
    ids=["twice", "an unknown call", "bad arguments"],
)
def test_a_client_with_a_hostile_name_is_told_of_plainly(
    serve: Serve, log: io.StringIO, eventually: Eventually, message: Any
) -> None:
    broker = serve()
    with suppress(Exception):  # it is cut off, sooner or later
        talk(broker.url, Hello(PROTOCOL, "me", HOSTILE[:50]), message)
    eventually(lambda: "was cut off" in log.getvalue())
    assert "\\x1b]0;owned" in log.getvalue()


def test_hostile_text_in_events_filters_and_names_is_never_obeyed(
    serve: Serve, open_bus: Callable[..., pc.Bus], log: io.StringIO, eventually: Eventually
) -> None:
    broker = serve(limits=Limits(subscriptions=2))

    def refuse(text: str) -> None:
        raise ValueError(text)

    bus = open_bus(broker.url, publisher=HOSTILE)
    bus.subscribe(str, refuse, topic="/t/**", durable=HOSTILE, attempts=1)
    bus.publish(HOSTILE, topic=f"/t/{HOSTILE}")
    bus.flush(10)
    assert len(bus.dead_letters()) == 1
    for n in range(3):
        with suppress(pc.PolycastError):
            bus.subscribe(str, print, topic=f"/{n}/{HOSTILE}")
    broker.stop()
    eventually(lambda: "the connection to the broker was lost" in log.getvalue())


def test_a_file_of_tokens_that_is_damaged_is_told_of_plainly(
    serve: Serve, tokens: Callable[..., Any], tmp_path: Path, log: io.StringIO
) -> None:
    known, _ = tokens(admin="admin = true")
    broker = serve(tokens=known).broker
    (tmp_path / "tokens.toml").write_text(
        f'[[token]]\nname = "x"\n"{HOSTILE!r}" = 1\n"\x9b31m" = 1'
    )
    broker.refresh_tokens()
    assert "the tokens go on as they were" in log.getvalue()
    with pytest.raises(pc.PolycastError) as found:
        load_tokens(tmp_path / "tokens.toml")
    assert set(obeyed(str(found.value))) <= {"\n"}
