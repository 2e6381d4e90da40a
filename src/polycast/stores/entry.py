"""Published events, and the receipts that publishers get."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from polycast.events import Identity, Record
from polycast.events.isolation import copier


@dataclass(frozen=True, slots=True)
class Publisher:
    """One opening of a bus: the first two parts of the identities of its events."""

    name: str
    epoch: int
    durable: bool = False


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What publish returns: the event's place in the total order and its identity."""

    position: int
    publisher: Publisher

    @property
    def identity(self) -> Identity:
        """The publisher, its epoch, and the number of the event."""
        return Identity(self.publisher.name, self.publisher.epoch, self.position)

    @property
    def durable(self) -> bool:
        """Whether the event outlives this process."""
        return self.publisher.durable

    def __repr__(self) -> str:
        return f"Receipt(position={self.position}, identity={self.identity})"


class GivenReceipt(Receipt, frozen=True, gc=False):
    """The receipt of an event that was published under an identity of its publisher's choice."""

    given: Identity

    @property
    def identity(self) -> Identity:
        """The identity it was given."""
        return self.given


class Undecodable:
    """A placeholder for an event that this process cannot decode: it becomes a dead letter."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"<{self.error}>"


class Entry(msgspec.Struct, frozen=True):
    """An event in the log."""

    position: int
    event: object
    time: float
    publisher: Publisher
    topic: str | None = None
    priority: int = 0
    expires: float | None = None
    headers: Mapping[str, str] | None = None
    given: Identity | None = None
    record: Record | None = None  # the record it was decoded from, if it comes from a store
    context: str | None = None  # the context of `event`; None is the root
    again: Callable[[], Any] | None = None  # translates the event again, if the result may differ
    own: Callable[[], Any] | None = None  # makes a copy for each recipient; None: they share it

    @property
    def identity(self) -> Identity:
        """The publisher, its epoch, and the number of the event."""
        return self.given or self.receipt().identity

    def fresh(self) -> Any:
        """Return the event for one recipient: a copy, unless recipients may share it."""
        return self.event if self.own is None else self.own()

    def seen_as(self, event: object, *, own: Callable[[], Any] | None) -> Entry:
        """Return the entry with another object for the event."""
        return replace(self, event=event, own=own)

    def anew(self) -> Entry:
        """Return the entry for another attempt, with the event translated again if need be."""
        if self.again is None:
            return self
        event = self.again()
        return self.seen_as(event, own=copier(event))

    def receipt(self) -> Receipt:
        """Return the receipt for its publisher."""
        if self.given is not None:
            return GivenReceipt(self.position, self.publisher, self.given)
        return Receipt(self.position, self.publisher)


class Recent:
    """A bounded log; publishers in different threads may append a little out of order."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._entries: deque[Entry] = deque(maxlen=keep)
        self.append = self._entries.append

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int | None:
        """The position of the oldest entry kept."""
        entries = self.read()
        return entries[0].position if entries else None

    def has_all_from(self, position: int) -> bool:
        """Whether nothing at or after the position was let go; positions count from one."""
        oldest = self.oldest
        return oldest is None or len(self._entries) < self.keep or oldest <= max(position, 1)

    def read(self, *, start: int = 0) -> list[Entry]:
        """The entries at and after a position, oldest first."""
        entries = sorted(self._entries, key=lambda entry: entry.position)
        return entries[bisect_left(entries, start, key=lambda entry: entry.position) :]
