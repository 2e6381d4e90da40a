"""A client knows a slow broker from a dead one, and is never held up by what it has to say."""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from polycast.broker.client.client_connection import (
    BrokerConnection,
    ConnectionHandlers,
    ConnectionOptions,
)
from polycast.broker.client.dialer import addresses_of
from polycast.broker.wire.protocol import (
    PROTOCOL,
    Answer,
    Append,
    Call,
    Limits,
    Refused,
    Welcome,
    encode,
    frames,
)
from polycast.config import SystemClock
from polycast.events import Identity
from polycast.stores import Run

Eventually = Callable[[Callable[[], object]], None]
IDENTITY = Identity("p", 1, 1)
WINDOW = 200_000  # below the 64 KiB that a packet has here, systems wait for each other
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class RawBroker:
    """Says frames as they are given, and reads nothing but the beginning, unless told to."""

    def __init__(self, *, heartbeat: float) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._limits = Limits(heartbeat=heartbeat)
        self.there: socket.socket | None = None
        self.accepted = 0
        self.has_client = threading.Event()
        self.last_word: Any = None  # what it says to each who connects, before it lets go
        self._thread = threading.Thread(target=self._accept_all, daemon=True)
        self._thread.start()

    def _accept_all(self) -> None:
        with suppress(OSError):
            while True:
                there, _ = self._listener.accept()
                there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += there.recv(1)
                self._answer(there, head)
                if self.there is not None:
                    self.there.close()
                self.there = there
                self.accepted += 1
                self.has_client.set()
                if self.last_word is not None:
                    self.send(there, self.last_word)
                    self._let_go(there)

    def _let_go(self, there: socket.socket) -> None:
        while there.recv(65_536):  # until it is left: an end would overtake what was said
            pass
        self.there = there.close()

    def _answer(self, there: socket.socket, head: bytes) -> None:
        [key] = [
            line.partition(b":")[2].strip()
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"sec-websocket-key")
        ]
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())  # noqa: S324 - WebSockets say so
        there.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        self.send(there, Welcome(PROTOCOL, "raw", "store", 0.0, self._limits))

    def send(self, there: socket.socket, message: Any) -> None:
        [frame] = frames([encode(message)], 1_000)
        self.send_frame(there, 2, frame)

    def send_frame(
        self, there: socket.socket, opcode: int, data: bytes, *, fin: bool = True
    ) -> None:
        assert len(data) < 65_536
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2)
        there.sendall(bytes([(0x80 if fin else 0) | opcode]) + size + data)

    def close(self) -> None:
        self._listener.close()
        if self.there is not None:
            self.there.close()


@pytest.fixture
def around() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(around: ExitStack, *, heartbeat: float) -> tuple[RawBroker, BrokerConnection]:
    broker = RawBroker(heartbeat=heartbeat)
    around.callback(broker.close)
    options = ConnectionOptions(addresses_of(f"polycast://127.0.0.1:{broker.port}"))
    connection = BrokerConnection(options, ConnectionHandlers(), SystemClock())
    connection.open()
    assert broker.has_client.wait(30)  # it has said its welcome before it knows whom it has
    around.callback(connection.close)
    around.callback(broker.close)  # first: it does not say goodbye, which would be waited for
    return broker, connection


def asking(number: int) -> Call:
    return Call(number, "newest", b"\x90")


def test_a_broker_that_sends_one_large_message_slowly_lives(around: ExitStack) -> None:
    broker, connection = connected(around, heartbeat=0.5)
    there = broker.there
    assert there is not None
    asked = connection.ask(asking)
    [answer] = frames([encode(Answer(1, b"x" * 60))], 1_000)
    for at in range(len(answer)):  # a byte at a time, and no ping is answered
        threading.Event().wait(0.03)
        broker.send_frame(there, 0 if at else 2, answer[at : at + 1], fin=at + 1 == len(answer))
    assert asked.result(5) == b"x" * 60
    assert broker.accepted == 1


def test_a_broker_that_says_nothing_is_left_although_megabytes_wait_for_it(
    around: ExitStack, eventually: Eventually
) -> None:
    broker, connection = connected(around, heartbeat=0.1)
    large = Run("a.B", 1, "hash", IDENTITY, "json", [b"x" * 10_000_000])
    connection.ask(lambda number: Append(number, [large]))  # it returns although nobody reads
    assert connection.pending.size > 10_000_000
    eventually(lambda: broker.accepted > 1)


def test_a_ping_is_answered_although_megabytes_wait_to_be_sent(around: ExitStack) -> None:
    broker, connection = connected(around, heartbeat=60.0)
    there = broker.there
    assert there is not None
    there.settimeout(10)
    large = Run("a.B", 1, "hash", IDENTITY, "json", [b"x" * 10_000_000])
    for _ in range(4):
        connection.ask(lambda number: Append(number, [large]))
    broker.send_frame(there, 9, b"ping")
    before = 0
    while True:
        opcode, size = read_frame(there)
        if opcode == 10:
            break
        before += size
    assert before < 20_000_000  # of forty: what the systems had taken by then, and a piece


def read_frame(there: socket.socket) -> tuple[int, int]:
    def exactly(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = there.recv(size - len(data))
            assert part
            data += part
        return bytes(data)

    first, second = exactly(2)
    size = second & 0x7F
    if size > 125:
        size = int.from_bytes(exactly(2 if size == 126 else 8))
    exactly(4 + size)
    return first & 0x0F, size


def test_a_broker_that_only_lets_go_is_asked_ever_more_seldom_and_told_of_once(
    around: ExitStack, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    broker, connection = connected(around, heartbeat=0.0)
    broker.last_word = Refused(0, "store-failed", "the store is gone")
    assert broker.there is not None
    broker.send(broker.there, broker.last_word)
    began = time.monotonic()
    eventually(lambda: broker.accepted >= 6)
    assert time.monotonic() - began > 0.025 * (1 + 2 + 4 + 8)  # half of the pauses, at least
    assert "the store is gone" in str(connection.trouble)
    lost = [each for each in caplog.messages if "was lost" in each]
    assert len(lost) <= 2  # the other one is that the socket was closed


def test_a_broker_that_answers_again_is_no_trouble(
    around: ExitStack, eventually: Eventually
) -> None:
    broker, connection = connected(around, heartbeat=0.0)
    assert broker.there is not None
    broker.send(broker.there, Refused(0, "store-failed", "the store is gone"))
    eventually(lambda: broker.accepted == 2)
    broker.send(broker.there, Answer(1, b""))
    eventually(lambda: connection.trouble is None)
