"""What a callback may know about the event it was given, and how it answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from polycast.config import seconds
from polycast.delivery.effect_transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polycast.delivery.consumer import Consumer
    from polycast.delivery.queue import Attempt
    from polycast.events import Identity


class Nack(Exception):
    """The callback asks for the event once more."""

    def __init__(self, delay: float | None) -> None:
        self.delay = delay
        super().__init__("not acknowledged by its callback")


class Reject(Exception):
    """The callback does not want to see the event again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Delivery:
    """One attempt to deliver one event to one subscription."""

    __slots__ = ("_consumer", "_entry", "count", "token")

    def __init__(self, consumer: Consumer, attempt: Attempt) -> None:
        self._consumer, self._entry = consumer, attempt.entry
        doubted = attempt.entry.position < consumer.mailbox.cursor.doubt
        self.count: int = attempt.count + doubted  # one more, if somebody may have begun it
        self.token: int = attempt.token

    @property
    def subscription(self) -> Any:
        """The subscription, as subscribe() returned it."""
        return self._consumer.subscription()

    @property
    def topic(self) -> str | None:
        """The topic it was published to."""
        return self._entry.topic

    @property
    def position(self) -> int:
        """Its place in the total order."""
        return self._entry.position

    @property
    def identity(self) -> Identity:
        """Who published it, in which epoch, as which event."""
        return self._entry.identity

    @property
    def publisher(self) -> str:
        """The name of the bus that published it."""
        return self.identity.publisher

    @property
    def time(self) -> datetime:
        """When it was appended to the log."""
        return datetime.fromtimestamp(self._entry.time, UTC)

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher added to it: one for all who get it, so nobody can change it."""
        return MappingProxyType(self._entry.headers or {})

    def ack(self) -> None:
        """It is handled; on a durable bus this returns when that is on disk."""
        self._consumer.mailbox.worker.settle("ack()", self.token, None)

    def nack(self, delay: float | timedelta | None = None) -> None:
        """It is not handled: try again, after a delay if one is given."""
        wait = 0.0 if delay in (0, timedelta(0)) else None
        if delay is not None and wait is None:
            wait = seconds("delay", delay)
        self._consumer.mailbox.worker.settle("nack()", self.token, Nack(wait))

    def reject(self, reason: str = "rejected by its callback") -> None:
        """It can not be handled: to the dead letters with it."""
        self._consumer.mailbox.worker.settle("reject()", self.token, Reject(reason))

    def transaction(self, connection: Any) -> Transaction:
        """Handle it at most once: its identity is kept in the same transaction as the effect."""
        return Transaction(connection, self._consumer.mailbox.name, self.identity)

    def __repr__(self) -> str:
        return f"<Delivery of position {self.position}, attempt {self.count}>"
