"""Web pages and names that are not ours stay outside, whatever they write into their headers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trustme

from polycast.broker.server.broker import Broker
from polycast.broker.server.network_policy import Admission, HostPolicy, host_of, origin_of
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import PATH
from polycast.broker.wire.security import certified_names, tls_server_context
from polycast.errors import BadOptionError, BrokerRefusedError

Serve = Callable[..., Serving]
EVIL = "http://evil.example"
UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "websocket": (PATH, UPGRADE),
    "metrics": ("/metrics", ()),
    "livez": ("/livez", ()),
    "readyz": ("/readyz", ()),
    "nothing": ("/nothing", ()),
}


def asked(serving: Serving, path: str, *headers: str, version: str = "1.1") -> tuple[int, str]:
    """Status and text of an answer to a request with exactly these headers."""
    ending = () if "Connection: Upgrade" in headers else ("Connection: close",)
    request = "\r\n".join([f"GET {path} HTTP/{version}", *headers, *ending, "", ""])
    answer = b""
    with socket.create_connection((serving.host, serving.port), 10) as connection:
        connection.sendall(request.encode("latin-1"))
        while not answer.startswith(b"HTTP/1.1 101"):
            part = connection.recv(65_536)
            if not part:
                break
            answer += part
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2].decode("latin-1")


@pytest.fixture(scope="module")
def broker() -> Iterator[Serving]:
    with Serving(Broker()) as serving:
        yield serving


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "origin",
    [
        EVIL,
        "null",
        "NULL",
        "",
        "http://127.0.0.1:{port}",
        "http://localhost:{port}",
        "https://localhost",
        "file://",
        "chrome-extension://abcdef",
        f"{EVIL}\r\nOrigin: http://localhost",
    ],
)
def test_a_page_is_refused_whatever_it_asks_for(broker: Serving, way: str, origin: str) -> None:
    path, more = WAYS[way]
    host = f"Host: 127.0.0.1:{broker.port}"
    origin = origin.format(port=broker.port)
    status, text = asked(broker, path, host, *more, f"Origin: {origin}")
    assert status == 403 or (status == 400 and "Origin" in origin)  # two of them are no request
    assert "--allow-origin" in text or status == 400


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example",
        "evil.example#localhost",
        "localhost@evil.example",
        "2130706433:{port}",
        "127.1:{port}",
        "[::1]evil.example",
        "[::1",
        "10.1.2.3:{port}",
        "\xe9vil",
        "",
    ],
)
def test_a_name_that_is_not_ours_is_refused(broker: Serving, way: str, host: str) -> None:
    path, more = WAYS[way]
    status, text = asked(broker, path, f"Host: {host.format(port=broker.port)}", *more)
    assert status in (421, 400)  # 400: what is no host at all for the library either
    assert status == 400 or "--allow-host" in text


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:{port}",
        "127.0.0.1",
        "localhost:{port}",
        "LocalHost:{port}",
        "localhost.:{port}",
        "localhost:9",  # by a tunnel
        "[::1]:{port}",
        "[0:0:0:0:0:0:0:1]",
    ],
)
@pytest.mark.parametrize("way", ["websocket", "livez"])
def test_a_program_comes_in_by_any_form_of_our_names(broker: Serving, way: str, host: str) -> None:
    path, more = WAYS[way]
    status, _ = asked(broker, path, f"Host: {host.format(port=broker.port)}", *more)
    assert status == (101 if way == "websocket" else 200)


@pytest.mark.parametrize("way", ["websocket", "livez"])
@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Host: localhost", "Host: localhost"],
        ["Host: localhost", "Host: evil.example"],
        ["Host: evil.example", "Host: localhost"],
    ],
    ids=str,
)
def test_there_is_exactly_one_host(broker: Serving, way: str, headers: list[str]) -> None:
    path, more = WAYS[way]
    assert asked(broker, path, *headers, *more)[0] == 400


def test_a_request_of_an_old_version_without_a_host_is_refused(broker: Serving) -> None:
    assert asked(broker, "/livez", version="1.0")[0] == 400


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-Host: localhost", "Forwarded: host=localhost", "X-Original-Host: localhost"],
)
def test_what_a_proxy_would_say_is_not_believed(broker: Serving, header: str) -> None:
    assert asked(broker, "/livez", "Host: evil.example", header)[0] == 421


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("cross-site", "no-cors", 403),
        ("same-site", "no-cors", 403),
        ("cross-site", "navigate", 200),
        ("none", "navigate", 200),
        ("same-origin", "cors", 200),
    ],
)
def test_what_a_page_includes_is_refused(
    broker: Serving, site: str, mode: str, status: int
) -> None:
    headers = ["Host: localhost", f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}"]
    assert asked(broker, "/livez", *headers)[0] == status


def test_what_is_listed_is_let_in_and_nothing_beside_it() -> None:
    admission = Admission(
        hosts=("Broker.Shop.example", "*.inner.example"), origins=("https://desk",)
    )
    with Serving(Broker(), admission=admission) as serving:

        def status(host: str, *origin: str) -> int:
            return asked(serving, "/livez", f"Host: {host}", *(f"Origin: {o}" for o in origin))[0]

        assert status("broker.shop.example:7788", "https://DESK:443") == 200
        assert status("one.inner.example") == 200
        assert status("two.one.inner.example") == 421
        assert status("inner.example") == 421
        assert status("shop.example") == 421
        assert status("localhost", "http://desk") == 403
        assert status("localhost", "https://desk:8443") == 403
        assert status("localhost", "https://desk.evil.example") == 403


@pytest.mark.parametrize(
    "given", ["*", "*.", "*.com", "http://a", "a:80", "a/b", "", "a b", 3, "[::1"]
)
def test_what_is_no_host_cannot_be_listed(given: str) -> None:
    with pytest.raises(BadOptionError, match="without scheme, path and port"):
        Admission(hosts=(given,))


@pytest.mark.parametrize(
    "given", ["*", "null", "desk", "https://", "https://a/b", "https://a@b", 3]
)
def test_what_is_no_origin_cannot_be_listed(given: str) -> None:
    with pytest.raises(BadOptionError, match="any page"):
        Admission(origins=(given,))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Localhost.", "localhost"),
        ("[::0001]:80", "::1"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("a:b", None),
        ("a:123456", None),
        ("a,b", None),
        ("[1.2.3]", None),
        ("[fe80::1%eth0]", None),
    ],
)
def test_a_host_has_one_form(text: str, host: str | None) -> None:
    assert host_of(text) == host


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("HTTPS://Desk", "https://desk:443"),
        ("http://desk.:080", "http://desk:80"),
        ("https://[::1]:1", "https://[::1]:1"),
        ("app://x", "app://x"),
        ("null", None),
        ("https://a, https://b", None),
    ],
)
def test_an_origin_has_one_form(text: str, origin: str | None) -> None:
    assert origin_of(text) == origin


def names(bound: Sequence[str], **more: Sequence[str]) -> HostPolicy:
    return HostPolicy.of(bound, Admission(), certified=more.get("certified", ()))


def test_at_all_addresses_it_goes_by_the_one_that_was_reached_and_by_the_machines_name() -> None:
    everywhere = names(["0.0.0.0"])
    reached = [(b"host", b"10.0.0.7:7788")]
    assert everywhere.refusal(reached, "10.0.0.7") is None
    assert everywhere.refusal(reached, "10.0.0.8") is not None
    assert everywhere.refusal([(b"host", socket.gethostname().encode())], "10.0.0.7") is None
    assert names(["127.0.0.1"]).hosts == {"localhost", "127.0.0.1", "::1"}


def test_the_names_in_its_certificate_are_its_own(tmp_path: Path) -> None:
    pair = trustme.CA().issue_cert("broker.shop.example", "*.inner.example", "10.0.0.7")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    pair.private_key_pem.write_to_path(key)
    for each in pair.cert_chain_pems:
        each.write_to_path(cert, append=True)
    certified = certified_names(tls_server_context(str(cert), str(key)))
    assert certified == ("broker.shop.example", "*.inner.example", "10.0.0.7")
    found = names(["0.0.0.0"], certified=certified)
    for host in (b"broker.shop.example", b"a.inner.example:1", b"10.0.0.7"):
        assert found.refusal([(b"host", host)], None) is None


def test_a_bus_is_told_that_it_came_by_another_name(
    serve: Serve, open_bus: Callable[..., object]
) -> None:
    broker = serve()
    with pytest.raises(BrokerRefusedError, match="--allow-host") as caught:
        open_bus(f"polycast://127.1:{broker.port}")  # what resolves, as any name, but is not ours
    assert caught.value.code == "other-host"
