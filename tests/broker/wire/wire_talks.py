"""Clients of one broker without a network: what they say, and what they are answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from polycast.broker.server.access import ANYBODY
from polycast.broker.server.broker import Broker
from polycast.broker.server.client_session import ClientSession, SessionEnd
from polycast.broker.wire.protocol import (
    PROTOCOL,
    Call,
    FromBroker,
    FromClient,
    Hello,
    Limits,
    Work,
    decode_from_broker,
    encode,
    frames,
)

__all__ = ["Talks", "framed"]

DEADLINE = 30.0
LAST = 10**9  # the number of the question after all others


class Faults(logging.Handler):
    """What a broker has logged as a fault of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


class Talks:
    """Clients of one broker, without a network, one after the other."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self.faults = Faults()
        logging.getLogger("polycast.broker").addHandler(self.faults)
        self._runner.run(self._begin(url))

    async def _begin(self, url: str) -> None:
        self.broker = Broker(url, limits=Limits(pending=50, subscriptions=50), patience=5.0)
        self._serving = asyncio.create_task(self.broker.run())

    def close(self) -> None:
        async def end() -> None:
            self._serving.cancel()
            await asyncio.wait([self._serving])

        self._runner.run(end())
        self.broker.close()
        self._runner.close()
        logging.getLogger("polycast.broker").removeHandler(self.faults)

    def said(self, *given: bytes) -> tuple[list[FromBroker], SessionEnd | None]:
        """What a client is answered that says this, and why it was cut off, if it was."""
        return self._runner.run(asyncio.wait_for(self._said(given), DEADLINE))

    async def _said(self, given: tuple[bytes, ...]) -> tuple[list[FromBroker], SessionEnd | None]:
        answers: list[FromBroker] = []
        finished = asyncio.Event()

        async def send(frame: bytes) -> None:
            found = decode_from_broker(frame)
            answers.extend(found)
            if any(getattr(each, "number", 0) == LAST for each in found):
                finished.set()

        waiting = [framed(Hello(PROTOCOL, "fuzz")), *given, framed(Work(LAST, [], False, 0))]
        waiting.reverse()

        async def receive() -> bytes | None:
            await asyncio.sleep(0)
            if waiting:
                return waiting.pop()
            await finished.wait()
            return None

        session = ClientSession(self.broker, send, principal=ANYBODY, place="here")
        return answers, await session.run(receive)

    def until(self, condition: Callable[[], object]) -> None:
        """Let the broker run until a condition holds."""

        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0)

        self._runner.run(asyncio.wait_for(wait(), DEADLINE))

    def is_well(self) -> bool:
        """Whether another client is served, and the broker knows of no fault."""
        answers, ended = self.said(framed(Call(1, "newest", b"\x90")))
        return ended is None and bool(answers) and not self.faults.found and self.broker.is_ready


def framed(*messages: FromClient) -> bytes:
    return b"".join(frames(map(encode, messages), 10**9))
