"""A network between clients and a broker that cuts, stalls, delays, and says things twice.

`Proxy` knows bytes: it cuts between any two of them. `Relay` knows WebSocket messages: it hands
them on more than once, also late. Both listen at one port for as long as they live, wherever the
broker is meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from polycast.broker.wire.protocol import PATH

__all__ = ["Proxy", "Relay"]

HOST = "127.0.0.1"
CHUNK = 65_536
T = TypeVar("T")


class _Looped:
    """Something that runs in an event loop in a thread of its own."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self.run(self.listen())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Awaitable[T]) -> T:
        """Have something done in the loop, and wait for it."""

        async def done() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(30)

    async def listen(self) -> int:
        """Begin; the port."""
        raise NotImplementedError

    async def end(self) -> None:
        """End what is under way."""
        running = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for _ in range(3):  # what was aborted is closed in the next rounds
            await asyncio.sleep(0)


@dataclass(eq=False)
class _Link:
    """One connection: both of its ends, and what is to become of it."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    left: int | None = None  # bytes from the broker until it is cut

    def abort(self) -> None:
        """No goodbye: both sides find a reset."""
        self.flowing.set()  # so that nothing waits for what is over
        for each in (self.client, self.broker):
            each.transport.abort()


class Proxy(_Looped):
    """Hands bytes on in both directions, until it is told to do worse."""

    def __init__(self, target: Callable[[], int | None], *, seed: int = 0) -> None:
        super().__init__()
        self._target = target  # the port of the broker, if it has one just now
        self._dice = random.Random(seed)
        self.is_open = True  # for those who come
        self._links: set[_Link] = set()
        self.longest = 0.0  # seconds that a piece may be late
        self.accepted = 0

    async def listen(self) -> int:
        """Begin; the port."""
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def end(self) -> None:
        """Cut all."""
        self._server.close()
        self._cut()
        await super().end()

    @property
    def is_used(self) -> bool:
        """Whether anybody is connected."""
        return bool(self._links)

    def cut(self) -> None:
        """Cut every connection between two pieces."""
        self._call(self._cut)

    def cut_after(self, most: int) -> None:
        """Cut each connection within the next so many bytes from the broker, in any frame."""

        def set_them() -> None:
            for link in self._links:
                link.left = self._dice.randint(1, most)

        self._call(set_them)

    def stall(self) -> None:
        """Hand nothing on any more over what is connected now; nobody is told."""

        def set_them() -> None:
            for link in self._links:
                link.flowing.clear()

        self._call(set_them)

    def flow(self) -> None:
        """Hand on what has waited: the network was slow, and not gone."""

        def set_them() -> None:
            for link in self._links:
                link.flowing.set()

        self._call(set_them)

    def _call(self, work: Callable[[], None]) -> None:
        async def done() -> None:
            work()

        self.run(done())

    def _cut(self) -> None:
        for link in self._links:
            link.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            with suppress(asyncio.CancelledError, OSError):  # all ends, or nobody is there
                target = self._target() if self.is_open else None
                if target is not None:
                    await self._link(reader, writer, *await asyncio.open_connection(HOST, target))
        finally:
            writer.transport.abort()

    async def _link(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        heard: asyncio.StreamReader,
        said: asyncio.StreamWriter,
    ) -> None:
        link = _Link(writer, said)
        link.flowing.set()
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(link, reader, said), self._pump(link, heard, writer, is_answer=True)
            )
        finally:
            self._links.discard(link)
            link.abort()

    async def _pump(
        self,
        link: _Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_answer: bool = False,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await link.flowing.wait()
                await self._be_late()
                if writer.is_closing():
                    break
                if is_answer and link.left is not None:
                    data, link.left = data[: link.left], link.left - len(data)
                writer.write(data)
                await writer.drain()
                if link.left is not None and link.left <= 0:
                    break
        writer.close()

    async def _be_late(self) -> None:
        if self.longest:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), self._dice.random() * self.longest)


class Relay(_Looped):
    """Hands on what clients say twice, and once more when they have said other things."""

    def __init__(self, target: int, *, late: int = 4) -> None:
        super().__init__()
        self._target, self._late = target, late
        self.repeated = 0

    async def listen(self) -> int:
        """Begin; the port."""
        self._server = await serve(self._accept, HOST, 0, compression=None, max_size=None)
        port: int = next(iter(self._server.sockets)).getsockname()[1]
        return port

    async def end(self) -> None:
        """Cut all."""
        self._server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 2.0)
        await super().end()

    async def _accept(self, client: ServerConnection) -> None:
        uri = f"ws://{HOST}:{self._target}{PATH}"
        with suppress(ConnectionClosed):
            async with connect(uri, compression=None, max_size=None, proxy=None) as broker:
                answers = asyncio.create_task(self._answer(broker, client))
                try:
                    await self._say(client, broker)
                finally:
                    answers.cancel()

    async def _say(self, client: ServerConnection, broker: Any) -> None:
        await broker.send(await client.recv())  # `hello` is said once
        before: deque[bytes] = deque()
        async for frame in client:
            assert isinstance(frame, bytes)
            await broker.send(frame)
            await broker.send(frame)
            before.append(frame)
            if len(before) > self._late:
                await broker.send(before.popleft())
            self.repeated += 1

    async def _answer(self, broker: Any, client: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            async for frame in broker:
                await client.send(frame)
        await client.close()
