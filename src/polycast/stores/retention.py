"""Retention: how much of the log is kept, and which subscriptions it is kept for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from polycast.errors import BadOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.stores.contract import Store, Transaction, View

PIPELINE = "pipeline"
"""The name of the pin for events that are not routed yet."""

_KIND, _NAME = "retention", ""
_STEP = 0.1  # the part of the log that is truncated before its size is checked again


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What may be removed from the log: by age, by size, or once delivered.

    Each limit that is set applies on its own. Without any, the log is kept for ever.
    """

    age: float | None = None
    """Seconds after which an event may be removed."""
    size: int | None = None
    """The size in bytes that the store may have."""
    delivered: bool = False
    """Whether an event may be removed once every subscription has handled it."""

    def __post_init__(self) -> None:
        if self.age is not None and not self.age > 0:
            raise BadOptionError("age", self.age, accepted="seconds, more than 0, or None")
        if self.size is not None and not self.size > 0:
            raise BadOptionError("size", self.size, accepted="bytes, more than 0, or None")

    def keep_in(self, store: Store) -> None:
        """Make this the rule of a store, for every process that opens it."""
        body = msgspec.json.encode(self)
        store.write(lambda transaction: transaction.put_document(_KIND, _NAME, body)).result()


_decode = msgspec.json.Decoder(Retention).decode


class Pin(msgspec.Struct, frozen=True):
    """How far back a subscription, or the pipeline, needs the log."""

    name: str
    position: int
    """The first position that it may still read."""
    behind: int
    """The number of positions from there to the end of the log."""
    pinned: bool
    """Whether retention waits for it."""


def retention_of(store: Store) -> Retention:
    """Return the retention rule of a store."""
    with store.view() as view:
        body = view.document(_KIND, _NAME)
    return Retention() if body is None else _decode(body)


def pins(store: Store) -> list[Pin]:
    """List who needs the log, the farthest behind first."""
    with store.view() as view:
        return _pins(view)


def _pins(view: View) -> list[Pin]:
    end, held_back = view.newest() + 1, view.held_back()
    needs = []
    pinned: set[str] = set()
    for kept in view.subscriptions():
        needed = min(kept.cursor, held_back.get(kept.name, kept.cursor))
        needs.append(Pin(kept.name, needed, max(0, end - needed), kept.pinned))
        if kept.pinned:
            pinned.add(kept.name)
    needs.sort(key=lambda pin: (pin.position, pin.name))
    # The pipeline comes before others at the same position: they wait for it.
    if any(route.until is None and route.name in pinned for route in view.routes()):
        high = view.routed().high
        place = sum(pin.position < high for pin in needs)
        needs.insert(place, Pin(PIPELINE, high, max(0, end - high), pinned=True))
    return needs


def tidy_routing(transaction: Transaction) -> int:
    """Remove results of the pipeline that nobody needs, and return the number of stretches."""
    transaction.forget_routes(transaction.routed().high)
    return transaction.drop_stretches(transaction.awaited())


def retain(store: Store, time_for: Callable[[float], float]) -> int:
    """Apply the retention rule of a store, and return how many records were removed.

    `time_for` returns the time by which an age is judged. Results of the pipeline are removed
    without any rule, as soon as every subscription has passed them.
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
    # No rule removes what a pinned subscription still needs.
    most = min([store.newest(), *held])
    gone = 0
    if rule.age is not None:
        gone += _let_go(store, min(most, store.position_at(time_for(rule.age) - rule.age)))
    if rule.delivered and limits:
        gone += _let_go(store, min(most, limits[0].position))
    if rule.size is not None:
        gone += _shrink(store, most, rule.size)
    if gone:
        # Old versions of contexts are needed as long as there are events from their time.
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
    """Truncate the log, after moving the cursors of unpinned subscriptions forward."""
    if before <= store.oldest():
        return 0
    return store.truncate(store.write(lambda transaction: _move_up(transaction, before)).result())


def _move_up(transaction: Transaction, before: int) -> int:
    """Move cursors up; return where to truncate, as new subscriptions may have come meanwhile."""
    before = min([before, *(pin.position for pin in _pins(transaction) if pin.pinned)])
    for kept in transaction.subscriptions():
        if kept.pinned:
            continue
        passed = [flight.position for flight in transaction.flights(kept.name)]
        transaction.land(kept.name, [position for position in passed if position < before])
        if kept.cursor < before:
            transaction.move(kept.name, token=kept.token, cursor=before)
    return before
