"""What a store is: a log of records in total order, and the state of who reads it.

`SqliteStore` and `MemoryStore` do the same by this contract; the tests in `tests/stores` hold both
to it. A store belongs to one process; several processes may have stores over the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from polycast.stores.values import (
    MARK,
    Advert,
    ContextVersion,
    Coverage,
    Draft,
    Effect,
    EventType,
    Flight,
    GroupMember,
    Letter,
    LogPage,
    Mark,
    OpenBus,
    PushedFilter,
    Routed,
    Run,
    Standing,
    Stored,
    StoredReply,
    StoredRoute,
    StoredSubscription,
    Stray,
    Stretch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from polycast.events import Identity, Root
    from polycast.typesystem import Description

__all__ = [
    "MARK",
    "Advert",
    "ContextVersion",
    "Coverage",
    "Draft",
    "Effect",
    "EventType",
    "Flight",
    "GroupMember",
    "Letter",
    "LogPage",
    "Mark",
    "OpenBus",
    "Routed",
    "Run",
    "Standing",
    "Store",
    "Stored",
    "StoredReply",
    "StoredRoute",
    "StoredSubscription",
    "Stray",
    "Stretch",
    "Transaction",
    "View",
]

T = TypeVar("T")
CHANGES = 10_000  # revisions for which a store knows what changed


class View(Protocol):
    """The state at one moment."""

    def identity(self) -> str:
        """What tells this store from any other."""

    def newest(self) -> int:
        """The newest position; 0 if nothing was ever appended.

        At a broker more may have been appended since, before what a transaction writes.
        """

    def oldest(self) -> int:
        """The oldest position kept; that after the newest if nothing is."""

    def revision(self) -> int:
        """A number that grows with a change of descriptions, subscriptions, documents, contexts."""

    def changed(self, since: int) -> set[str] | None:
        """The subscriptions saved or removed after a revision; None if that is too long ago."""

    def descriptions(self, *, after: int = 0) -> list[Description]:
        """All of them but the first so many, in the order in which they came; none ever goes."""

    def buses(self) -> list[OpenBus]:
        """The buses that are open, or were when they died."""

    def subscription(self, name: str) -> StoredSubscription | None:
        """The subscription of that name."""

    def subscriptions(self) -> list[StoredSubscription]:
        """All of them, by name."""

    def lapsed(self, at: float) -> list[str]:
        """The names of subscriptions whose lease is over at a time."""

    def flights(self, name: str) -> list[Flight]:
        """What is in flight for a subscription, done or not, by position; not its mark."""

    def flight(self, name: str, position: int) -> Flight | None:
        """What is in flight for a subscription at a position, done or not."""

    def flights_at(self, name: str, positions: Collection[int]) -> list[Flight]:
        """What is in flight for a subscription at some positions, done or not, by position.

        At `MARK` that is its mark.
        """

    def under_way(self, name: str) -> list[Flight]:
        """What is in flight for a subscription and not done, by position."""

    def held_back(self) -> dict[str, int]:
        """For each subscription with something under way, the first position of that."""

    def free(self, name: str, *, at: float, limit: int) -> list[Flight]:
        """The first flights of a group that nobody holds, not done and due at a time."""

    def members(self, name: str) -> list[GroupMember]:
        """Who is in a group."""

    def strays(self) -> list[int]:
        """The buses that are in groups and not open: they joined when they had been removed."""

    def standing(self, name: str, *, at: float, limit: int) -> Standing:
        """How a group is doing at a time; of what is free, the first so many."""

    def letters(
        self, *, subscription: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Letter]:
        """Dead letters by number, of one subscription or all."""

    def count_letters(self, *, subscription: str | None = None, at: int | None = None) -> int:
        """How many there are, of all or of one subscription, at a position or anywhere."""

    def adverts(self) -> list[Advert]:
        """What is advertised."""

    def document(self, kind: str, name: str) -> bytes | None:
        """A document, such as the rule of retention."""

    def documents(self, kind: str) -> dict[str, bytes]:
        """All of a kind, by name."""

    def routed(self) -> Routed:
        """How far the pipeline has come: 1 before it ever ran."""

    def route(self, name: str) -> StoredRoute | None:
        """What the pipeline routes for a subscription from now on."""

    def routes(self, *, at: int | None = None) -> list[StoredRoute]:
        """All that the pipeline routes for, or those in effect at a position, by number."""

    def context(self, name: str) -> ContextVersion | None:
        """What a context is from now on."""

    def contexts(self, *, at: int | None = None) -> list[ContextVersion]:
        """All versions of contexts, or those in effect at a position, by number."""

    def in_effect(self, position: int) -> Effect:
        """Which routes and contexts are in effect at a position, said in three numbers."""

    def last_turn(self, position: int) -> int:
        """The last position, up to this one, at which a route or a context begins or ends, or 0."""

    def turns(self, low: int, high: int) -> list[int]:
        """The positions between two, both exclusive, at which one of them begins or ends."""

    def stretches(self, start: int, *, limit: int) -> list[Stretch]:
        """The first stretches that end after a position."""

    def awaited(self) -> int:
        """The first position before `routed().high` of which somebody may ask who takes it.

        What is before its route, a subscription reads from the log and is asked about itself.
        """


class Transaction(View, Protocol):
    """Changes to the state, all or none; it sees its own.

    A store far away may run the same work more than once, until what it has read still holds. So
    work changes nothing but through the transaction, or in what it gives to `after`.
    """

    def after(self, done: Callable[[], None]) -> None:
        """Have something done when the work has come to its end for good, before any other's."""

    def describe(self, description: Description) -> None:
        """Keep a description; once is enough."""

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        """A new opening of a publisher: the epoch after its last, and an id of its own."""

    def keep_bus(self, bus: int, *, until: float) -> bool:
        """It lives on; False if it was removed."""

    def remove_bus(self, bus: int) -> None:
        """It is closed or dead: its memberships and adverts go, what it holds is free again."""

    def save(self, kept: StoredSubscription) -> None:
        """Put a subscription in place of what there was under its name."""

    def take_over(self, kept: StoredSubscription) -> int:
        """The same, under a token of its own, higher than any that a subscription ever had.

        Nothing that the same work does may depend on the token: elsewhere it is told afterwards.
        """

    def move(self, name: str, *, token: int, cursor: int) -> bool:
        """Move a cursor; False, and nothing moved, if the token is not the current one."""

    def remove(self, name: str) -> None:
        """Remove a subscription with its flights and members; its route ends here."""

    def fly(self, flights: Sequence[Flight]) -> None:
        """Put flights in place of what there was at their positions."""

    def claim(self, flight: Flight) -> bool:
        """Add a flight unless there is one at its position; whether it was added."""

    def land(self, name: str, positions: Collection[int]) -> None:
        """Remove flights."""

    def land_before(self, name: str, position: int) -> None:
        """Remove flights that are done and before a position."""

    def join(self, member: GroupMember) -> None:
        """Put a membership in place of what there was."""

    def leave(self, name: str, bus: int) -> None:
        """Remove a membership."""

    def bury(self, letters: Sequence[Letter]) -> list[int]:
        """Keep dead letters under new numbers."""

    def exhume(self, numbers: Collection[int]) -> list[Letter]:
        """Take dead letters out; those that were there, by number."""

    def advertise(self, advert: Advert) -> int:
        """Keep an advert under a new number."""

    def withdraw(self, number: int) -> None:
        """Remove an advert."""

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        """Keep a document in place of what there was."""

    def remove_document(self, kind: str, name: str) -> None:
        """Remove a document."""

    def begin_route(self, name: str, definition: bytes) -> StoredRoute:
        """Route for a subscription from the end of the log on, in place of what there was."""

    def end_route(self, name: str) -> None:
        """Route for a subscription no more from the end of the log on."""

    def forget_routes(self, before: int) -> None:
        """Remove routes that ended at a position or earlier."""

    def put_context(self, name: str, body: bytes) -> ContextVersion:
        """Have a context from the end of the log on, in place of what it was.

        The same body again changes nothing. A version that no event met leaves no trace.
        """

    def end_context(self, name: str) -> None:
        """Have a context no more from the end of the log on."""

    def forget_contexts(self, before: int) -> None:
        """Remove versions that ended at a position or earlier."""

    def give_root(self, position: int, root: Root) -> bool:
        """Let a record that could not leave its context have a root form, late.

        Whether it did: it is there, and had none. Nothing else in the log ever changes.
        """

    def take_routing(self) -> Routed:
        """Whoever asks runs the pipeline from now on; whoever did may not write any more."""

    def advance(self, stretches: Sequence[Stretch], *, token: int) -> bool:
        """Keep what follows `routed().high`, and move that on; False if the token is stale.

        A stretch that was kept before is left out. One that begins later, overlaps, or ends after
        the log is a `ValueError`, and nothing is kept.
        """

    def drop_stretches(self, before: int) -> int:
        """Remove stretches that end at a position or earlier; how many went."""

    def answer(self, client: str) -> StoredReply | None:
        """What a client of a broker was told last about work of its own."""

    def put_answer(self, answer: StoredReply) -> None:
        """Keep what a client is told, in place of what it was told before."""

    def drop_answers(self, before: float) -> int:
        """Remove answers given before a time; how many went."""


