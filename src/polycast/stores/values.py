"""The values that a store takes and returns, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import isnan
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from polycast.events import Identity, Record, Root

__all__ = [
    "MARK",
    "Advert",
    "ContextVersion",
    "Coverage",
    "Draft",
    "Effect",
    "EventType",
    "Flight",
    "GroupMember",
    "Letter",
    "LogPage",
    "LogQuery",
    "Mark",
    "OpenBus",
    "PushedFilter",
    "Routed",
    "Run",
    "Standing",
    "Stored",
    "StoredReply",
    "StoredRoute",
    "StoredSubscription",
    "Stray",
    "Stretch",
    "following",
    "one_by_one",
    "size_of_context",
]

MARK = 0  # the position under which a mark is stored; no event has it


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A record before it is appended; the log gives it its time."""

    name: str
    version: int
    hash: str
    identity: Identity
    codec: Literal["json", "msgpack"]
    payload: bytes
    topic: str | None = None
    priority: int = 0
    expires: float | None = None
    headers: dict[str, str] = {}
    context: str | None = None
    root: Root | None = None

    def at(self, moment: float) -> Record:
        """Return the record as appended at a moment."""
        return _record(self, self.identity, moment, self.payload)


class Run(msgspec.Struct, frozen=True, gc=False):
    """A batch of drafts with consecutive sequence numbers that differ only in their payloads.

    `roots` has the payload of each event's root form, and `root` names the class of these. Without
    `roots`, all events have the same root form: none, or the event itself.
    """

    name: str
    version: int
    hash: str
    first: Identity
    codec: Literal["json", "msgpack"]
    payloads: list[bytes]
    topic: str | None = None
    priority: int = 0
    expires: float | None = None
    headers: dict[str, str] = {}
    context: str | None = None
    root: Root | None = None
    roots: list[bytes] | None = None

    def __post_init__(self) -> None:
        if self.roots is not None and (self.root is None or len(self.roots) != len(self.payloads)):
            raise ValueError(
                f"a run of {len(self.payloads)} events has {len(self.roots)} root forms of "
                f"{self.root}; as many as events are accepted, and the class of them"
            )

    def size(self, head: int) -> int:
        """Estimate the bytes that its events take in the log, `head` for each in any case.

        What the events have in common counts once for each, so that a short message with many
        small payloads cannot become a long log.
        """
        common = head + size_of_context(self.topic, self.context, self.headers)
        if self.root is not None and self.roots is None:
            common += len(self.root.payload)
        own = sum(map(len, (*self.payloads, *(self.roots or ()))))
        return own + len(self.payloads) * common

    def identities(self) -> list[Identity]:
        """The identities of its events."""
        if len(self.payloads) == 1:
            return [self.first]
        publisher, epoch, first = self.first.publisher, self.first.epoch, self.first.sequence
        last = first + len(self.payloads)
        return [Identity(publisher, epoch, sequence) for sequence in range(first, last)]

    def record(self, moment: float, payload: bytes = b"") -> Record:
        """Return the record of its first event, or with everything its events have in common."""
        return _record(self, self.first, moment, payload)

    def drafts(self) -> list[Draft]:
        """Return a draft for each event."""
        forms = [self.root] * len(self.payloads)
        if self.root is not None and self.roots is not None:
            forms = [replace(self.root, payload=payload) for payload in self.roots]
        events = zip(self.identities(), self.payloads, forms, strict=True)
        return [self._draft(*event) for event in events]

    def _draft(self, identity: Identity, payload: bytes, root: Root | None) -> Draft:
        about = (self.topic, self.priority, self.expires, self.headers)
        head = (self.name, self.version, self.hash, identity, self.codec)
        return Draft(*head, payload, *about, self.context, root)


def _record(of: Draft | Run, identity: Identity, moment: float, payload: bytes) -> Record:
    head = (of.name, of.version, of.hash, identity, moment, of.codec, payload)
    return Record(*head, of.topic, of.priority, of.expires, of.headers, of.context, of.root)


def size_of_context(topic: str | None, context: str | None, headers: dict[str, str]) -> int:
    """Return the size of an event without its payload and the name of its class, in bytes."""
    texts = (topic or "", context or "", *headers, *headers.values())
    return sum(len(text.encode(errors="surrogatepass")) for text in texts)


def one_by_one(drafts: Sequence[Draft | Run]) -> list[Draft]:
    """Return single drafts, with each run split into its own."""
    parts = [draft.drafts() if isinstance(draft, Run) else [draft] for draft in drafts]
    return [draft for part in parts for draft in part]


class Stray(msgspec.Struct, frozen=True, gc=False):
    """A draft that cannot be translated out of its context, and so becomes a dead letter.

    An event gets one letter at most under each subscription's name.
    """

    number: int  # of the draft, among those submitted with it
    subscription: str
    reason: str


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A record in the log."""

    position: int
    record: Record


class LogPage(msgspec.Struct, frozen=True):
    """The records that a read returned, and the position where the next read begins."""

    entries: list[Stored]
    upto: int
    more: bool = True
    """Whether the log may have more records there already."""


class LogQuery(NamedTuple):
    """Which records to read, as `Store.read` takes them."""

    start: int
    limit: int
    until: int | None
    types: Collection[int] | None
    wanted_by: str | None
    size: int | None


class PushedFilter(NamedTuple):
    """The part of a filter that the broker evaluates before it sends an event."""

    where: str | None
    """The condition in words; None if the broker evaluates nothing."""
    is_all: bool
    is_within: bool = False
    """Whether only events published in the subscription's own context are filtered."""
    is_suspended: bool = False
    """Whether the broker currently skips the filter."""
    is_known: bool = True


NOT_KNOWN = PushedFilter(None, is_all=False, is_known=False)


