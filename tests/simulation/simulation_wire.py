"""Connections between clients and brokers in one process, a frame at a time.

Within a connection the order is kept, as TCP keeps it; between connections nothing is. A connection
can be cut, which both ends notice in their own time, and stalled.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from simulation_scheduler import Party, Scheduler, Task

__all__ = ["Network", "Serving"]

INSTANT = 1e-9  # seconds that are no time
SLOWEST = 0.02  # seconds that a frame is on its way
OPENING = 5.0  # seconds until a dialling client gives up


class Link:
    """One connection."""

    def __init__(self, network: Network, client: Party, serving: Serving) -> None:
        self.network, self.client, self.serving = network, client, serving
        self.to_client: deque[tuple[float, bytes]] = deque()
        self.to_server: deque[tuple[float, bytes]] = deque()
        self._last = [0.0, 0.0]
        self.stalled_until = 0.0
        self.client_ends = self.server_ends = float("inf")  # when each end notices a cut
        self.is_cut = False
        self.accepted: bool | None = None
        self.waiters: list[Task] = []  # the client's
        self.bell = asyncio.Event()  # the server's

    def arrival(self, way: int) -> float:
        """When a frame that is sent now arrives."""
        now = self.network.scheduler.now + SLOWEST * self.network.dice.random() ** 3
        self._last[way] = max(self._last[way], now, self.stalled_until)
        return self._last[way]

    def send_to_server(self, frame: bytes) -> None:
        """Send a frame; it is lost if the connection is cut."""
        if not self.is_cut and not self.network.loses():
            self.to_server.append((self.arrival(0), frame))
            self.ring_server()

    def send_to_client(self, frame: bytes) -> None:
        """Send a frame; it is lost if the connection is cut."""
        if not self.is_cut and not self.network.loses():
            self.to_client.append((self.arrival(1), frame))
            self.network.scheduler.wake_all(self.waiters)

    def ring_server(self) -> None:
        """Let the server look."""
        self.serving.soon(self.bell.set)

    def cut(self, *, late: float = 0.0) -> None:
        """End it; what is on its way is lost, and each end may notice late."""
        if self.is_cut:
            return
        self.is_cut = True
        now, dice = self.network.scheduler.now, self.network.dice
        self.to_client.clear()
        self.to_server.clear()
        self.client_ends = now + late * dice.random()
        self.server_ends = now + late * dice.random()
        self.network.links.pop(self, None)
        self.network.scheduler.wake_all(self.waiters)
        self.ring_server()


class SimulatedSocket:
    """The client's end, as `ClientSocket` is one."""

    def __init__(self, link: Link, writing: Any) -> None:
        self._link, self._scheduler = link, link.network.scheduler
        self._messages: Callable[[], Iterable[bytes]] = tuple
        self._is_closed = False
        self.heard = 0
        self.writing = writing  # a lock that it never takes

    def take_from(self, messages: Callable[[], Iterable[bytes]]) -> None:
        """Set the source of messages."""
        self._messages = messages

    def needs(self, thread: object) -> bool:
        """Whether a thread must not wait for an answer: none is the socket's own."""
        del thread
        return False

    def ring(self) -> None:
        """Send what waits."""
        for frame in self._messages():
            self._link.send_to_server(bytes(frame))

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        self._link.send_to_server(bytes(frame))

    def recv(self, timeout: float | None = None) -> bytes:
        """The next frame."""
        link, scheduler = self._link, self._scheduler
        end = float("inf") if timeout is None else scheduler.now + timeout
        while True:
            if self._is_closed or scheduler.now + INSTANT >= link.client_ends:
                raise ConnectionResetError("the connection was lost")
            due = link.client_ends
            if link.to_client:
                due = min(due, max(link.to_client[0][0], link.stalled_until))
                if due <= scheduler.now + INSTANT:
                    self.heard += 1
                    return link.to_client.popleft()[1]
            if scheduler.now + INSTANT >= end:
                raise TimeoutError
            until = min(due, end)
            left = None if until == float("inf") else max(0.0, until - scheduler.now)
            scheduler.block(link.waiters, left)

    def ping(self) -> None:
        """Ask for a sign of life."""
        if not self._link.is_cut and self._scheduler.now >= self._link.stalled_until:
            self.heard += 1

    def cut(self) -> None:
        """Close it at once."""
        self.close()

    def close(self) -> None:
        """Close it."""
        self._is_closed = True
        self._link.cut()

    def write_now(self) -> None:
        """Send what waits."""
        self.ring()

    def say_goodbye(self) -> None:
        """Close it."""
        self.close()

    def release(self) -> None:
        """Nothing is left of it."""


