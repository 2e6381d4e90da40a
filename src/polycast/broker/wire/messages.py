"""The messages between a client and a broker; `docs/wire.md` explains them.

A frame is one binary WebSocket message: a MessagePack array of messages, in order. A message is an
array that begins with its tag.
"""

from __future__ import annotations

from typing import Any

import msgspec

from polycast.stores import Run, Stray  # noqa: TC001 - msgspec reads it

PROTOCOL = 1
"""The version of the protocol; client and broker must have the same."""
PATH = "/bus"
"""The path at which a broker accepts buses."""


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message, or a part of one."""


class Limits(_Message, frozen=True):
    """What a broker accepts from one connection."""

    frame: int = 16_000_000
    """Bytes in one frame."""
    subscriptions: int = 20_000
    pending: int = 10_000
    """Unanswered requests."""
    rate: int = 0
    """Published events per second; 0 is unlimited."""
    window: int = 8_000_000
    """Bytes of events that the client has not read yet."""
    heartbeat: float = 15.0
    """Seconds after which a silent client is pinged."""


# -- from the client -------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """The first message."""

    protocol: int
    client: str
    """A random name of the client; it keeps it when it reconnects."""
    program: str = ""
    """For people who read the log of the broker."""


class Call(_Message, frozen=True, tag="call"):
    """A question about the log or the state: a method of the store and its arguments."""

    number: int
    name: str
    arguments: bytes


class Append(_Message, frozen=True, tag="append"):
    """Append all events, or none; an identity that is in the log is not appended again."""

    number: int
    runs: list[Run]
    astray: list[Stray] = []


class Describe(_Message, frozen=True, tag="describe"):
    """Store descriptions of types, before the next events are appended."""

    number: int
    descriptions: list[msgspec.Raw]
    """Encoded one by one, so that other clients have a turn between two of them."""


class Step(_Message, frozen=True):
    """One method of a transaction, and the result that the steps after it depend on."""

    name: str
    arguments: bytes
    expected: bytes = b""
    """Encoded; empty if no step depends on it."""


class Work(_Message, frozen=True, tag="work"):
    """A transaction: all steps or none; one with the same `order` is not performed again.

    Without `keep` the steps are rolled back, and only their results are returned.
    """

    number: int
    steps: list[Step]
    keep: bool
    order: int
    """Grows with each transaction of the client that is kept."""


class Want(_Message, frozen=True, tag="want"):
    """The definitions of a subscription of the client; without any, it ends."""

    number: int
    name: str
    definitions: list[bytes]


class Follow(_Message, frozen=True, tag="follow"):
    """Send wanted events from a position on, as a new stream with a number of its own."""

    stream: int
    start: int


class Credit(_Message, frozen=True, tag="credit"):
    """So many bytes of events have been read."""

    size: int


# -- from the broker -------------------------------------------------------------------------------


class Welcome(_Message, frozen=True, tag="welcome"):
    """The answer to `Hello`."""

    protocol: int
    broker: str
    store: str
    """The identity of the store."""
    time: float
    """The time at the broker, whose clock all clients use."""
    limits: Limits
    rights: str = "everything"
    """In words."""


class Answer(_Message, frozen=True, tag="answer"):
    """The result of a call, or the positions of appended events."""

    number: int
    result: bytes


class Refused(_Message, frozen=True, tag="refused"):
    """Why a request failed; number 0 means the connection itself."""

    number: int
    code: str
    text: str
    data: dict[str, Any] = {}


class Done(_Message, frozen=True, tag="done"):
    """Whether a transaction is kept, and the results of its steps."""

    number: int
    kept: bool
    results: list[bytes]


class Wanted(_Message, frozen=True, tag="wanted"):
    """From this position on, the subscription misses no event that it wants."""

    number: int
    start: int


class Events(_Message, frozen=True, tag="events"):
    """Wanted events up to a position; `records` is an array of positions and records."""

    stream: int
    upto: int
    newest: int
    revision: int
    commits: int
    """Grows with each commit to the store."""
    records: bytes = b""


FromClient = Hello | Call | Append | Describe | Work | Want | Follow | Credit
FromBroker = Welcome | Answer | Refused | Done | Wanted | Events
