"""What the benchmark of attacks is made of: a broker in memory, a victim, and an attacker's client.

The broker has one core to itself. The victim and the attacker share another, and the attacker
leaves it to the victim: what is measured is what an attack does to the broker.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websockets.asyncio.client
from websockets.exceptions import WebSocketException

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.garbage_collection import RareCollections
from polycast.broker.server.run import Serving
from polycast.broker.server.tokenfile import load_tokens, new_token
from polycast.broker.wire.calls import STEPS
from polycast.broker.wire.protocol import (
    PATH,
    PROTOCOL,
    Append,
    Describe,
    Follow,
    Hello,
    Step,
    Want,
    Work,
    decode_from_broker,
    encode,
    encode_description,
    frames,
)
from polycast.events import JSON, Identity
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.stores import Run
from polycast.typesystem import Description, Registry, describe

RATE = 100  # events a second of the victim
LATE = 20.0  # seconds after which an event counts as lost
WITHIN = 2.0  # seconds for an answer that an attack waits for
KNOWN = Registry()
POLITE = 10  # how nice the attacker is to the victim, in whose core it is


@pc.event(name="shop.Payment")
@dataclass(frozen=True, slots=True)
class Payment:
    """What the victim publishes and subscribes to."""

    number: int
    amount: float
    due: float  # when it was to be published, by the monotonic clock


@pc.event(name="evil.Row")
@dataclass(slots=True)
class Row:
    """What the attacker publishes: a text, numbers, lists, a set."""

    s: str = ""
    n: int = 0
    m: int = 0
    names: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What each of them shows to the broker."""

    shop: str
    evil: str
    nobody: str