class Store(Protocol):
    """A log and its state."""

    is_tended: bool
    """Whether somebody else buries dead buses and lets go of what need not be kept."""
    is_remote: bool
    """Whether what is read comes from another process, which wants to know what is wanted."""

    def check_wait(self, operation: str) -> None:
        """Refuse, with `WouldDeadlockError`, a thread that the store itself waits for."""

    # -- the log -----------------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft | Run], *, astray: Sequence[Stray] = ()
    ) -> Future[list[int]]:
        """Append, all or none, in one row of positions; the result comes when it is synced.

        A draft whose identity is in the log already is not appended again; it has the position it
        had. The time of a record never is before that of the record before it. Those that
        are `astray` are dead letters, too, in the same transaction.
        """

    def append(self, drafts: Sequence[Draft | Run], *, timeout: float | None = None) -> list[int]:
        """The same, waiting for it; `TimeoutError` means that nobody knows."""

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
        """The first records from a position on, of all or of some types (by number).

        A record is of the type of its root form, too. What a subscription cannot want, by what
        `want` was told, may be left out. With a `size` it ends with the record that makes up about
        so many bytes.
        """

    def news(self, start: int, *, limit: int = 1_000, size: int | None = None) -> LogPage:
        """The same without a choice; what nobody here can want may be left out."""

    def want(self, name: str, definitions: Sequence[bytes]) -> Coverage:
        """Tell what a subscription here wants, or that it wants nothing more."""

    def asked(self, name: str) -> list[PushedFilter]:
        """What is asked elsewhere of the filters of what such a subscription wants, just now."""

    def types(self) -> dict[int, EventType]:
        """The types of which there are records or root forms, by number. It only grows."""

    def newest(self) -> int:
        """The newest position; 0 if nothing was ever appended."""

    def oldest(self) -> int:
        """The oldest position kept; that after the newest if nothing is."""

    def position_at(self, moment: float) -> int:
        """The first position kept whose time is not before a moment; else that after the newest."""

    def find(self, identity: Identity) -> int | None:
        """Where the record with an identity is."""

    def truncate(self, before: int) -> int:
        """Let go of what is before a position, but never of the newest; how many records went."""

    def size(self) -> int:
        """How many bytes the store takes."""

    def notices(self) -> list[str]:
        """What it does otherwise than usual for who asks, in words; only a broker ever does."""

    # -- the state ---------------------------------------------------------------------------------

    def describe(self, descriptions: Sequence[Description]) -> Future[None]:
        """Keep descriptions; what is submitted afterwards is in the log afterwards."""

    def view(self) -> AbstractContextManager[View]:
        """Look at the state as it is now; do not keep it long."""

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Change the state; the result, or what `work` raised, comes when it is synced."""

    # -- its life ----------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether it can be asked now."""

    @property
    def trouble(self) -> Exception | None:
        """Why it could not be asked of late, if nothing has shown since that it can be again."""

    @property
    def failure(self) -> Exception | None:
        """Why nothing can be written any more, if that is so."""

    def watch(self, woken: Callable[[], None]) -> None:
        """Have a function called, in some thread, soon after anybody has committed anything."""

    def close(self) -> None:
        """Finish what was submitted, and let go of the file."""
