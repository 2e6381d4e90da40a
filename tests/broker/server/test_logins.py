"""Logins that fail, and tokens on the way."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

import polycast as pc
from polycast.broker.client.client_connection import ConnectionOptions
from polycast.broker.client.dialer import addresses_of
from polycast.broker.server.broker import Broker
from polycast.broker.server.limits import FailedLogins
from polycast.broker.server.network_policy import Admission, HostPolicy
from polycast.broker.server.run import Serving, application
from polycast.testing import ManualClock

Serve = Callable[..., Serving]
Tokens = Callable[..., tuple[Any, dict[str, str]]]


def failed(few: int = 3, most: int = 5) -> tuple[FailedLogins, ManualClock]:
    clock = ManualClock()
    return FailedLogins(few=few, every=10.0, most=most, monotonic=clock.monotonic), clock


def test_a_few_may_fail_then_it_is_told_how_long_to_wait() -> None:
    logins, clock = failed()
    assert [logins.note("10.0.0.1") for _ in range(5)] == [None, None, None, 10, 10]
    assert logins.note("10.0.0.2") is None
    clock.advance(4.5)
    assert logins.note("10.0.0.1") == 6
    clock.advance(6)
    assert [logins.note("10.0.0.1") for _ in range(2)] == [None, 10]
    clock.advance(3_600)
    assert [logins.note("10.0.0.1") for _ in range(4)] == [None, None, None, 10]


def test_who_has_64_bits_of_addresses_is_one() -> None:
    logins, _ = failed()
    said = [logins.note(f"2001:db8::{number:x}") for number in range(1, 5)]
    assert said == [None, None, None, 10]
    assert logins.note("2001:db8:0:1::1") is None


def test_so_many_addresses_are_remembered() -> None:
    logins, _ = failed()
    for number in range(1_000):
        logins.note(f"10.0.{number // 256}.{number % 256}")
    assert len(logins) == 5


def ask(serving: Serving, path: str, secret: str | None) -> tuple[int, Any, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{serving.port}{path}")
    if secret is not None:
        request.add_header("Authorization", f"Bearer {secret}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def test_guessing_is_throttled_and_a_good_token_gets_in_all_the_same(
    serve: Serve, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    found, secrets = tokens(boss="admin = true")
    serving = serve(tokens=found, clock=ManualClock())
    secret = "my-guessed-secret"
    answers = [ask(serving, "/metrics", secret) for _ in range(12)]
    assert [status for status, _, _ in answers] == [401] * 10 + [429] * 2
    assert int(answers[-1][1]["Retry-After"]) == 6
    assert ask(serving, "/metrics", secrets["boss"])[0] == 200
    with pc.Bus(serving.url, token=secrets["boss"]) as bus:
        assert bus.publish("text").position == 1
    with pytest.raises(pc.AccessDeniedError):
        pc.Bus(serving.url, token=secret)
    with pytest.raises(pc.AccessDeniedError):
        pc.Bus(serving.url)
    assert serving.broker.failed_logins.throttled == 4
    lines = [each for each in caplog.messages if "login" in each]
    assert lines == caplog.messages  # and nothing else is said of them
    assert "from 127.0.0.1" in lines[0]
    assert secret not in caplog.text
    assert secrets["boss"] not in caplog.text


# -- tokens without TLS ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("polycast://127.0.0.1", True),
        ("polycast://127.9.9.9:1", True),
        ("polycast://[::1]", True),
        ("polycast://localhost", True),
        ("polycast://LocalHost", True),
        ("polycasts://broker.example", True),
        ("polycast://broker.example", False),
        ("polycast://10.0.0.7", False),
        ("polycast://localhost.evil.example", False),
        ("polycast://127.0.0.1.evil.example", False),
        ("polycast://localhost,10.0.0.7", False),
    ],
)
def test_a_client_sends_its_token_where_nobody_else_reads_it(url: str, is_safe: bool) -> None:
    addresses = addresses_of(url)
    ConnectionOptions(addresses)
    ConnectionOptions(addresses, token="secret", allow_plain_token=True)
    if is_safe:
        ConnectionOptions(addresses, token="secret")
        return
    with pytest.raises(pc.TokenExposedError, match="polycasts://") as found:
        ConnectionOptions(addresses, token="secret")
    assert "secret" not in str(found.value)


def test_a_bus_does_not_send_its_token_in_the_open(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pc.TokenExposedError):
        pc.Bus("polycast://10.0.0.7", token="secret", connect_timeout=0.01)
    monkeypatch.setenv("POLYCAST_TOKEN", "secret")
    with pytest.raises(pc.TokenExposedError):
        pc.Bus("polycast://10.0.0.7", connect_timeout=0.01)


def answer_to(
    tokens: Any, *, client: str, scheme: str, secret: str, allowed: bool
) -> tuple[int, str]:
    """What a broker answers to a request that came from an address."""
    broker = Broker(tokens=tokens)
    policy = HostPolicy.of(["10.0.0.7"], Admission())
    app = application(broker, policy, plain_tokens=allowed)
    headers = [(b"host", b"10.0.0.7"), (b"authorization", f"Bearer {secret}".encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/metrics",
        "query_string": b"",
        "headers": headers,
        "scheme": scheme,
        "client": (client, 5),
        "server": ("10.0.0.7", 7788),
    }
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(app(scope, receive, send))
    broker.close()
    return said[0]["status"], b"".join(each.get("body", b"") for each in said[1:]).decode()


@pytest.mark.parametrize(
    ("client", "scheme", "allowed", "status"),
    [
        ("10.0.0.9", "http", False, 403),
        ("2001:db8::1", "http", False, 403),
        ("10.0.0.9", "http", True, 200),
        ("10.0.0.9", "https", False, 200),
        ("127.0.0.1", "http", False, 200),
        ("::ffff:127.0.0.1", "http", False, 200),
    ],
)
def test_a_broker_takes_no_token_that_others_could_read(
    tokens: Tokens,
    client: str,
    scheme: str,
    allowed: bool,
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found, secrets = tokens(boss="admin = true")
    secret = secrets["boss"]
    answer = answer_to(found, client=client, scheme=scheme, secret=secret, allowed=allowed)
    assert answer[0] == status
    if status == 403:
        assert "revoke it" in answer[1]
        assert f"{client} sent a token without TLS" in caplog.text
        assert secret not in caplog.text + answer[1]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("401 Unauthorized", pc.AccessDeniedError),
        ("429 Too Many Requests", pc.AccessDeniedError),
        ("403 Forbidden", pc.BrokerRefusedError),
        ("503 Service Unavailable", pc.BrokerUnreachableError),
    ],
)
def test_a_refusal_before_the_first_message_is_told(
    in_thread: Any, status: str, error: type[Exception]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            there, _ = listener.accept()
            with there:
                there.recv(65_536)
                head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"
                there.sendall(head.encode() + b"so it is")

        in_thread(refuse)
        with pytest.raises(error) as found:
            pc.Bus(f"polycast://127.0.0.1:{listener.getsockname()[1]}")
    assert ("so it is" in str(found.value)) == (error is not pc.AccessDeniedError)
