"""What a store is: a log of records in total order, and the state of everybody who reads it.

Every implementation (`MemoryStore`, `SqliteStore`, a broker's client) behaves as described here;
the contract tests in `tests/stores` run against each of them. A store object belongs to one
process; several processes may open stores over the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from polycast.runtime import check_free
from polycast.stores.values import Coverage, Letter, LogQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from polycast.events import Identity, Root
    from polycast.stores.values import (
        Advert,
        ContextVersion,
        Draft,
        Effect,
        EventType,
        Flight,
        GroupMember,
        LogPage,
        OpenBus,
        PushedFilter,
        Routed,
        Run,
        Standing,
        StoredReply,
        StoredRoute,
        StoredSubscription,
        Stray,
        Stretch,
    )
    from polycast.typesystem import Description

__all__ = ["CHANGES", "ReadableStore", "Store", "Transaction", "View"]

T = TypeVar("T")
CHANGES = 10_000  # a store remembers which subscriptions changed in this many revisions


# -- reading the state -----------------------------------------------------------------------------


class CatalogView(Protocol):
    """The store itself, and what is known of its users and their classes."""

    def identity(self) -> str:
        """Return the unique name of this store."""

    def newest(self) -> int:
        """Return the newest position; 0 if nothing was ever appended.

        At a broker, more may have been appended before the transaction writes.
        """

    def oldest(self) -> int:
        """Return the oldest position kept; the one after the newest if the log is empty."""

    def revision(self) -> int:
        """Return a number that grows whenever what routing depends on changes.

        That is: descriptions, subscriptions, documents and contexts.
        """

    def descriptions(self, *, after: int = 0) -> list[Description]:
        """List all descriptions but the first `after`, oldest first; none is ever removed."""

    def buses(self) -> list[OpenBus]:
        """List the buses that are open, or were open when their process died."""

    def adverts(self) -> list[Advert]:
        """List the current advertisements."""

    def document(self, kind: str, name: str) -> bytes | None:
        """Return one document, such as the retention rule."""

    def documents(self, kind: str) -> dict[str, bytes]:
        """Return all documents of a kind, by name."""


class SubscriptionView(Protocol):
    """The durable subscriptions and groups."""

    def changed(self, since: int) -> set[str] | None:
        """Name the subscriptions saved or removed after a revision; None if it is too old."""

    def subscription(self, name: str) -> StoredSubscription | None:
        """Return the subscription of that name."""

    def subscriptions(self) -> list[StoredSubscription]:
        """List all subscriptions, sorted by name."""

    def lapsed(self, at: float) -> list[str]:
        """Name the subscriptions whose lease has expired at a time."""


class DeliveryView(Protocol):
    """Events in flight, the members of groups, and dead letters."""

    def flights(self, name: str) -> list[Flight]:
        """List a subscription's flights, done or not, by position; without its mark."""

    def flight(self, name: str, position: int) -> Flight | None:
        """Return a subscription's flight at a position, done or not."""

    def flights_at(self, name: str, positions: Collection[int]) -> list[Flight]:
        """List a subscription's flights at some positions, done or not, by position.

        Its mark is at the position `MARK`.
        """

    def under_way(self, name: str) -> list[Flight]:
        """List a subscription's flights that are not done, by position."""

    def held_back(self) -> dict[str, int]:
        """Return the first position under way of each subscription that has one."""

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        """List a group's first flights without a holder that are not done and due at a time."""

    def members(self, name: str) -> list[GroupMember]:
        """List the members of a group."""

    def strays(self) -> list[int]:
        """List the buses in groups that are not open: they joined after they were removed."""

    def standing(self, name: str, *, at: float, limit: int) -> Standing:
        """Return the state of a group at a time, with at most `limit` free flights."""

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        """List dead letters by number, of one subscription or all."""

    def count_letters(self, *, subscription: str | None = None, at: int | None = None) -> int:
        """Count dead letters, of one subscription or all, at one position or all."""


class RoutingView(Protocol):
    """The pipeline's routes and results, and the versions of contexts."""

    def routed(self) -> Routed:
        """Return how far the pipeline has come; position 1 before its first run."""

    def route(self, name: str) -> StoredRoute | None:
        """Return the current route of a subscription."""

    def routes(self, *, at: int | None = None) -> list[StoredRoute]:
        """List all routes, or those in effect at a position, by number."""

    def context(self, name: str) -> ContextVersion | None:
        """Return the current version of a context."""

    def contexts(self, *, at: int | None = None) -> list[ContextVersion]:
        """List all versions of contexts, or those in effect at a position, by number."""

    def in_effect(self, position: int) -> Effect:
        """Return a fingerprint of the routes and contexts in effect at a position."""

    def last_turn(self, position: int) -> int:
        """Return the last position, up to this one, where a route or context changes; or 0."""

    def turns(self, low: int, high: int) -> list[int]:
        """List the positions between two, both exclusive, where a route or context changes."""

    def stretches(self, start: int, *, limit: int) -> list[Stretch]:
        """List the first stretches that end after a position."""

    def awaited(self) -> int:
        """Return the first position before `routed().high` whose result is still needed.

        What is before its route, a subscription reads from the log and filters by itself.
        """