class Coverage(NamedTuple):
    """The position from which on new records include everything that a subscription wants."""

    start: int


class EventType(msgspec.Struct, frozen=True, gc=False):
    """The name, version and description hash of a record's class."""

    name: str
    version: int
    hash: str


class OpenBus(msgspec.Struct, frozen=True, gc=False):
    """A bus, from when it is opened until it is closed or counts as dead.

    `until` changes with every heartbeat: it is when the bus counts as dead, by its own wall clock,
    if no other follows. Others measure how long they have seen the same value.
    """

    id: int
    publisher: str
    epoch: int
    until: float
    address: str = ""  # the host of its process, and its heartbeat timeout
    process: int = 0


class StoredSubscription(msgspec.Struct, frozen=True):
    """A durable subscription or a group.

    Everything before `cursor` is handled, except the flights. The subscription is in effect from
    `start` up to `until`. Attaching to it raises `token`, so that the previous holder is fenced
    off.
    """

    name: str
    definition: bytes
    start: int
    cursor: int
    durable: bool = True
    group: bool = False
    pinned: bool = True
    until: int | None = None
    token: int = 0
    holder: int | None = None  # the bus it is attached to
    lease: float | None = None  # when its lease expires, by the wall clock

    def __post_init__(self) -> None:
        if self.lease is not None and isnan(self.lease):
            raise ValueError(f"the lease of {self.name!r:.100} is no number: no clock reaches it")


class Flight(msgspec.Struct, frozen=True, gc=False):
    """An event before a subscription's cursor that is still in flight, or a group's claim to one.

    A group keeps flights that are `done` until every member has looked past them.
    """

    name: str
    position: int
    publisher: str = ""
    holder: int | None = None
    token: int = 0
    attempts: int = 0
    due: float = 0.0
    done: bool = False


class Mark(msgspec.Struct, frozen=True, gc=False):
    """The high-water mark of deliveries: which events a crashed holder may have begun.

    It is stored as a flight at the position `MARK`, which only `flights_at` returns.
    """

    reach: int = 0
    """The current holder begins no event from here on; 0 once it has detached."""
    doubt: int = 0
    """Earlier holders may have begun any event before this position."""

    def flight(self, name: str) -> Flight:
        """Return the flight that stores it."""
        return Flight(name, MARK, attempts=self.reach, token=self.doubt, done=True)

    @classmethod
    def among(cls, flights: Iterable[Flight]) -> Mark:
        """Return the mark among some flights, or an empty one."""
        kept = next((flight for flight in flights if flight.position == MARK), None)
        return cls() if kept is None else cls(kept.attempts, kept.token)

    def left(self) -> Mark:
        """Return the mark after the holder has gone."""
        return Mark(0, max(self.doubt, self.reach))

    def within(self, end: int) -> Mark:
        """Limit the mark to the end of the log, as nobody can have begun what is not in it."""
        return Mark(min(self.reach, end), min(self.doubt, end))


class GroupMember(msgspec.Struct, frozen=True, gc=False):
    """The members of a group in one bus; they have claimed all they want before `looked`."""

    name: str
    bus: int
    looked: int


class Standing(msgspec.Struct, frozen=True):
    """The state of a group: its free flights, all flights under way, and its members."""

    free: list[Flight]
    under_way: list[Flight]
    members: list[GroupMember]


class Letter(msgspec.Struct, frozen=True):
    """A dead letter; it contains the event itself, so truncating the log does not lose it."""

    number: int  # given by the store
    subscription: str
    position: int
    record: Record
    reason: str
    attempts: int
    time: float


class Advert(msgspec.Struct, frozen=True, gc=False):
    """An advertisement: what a bus has announced it will publish."""

    number: int  # given by the store
    bus: int
    what: str
    until: float | None = None


class StoredReply(msgspec.Struct, frozen=True):
    """A broker's last reply to a client: to which request, and when."""

    client: str
    number: int
    body: bytes
    time: float


class StoredRoute(msgspec.Struct, frozen=True):
    """A subscription's definition that the pipeline routes for, in `[start, until)` of the log.

    Only `until` ever changes, once, to a position that is not in the log yet. So the routes in
    effect at a position of the log never change.
    """

    number: int  # given by the store
    name: str  # of the subscription
    definition: bytes
    start: int
    until: int | None = None


class Stretch(msgspec.Struct, frozen=True):
    """The pipeline's result for `[low, high)` of the log: the recipients of each event."""

    low: int
    high: int
    takers: bytes


class Routed(msgspec.Struct, frozen=True, gc=False):
    """The pipeline's progress: everything before `high` is routed; a new run raises `token`."""

    high: int
    token: int


class ContextVersion(msgspec.Struct, frozen=True):
    """A context as it was in `[start, until)` of the log; it changes as little as a route."""

    number: int  # given by the store
    name: str
    body: bytes
    start: int
    until: int | None = None


class Effect(NamedTuple):
    """A fingerprint of the routes and contexts in effect: their counts, and the highest number.

    Routes and contexts share one sequence of numbers, and one that has ended never comes back. So
    equal fingerprints of two positions mean the same routes and contexts.
    """

    routes: int
    highest: int
    contexts: int


def following(stretches: Sequence[Stretch], high: int, end: int) -> list[Stretch]:
    """Return the new ones among some stretches; `ValueError` unless they continue at `high`."""
    new: list[Stretch] = []
    for stretch in stretches:
        if stretch.high <= high:
            continue
        if stretch.low != high or stretch.high > end:
            raise ValueError(
                f"a stretch from {stretch.low} to {stretch.high} cannot be kept: all before {high} "
                f"is routed, and the log ends at {end}; it must begin at the one, and not pass "
                "the other"
            )
        new.append(stretch)
        high = stretch.high
    return new