class House:
    """A broker in memory with two owners and one who may do nothing. In a process of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        secrets, text = [], ""
        for name in ("shop", "evil", "nobody"):
            secret, digest = new_token()
            secrets.append(secret)
            text += f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\n'
            if name != "nobody":
                for right in ("publish", "subscribe", "describe"):
                    text += f'{right} = ["{name}.*"]\n'
        path = Path(self._folder.name) / "tokens.toml"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        self._secrets = Secrets(*secrets)
        self._serving = Serving(Broker("memory:", tokens=load_tokens(path)))
        self._collections = RareCollections()  # as in the process of `polycast serve`
        self._collections.__enter__()
        self._serving.__enter__()

    def open(self) -> tuple[str, Secrets]:
        """Where it is, and how one gets in."""
        return self._serving.url, self._secrets

    def published(self) -> int:
        """How many events all have published so far."""
        return self._serving.broker.fanout.published

    def close(self) -> None:
        self._serving.__exit__(None, None, None)
        self._collections.__exit__()
        self._folder.cleanup()


class Victim:
    """Publishes payments at a rate and subscribes to them. In a process of its own."""

    def __init__(self, url: str, secret: str) -> None:
        self._bus = pc.Bus(url, token=secret)
        self._numbers = itertools.count()
        self._seen: dict[int, float] = {}
        self._all_seen = threading.Condition()
        self._bus.subscribe(Payment, self._take, where=lambda payment: payment.amount > 0)

    def _take(self, payment: Payment) -> None:
        with self._all_seen:
            self._seen[payment.number] = time.monotonic() - payment.due
            self._all_seen.notify_all()

    def latencies(self, seconds: float) -> list[float]:
        """From when an event was due to its callback, in order; a late publisher counts, too."""
        published = asyncio.run(self._publish(seconds))
        with self._all_seen:
            self._all_seen.wait_for(lambda: all(n in self._seen for n in published), LATE)
            return sorted(self._seen.pop(number, LATE) for number in published)

    async def _publish(self, seconds: float) -> list[int]:
        begin, published, under_way = time.monotonic(), [], []
        for tick in range(int(seconds * RATE)):
            due = begin + tick / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            payment = Payment(next(self._numbers), 1.0, due)
            published.append(payment.number)
            under_way.append(asyncio.ensure_future(self._bus.publish_async(payment)))
        await asyncio.wait(under_way, timeout=LATE)
        return published

    def close(self) -> None:
        self._bus.close()


# -- the attacker ----------------------------------------------------------------------------------


class Raw:
    """A client that says what it likes, without the library's manners."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.publisher = socket, f"evil-{uuid.uuid4().hex}"
        self.heard = 0
        self._numbers = itertools.count(1)
        self._sequence = itertools.count(1)
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        with suppress(WebSocketException, OSError):
            async for frame in self.socket:
                self.heard += len(decode_from_broker(frame))

    def number(self) -> int:
        return next(self._numbers)

    async def say(self, *messages: Any) -> None:
        await self.socket.send(b"".join(frames(map(encode, messages), 16_000_000)))

    async def describe(self, *descriptions: Description) -> None:
        said = [encode_description(each) for each in descriptions]
        await self.say(Describe(self.number(), said))

    async def want(self, *texts: str, name: str = "attack") -> None:
        """Subscribe to rows, with filters that the library might refuse to send."""
        await self.say(Want(self.number(), name, [wanted(text) for text in texts]))

    async def follow(self) -> None:
        await self.say(Follow(1, 1))

    async def publish(
        self, *rows: Row, topic: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        first = next(self._sequence)
        for _ in rows[1:]:
            next(self._sequence)
        found = describe(Row)
        payloads = [JSON.encode(row, registry=KNOWN).payload for row in rows]
        identity = Identity(self.publisher, 1, first)
        head = (found.name, found.version, found.hash, identity, "json", payloads)
        run = Run(*head, topic=topic, headers=headers or {})
        await self.say(Append(self.number(), [run]))

    async def answered(self, count: int) -> None:
        """Wait for so many messages, for a while."""
        deadline = time.monotonic() + WITHIN
        while self.heard < count and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        self._listening.cancel()
        with suppress(Exception):
            await asyncio.wait_for(self.socket.close(), 1.0)


def wanted(text: str, *, topic: str | None = None) -> bytes:
    """A subscription to rows with a filter, as it is sent."""
    found = describe(Row)
    types = (SelectedType(found.name, found.version, found.hash),)
    data = {"format": 1, "filter": text}
    about = {"topic": topic, "where": text, "filter": data}
    return Definition(found.name, "sorted_set", types, **about).encoded()


class Attacker:
    """Runs one attack until it is told to stop. In a process of its own."""

    def __init__(self, url: str, secrets: Secrets) -> None:
        os.nice(POLITE)
        self.url, self.secrets = url, secrets
        self.address = url.replace("polycast://", "")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: list[str] = []

    def begin(self, name: str) -> None:
        from attacks_made import ATTACKS

        self._stop.clear()
        attack = ATTACKS[name]
        self._thread = threading.Thread(target=self._run, args=(attack,), daemon=True)
        self._thread.start()

    def _run(self, attack: Callable[[Attacker], Awaitable[None]]) -> None:
        async def whole() -> None:
            attacking = asyncio.ensure_future(attack(self))
            while not self._stop.is_set():
                await asyncio.sleep(0.05)
            attacking.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await attacking

        asyncio.run(whole())

    @property
    def goes_on(self) -> bool:
        return not self._stop.is_set()

    def end(self) -> str:
        """Stop; what went wrong with the attack itself, if anything did."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10.0)
        return "; ".join(self._told)

    async def connect(self, secret: str | None = None) -> Raw:
        """A client that has said hello and described its class."""
        raw = Raw(await self.socket(secret))
        await raw.say(Hello(PROTOCOL, f"evil-{id(raw):x}"))
        if secret is None:
            await raw.describe(describe(Row))
            about = {"until": time.time() + 3600.0, "address": "evil", "process": 1}
            opening = STEPS["open_bus"].arguments(raw.publisher, **about)
            await raw.say(Work(raw.number(), [Step("open_bus", opening)], True, 1))
            await raw.answered(3)
        return raw

    async def socket(self, secret: str | None = None) -> Any:
        """A connection that nobody has said anything on."""
        headers = {"Authorization": f"Bearer {secret or self.secrets.evil}"}
        connecting = websockets.asyncio.client.connect(
            f"ws://{self.address}{PATH}",
            additional_headers=headers,
            max_size=None,
            compression=None,
            proxy=None,
        )
        return await connecting
