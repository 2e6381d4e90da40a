"""What goes into a store and comes out of it, as plain data."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from polycast.events import Identity, Record, Root

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    "size_of_context",
]

MARK = 0  # the position of a mark, which no event has


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A record that is not in the log yet: all but its time, which the log gives it."""

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
        """The record, appended at a moment."""
        return Record(
            self.name,
            self.version,
            self.hash,
            self.identity,
            moment,
            self.codec,
            self.payload,
            self.topic,
            self.priority,
            self.expires,
            self.headers,
            self.context,
            self.root,
        )


class Run(msgspec.Struct, frozen=True, gc=False):
    """Drafts that differ in their payloads only, and follow each other in sequence.

    `roots` are the payloads of their root forms, one for each event, and `root` names the class of
    these. Without `roots`, all have the same root form: none, or they are their own.
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
        """About how many bytes its events take, each with what they have in common.

        So a short message cannot become a long log. `head` is what any event takes besides.
        """
        common = head + size_of_context(self.topic, self.context, self.headers)
        if self.root is not None and self.roots is None:
            common += len(self.root.payload)
        own = sum(map(len, (*self.payloads, *(self.roots or ()))))
        return own + len(self.payloads) * common

    def identities(self) -> list[Identity]:
        """Those of its events."""
        publisher, epoch, first = self.first.publisher, self.first.epoch, self.first.sequence
        last = first + len(self.payloads)
        return [Identity(publisher, epoch, sequence) for sequence in range(first, last)]

    def model(self, moment: float) -> Record:
        """A record with all that its events have in common."""
        return self._draft(self.first, b"", self.root).at(moment)

    def drafts(self) -> list[Draft]:
        """Its events, one by one."""
        forms = [self.root] * len(self.payloads)
        if self.root is not None and self.roots is not None:
            forms = [replace(self.root, payload=payload) for payload in self.roots]
        each_of_them = zip(self.identities(), self.payloads, forms, strict=True)
        return [self._draft(*parts) for parts in each_of_them]

    def _draft(self, identity: Identity, payload: bytes, root: Root | None) -> Draft:
        about = (self.topic, self.priority, self.expires, self.headers)
        head = (self.name, self.version, self.hash, identity, self.codec)
        return Draft(*head, payload, *about, self.context, root)


def size_of_context(topic: str | None, context: str | None, headers: dict[str, str]) -> int:
    """How many bytes there are around the payload of an event, but for what names its class."""
    texts = (topic or "", context or "", *headers, *headers.values())
    return sum(len(text.encode(errors="surrogatepass")) for text in texts)


class Stray(msgspec.Struct, frozen=True, gc=False):
    """One of some drafts that cannot leave its context: under which name it is a letter, and why.

    One letter of that name is enough for an event.
    """

    number: int
    subscription: str
    reason: str


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A record in the log."""

    position: int
    record: Record


class LogPage(msgspec.Struct, frozen=True):
    """What a read found, and the position up to which (exclusive) it has looked."""

    entries: list[Stored]
    upto: int
    more: bool = True
    """Whether there may be more right behind it."""


class PushedFilter(NamedTuple):
    """What is asked of a filter before an event is sent on."""

    where: str | None
    """In words; None if nothing is."""
    is_all: bool
    is_within: bool = False
    """Whether that is asked only of what is published in the context of the subscription."""
    is_suspended: bool = False
    """Whether nothing is asked for a while."""
    is_known: bool = True


NOT_KNOWN = PushedFilter(None, is_all=False, is_known=False)


class Coverage(NamedTuple):
    """From a position on, nothing that a subscription wants is left out of what is new."""

    start: int


class EventType(msgspec.Struct, frozen=True, gc=False):
    """What names the class of a record."""

    name: str
    version: int
    hash: str


class OpenBus(msgspec.Struct, frozen=True, gc=False):
    """One opening of a bus, while it lasts.

    `until` is a sign of life, and another one each time: when it counts as dead, by its own wall
    clock, if none follows. Others go by how long they have seen none.
    """

    id: int
    publisher: str
    epoch: int
    until: float
    address: str = ""  # where its process is, and for how long it may give no sign
    process: int = 0