class View(CatalogView, SubscriptionView, DeliveryView, RoutingView, Protocol):
    """The state at one moment."""


# -- changing the state ----------------------------------------------------------------------------


class CatalogChanges(Protocol):
    """Changes to what is known of users and their classes."""

    def describe(self, description: Description) -> None:
        """Store a description; storing it again changes nothing."""

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        """Register a bus under a new id, with the epoch after the publisher's last."""

    def keep_bus(self, bus: int, *, until: float) -> bool:
        """Record a heartbeat of a bus; False if it was removed."""

    def remove_bus(self, bus: int) -> None:
        """Remove a closed or dead bus with its memberships and adverts, and free what it holds."""

    def advertise(self, advert: Advert) -> int:
        """Store an advertisement, and return its new number."""

    def withdraw(self, number: int) -> None:
        """Remove an advertisement."""

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        """Store a document, replacing the one of that kind and name."""

    def remove_document(self, kind: str, name: str) -> None:
        """Remove a document."""

    def answer(self, client: str) -> StoredReply | None:
        """Return the last reply to a broker's client."""

    def put_answer(self, answer: StoredReply) -> None:
        """Store a reply to a client, replacing the one before."""

    def drop_answers(self, before: float) -> int:
        """Remove replies given before a time, and return how many."""


class SubscriptionChanges(Protocol):
    """Changes to subscriptions."""

    def save(self, kept: StoredSubscription) -> None:
        """Store a subscription, replacing the one of that name."""

    def take_over(self, kept: StoredSubscription) -> int:
        """Store a subscription under a new token, higher than any before, and return the token.

        A remote store learns the token only afterwards, so the same work must not depend on it.
        """

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        """Move a cursor; if the token is not the current one, change nothing and return False."""

    def remove(self, name: str) -> None:
        """Remove a subscription with its flights and members, and end its route."""


class DeliveryChanges(Protocol):
    """Changes to flights, groups and dead letters."""

    def fly(self, flights: Sequence[Flight]) -> None:
        """Store flights, replacing those at their positions."""

    def claim(self, flight: Flight) -> bool:
        """Store a flight unless there is one at its position; return whether it was stored."""

    def land(self, name: str, positions: Collection[int]) -> None:
        """Remove flights."""

    def land_before(self, name: str, position: int) -> None:
        """Remove flights that are done and before a position."""

    def join(self, member: GroupMember) -> None:
        """Store a membership, replacing the one before."""

    def leave(self, name: str, bus: int) -> None:
        """Remove a membership."""

    def bury(self, letters: Sequence[Letter]) -> None:
        """Store dead letters under new numbers."""

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        """Remove dead letters, and return those that existed, by number."""


class RoutingChanges(Protocol):
    """Changes to routes, contexts and the pipeline's results."""

    def begin_route(self, name: str, definition: bytes) -> StoredRoute:
        """Route for a subscription from the end of the log on, replacing its current route."""

    def end_route(self, name: str) -> None:
        """Stop routing for a subscription at the end of the log."""

    def forget_routes(self, before: int) -> None:
        """Remove routes that ended at a position or earlier."""

    def put_context(self, name: str, body: bytes) -> ContextVersion:
        """Put a version of a context into effect from the end of the log on.

        The same body again changes nothing. A version that no event met leaves no trace.
        """

    def end_context(self, name: str) -> None:
        """End a context at the end of the log."""

    def forget_contexts(self, before: int) -> None:
        """Remove versions that ended at a position or earlier."""

    def give_root(self, position: int, root: Root) -> bool:
        """Add the root form to a record that could not leave its context when it was published.

        Return False if there is no such record, or it has a root form. Nothing else in the log ever
        changes.
        """

    def take_routing(self) -> Routed:
        """Make the caller the only one that may write the pipeline's results, under a new token."""

    def advance(self, stretches: Sequence[Stretch], *, token: int) -> bool:
        """Store the stretches that follow `routed().high`, and move it; False if the token is old.

        Stretches stored before are skipped. One that leaves a gap, overlaps, or ends after the log
        raises `ValueError`, and nothing is stored.
        """

    def drop_stretches(self, before: int) -> int:
        """Remove stretches that end at a position or earlier, and return how many."""


class Transaction(
    View, CatalogChanges, SubscriptionChanges, DeliveryChanges, RoutingChanges, Protocol
):
    """Changes to the state, all or none; it sees its own.

    A remote store may run the same work again until what it has read still holds. So the work must
    have no side effects, except through the transaction or in what it passes to `after`.
    """

    def after(self, done: Callable[[], None]) -> None:
        """Call a function once the work is committed, before any other work begins."""


