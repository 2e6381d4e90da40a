"""One published event, and what its publisher gets back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from polycast.events import Identity, Record
from polycast.events.isolation import copier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Entry", "GivenReceipt", "Publisher", "Receipt", "Undecodable"]


@dataclass(frozen=True, slots=True)
class Publisher:
    """One opening of a bus: the first two parts of every identity it gives."""

    name: str
    epoch: int
    durable: bool = False


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What publish returns: the event's place in the total order and its identity."""

    position: int
    publisher: Publisher

    @property
    def identity(self) -> Identity:
        """Who published it, in which epoch, as which event."""
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
    """In place of an event that this process cannot read: it becomes a dead letter."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"<{self.error}>"


class Entry(msgspec.Struct, frozen=True):
    """An event as it stands in the log."""

    position: int
    event: object
    time: float
    publisher: Publisher
    topic: str | None = None
    priority: int = 0
    expires: float | None = None
    headers: Mapping[str, str] | None = None
    given: Identity | None = None
    record: Record | None = None  # what it was read from, if it comes from a store
    context: str | None = None  # in which the event is what it is; None is the root
    again: Callable[[], Any] | None = None  # makes it anew, if it may be another each time
    own: Callable[[], Any] | None = None  # gives an object to each taker; None: they share it

    @property
    def identity(self) -> Identity:
        """Who published it, in which epoch, as which event."""
        return self.given or self.receipt().identity

    def fresh(self) -> Any:
        """The event as it was published, for one taker: somebody else may have `event` itself."""
        return self.event if self.own is None else self.own()

    def seen_as(self, event: object, *, own: Callable[[], Any] | None) -> Entry:
        """The same with another object for the event."""
        return replace(self, event=event, own=own)

    def anew(self) -> Entry:
        """The same for another attempt: what may be another each time is made again."""
        if self.again is None:
            return self
        made = self.again()
        return self.seen_as(made, own=copier(made))

    def receipt(self) -> Receipt:
        """What its publisher gets."""
        if self.given is not None:
            return GivenReceipt(self.position, self.publisher, self.given)
        return Receipt(self.position, self.publisher)