class StoredSubscription(msgspec.Struct, frozen=True):
    """A subscription that the store knows: a durable one, or a group.

    All before `cursor` is handled, but for the flights. `start` and `until` are the positions
    between which it is in effect. Whoever attaches to it raises `token`.
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
    lease: float | None = None  # when it ends, by the wall

    def __post_init__(self) -> None:
        if self.lease is not None and isnan(self.lease):
            raise ValueError(f"the lease of {self.name!r:.100} is no number: no clock reaches it")


class Flight(msgspec.Struct, frozen=True, gc=False):
    """One event before a subscription's cursor that is not handled, or the claim to one.

    `done` is for groups: it is kept until every member has looked past it.
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
    """What of a subscription may have been begun by somebody who did not say goodbye.

    It is kept among the flights, where only who asks for its position sees it.
    """

    reach: int = 0
    """Whoever is attached begins nothing from here on; 0 once he has said goodbye."""
    doubt: int = 0
    """What is before this may have been begun by others before him."""

    def flight(self, name: str) -> Flight:
        """As it is kept."""
        return Flight(name, MARK, attempts=self.reach, token=self.doubt, done=True)

    @classmethod
    def among(cls, flights: Iterable[Flight]) -> Mark:
        """The one among some flights; or that of a subscription that never had one."""
        kept = next((flight for flight in flights if flight.position == MARK), None)
        return cls() if kept is None else cls(kept.attempts, kept.token)

    def left(self) -> Mark:
        """After whoever was attached has gone."""
        return Mark(0, max(self.doubt, self.reach))

    def within(self, end: int) -> Mark:
        """Nobody got anything from the end on that the log had after he was gone, or later."""
        return Mark(min(self.reach, end), min(self.doubt, end))


class GroupMember(msgspec.Struct, frozen=True, gc=False):
    """The members of a group in one bus; before `looked` they have claimed what they want."""

    name: str
    bus: int
    looked: int


class Standing(msgspec.Struct, frozen=True):
    """How a group is doing: what is free now, all that is under way, and who is in it."""

    free: list[Flight]
    under_way: list[Flight]
    members: list[GroupMember]


class Letter(msgspec.Struct, frozen=True):
    """A dead letter: the event itself is kept with it, whatever becomes of the log."""

    number: int  # given by the store
    subscription: str
    position: int
    record: Record
    reason: str
    attempts: int
    time: float


class Advert(msgspec.Struct, frozen=True, gc=False):
    """What a bus has said it will publish."""

    number: int  # given by the store
    bus: int
    what: str
    until: float | None = None


class StoredReply(msgspec.Struct, frozen=True):
    """What a client of a broker was told about its work with a number; and when."""

    client: str
    number: int
    body: bytes
    time: float


class StoredRoute(msgspec.Struct, frozen=True):
    """A definition that the pipeline routes for, in effect in `[start, until)` of the log.

    It never changes, but for `until`, which is set to a position that is not in the log yet. So
    what is in effect at a position of the log is the same whenever somebody looks.
    """

    number: int  # given by the store
    name: str  # of the subscription
    definition: bytes
    start: int
    until: int | None = None


class Stretch(msgspec.Struct, frozen=True):
    """Who takes what in `[low, high)` of the log, as the pipeline found out."""

    low: int
    high: int
    takers: bytes


class Routed(msgspec.Struct, frozen=True, gc=False):
    """How far the pipeline has come: all before `high` is routed. Who runs it raises `token`."""

    high: int
    token: int


class ContextVersion(msgspec.Struct, frozen=True):
    """What a context was in `[start, until)` of the log. Like a route, it never changes."""

    number: int  # given by the store
    name: str
    body: bytes
    start: int
    until: int | None = None


class Effect(NamedTuple):
    """What the pipeline goes by at a position: how many routes and contexts, the highest number.

    Both take their numbers from one row. Numbers only grow, and what has ended does not come back.
    So the same answer for two positions means the same routes and contexts.
    """

    routes: int
    highest: int
    contexts: int