# -- the store -------------------------------------------------------------------------------------


class ReadableStore(Protocol):
    """The half of a store that reads.

    What is not overridden holds for the stores of this process: they omit nothing from a page, so
    they need not know what is wanted.
    """

    def view(self) -> AbstractContextManager[View]:
        """Open a view of the current state; close it soon."""

    def read(
        self,
        start: int,
        *,
        limit: int = 1_000,
        until: int | None = None,
        types: Collection[int] | None = None,
        wanted_by: str | None = None,
        size: int | None = None,
    ) -> LogPage:
        """Read the first records from a position on, of all types or of some (by number).

        A record also has the type of its root form. Records that the subscription `wanted_by`
        cannot want, by what it passed to `want`, may be omitted. `size` limits the bytes: the page
        ends with the record that reaches it. A page ends before a damaged record; one that begins
        there raises `StoreDamagedError`.
        """
        return self._page(LogQuery(start, limit, until, types, wanted_by, size))

    def _page(self, query: LogQuery) -> LogPage:
        """Read the records that `read` was asked for."""

    def news(self, start: int, *, limit: int = 1_000, size: int | None = None) -> LogPage:
        """Read the first records from a position on that any subscription here may want."""
        return self.read(start, limit=limit, size=size)

    def want(self, name: str, definitions: Sequence[bytes]) -> Coverage:
        """Declare what a subscription here wants; an empty list means nothing any more."""
        del name, definitions
        return Coverage(1)

    def asked(self, name: str) -> list[PushedFilter]:
        """List what the broker currently evaluates of a subscription's filters."""
        del name
        return []

    def types(self) -> dict[int, EventType]:
        """Return the types of all records and root forms, by number. It only grows."""

    def newest(self) -> int:
        """Return the newest position; 0 if nothing was ever appended."""
        with self.view() as view:
            return view.newest()

    def oldest(self) -> int:
        """Return the oldest position kept; the one after the newest if the log is empty."""
        with self.view() as view:
            return view.oldest()

    def position_at(self, moment: float) -> int:
        """Return the first position whose time is not before a moment; else the next new one."""

    def find(self, identity: Identity) -> int | None:
        """Return the position of the record with an identity."""

    def size(self) -> int:
        """Return the size of the store in bytes."""

    def notices(self) -> list[str]:
        """Describe in words what is degraded for this client; only a broker has such notices."""
        return []


class Store(ReadableStore, Protocol):
    """A log and its state."""

    is_tended: bool = False
    """Whether another process removes dead buses and applies retention."""
    is_remote: bool = False
    """Whether reads come from another process, which filters by what `want` declares."""

    def check_wait(self, operation: str) -> None:
        """Raise `WouldDeadlockError` in a thread that the store itself waits for."""
        check_free(operation)

    def submit(
        self, drafts: Sequence[Draft | Run], *, astray: Sequence[Stray] = ()
    ) -> Future[list[int]]:
        """Append all drafts or none, at consecutive positions; the future resolves once synced.

        A draft whose identity is already in the log is not appended again; its existing position is
        returned. Times of records never decrease. Drafts listed in `astray` also become dead
        letters, in the same transaction.
        """

    def append(self, drafts: Sequence[Draft | Run], *, timeout: float | None = None) -> list[int]:
        """Submit, and wait; after a `TimeoutError` the drafts may or may not be in the log."""
        self.check_wait("append()")
        return self.submit(drafts).result(timeout)

    def truncate(self, before: int) -> int:
        """Remove records before a position, but never the newest, and return how many."""

    def describe(self, descriptions: Sequence[Description]) -> Future[None]:
        """Store descriptions, before anything that is submitted afterwards."""
        copied = list(descriptions)

        def describe_all(tx: Transaction) -> None:
            for description in copied:
                tx.describe(description)

        return self.write(describe_all)

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Run a transaction; the future has the result, or what `work` raised, once synced."""

    # -- its life ----------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether the store can be reached now."""
        return True

    @property
    def trouble(self) -> Exception | None:
        """The last connection error, until a later call succeeds."""
        return None

    @property
    def failure(self) -> Exception | None:
        """Why the store accepts no more writes, if it has failed."""
        return None

    def watch(self, woken: Callable[[], None]) -> None:
        """Call a function, in any thread, soon after every commit by any process.

        Not after one that only moves cursors: these concern nobody but whoever has moved them.
        """

    def close(self) -> None:
        """Finish what was submitted, and release the file."""


def bury_astray(
    tx: Transaction,
    drafts: Sequence[Draft],
    positions: Sequence[int],
    astray: Sequence[Stray],
    now: float,
) -> None:
    """Store dead letters for appended drafts that cannot leave their context."""
    for stray in astray:
        name, position = stray.subscription, positions[stray.number]
        if not tx.count_letters(subscription=name, at=position):
            record = drafts[stray.number].at(now)
            tx.bury([Letter(0, name, position, record, stray.reason, 1, now)])
