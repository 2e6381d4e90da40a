"""NATS JetStream that syncs each event before it answers: what a broker over a file is, too.

Publishers wait for the acknowledgement of the stream. Consumers are ordered push consumers, the
lightest form that JetStream has: like a subscription that is not durable, each keeps its own place,
and acknowledges nothing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import broker_peers as nats
from broker_setting import announcements

STREAM = "announcements"
CONFIGURATION = 'jetstream {{ store_dir: "{store}", sync_interval: always }}\n'


class Serving(nats.Serving):
    """The server with one stream in a file, synced before each acknowledgement."""

    def arguments(self, store: str) -> list[str]:
        folder = Path(f"{store.removeprefix('sqlite:///')}.jetstream")
        folder.mkdir()
        configuration = folder / "server.conf"
        configuration.write_text(CONFIGURATION.format(store=folder), encoding="utf-8")
        return ["-c", str(configuration)]


class Publisher(nats.Publisher):
    """nats-py, which waits until all events of a call are in the file."""

    async def open_line(self, url: str) -> None:
        await super().open_line(url)
        self._stream = await stream_of(self._line)

    async def _publish(self, first: int, count: int) -> None:
        await asyncio.gather(
            *(
                self._stream.publish(
                    nats.subject(self._kind, event.field_1, self._consumers), nats.encode(event)
                )
                for event in announcements(first, count)
            )
        )


class Clients(nats.Clients):
    """Ordered consumers with nats-py, each with its own connection and a callback."""

    async def _receive(self, line: Any, to: str, take: Any) -> None:
        stream = await stream_of(line)
        await stream.subscribe(to, cb=take, ordered_consumer=True)


async def stream_of(line: Any) -> Any:
    """The stream, which is there afterwards, over a connection."""
    context = line.jetstream()
    subjects = [nats.EVERYBODY, f"{nats.EVERYBODY}.*"]
    await context.add_stream(name=STREAM, subjects=subjects, storage="file")
    return context


class OneByOne:
    """Publishes one event after the other in the event loop of nats-py, without other threads."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self.open_line(url))

    async def open_line(self, url: str) -> None:
        import nats as library

        self._line = await library.connect(url)
        self._stream = await stream_of(self._line)

    def publish(self, calls: int) -> None:
        """Publish so many; each is in the file before the next is published."""
        self._loop.run_until_complete(self._publish(calls))

    async def _publish(self, calls: int) -> None:
        event = announcements(0, 1)[0]
        for _ in range(calls):
            await self._stream.publish(nats.EVERYBODY, nats.encode(event))

    def close(self) -> None:
        self._loop.run_until_complete(self._line.close())
        self._loop.close()
