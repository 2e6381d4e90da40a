"""Subscriptions over a store: durable names and groups are kept there, for any process."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from polycast.delivery import DurableCursor, GroupClaims, Mailbox, StoreCursor, distributed_group
from polycast.delivery.replay import REPLAYED, announced
from polycast.errors import (
    BadOptionError,
    CutOffError,
    DurableChangedError,
    LeaseExpiredError,
    SubscriptionCancelledError,
    TakenOverError,
)
from polycast.events import decode_record
from polycast.matching import Interest, definition_of
from polycast.stores import Flight, Stored
from polycast.stores.claims import OUTLIVING, outliving
from polycast.stores.log_bounds import start_of
from polycast.subscriptions.attach import (
    GROUPS,
    AttachRequest,
    StoredLeases,
    kept_name,
    rest_of_lease,
)
from polycast.subscriptions.subscription_registry import MailboxTable, is_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.delivery import Consumer, Services
    from polycast.log_reader.log_reader import LogReader
    from polycast.routing import Dispatcher
    from polycast.stores import Entry, Store, StoredRoute, StoredSubscription, Transaction, View
    from polycast.subscriptions.attach import Attachment
    from polycast.subscriptions.heartbeat import Heartbeat
    from polycast.subscriptions.options import SubscribeRequest
    from polycast.typesystem import Registry

ENDINGS = (SubscriptionCancelledError, LeaseExpiredError, CutOffError)  # for good


@dataclass(eq=False)
class StoreBackend:
    """Attaches mailboxes to what the store keeps, and begins them where that says."""

    store: Store
    dispatcher: Dispatcher
    registry: Registry
    reader: LogReader
    heartbeat: Heartbeat
    services: Services
    mailboxes: MailboxTable
    kept_locks: list[Any]
    last_change: int = -1  # the revision at which somebody here may have changed engines
    groups: dict[GroupClaims, AttachRequest] = field(default_factory=dict)  # how each was joined
    _described: set[str] = field(default_factory=set)  # what the store was told for the pipeline

    def __post_init__(self) -> None:
        detector, clock = self.heartbeat.detector, self.services.clock
        self.leases = StoredLeases(self.store, clock, detector, self.mailboxes)
        self.keep_lease = self.leases.keep

    # -- attaching ---------------------------------------------------------------------------------

    def check(self, request: SubscribeRequest) -> None:
        """Refuse what cannot be kept, and get ready to read."""
        interest, engine = request.interest, request.engine
        if (interest.durable or "").startswith(GROUPS):
            accepted = f"a name that does not begin with {GROUPS!r}: those are the groups'"
            raise BadOptionError("durable", interest.durable, accepted=accepted)
        if engine == "spark":
            definition_of(interest, engine=engine)  # refuses what cannot be routed elsewhere
        if engine == "spark" or self.store.is_remote:
            self._describe()
        self.reader.start()

    def _describe(self) -> None:
        """Tell the store what others have to know of the types that are subscribed to."""
        known = self.registry.descriptions()
        new = [description for description in known if description.hash not in self._described]
        if new:
            self.store.describe(new).result()
            self._described.update(description.hash for description in new)

    def find(self, request: SubscribeRequest, locked: ExitStack) -> Mailbox | None:
        """Lock the registry, and return the mailbox here to attach to, if it is still ours."""
        locked.enter_context(self.mailboxes.lock)
        attach_request = self._request(request)
        known = self._known(request)
        durable = self.mailboxes.durable(request.interest.durable)
        if known is None and durable is not None:
            self._let_go(durable)
        return known if known is not None and self._attach_again(known, attach_request) else None

    def _known(self, request: SubscribeRequest) -> Mailbox | None:
        interest = request.interest
        try:
            return self.mailboxes.find(interest, replace=request.replace)
        except DurableChangedError:
            mailbox = self.mailboxes.durable(interest.durable)
            if mailbox is None or not _is_taken_over(self.store, mailbox):
                raise
            return None  # the store tells what it is by now

    def _request(self, request: SubscribeRequest) -> AttachRequest:
        return AttachRequest(
            request.interest,
            self.heartbeat.bus.id,
            self.services.clock,
            self.heartbeat.detector,
            start_of(self.store, request.since),
            request.lease,
            request.replace,
            request.pinned,
            request.engine,
            describes=not self.store.is_remote,
        )

    def _attach_again(self, mailbox: Mailbox, request: AttachRequest) -> bool:
        """Attach once more to what is attached here, unless somebody else has taken it over."""
        cursor = mailbox.cursor
        if not isinstance(cursor, DurableCursor):
            if request.interest.durable is not None:
                self.last_change = self.store.write(request.join_here).result()
            return True
        again = dataclasses.replace(request, number=cursor.number)

        def attach(tx: Transaction) -> bool:
            attachment = again.attach(tx)
            ours = attachment.before == cursor.number
            if ours:
                tx.after(lambda: go_on(attachment.kept.token))
            return ours

        def go_on(token: int) -> None:
            """What is saved next has to have the new number, which is the revision of now, too."""
            cursor.number = self.last_change = token

        ours = self.store.write(attach).result()
        if not ours:
            mailbox.state.end(TakenOverError(mailbox.title))
        return ours

    def create(self, request: SubscribeRequest) -> Mailbox:
        """Make the mailbox of a new subscription, in its place in the log; not yet in the plan."""
        attach_request, interest = self._request(request), request.interest
        if interest.durable is None and interest.group is None:
            mailbox = self._mailbox(request, interest, None)
            mailbox.queue.behind = attach_request.start
            return mailbox
        attachment = self.store.write(attach_request.attach).result()
        if attachment.mark.doubt:
            end = self.store.newest() + 1  # whoever had it before is fenced by now
            attachment = dataclasses.replace(attachment, mark=attachment.mark.within(end))
        kept = attachment.kept
        mailbox = self._mailbox(request, interest.starting(kept.start), attachment)
        mailbox.route = attachment.route
        mailbox.queue.waits_for = mailbox.queue.behind = max(kept.start, kept.cursor)
        if mailbox.claims is not None:
            self.groups[mailbox.claims] = attach_request
        elif isinstance(mailbox.cursor, DurableCursor):
            self.take_up(mailbox, mailbox.cursor, attachment.flights)
        self.kept_locks += _locks(mailbox)
        left = rest_of_lease(kept, self.services.clock)
        if left is not None:
            mailbox.state.set_lease(max(left, 0.0))
        return mailbox

    def _mailbox(
        self, request: SubscribeRequest, interest: Interest, attachment: Attachment | None
    ) -> Mailbox:
        """Make a mailbox; one with a durable name or a group has a cursor in the store."""
        mailbox: Mailbox
        if attachment is None:
            # Dead letters of it must not look like another bus's.
            name = f"{self.mailboxes.new_name(interest)}@{self.heartbeat.bus.id}"
            mailbox = Mailbox(name, interest, request.settings, self.services)
        elif interest.group is None:

            def taken_over() -> None:  # in the thread that writes the store
                why = TakenOverError(mailbox.title)
                self.services.timers.after(0.0, lambda: mailbox.state.end(why))

            cursor = DurableCursor(
                self.mailboxes.new_name(interest),
                self.store,
                self.services.clock,
                taken_over,
                number=attachment.kept.token,
                cursor=attachment.kept.cursor,
                position=lambda: self.reader.position_of(mailbox),
                doubt=attachment.mark.doubt,
                unclean=attachment.unclean,
            )
            mailbox = Mailbox(cursor.name, interest, request.settings, self.services, cursor=cursor)
        else:
            mailbox = distributed_group(
                kept_name(interest),
                interest,
                request.settings,
                self.services,
                store=self.store,
                bus=lambda: self.heartbeat.bus.id,
                position=self.reader.position_of,
                floor=attachment.kept.cursor,
                doubt=attachment.mark.doubt,
            )
        self.mailboxes.add(mailbox)
        return mailbox

    def take_up(self, mailbox: Mailbox, cursor: DurableCursor, flights: list[Flight]) -> None:
        """Go on with what was in flight."""
        cursor.restore(flights)
        now = self.services.clock.time()
        resumed = []
        for flight in flights:
            records = record_at(self.store, mailbox.name, flight.position)
            wanted = self.reader.router.wanted(mailbox, records, again=True)
            resumed += [(entry, flight.attempts, flight.due - now) for entry, _ in wanted]
            if not wanted:  # a new definition does not want it, or it is not kept any more
                cursor.forget(flight.position)
        mailbox.settlement.take_over(resumed)

    def begin(self, mailbox: Mailbox, consumer: Consumer, request: SubscribeRequest) -> list[Entry]:
        """Put a mailbox into the plan; what it is behind is read for it."""
        del request

        def begin(position: int) -> None:
            if mailbox.queue.waits_for == 0:  # the store does not know it
                mailbox.queue.waits_for = (
                    position if mailbox.queue.behind is None else mailbox.queue.behind
                )
                mailbox.interest = mailbox.interest.starting(mailbox.queue.waits_for)
            consumer.interest = consumer.interest.starting(mailbox.interest.start)

        self.reader.join(mailbox, begin)
        mailbox.state.refresh()
        if mailbox.queue.behind is not None:
            self.reader.behind(mailbox)
        return []

    def join(self, mailbox: Mailbox) -> None:
        """One more consumer has attached to a mailbox that is in the plan."""
        self.reader.interests.tell(mailbox)
        self.dispatcher.change(mailbox)

    def begun(self, mailbox: Mailbox, entries: list[Entry]) -> None:
        """Let the reader look for what a mailbox is behind."""
        del mailbox, entries
        self.reader.ring()

    def rejoin(self) -> None:
        """This bus had counted as dead: its groups go on without what it had claimed."""

        def join_again() -> None:
            with self.mailboxes.lock:  # who attaches just now may do so as the bus that is dead
                for group, request in list(self.groups.items()):
                    group.rejoin()
                    bus = self.heartbeat.bus.id
                    again = dataclasses.replace(request, bus=bus, start=None, engine=None)
                    self.store.write(again.attach).result()
                    group.joined = bus
                    group.claim_soon()

        self.services.timers.after(0.0, join_again)

    def reroute(
        self, mailbox: Mailbox, kept: StoredSubscription, route: StoredRoute | None
    ) -> None:
        """The pipeline routes for it from now on, or no more. In the thread of the reader."""
        cursor = mailbox.cursor
        ours = not isinstance(cursor, DurableCursor) or kept.token == cursor.number
        with self.mailboxes.lock:  # not while somebody attaches to it
            is_here = self.mailboxes.get(mailbox.name) is mailbox and mailbox.ended is None
            if ours and is_here and route != mailbox.route:
                self.reader.move(mailbox, route)

    # -- leaving -----------------------------------------------------------------------------------

    def detach(self, consumer: Consumer) -> None:
        """Detach a consumer; the store keeps the durable name and its place."""
        mailbox = consumer.mailbox
        if self.mailboxes.leave(consumer):
            mailbox.worker.pump()
        else:
            self._let_go(mailbox)

    def _let_go(self, mailbox: Mailbox) -> None:
        """Remove it from this process; what is kept of it stays in the store."""
        self.heartbeat.look_at_clock()
        for consumer in mailbox.members.consumers():
            consumer.ended = TakenOverError(mailbox.title)
        mailbox.state.stop()
        self.drop(mailbox)
        cursor = mailbox.cursor
        if isinstance(cursor, StoreCursor) and self.store.failure is None:
            self.store.write(cursor.release).result()

    def drop(self, mailbox: Mailbox) -> None:
        """Remove a mailbox from this process."""
        self.mailboxes.remove(mailbox)
        self.reader.leave(mailbox)
        for lock in _locks(mailbox):
            with suppress(ValueError):  # it was removed before
                self.kept_locks.remove(lock)
        if mailbox.claims is not None:
            self.groups.pop(mailbox.claims, None)

    def forget(self, mailbox: Mailbox) -> None:
        """Remove a mailbox that has ended: for good, or only from this process."""
        self.drop(mailbox)
        if mailbox.interest.durable is None and mailbox.interest.group is None:
            return
        cursor = mailbox.cursor
        if isinstance(cursor, StoreCursor) and self.store.failure is None:
            if isinstance(mailbox.ended, ENDINGS):
                self.store.write(cursor.remove).result()
            elif not isinstance(mailbox.ended, TakenOverError):
                self.store.write(cursor.release)  # closing the store waits for it

    def wind_down(self) -> None:
        """Durable subscriptions go on in the next opening; only what has begun is waited for."""
        self.heartbeat.look_at_clock()
        for mailbox in self.mailboxes:
            if mailbox.interest.durable is not None:
                mailbox.state.pause(winding_down=True)


def _is_taken_over(store: Store, mailbox: Mailbox) -> bool:
    """Whether another bus has attached to it, which nobody here has seen yet."""
    cursor = mailbox.cursor
    if not isinstance(cursor, DurableCursor):
        return False
    with store.view() as view:
        kept = view.subscription(mailbox.name)
    return kept is None or kept.token != cursor.number


def _locks(mailbox: Mailbox) -> list[Any]:
    """The locks of a mailbox that the thread which writes the store may need."""
    cursor = mailbox.cursor
    return [mailbox.queue.lock, cursor.lock] if isinstance(cursor, StoreCursor) else []


# -- what others have done -------------------------------------------------------------------------

FREE = 64  # of what others have let go of, how many are looked at


class Watcher:
    """Looks at the store, in the thread of the log reader, after that has read.

    What was read is brought afterwards, so that nobody gets what was published after he was taken
    over.
    """

    def __init__(self, backend: StoreBackend, *, look_at_contexts: Callable[[View], None]) -> None:
        self._backend, self._look_at_contexts = backend, look_at_contexts
        self._store, self._reader = backend.store, backend.reader
        self._services, self._mailboxes = backend.services, backend.mailboxes
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
            if self._backend.dispatcher.plan.translation.federation is not None:
                self._look_at_contexts(view)
            changed = view.changed(self._seen)
            boxes = list(mailboxes) if changed is None else self._named(changed)
            subscriptions = {box: view.subscription(box.name) for box in boxes if is_kept(box)}
            routes = {box: view.route(box.name) for box in subscriptions}
            is_dead = all(bus.id != self._backend.heartbeat.bus.id for bus in view.buses())
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
            if box.claims and joined.get(box.claims) == self._backend.heartbeat.bus.id:
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
                if box.state.has_lapsed()
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
            wanted = self._reader.router.wanted(group.mailbox, records, again=True)
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
