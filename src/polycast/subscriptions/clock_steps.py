"""What the subscriptions of a bus have in the store by the wall clock, after that was set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery import CursorKeeper
from polycast.stores.deadlines import wall_offset
from polycast.subscriptions.watcher import is_kept

if TYPE_CHECKING:
    from polycast.delivery import Mailbox
    from polycast.stores import Transaction
    from polycast.subscriptions.durable_registry import StoredRoster

__all__ = ["follow_clock", "keeper_of"]


def follow_clock(roster: StoredRoster) -> None:
    """Write deadlines anew: what is kept is to end when it would have, were the clock not set."""
    held = [(box, keeper) for box in list(roster.mailboxes.values()) if (keeper := keeper_of(box))]
    for _, keeper in held:
        keeper.clock_stepped()
    leased = [(box, keeper.number) for box, keeper in held if box.lease_until is not None]

    def keep(tx: Transaction) -> None:
        offset = wall_offset(roster.services.clock)
        for box, number in leased:
            kept = tx.subscription(box.name)
            if kept and kept.token == number and box.lease_until is not None:
                kept = replace(kept, lease=box.lease_until + offset)
                tx.save(kept)
                roster.presence.detector.moved(kept)

    if leased and roster.store.failure is None:
        roster.store.write(keep)


def keeper_of(box: Mailbox) -> CursorKeeper | None:
    """What keeps its place in the store, if one consumer is attached to it and it is not over."""
    keeper = box.keeper
    return keeper if is_kept(box) and isinstance(keeper, CursorKeeper) else None
