"""What others have done to the subscriptions of a bus over a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery import CursorKeeper, SharedGroup, StoreKeeper
from polycast.delivery.replay import REPLAYED, announced
from polycast.errors import LeaseExpiredError, SubscriptionCancelledError, TakenOverError
from polycast.events import decode_record
from polycast.stores import Flight, Stored
from polycast.stores.claims import OUTLIVING, outliving

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Mailbox
    from polycast.stores import Store, StoredSubscription, Transaction, View
    from polycast.subscriptions.durable_registry import StoredRoster

__all__ = ["Watch", "is_kept", "record_at"]

FREE = 64  # of what others have let go of, how many are looked at


class Watch:
    """Looks, in the thread of the feed, after it has read.

    What it has read is brought afterwards, so that nobody gets what was published after he was
    taken over.
    """

    def __init__(self, roster: StoredRoster) -> None:
        self._roster = roster
        self.seen = -1  # the revision of the store
        self.also: Callable[[View], None] = lambda view: None  # looks at what else has changed

    def look(self) -> None:
        """Who took over, cancelled, replayed, or had the pipeline route for it."""
        roster = self._roster
        for group in list(roster.requests):
            self._look_for_free(group)
        # Before the view: a group that joins again meanwhile may not be in it yet.
        joined = {group: group.joined for group in list(roster.requests)}
        with roster.store.view() as view:
            revision = view.revision()
            if revision == self.seen:
                return
            self.also(view)
            changed = view.changed(self.seen)
            names = list(roster.mailboxes) if changed is None else changed
            boxes = [box for name in names if (box := roster.mailboxes.get(name)) is not None]
            found = {box: view.subscription(box.name) for box in boxes if is_kept(box)}
            routes = {box: view.route(box.name) for box in found}
            is_dead = all(bus.id != roster.presence.bus.id for bus in view.buses())
            replayed = view.documents(REPLAYED).keys() & roster.mailboxes.keys()
        for box, kept in found.items():
            if kept is not None and routes[box] != box.route:
                roster.reroute(box, kept, routes[box])
        for box, kept in found.items():
            if not isinstance(box, SharedGroup):
                self._see(box, kept)  # even if this bus counts as dead: all the more then
        if is_dead:
            return  # it will join its groups again
        self.seen = revision
        for box, kept in found.items():
            if isinstance(box, SharedGroup) and joined.get(box) == roster.presence.bus.id:
                self._see(box, kept)  # else it counted as dead, and will join again
        for name in replayed:
            self._take_up_replayed(name)

    def _see(self, box: Mailbox, kept: StoredSubscription | None) -> None:
        """What the store has of a mailbox has changed."""
        keeper = box.keeper
        if kept is None:  # any bus removes what has lapsed
            box.end(
                LeaseExpiredError(box.title)
                if box.lease_is_over()
                else SubscriptionCancelledError(box.title)
            )
        elif isinstance(keeper, CursorKeeper) and kept.token > keeper.number:
            box.end(TakenOverError(box.title))

    def _take_up_replayed(self, name: str) -> None:
        """Take what is new in flight; in a transaction, so that nothing is saved meanwhile."""
        roster = self._roster
        box = roster.mailboxes.get(name)
        keeper = None if box is None else box.keeper

        def take(tx: Transaction) -> list[Flight]:
            passed = announced(tx, name)
            if box is None or not isinstance(keeper, CursorKeeper):
                return []
            here = roster.feed.position_of(box)
            late = [
                Flight(name, each.position, each.publisher)
                for each in passed
                if each.token == keeper.number and each.position < here
            ]
            tx.fly([each for each in late if not keeper.knows(each.position)])
            new = [each for each in tx.flights(name) if not keeper.knows(each.position)]
            tx.after(lambda: keeper.restore(new))
            return new

        new = roster.store.write(take).result()
        if box is not None and isinstance(keeper, CursorKeeper) and is_kept(box):
            roster.take_up(box, keeper, new)
            box.pump_later()

    def _look_for_free(self, group: SharedGroup) -> None:
        """What other members have let go of, and what order forbade to claim before."""
        roster = self._roster
        with roster.store.view() as view:
            standing = view.standing(group.name, at=roster.services.clock.time(), limit=FREE)
        due, later = group.due(standing)
        standing = replace(standing, free=due[:FREE])
        free, blocked = group.allowed(standing), group.is_blocked(standing)
        offers = []
        for flight in free:
            records = record_at(roster.store, group.name, flight.position)
            wanted = roster.feed.wanted(group, records, again=True)
            offers += [(flight, entry, verdict) for entry, verdict in wanted]
            if not wanted:
                group.refuse(flight)
        group.offer(offers)
        if group.offers or not blocked:
            group.claim_soon()
        if later:  # nobody else may be there to say that it is due
            roster.services.timers.after(min(later), roster.feed.ring)


def is_kept(mailbox: Mailbox) -> bool:
    """Whether a store knows it, and it is not over."""
    return isinstance(mailbox.keeper, StoreKeeper) and mailbox.ended is None


def record_at(store: Store, name: str, position: int) -> list[Stored]:
    """The record at a position, or that of a letter that was replayed after it had gone."""
    found = store.read(position, limit=1, until=position + 1).entries
    if found:
        return found
    with store.view() as view:
        body = view.document(OUTLIVING, outliving(name, position))
    return [] if body is None else [Stored(position, decode_record(body))]
