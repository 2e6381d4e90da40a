"""The messages between a client and a broker; `docs/wire.md` explains them.

A frame is one binary WebSocket message: a MessagePack array of messages, in the order in which they
are meant. A message is an array that begins with its tag.
"""

from __future__ import annotations

from typing import Any

import msgspec

from polycast.stores import Run, Stray  # noqa: TC001 - msgspec reads it

__all__ = [
    "PATH",
    "PROTOCOL",
    "Answer",
    "Append",
    "Call",
    "Credit",
    "Describe",
    "Done",
    "Events",
    "Follow",
    "FromBroker",
    "FromClient",
    "Hello",
    "Limits",
    "Refused",
    "Step",
    "Want",
    "Wanted",
    "Welcome",
    "Work",
]

PROTOCOL = 1
"""The version of all that is said here; a broker and a client of different ones do not talk."""
PATH = "/bus"
"""Where a broker takes connections."""


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One of them."""


class Limits(_Message, frozen=True):
    """What a broker takes from one connection."""

    frame: int = 16_000_000
    """Bytes in one frame."""
    subscriptions: int = 20_000
    pending: int = 10_000
    """Questions that are not answered yet."""
    rate: int = 0
    """Published events a second; 0 is as many as come."""
    window: int = 8_000_000
    """Bytes of events that the client has not read yet."""
    heartbeat: float = 15.0
    """Seconds after which a client that says nothing is asked whether it lives."""


# -- from the client -------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """The first message."""

    protocol: int
    client: str
    """A random name of the client; the same when it comes again."""
    program: str = ""
    """For people who look at the broker."""


class Call(_Message, frozen=True, tag="call"):
    """A question about the log or the state; its name says what the arguments are."""

    number: int
    name: str
    arguments: bytes


class Append(_Message, frozen=True, tag="append"):
    """Append all of these, or none; what is in the log by its identity is not appended again."""

    number: int
    runs: list[Run]
    astray: list[Stray] = []


class Describe(_Message, frozen=True, tag="describe"):
    """Keep descriptions of types, before what is appended next."""

    number: int
    descriptions: list[msgspec.Raw]
    """Encoded one by one, so that a broker may stop for others between two of them."""


class Step(_Message, frozen=True):
    """One method of a transaction, and what its result must be for the rest to make sense."""

    name: str
    arguments: bytes
    expected: bytes = b""
    """As bytes; empty if it does not matter."""


class Work(_Message, frozen=True, tag="work"):
    """Steps that are done all or none; what was done under that number before is not done again.

    Without `keep` they are undone, and only their results told.
    """

    number: int
    steps: list[Step]
    keep: bool
    order: int
    """Grows with each that is kept."""


class Want(_Message, frozen=True, tag="want"):
    """What a subscription of the client wants, as definitions; none of them: it is over."""

    number: int
    name: str
    definitions: list[bytes]


class Follow(_Message, frozen=True, tag="follow"):
    """Send what is wanted from a position on, under a number that tells it from what was before."""

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
    """What tells the store from any other."""
    time: float
    """By the clock of the broker, which all its clients go by."""
    limits: Limits
    rights: str = "everything"
    """In words."""


class Answer(_Message, frozen=True, tag="answer"):
    """The result of a call, or the positions of what was appended."""

    number: int
    result: bytes


class Refused(_Message, frozen=True, tag="refused"):
    """A question that has no answer, and why; the number 0 is the connection itself."""

    number: int
    code: str
    text: str
    data: dict[str, Any] = {}


class Done(_Message, frozen=True, tag="done"):
    """What became of work: whether it is kept, and the results that its steps have."""

    number: int
    kept: bool
    results: list[bytes]


class Wanted(_Message, frozen=True, tag="wanted"):
    """From this position on, nothing that the subscription wants is left out."""

    number: int
    start: int


class Events(_Message, frozen=True, tag="events"):
    """What is wanted of the log up to a position; `records` is an array of position and record."""

    stream: int
    upto: int
    newest: int
    revision: int
    commits: int
    """Grows whenever anybody has changed anything."""
    records: bytes = b""


FromClient = Hello | Call | Append | Describe | Work | Want | Follow | Credit
FromBroker = Welcome | Answer | Refused | Done | Wanted | Events
