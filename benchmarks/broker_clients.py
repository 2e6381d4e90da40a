"""The sides of polycast: a broker, publishers, and consumers that are buses or only count."""

from __future__ import annotations

import base64
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from broker_setting import ALL, Announcement, Offer, Tally, announcements, offer

import polycast as pc
from polycast.broker.client.remote_store import PARTS
from polycast.broker.wire.protocol import (
    PATH,
    PROTOCOL,
    Credit,
    Events,
    Follow,
    Hello,
    Limits,
    Want,
    decode_from_broker,
    encode,
    frames,
)
from polycast.config import LEVELS
from polycast.matching import Interest, selector_for, wanted_from_afar


class Brokering:
    """A broker in a process of its own."""

    def __init__(self, store: str) -> None:
        from polycast.broker.server.broker import Broker
        from polycast.broker.server.run import Serving

        self._serving = Serving(Broker(store)).start()

    def url(self) -> str:
        return self._serving.url

    def pid(self) -> int:
        return os.getpid()

    def close(self) -> None:
        self._serving.stop()


class Publisher:
    """A bus that publishes; each call returns when the broker has synced it."""

    def __init__(self, url: str, kind: str, consumers: int) -> None:
        del kind, consumers  # it is the filters that tell
        self._bus = pc.Bus(url)
        self._bus.publish_many(announcements(0, 1))  # whatever has to start begins with it
        self._next = 1

    def offer(self, what: Offer) -> list[tuple[float, int]]:
        first = self._next
        steps = offer(self.publish, first, what)
        self._next = first + steps[-1][1]
        return steps

    def publish(self, first: int, count: int) -> None:
        self._bus.publish_many(announcements(first, count))

    def close(self) -> None:
        self._bus.close()


def wanted(kind: str, number: int, consumers: int) -> pc.Filter[Announcement]:
    """The filter of a consumer, as READY has it: on the counter, modulo the consumers."""
    if kind == ALL:
        return pc.Filter(lambda event: event.field_1 >= 0)
    return pc.Filter(lambda event: event.field_1 % consumers == number)


class Buses:
    """Consumers that are buses, each with its own connection and a callback."""

    def __init__(self, url: str, kind: str, numbers: list[int], consumers: int) -> None:
        self._tally = Tally()
        self._buses = []
        for number in numbers:
            bus = pc.Bus(url)
            where = wanted(kind, number, consumers)
            bus.subscribe(Announcement, self._tally.take, where=where)
            self._buses.append(bus)

    def total(self) -> int:
        return self._tally.total

    def between(self, begin: float, end: float) -> int:
        return self._tally.between(begin, end)

    def remember(self) -> None:
        self._tally.remember()

    def latencies(self) -> list[float]:
        return self._tally.remembered()

    def close(self) -> None:
        for bus in self._buses:
            bus.close(timeout=0.1)


class OneBus(Buses):
    """Consumers that are subscriptions of one bus, as in a program that has several."""

    def __init__(self, url: str, kind: str, numbers: list[int], consumers: int) -> None:
        self._tally = Tally()
        self._buses = [pc.Bus(url)]
        for number in numbers:
            where = wanted(kind, number, consumers)
            self._buses[0].subscribe(Announcement, self._tally.take, where=where)


WINDOW = Limits().window // PARTS  # bytes after which a broker is told that they were read
_positions = msgspec.msgpack.Decoder(list[tuple[int, msgspec.Raw]])


class Selecting:
    """Many connections in one thread, each of which says how many events have come."""

    def __init__(self, lines: Sequence[Reads]) -> None:
        self._tally = Tally()
        self._select = selectors.DefaultSelector()
        for line in lines:
            self._select.register(line.socket, selectors.EVENT_READ, line)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            for key, _ in self._select.select():
                count = key.data.read()
                if count:
                    self._tally.took(count, time.monotonic())

    def total(self) -> int:
        return self._tally.total

    def between(self, begin: float, end: float) -> int:
        return self._tally.between(begin, end)


class Reads(Protocol):
    """A connection."""

    socket: socket.socket

    def read(self) -> int:
        """Take what has come; how many events that is."""


class Counting(Selecting):
    """Consumers that speak the protocol and count what they are sent, and do not make events of it.

    So many of them fit on a core that it is the broker that is measured.
    """

    def __init__(self, url: str, kind: str, numbers: list[int], consumers: int) -> None:
        lines = [Line(url) for _ in numbers]
        for line, number in zip(lines, numbers, strict=True):
            where = wanted(kind, number, consumers)
            line.begin(Interest(selector_for(Announcement), where, LEVELS["array"]))
        super().__init__(lines)


class Line:
    """One WebSocket, with as little as possible around it (RFC 6455)."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port))
        self._begun = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {PATH} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._begun:
            self._begun += self.socket.recv(65536)
        head, _, self._begun = self._begun.partition(b"\r\n\r\n")
        assert b" 101 " in head.splitlines()[0], head
        self._unread = 0

    def begin(self, interest: Interest) -> None:
        """Say what is wanted, from now on, as a bus does."""
        self._say(Hello(PROTOCOL, os.urandom(16).hex()))
        self._say(Want(1, "counting", [wanted_from_afar(interest).encoded()]))
        start = 0
        while not start:
            for message in self._heard():
                start = getattr(message, "start", start)
        self._say(Follow(1, start))

    def read(self) -> int:
        """How many events have come."""
        count = 0
        for message in self._heard():
            if isinstance(message, Events) and message.records:
                count += len(_positions.decode(message.records))
                self._unread += len(message.records)
        if self._unread >= WINDOW:
            self._say(Credit(self._unread))
            self._unread = 0
        return count

    def _heard(self) -> list[Any]:
        data = self._begun + self.socket.recv(1 << 20)
        found: list[Any] = []
        at = 0
        while True:
            frame = _frame(data, at)
            if frame is None:
                break
            kind, body, at = frame
            if kind == 9:  # is anybody there?
                self._send(10, body)
            elif kind == 2:
                found += decode_from_broker(body)
        self._begun = data[at:]
        return found

    def _say(self, message: Any) -> None:
        for frame in frames([encode(message)], 1 << 20):
            self._send(2, frame)

    def _send(self, kind: int, body: bytes) -> None:
        size = len(body)
        head = struct.pack(">BB", 0x80 | kind, 0x80 | size) if size < 126 else b""
        if not head:
            head = struct.pack(">BBH", 0x80 | kind, 0x80 | 126, size)
        self.socket.sendall(head + bytes(4) + body)  # masked with zeros


def _frame(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """The kind and the body of a frame, and where the next begins; None if it is not all there."""
    if len(data) < at + 2:
        return None
    kind, size, begin = data[at] & 15, data[at + 1], at + 2
    if size >= 126:
        wide = 2 if size == 126 else 8
        if len(data) < begin + wide:
            return None
        size, begin = int.from_bytes(data[begin : begin + wide]), begin + wide
    end = begin + size
    return None if len(data) < end else (kind, data[begin:end], end)
