"""Very many frames come at once: all are answered, and others have their turn in between."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from websockets.sync.client import ClientConnection, connect

import polycast as pc
from polycast.broker.server.run import Serving
from polycast.broker.wire.calls import CALLS
from polycast.broker.wire.protocol import (
    PATH,
    PROTOCOL,
    Answer,
    Call,
    Hello,
    Want,
    Wanted,
    decode_from_broker,
    encode,
    frames,
)

MANY = 30_000
WAIT = 20.0
PING, PONG = b"\x89\x80\0\0\0\0", b"\x8a\x00"


@pytest.fixture
def client(serve: Callable[..., Serving]) -> Iterator[tuple[Serving, ClientConnection]]:
    serving = serve()
    address = serving.url.removeprefix("polycast://")
    with connect(f"ws://{address}{PATH}", max_size=None, proxy=None) as opened:
        opened.send(framed(Hello(PROTOCOL, "client")))
        opened.recv(WAIT)
        yield serving, opened


def framed(*messages: object) -> bytes:
    return b"".join(frames(map(encode, messages), 10**8))


def masked(frame: bytes) -> bytes:
    """A frame of a client, as it is on the wire; its mask changes nothing."""
    return bytes([0x82, 0x80 | len(frame)]) + bytes(4) + frame


def test_very_many_pings_leave_others_their_turn(
    serve: Callable[..., Serving], open_bus: Callable[..., pc.Bus]
) -> None:
    serving = serve()
    host, _, port = serving.url.removeprefix("polycast://").rpartition(":")
    with socket.create_connection((host, int(port)), WAIT) as raw:
        request = (
            f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        raw.sendall(request.encode())
        assert raw.recv(4_000).startswith(b"HTTP/1.1 101")
        round_robin = 0

        def turn() -> None:
            nonlocal round_robin
            round_robin += 1
            if pongs < MANY:
                serving.broker.soon(turn)

        pongs = 0
        serving.broker.soon(turn)
        raw.sendall(PING * MANY)
        while pongs < MANY:
            pongs += raw.recv(1_000_000).count(PONG)
        assert round_robin > 50


def test_very_many_small_messages_are_answered_each(
    client: tuple[Serving, ClientConnection],
) -> None:
    _, opened = client
    asked = CALLS["newest"].arguments()
    small = b"".join(masked(framed(Call(n, "newest", asked))) for n in range(1, 5_001))
    opened.socket.sendall(small)
    answered: list[int] = []
    while len(answered) < 5_000:
        heard = decode_from_broker(bytes(opened.recv(WAIT)))
        answered += [each.number for each in heard if isinstance(each, Answer)]
    assert answered == list(range(1, 5_001))


def test_a_large_message_comes_whole_after_many_small_ones(
    client: tuple[Serving, ClientConnection],
) -> None:
    _, opened = client
    opened.socket.sendall(PING * 5_000)
    opened.send(framed(Want(7, "x" * 5_000_000, [])))
    while True:
        heard = decode_from_broker(bytes(opened.recv(WAIT)))
        if wanted := [each for each in heard if isinstance(each, Wanted)]:
            break
    assert [each.number for each in wanted] == [7]
