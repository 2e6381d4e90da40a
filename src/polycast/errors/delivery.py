"""Publishing, and being given what was published."""

from __future__ import annotations

from collections.abc import Mapping

from polycast.errors.root import PolycastError

__all__ = [
    "BusClosedError",
    "CutOffError",
    "DurableChangedError",
    "ForkedError",
    "HistoryGoneError",
    "LeaseExpiredError",
    "NoHistoryError",
    "NotAPullCollectionError",
    "NotSettledError",
    "PublishBufferFullError",
    "PublishUnknownError",
    "QueueFullError",
    "SubscriptionCancelledError",
    "SubscriptionEndedError",
    "TakenOverError",
    "WouldDeadlockError",
]


class BusClosedError(PolycastError):
    """Using a bus after close()."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(f"{operation}: this bus is closed; open another with pc.Bus(...)")


class SubscriptionEndedError(PolycastError):
    """Using a subscription that is over."""

    how = "ended"

    def __init__(self, subscription: str, *, detail: str = "") -> None:
        self.subscription = subscription
        more = f" ({detail})" if detail else ""
        super().__init__(f"the subscription to {subscription} {self.how}{more}; subscribe again")


class SubscriptionCancelledError(SubscriptionEndedError):
    """It was cancelled."""

    how = "was cancelled"


class LeaseExpiredError(SubscriptionEndedError):
    """Its lease ran out."""

    how = "had a lease, which ran out"


class TakenOverError(SubscriptionEndedError):
    """Its durable name was attached elsewhere."""

    how = "was taken over by another attachment of its durable name"


class CutOffError(SubscriptionEndedError):
    """Its queue was full and its policy is "cut_off"."""

    how = "was cut off, because its queue was full; what it had not handled is in the dead letters"


class DurableChangedError(PolycastError):
    """A durable name attached with another definition."""

    def __init__(self, name: str, difference: Mapping[str, tuple[str, str]]) -> None:
        self.name, self.difference = name, dict(difference)
        rows = "; ".join(
            f"{key}: {old} before, {new} now" for key, (old, new) in difference.items()
        )
        super().__init__(
            f"the durable subscription {name!r} exists with another definition ({rows}). Use its "
            f"definition, another name, or replace=True to keep its place with the new definition"
        )


class ForkedError(PolycastError):
    """Using, in a process that was forked, what was opened in its parent."""

    def __init__(self, operation: str, what: str, *, instead: str = "") -> None:
        self.operation = operation
        super().__init__(
            f"{operation}: {what} was opened in the process that this one was forked from, where "
            f"its threads, connections and locks are. "
            f"{instead or 'Open a new one here, after the fork'}"
        )


class NoHistoryError(PolycastError):
    """since= on a bus that keeps no history."""

    def __init__(self) -> None:
        super().__init__("since= needs events that were kept: open the bus with pc.Bus(history=n)")


class HistoryGoneError(PolycastError):
    """since= before the oldest event kept."""

    def __init__(self, since: object, *, oldest: int | None) -> None:
        self.since, self.oldest = since, oldest
        kept = f"the oldest kept is at position {oldest}" if oldest else "nothing is kept yet"
        super().__init__(f"since={since!r} is too far back: {kept}. since='beginning' starts there")


class QueueFullError(PolycastError):
    """overflow="block" reached its deadline; nothing was accepted."""

    def __init__(self, subscription: str, *, queue: int, waited: float) -> None:
        self.subscription, self.queue, self.waited = subscription, queue, waited
        super().__init__(
            f"the queue of the subscription to {subscription} still has {queue} events after "
            f"{waited:g} s; the event was not accepted by anyone and may be published again"
        )


class PublishBufferFullError(PolycastError):
    """The store is not done with what was published before; this event was not accepted."""

    def __init__(self, held: int, *, waited: float) -> None:
        self.held, self.waited = held, waited
        super().__init__(
            f"the store has not written any of {held:,} bytes of events within {waited:g} s; this "
            f"event was not accepted by anyone and may be published again"
        )


class PublishUnknownError(PolycastError):
    """It is not known whether the event was accepted."""

    def __init__(self, identity: object, *, why: str, identities: tuple[object, ...] = ()) -> None:
        self.identity, self.identities = identity, identities or (identity,)
        super().__init__(
            f"it is not known whether the event was accepted: {why}. Publish it again with "
            f"identity={identity!r}: it will be stored once"
        )


class NotSettledError(PolycastError):
    """An acknowledgement that came too late, twice, or from who lost the delivery."""

    def __init__(self, action: str, *, why: str) -> None:
        self.action = action
        super().__init__(f"{action} was refused: {why}")


class NotAPullCollectionError(PolycastError, TypeError):
    """get(), len() or iteration on a collection without pull=."""

    def __init__(self, operation: str, collection: str) -> None:
        self.operation = operation
        super().__init__(
            f"{operation} needs a buffer, and {collection} has none: make it with pull='fifo' "
            f"(a queue) or pull='lifo' (a stack)"
        )


class WouldDeadlockError(PolycastError):
    """Waiting for itself, from inside a callback."""

    def __init__(self, operation: str, *, why: str) -> None:
        super().__init__(f"{operation} would wait for itself: {why}")
