"""How much of the log is kept, and what holds it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from polycast.errors import BadOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.stores.contract import Store, Transaction, View

__all__ = ["PIPELINE", "Pin", "Retention", "pins", "retain", "retention_of", "tidy_routing"]

PIPELINE = "pipeline"
"""How the pin is called that stands for what is not routed yet."""

_KIND, _NAME = "retention", ""
_STEP = 0.1  # of the log: how much goes before its size is looked at again


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What may be let go: what is older, what is too much, what everybody has.

    Each that is set lets go on its own. Without any, all is kept for ever.
    """

    age: float | None = None
    """Seconds after which an event may go."""
    size: int | None = None
    """Bytes that the store may take."""
    delivered: bool = False
    """Whether what every subscription has handled may go."""

    def __post_init__(self) -> None:
        if self.age is not None and not self.age > 0:
            raise BadOptionError("age", self.age, accepted="seconds, more than 0, or None")
        if self.size is not None and not self.size > 0:
            raise BadOptionError("size", self.size, accepted="bytes, more than 0, or None")

    def keep_in(self, store: Store) -> None:
        """Make it the rule of a store, in place of what there was, for all who open it."""
        body = msgspec.json.encode(self)
        store.write(lambda transaction: transaction.put_document(_KIND, _NAME, body)).result()


_decode = msgspec.json.Decoder(Retention).decode


class Pin(msgspec.Struct, frozen=True):
    """A subscription that the log is kept for, or the pipeline."""

    name: str
    position: int
    """The first position that it may still need."""
    behind: int
    """How many positions that is before the end of the log."""
    pinned: bool
    """Whether retention waits for it."""


def retention_of(store: Store) -> Retention:
    """The rule that the store has."""
    with store.view() as view:
        body = view.document(_KIND, _NAME)
    return Retention() if body is None else _decode(body)


def pins(store: Store) -> list[Pin]:
    """What the log is kept for, the farthest behind first."""
    with store.view() as view:
        return _pins(view)


def _pins(view: View) -> list[Pin]:
    end, held_back = view.newest() + 1, view.held_back()
    found = []
    pinned: set[str] = set()
    for kept in view.subscriptions():
        needed = min(kept.cursor, held_back.get(kept.name, kept.cursor))
        found.append(Pin(kept.name, needed, max(0, end - needed), kept.pinned))
        if kept.pinned:
            pinned.add(kept.name)
    found.sort(key=lambda pin: (pin.position, pin.name))
    # Before the others that are as far behind: they wait for it.
    if any(route.until is None and route.name in pinned for route in view.routes()):
        high = view.routed().high
        place = sum(pin.position < high for pin in found)
        found.insert(place, Pin(PIPELINE, high, max(0, end - high), pinned=True))
    return found


def tidy_routing(transaction: Transaction) -> int:
    """Drop what the pipeline found out and nobody needs any more; how many stretches went."""
    transaction.forget_routes(transaction.routed().high)
    return transaction.drop_stretches(transaction.awaited())


def retain(store: Store, time_for: Callable[[float], float]) -> int:
    """Let go of what the rule of a store lets go; how many records went.

    `time_for` says what time it is for judging an age.
    What the pipeline found out goes without a rule, as soon as all have passed it.
    """
    with store.view() as view:
        oldest = view.stretches(0, limit=1)
        is_tidy = not oldest or oldest[0].high > view.awaited()
    if not is_tidy:
        store.write(tidy_routing).result()
    rule = retention_of(store)
    if rule == Retention():
        return 0
    limits = pins(store)
    held = [pin.position for pin in limits if pin.pinned]
    # What is pinned is never passed, whatever the rule says.
    most = min([store.newest(), *held])
    gone = 0
    if rule.age is not None:
        gone += _let_go(store, min(most, store.position_at(time_for(rule.age) - rule.age)))
    if rule.delivered and limits:
        gone += _let_go(store, min(most, limits[0].position))
    if rule.size is not None:
        gone += _shrink(store, most, rule.size)
    if gone:
        # What a context was is needed as long as there are events of that time.
        store.write(lambda transaction: transaction.forget_contexts(transaction.oldest())).result()
    return gone


def _shrink(store: Store, most: int, size: int) -> int:
    gone = 0
    while store.size() > size and store.oldest() < most:
        oldest = store.oldest()
        step = max(1, int((store.newest() + 1 - oldest) * _STEP))
        went = _let_go(store, min(most, oldest + step))
        if not went:
            break
        gone += went
    return gone


def _let_go(store: Store, before: int) -> int:
    """Truncate, with those who are not pinned moved out of the way first."""
    if before <= store.oldest():
        return 0
    return store.truncate(store.write(lambda transaction: _move_up(transaction, before)).result())


def _move_up(transaction: Transaction, before: int) -> int:
    """Up to where the log may go; a subscription may have come since the pins were looked at."""
    before = min([before, *(pin.position for pin in _pins(transaction) if pin.pinned)])
    for kept in transaction.subscriptions():
        if kept.pinned:
            continue
        passed = [flight.position for flight in transaction.flights(kept.name)]
        transaction.land(kept.name, [position for position in passed if position < before])
        if kept.cursor < before:
            transaction.move(kept.name, token=kept.token, cursor=before)
    return before
