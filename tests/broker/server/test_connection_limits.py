"""Who connects and says nothing, too little or too often is let go, and does not fill the log."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from broker_process import BrokerProcess

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.limits import ConnectionLimits, ServerLimits, address_group
from polycast.broker.server.log_rate_limit import LogRateFilter
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import PATH

Eventually = Callable[[Callable[[], object]], None]
UPGRADE = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()


@pytest.fixture
def around() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serving_with(around: ExitStack, *, tls: Any = None, **server_limits: Any) -> Serving:
    return around.enter_context(
        Serving(Broker(server_limits=ServerLimits(**server_limits)), tls=tls)
    )


def server_tls() -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(found)
    return found


def connected(around: ExitStack, serving: Serving) -> socket.socket:
    found = around.enter_context(socket.create_connection(("127.0.0.1", serving.port), 10))
    found.settimeout(10)
    return found


def rest_of(there: socket.socket) -> bytes:
    """All that comes until it ends; that it ends in time is what a test claims."""
    data = b""
    with suppress(ConnectionResetError):
        while part := there.recv(65_536):
            data += part
    return data


BEGINNINGS = {
    "nothing": b"",
    "half a header": b"GET /livez HTTP/1.1\r\nHost: local",
    "headers without an end": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n",
    "no hello": UPGRADE,
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_who_does_not_come_to_the_point_is_let_go(
    around: ExitStack, eventually: Eventually, beginning: str
) -> None:
    serving = serving_with(around, handshake=0.1)
    there = connected(around, serving)
    there.sendall(BEGINNINGS[beginning])
    rest_of(there)
    eventually(lambda: serving.broker.connection_limits.open == 0)


def test_a_header_at_a_time_is_not_enough_to_stay(around: ExitStack) -> None:
    serving = serving_with(around, handshake=0.2)
    there = connected(around, serving)
    there.sendall(b"GET /livez HTTP/1.1\r\n")
    ended = False
    for number in range(10_000):
        try:
            there.sendall(b"X-%d: b\r\n" % number)
        except OSError:
            ended = True
            break
        there.settimeout(0.01)
        with suppress(TimeoutError):
            ended = not there.recv(100)
        if ended:
            break
    assert ended


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_tls_that_is_not_finished_is_let_go(
    around: ExitStack, eventually: Eventually, said: bytes
) -> None:
    serving = serving_with(around, handshake=0.1, tls=server_tls)
    there = connected(around, serving)
    there.sendall(said)
    rest_of(there)
    eventually(lambda: serving.broker.connection_limits.open == 0)


def test_a_request_that_was_answered_is_the_last_of_its_connection(around: ExitStack) -> None:
    serving = serving_with(around)
    there = connected(around, serving)
    there.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
    answer = rest_of(there)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in answer.lower()


def test_who_sends_a_body_without_end_is_let_go(around: ExitStack, eventually: Eventually) -> None:
    serving = serving_with(around)
    there = connected(around, serving)
    head = b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n"
    with suppress(OSError):
        there.sendall(head)
        while True:
            there.sendall(bytes(100_000))
    eventually(lambda: serving.broker.connection_limits.open == 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_bus_stays_however_long_it_says_nothing(
    around: ExitStack, eventually: Eventually, host: str
) -> None:
    serving = around.enter_context(
        Serving(Broker(server_limits=ServerLimits(handshake=0.1)), host=host)
    )
    bus = around.enter_context(pc.Bus(serving.url))
    lazy = around.enter_context(socket.create_connection((host, serving.port), 10))
    rest_of(lazy)  # that took as long as the bus has had
    eventually(lambda: serving.broker.connection_limits.open == 1)
    assert bus.publish("text").position == 1


@pytest.mark.parametrize(
    "server_limits", [{"connections": 3, "per_address": 3}, {"per_address": 3}]
)
def test_more_connections_than_allowed_are_closed_at_once_and_others_go_on(
    around: ExitStack, eventually: Eventually, server_limits: dict[str, int]
) -> None:
    serving = serving_with(around, **server_limits)
    connection_limits = serving.broker.connection_limits
    bus = around.enter_context(pc.Bus(serving.url))
    first, second = connected(around, serving), connected(around, serving)
    eventually(lambda: connection_limits.open == 3)
    for _ in range(50):
        assert rest_of(connected(around, serving)) == b""
    assert connection_limits.refused == 50
    with pytest.raises(pc.BrokerUnreachableError):
        pc.Bus(serving.url, connect_timeout=1)
    assert bus.publish("text").position == 1
    first.close()
    eventually(lambda: connection_limits.open == 2)
    second.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200" in rest_of(second)
    eventually(lambda: connection_limits.open == 1)
    around.enter_context(pc.Bus(serving.url))


def test_addresses_are_counted_each_by_itself() -> None:
    async def test() -> None:
        connection_limits = ConnectionLimits(ServerLimits(connections=10, per_address=2))
        here, there = socket.socketpair()
        with here, there:
            left = [connection_limits.admit(here, ("10.0.0.1", port)) for port in (1, 2)]
            assert "one address" in str(connection_limits.refusal_reason("10.0.0.1"))
            assert "one address" in str(connection_limits.refusal_reason("::ffff:10.0.0.1"))
            assert connection_limits.refusal_reason("10.0.0.2") is None
            left[0]()
            assert connection_limits.refusal_reason("10.0.0.1") is None
            left[1]()
            assert not connection_limits._of

    asyncio.run(test())


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_who_has_an_address_has_its_group(address: str, group: str) -> None:
    assert address_group(address) == group


# -- the log ---------------------------------------------------------------------------------------

NOISE = {
    "no http": b"\x00\x01\x02\r\n\r\n",
    "an unknown upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: h2c\r\n\r\n",
    "a bad websocket": UPGRADE.replace(b"Version: 13", b"Version: 12"),
    "a bad key": UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"x"),
    "a bad frame": UPGRADE + b"\x82\x81\x00\x00\x00\x00\xc1",
    "no frame": UPGRADE + b"\xff\xff\xff\xff\xff\xff",
    "another page": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil\r\n\r\n",
    "escapes": b"GET /\x1b[31m%1b%0aWARNING HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("noise", NOISE)
def test_a_stranger_cannot_fill_the_log(
    around: ExitStack, caplog: pytest.LogCaptureFixture, noise: str, eventually: Eventually
) -> None:
    serving = serving_with(around)
    with caplog.at_level("INFO"):
        for _ in range(60):
            there = connected(around, serving)
            with suppress(OSError):
                there.sendall(NOISE[noise])
                there.shutdown(socket.SHUT_WR)
                rest_of(there)
        eventually(lambda: serving.broker.connection_limits.open == 0)
    lines = [each for each in caplog.records if each.name.split(".")[0] in ("polycast", "uvicorn")]
    for name in {each.name for each in lines}:
        places = {(each.pathname, each.lineno) for each in lines if each.name == name}
        of_it = [each for each in lines if each.name == name]
        assert len(of_it) <= 20 * len(places)
    assert not any("\x1b" in each.getMessage() or "\n" in each.getMessage() for each in lines)
    assert not [each for each in lines if each.exc_info]


def test_what_is_logged_too_often_is_left_out_and_counted() -> None:
    import logging

    now, said = [100.0], list[str]()
    filter_ = LogRateFilter(lines=2, per=60.0, monotonic=lambda: now[0])

    def log(line: int, text: str) -> None:
        record = logging.LogRecord("n", logging.WARNING, "file.py", line, "%s", (text,), None)
        if filter_.filter(record):
            said.append(record.getMessage())

    for number in range(1_000):
        log(1, f"flood {number}")
    log(2, "another")
    assert said == ["flood 0", "flood 1 (more like this are left out for 60 s)", "another"]
    assert filter_.left_out == 998
    now[0] += 60
    log(1, "again")
    assert said[-1] == "again (998 more like this were left out)"


# -- from the command line -------------------------------------------------------------------------


def test_the_limits_are_those_of_the_command_line() -> None:
    options = ("--connection-limit", "2", "--address-limit", "2", "--handshake", "0.2")
    with BrokerProcess("memory:", *options) as broker:
        place = ("127.0.0.1", broker.ready["port"])
        with socket.create_connection(place, 10) as first, socket.create_connection(place, 10):
            with socket.create_connection(place, 10) as third:
                assert rest_of(third) == b""
            assert rest_of(first) == b""  # late


def test_what_strangers_have_libraries_log_is_little(tmp_path: Path) -> None:
    errors = tmp_path / "errors.txt"
    with errors.open("w") as file:
        command = [sys.executable, "-m", "polycast", "serve", "--json", "--store", "memory:"]
        broker = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=file, text=True
        )
        try:
            assert broker.stdout is not None
            port = json.loads(broker.stdout.readline())["port"]
            for noise in NOISE.values():
                for _ in range(60):
                    there = socket.create_connection(("127.0.0.1", port), 10)
                    with there, suppress(OSError):
                        there.sendall(noise)
                        there.shutdown(socket.SHUT_WR)
                        rest_of(there)
        finally:
            broker.terminate()
            broker.wait(20)
            assert broker.stdout is not None
            broker.stdout.close()
    lines = errors.read_text().splitlines()
    assert 0 < len(lines) <= 20 * len(NOISE)
    assert all(" polycast" in line for line in lines)
    assert "\x1b" not in errors.read_text()