class Serving:
    """A broker at an address: its application, in its loop."""

    def __init__(self, network: Network, address: str, loop: Any, application: Any) -> None:
        self._network, self.address = network, address
        self._loop, self._application = loop, application
        self._numbers = 0
        self._tasks: set[Any] = set()

    def soon(self, work: Callable[[], None]) -> None:
        """Do something in the loop, as long as there is one."""
        if self._network.listening.get(self.address) is self and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def accept(self, link: Link) -> None:
        """Serve a connection. In the loop."""
        self._numbers += 1
        host, _, port = self.address.rpartition(":")
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": self._network.path,
            "raw_path": self._network.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", self.address.encode())],
            "client": (host, 40_000 + self._numbers),
            "server": (host, int(port)),
            "subprotocols": [],
            "state": {},
            "extensions": {"websocket.http.response": {}},
        }
        end = ServerEnd(link)
        task = self._loop.create_task(self._serve(scope, end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, scope: dict[str, Any], end: ServerEnd) -> None:
        try:
            await self._application(scope, end.receive, end.send)
        finally:
            end.link.cut()


class ServerEnd:
    """The server's end, as ASGI has one."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._is_begun = False
        self._parts = bytearray()

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        link, scheduler = self.link, self.link.network.scheduler
        if not self._is_begun:
            self._is_begun = True
            return {"type": "websocket.connect"}
        while True:
            if scheduler.now + INSTANT >= link.server_ends:
                return {"type": "websocket.disconnect", "code": 1006}
            due = link.server_ends
            if link.to_server:
                due = min(due, max(link.to_server[0][0], link.stalled_until))
                if due <= scheduler.now + INSTANT:
                    return {"type": "websocket.receive", "bytes": link.to_server.popleft()[1]}
            link.bell.clear()
            try:
                left = None if due == float("inf") else due - scheduler.now
                await asyncio.wait_for(link.bell.wait(), left)
            except TimeoutError:
                continue

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        link = self.link
        if message["type"] == "websocket.accept":
            link.accepted = True
            link.network.scheduler.wake_all(link.waiters)
        elif message["type"] == "websocket.send":
            if link.network.scheduler.now >= link.server_ends:
                raise ConnectionResetError("the client is gone")
            self._parts += message["bytes"]
            if not message.get("polycast.more"):
                link.send_to_client(bytes(self._parts))
                self._parts.clear()
        else:
            if link.accepted is None:
                link.accepted = False
            link.cut()


class Network:
    """Who listens where, and all connections."""

    def __init__(
        self, scheduler: Scheduler, dice: random.Random, *, path: str, loss: float = 0.0
    ) -> None:
        self.scheduler, self.dice, self.path = scheduler, dice, path
        self._loss = loss
        self.listening: dict[str, Serving] = {}
        self.links: dict[Link, None] = {}
        self.parted_until = 0.0

    def loses(self) -> bool:
        """Whether the next frame is lost, though TCP loses none: a planted fault."""
        return self._loss > 0 and self.dice.random() < self._loss

    def dial(self, party: Party) -> Callable[[Any], SimulatedSocket]:
        """What opens connections for a process."""

        def open_one(address: Any) -> SimulatedSocket:
            scheduler = self.scheduler
            scheduler.sleep(SLOWEST * self.dice.random())
            serving = self.listening.get(f"{address.host}:{address.port}")
            if serving is None or scheduler.now < self.parted_until:
                raise ConnectionRefusedError("nobody listens there")
            link = Link(self, party, serving)
            self.links[link] = None
            serving.soon(lambda: serving.accept(link))
            end = scheduler.now + OPENING
            while link.accepted is None and not link.is_cut and scheduler.now < end:
                scheduler.block(link.waiters, end - scheduler.now)
            if not link.accepted:
                link.cut()
                raise ConnectionRefusedError("it was not answered")
            return SimulatedSocket(link, threading.RLock())

        return open_one

    def end_of(self, party: Party, address: str | None = None) -> None:
        """A process has died: its connections end, which others may notice late."""
        if address is not None:
            self.listening.pop(address, None)
        for link in list(self.links):
            if link.client is party or link.serving.address == address:
                link.cut(late=0.5 if self.dice.random() < 0.3 else 0.0)

    def hurt(self, how: str) -> None:
        """Do something to one connection, or to all."""
        if how == "part":
            self.parted_until = self.scheduler.now + 2.0 * self.dice.random()
            for link in list(self.links):
                link.cut(late=1.0)
        elif self.links:
            link = self.dice.choice(list(self.links))
            if how == "cut":
                link.cut(late=1.5 if self.dice.random() < 0.5 else 0.0)
            else:
                link.stalled_until = self.scheduler.now + 3.0 * self.dice.random()

    def heal(self) -> None:
        """Let all be well from now on."""
        self.parted_until = 0.0
