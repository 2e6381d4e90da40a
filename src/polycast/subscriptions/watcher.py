"""What others have done to the subscriptions of a bus over a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery import DurableCursor
from polycast.delivery.replay import REPLAYED, announced
from polycast.errors import LeaseExpiredError, SubscriptionCancelledError, TakenOverError
from polycast.events import decode_record
from polycast.stores import Flight, Stored
from polycast.stores.claims import OUTLIVING, outliving
from polycast.subscriptions.subscription_registry import is_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.delivery import GroupClaims, Mailbox, Services
    from polycast.log_reader.log_reader import LogReader
    from polycast.routing import Dispatcher
    from polycast.stores import Store, StoredSubscription, Transaction, View
    from polycast.subscriptions.heartbeat import Heartbeat
    from polycast.subscriptions.store_backend import StoreBackend
    from polycast.subscriptions.subscription_registry import MailboxTable

FREE = 64  # of what others have let go of, how many are looked at


class Watcher:
    """Looks at the store, in the thread of the log reader, after that has read.

    What was read is brought afterwards, so that nobody gets what was published after he was taken
    over.
    """

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        reader: LogReader,
        heartbeat: Heartbeat,
        services: Services,
        mailboxes: MailboxTable,
        backend: StoreBackend,
        *,
        look_at_contexts: Callable[[View], None],
    ) -> None:
        self._store, self._dispatcher, self._reader = store, dispatcher, reader
        self._heartbeat = heartbeat
        self._services, self._mailboxes, self._backend = services, mailboxes, backend
        self._look_at_contexts = look_at_contexts
        self._seen = -1  # the revision of the store

    def has_seen_all(self) -> bool:
        """Whether what was last changed from here has been seen."""
        return self._seen >= self._backend.last_change

    def look(self) -> None:
        """See who took over, cancelled, replayed, or had the pipeline route for it."""
        groups, mailboxes = self._backend.groups, self._mailboxes
        for group in list(groups):
            self._look_for_free(group)
        # Before the view: a group that joins again meanwhile may not be in it yet.
        joined = {group: group.joined for group in list(groups)}
        with self._store.view() as view:
            revision = view.revision()
            if revision == self._seen:
                return
            if self._dispatcher.plan.translation.federation is not None:
                self._look_at_contexts(view)
            changed = view.changed(self._seen)
            boxes = list(mailboxes) if changed is None else self._named(changed)
            subscriptions = {box: view.subscription(box.name) for box in boxes if is_kept(box)}
            routes = {box: view.route(box.name) for box in subscriptions}
            is_dead = all(bus.id != self._heartbeat.bus.id for bus in view.buses())
            replayed = self._named(view.documents(REPLAYED))
        for box, kept in subscriptions.items():
            if kept is not None and routes[box] != box.route:
                self._backend.reroute(box, kept, routes[box])
        for box, kept in subscriptions.items():
            if box.claims is None:
                self._see(box, kept)  # even if this bus counts as dead: all the more then
        if is_dead:
            return  # it will join its groups again
        self._seen = revision
        for box, kept in subscriptions.items():
            if box.claims and joined.get(box.claims) == self._heartbeat.bus.id:
                self._see(box, kept)  # else it counted as dead, and will join again
        for box in replayed:
            self._take_up_replayed(box)

    def _named(self, names: Iterable[str]) -> list[Mailbox]:
        return [box for name in names if (box := self._mailboxes.get(name)) is not None]

    def _see(self, box: Mailbox, kept: StoredSubscription | None) -> None:
        """What the store has of a mailbox has changed."""
        cursor = box.cursor
        if kept is None:  # any bus removes what has lapsed
            box.state.end(
                LeaseExpiredError(box.title)
                if box.state.lease.is_over()
                else SubscriptionCancelledError(box.title)
            )
        elif isinstance(cursor, DurableCursor) and kept.token > cursor.number:
            box.state.end(TakenOverError(box.title))

    def _take_up_replayed(self, box: Mailbox) -> None:
        """Take what is new in flight; in a transaction, so that nothing is saved meanwhile."""
        cursor = box.cursor

        def take(tx: Transaction) -> list[Flight]:
            passed = announced(tx, box.name)
            if not isinstance(cursor, DurableCursor):
                return []
            here = self._reader.position_of(box)
            late = [
                Flight(box.name, event.position, event.publisher)
                for event in passed
                if event.token == cursor.number and event.position < here
            ]
            tx.fly([flight for flight in late if not cursor.knows(flight.position)])
            new = [flight for flight in tx.flights(box.name) if not cursor.knows(flight.position)]
            tx.after(lambda: cursor.restore(new))
            return new

        new = self._store.write(take).result()
        if isinstance(cursor, DurableCursor) and is_kept(box):
            self._backend.take_up(box, cursor, new)
            box.worker.pump_later()

    def _look_for_free(self, group: GroupClaims) -> None:
        """See what other members have let go of, and what order forbade to claim before."""
        name, released = group.mailbox.name, group.released
        with self._store.view() as view:
            standing = view.standing(name, at=self._services.clock.time(), limit=FREE)
        due, later = released.due(standing)
        standing = replace(standing, free=due[:FREE])
        free, blocked = released.allowed(standing), group.is_blocked(standing)
        offers = []
        for flight in free:
            records = record_at(self._store, name, flight.position)
            wanted = self._reader.selection.wanted(group.mailbox, records, again=True)
            offers += [(flight, entry, verdict) for entry, verdict in wanted]
            if not wanted:
                released.refuse(flight)
        released.offer(offers)
        if released.offers or not blocked:
            group.claim_soon()
        if later:  # nobody else may be there to say that it is due
            self._services.timers.after(min(later), self._reader.ring)


def record_at(store: Store, name: str, position: int) -> list[Stored]:
    """The record at a position, or that of a letter that was replayed after it had gone."""
    found = store.read(position, limit=1, until=position + 1).entries
    if found:
        return found
    with store.view() as view:
        body = view.document(OUTLIVING, outliving(name, position))
    return [] if body is None else [Stored(position, decode_record(body))]
