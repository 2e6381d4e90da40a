"""Attaching to what a store keeps: durable names, groups, their places and leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery import Consumer, DurableCursor, first_limit
from polycast.errors import DurableChangedError
from polycast.matching import Definition, Interest, definition_of
from polycast.stores import MARK, Flight, GroupMember, Mark, StoredSubscription
from polycast.stores.liveness import wall_offset
from polycast.subscriptions.subscription_registry import MailboxTable, cursor_of
from polycast.typesystem import Description, describe_all

if TYPE_CHECKING:
    from polycast.config import Clock
    from polycast.stores import Store, StoredRoute, Transaction
    from polycast.subscriptions.heartbeat import FailureDetector
    from polycast.subscriptions.options import EngineName

GROUPS = "group:"  # what the names of groups that are not durable begin with
ANYWHERE = 1 << 62  # a position that no log has


@dataclass(frozen=True, slots=True)
class Attachment:
    """What somebody who attaches goes on with."""

    kept: StoredSubscription
    flights: list[Flight]
    mark: Mark  # what may have been begun before; as far as the log went then
    unclean: bool = False  # whoever was attached before has not said goodbye
    before: int = 0  # the token of whoever was attached before
    route: StoredRoute | None = None  # if the pipeline says what it takes


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """What somebody wants to attach to; `attach` is done in one transaction."""

    interest: Interest
    bus: int
    clock: Clock
    detector: FailureDetector
    start: int | None = None  # since=
    lease: float | None = None
    replace: bool = False
    pinned: bool = True
    engine: EngineName | None = "direct"  # None: as it is
    describes: bool = False  # whether its types are to be kept with it: so others can explain it
    number: int | None = None  # the token of who is attached and goes on

    @property
    def name(self) -> str:
        """Under which the store keeps it."""
        return kept_name(self.interest)

    def attach(self, tx: Transaction) -> Attachment:
        """Attach to what is kept, or begin to keep it."""
        known = self._current(tx)
        is_group = self.interest.group is not None
        lease = None if is_group else self.lease  # each member of a group has its own
        until = None if lease is None else self.clock.time() + lease
        definition = definition_of(self.interest, lease=lease)
        for description in self._descriptions():
            tx.describe(description)
        if known is None:
            start = tx.newest() + 1 if self.start is None else self.start
            durable = self.interest.durable is not None
            kept = StoredSubscription(self.name, b"", start, start, durable=durable, group=is_group)
        else:
            self._check(known, definition)
            kept = known if is_group or not known.group else _by_cursor(tx, known)
            term = Definition.decoded(known.definition).lease
            if until is None and known.lease is not None and term is not None:
                # Attaching again prolongs it, by as much as it was given.
                until, definition = self.clock.time() + term, replace(definition, lease=term)
        kept = replace(
            kept,
            definition=definition.encoded(),
            pinned=self.pinned,
            group=is_group,
            holder=None if is_group else self.bus,
            lease=until,
        )
        mark = self._marked(tx, known)
        if is_group and known is not None and known.group:
            tx.save(kept)  # one more member
        else:
            kept = replace(kept, token=tx.take_over(kept))
        self.detector.see(kept)
        route = self.reroute(tx)
        unclean, mark = mark.reach > 0, mark.left()
        if known is None or known.token != self.number:
            now = mark if is_group else replace(mark, reach=first_limit(kept.cursor))
            tx.fly([now.flight(self.name)])
        if is_group:
            return self._join(tx, kept, route, mark)
        before = 0 if known is None else known.token
        return Attachment(kept, tx.flights(self.name), mark, unclean, before, route)

    def _marked(self, tx: Transaction, known: StoredSubscription | None) -> Mark:
        """What whoever was attached before has left; who left no mark may have begun anything."""
        if known is None:
            return Mark()
        left = tx.flights_at(self.name, [MARK])
        if not left and not known.group:  # an earlier polycast keeps none
            return Mark(reach=ANYWHERE)
        return Mark.among(left)

    def _descriptions(self) -> list[Description]:
        """What others have to know of its types."""
        if not self.describes:
            return []
        types = self.interest.selector.types
        return [description for cls in types for description in describe_all(cls)]

    def reroute(self, tx: Transaction) -> StoredRoute | None:
        """Have the pipeline route for it, or not; how it is routed is not part of what it is."""
        route = None if self.interest.durable is None else tx.route(self.name)
        if self.engine == "direct" and route is not None:
            tx.end_route(self.name)
            return None
        if self.engine == "spark":
            definition = definition_of(self.interest, engine="spark").encoded()
            if route is None or route.definition != definition:
                return tx.begin_route(self.name, definition)
        return route

    def join_here(self, tx: Transaction) -> int:
        """One more member of a group here: the others, wherever they are, are routed like it."""
        kept, before = tx.subscription(self.name), tx.route(self.name)
        if kept is not None and self.reroute(tx) != before:
            tx.save(kept)  # so that everybody sees that something has changed
        return tx.revision()

    def _current(self, tx: Transaction) -> StoredSubscription | None:
        """What is kept under the name and has not come to its end."""
        known = tx.subscription(self.name)
        if known is None:
            return None
        over = self.detector.is_over(tx, known, mine=self.bus)
        left = known.group and not known.durable and not tx.members(self.name)
        if over or left:
            tx.remove(self.name)
            return None
        return known

    def _check(self, known: StoredSubscription, definition: Definition) -> None:
        if not known.durable:
            return  # the members of a group may want different things
        difference = Definition.decoded(known.definition).difference(definition)
        if difference and not self.replace:
            raise DurableChangedError(self.name, difference)

    def _join(
        self, tx: Transaction, kept: StoredSubscription, route: StoredRoute | None, mark: Mark
    ) -> Attachment:
        looked = kept.cursor if kept.durable else max(kept.start, tx.newest() + 1)
        if self.start is not None and not kept.durable:
            looked = kept.start
        tx.join(GroupMember(kept.name, self.bus, looked))
        return Attachment(replace(kept, cursor=looked), [], mark, route=route)


def _by_cursor(tx: Transaction, kept: StoredSubscription) -> StoredSubscription:
    """What was a group goes on with a cursor: after all that was done, and the rest in flight."""
    flights = tx.flights(kept.name)
    done = [flight.position for flight in flights if flight.done]
    if not done:
        return kept
    known = {flight.position for flight in flights}
    after = max(done) + 1
    tx.land(kept.name, done)
    tx.fly([Flight(kept.name, at) for at in range(kept.cursor, after) if at not in known])
    return replace(kept, cursor=max(kept.cursor, after))


def kept_name(interest: Interest) -> str:
    """The name under which a store keeps a durable subscription or a group."""
    return interest.durable or f"{GROUPS}{interest.group}"


def rest_of_lease(kept: StoredSubscription, clock: Clock) -> float | None:
    """How long it lives once somebody has attached to it: for as long as it was given."""
    if kept.lease is None:
        return None
    term = Definition.decoded(kept.definition).lease
    return kept.lease - clock.time() if term is None else term


# -- leases ----------------------------------------------------------------------------------------


class StoredLeases:
    """Writes the leases of the subscriptions of one bus."""

    def __init__(
        self, store: Store, clock: Clock, detector: FailureDetector, mailboxes: MailboxTable
    ) -> None:
        self._store, self._clock, self._detector = store, clock, detector
        self._mailboxes = mailboxes

    def keep(self, consumer: Consumer, lease: float) -> None:
        """Keep the lease of a durable subscription: any bus ends it after that."""
        mailbox, until = consumer.mailbox, self._clock.time() + lease

        def save(tx: Transaction) -> None:
            kept, cursor = tx.subscription(mailbox.name), mailbox.cursor
            if isinstance(cursor, DurableCursor) and kept and kept.token == cursor.number:
                definition = replace(Definition.decoded(kept.definition), lease=lease)
                kept = replace(kept, definition=definition.encoded(), lease=until)
                tx.save(kept)
                self._detector.see(kept)

        if consumer.interest.durable is not None:
            self._store.write(save).result()

    def follow_clock(self) -> None:
        """Write deadlines anew after the wall clock was set: they end when they would have."""
        held = [(mailbox, cursor) for mailbox in self._mailboxes if (cursor := cursor_of(mailbox))]
        for _, cursor in held:
            cursor.clock_stepped()
        leased = [
            (mailbox, cursor.number) for mailbox, cursor in held if mailbox.state.lease is not None
        ]

        def save(tx: Transaction) -> None:
            offset = wall_offset(self._clock)
            for mailbox, number in leased:
                kept, lease = tx.subscription(mailbox.name), mailbox.state.lease
                if kept and kept.token == number and lease is not None and lease.until is not None:
                    kept = replace(kept, lease=lease.until + offset)
                    tx.save(kept)
                    self._detector.moved(kept)

        if leased and self._store.failure is None:
            self._store.write(save)
