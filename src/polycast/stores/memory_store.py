"""A store in memory: its log is a list, and its state the tables of a file, in memory."""

from __future__ import annotations

import threading
from bisect import bisect_left
from concurrent.futures import Future
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import apsw
from msgspec.structs import replace

from polycast.config import Clock, SystemClock
from polycast.errors import StoreClosedError
from polycast.errors.failures import failures_here
from polycast.events import Identity, Record, Root, encode_record
from polycast.stores.contract import Store, Transaction, View, bury_astray
from polycast.stores.sqlite.schema import STEPS
from polycast.stores.sqlite.state import SqlTransaction
from polycast.stores.values import (
    Draft,
    EventType,
    LogPage,
    Run,
    Stored,
    one_by_one,
    size_of_context,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polycast.stores.values import LogQuery, Stray

T = TypeVar("T")


_position = attrgetter("position")


class MemoryTransaction(SqlTransaction):
    """Reads of the state, and changes to it; `name` registers the types of a record."""

    def __init__(
        self, tables: apsw.Connection, log: list[Stored], name: Callable[[Record], None]
    ) -> None:
        super().__init__(tables, "memory:")
        self._log, self._name = log, name
        self._amended: list[tuple[int, Stored]] = []  # records as they were before this work

    def newest(self) -> int:
        """Return the newest position; 0 if nothing was ever appended."""
        return newest_of(self._log)

    def oldest(self) -> int:
        """Return the oldest position kept."""
        return oldest_of(self._log)

    def give_root(self, position: int, root: Root) -> bool:
        """Give a record a root form, unless it has one."""
        at = bisect_left(self._log, position, key=_position)
        stored = self._log[at] if at < len(self._log) else None
        if stored is None or stored.position != position:
            return False
        record = stored.record
        if record.context is None or record.root is not None:
            return False
        amended = replace(record, root=root)
        self._amended.append((at, stored))
        self._log[at] = Stored(position, amended)
        self._name(amended)
        return True

    def undo_roots(self) -> None:
        """Restore the records that failed work gave a root form to."""
        for at, before in reversed(self._amended):
            self._log[at] = before


class MemoryStore(Store):
    """A store that lives as long as its process; one lock is all it needs."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._lock = threading.RLock()
        self._log: list[Stored] = []
        self._identities: dict[Identity, int] = {}
        self._types: dict[EventType, int] = {}
        self._tables = apsw.Connection(":memory:")
        for step in STEPS:
            self._tables.execute(step)
        self._latest = 0.0
        self._woken: list[Callable[[], None]] = []
        self._closed = False

    # -- the log -----------------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft | Run], *, astray: Sequence[Stray] = ()
    ) -> Future[list[int]]:
        """Append all drafts or none."""
        single = one_by_one(drafts)

        def append() -> list[int]:
            positions = self._append(single)
            bury_astray(self._state(), single, positions, astray, self._latest)
            return positions

        return self._done(append)

    def _append(self, drafts: Sequence[Draft]) -> list[int]:
        self._latest = max(self._latest, self._clock.time())
        records = [draft.at(self._latest) for draft in drafts]
        for record in records:
            encode_record(record)  # raises for what a file could not store either
        positions = []
        for record in records:
            if record.identity not in self._identities:
                position = newest_of(self._log) + 1
                self._log.append(Stored(position, record))
                self._identities[record.identity] = position
                self._name(record)
            positions.append(self._identities[record.identity])
        return positions

    def _name(self, record: Record) -> None:
        for named in _types_of(record):
            self._types.setdefault(named, len(self._types) + 1)

    def _page(self, query: LogQuery) -> LogPage:
        """Read the first records from a position on."""
        start, size = query.start, query.size
        with self._lock:
            newest = newest_of(self._log)
            kinds = query.types or ()
            wanted = {named for named, number in self._types.items() if number in kinds}
            end = newest + 1 if query.until is None else query.until
            end = max(start, min(end, newest + 1))
            entries: list[Stored] = []
            first = bisect_left(self._log, start, key=_position)
            for at in range(first, len(self._log)):  # a slice would be a copy of all that follows
                stored = self._log[at]
                if stored.position >= end:
                    break
                if query.types is None or not wanted.isdisjoint(_types_of(stored.record)):
                    if len(entries) == query.limit or (size is not None and size <= 0 and entries):
                        return LogPage(entries, entries[-1].position + 1 if entries else start)
                    entries.append(stored)
                    size = None if size is None else size - _bytes(stored.record)
            return LogPage(entries, end, more=False)

    def types(self) -> dict[int, EventType]:
        """The types of which there are records."""
        with self._lock:
            return {number: named for named, number in self._types.items()}

    def position_at(self, moment: float) -> int:
        """The first position kept whose time is not before a moment."""
        with self._lock:
            later = (stored.position for stored in self._log if stored.record.time >= moment)
            return next(later, self.newest() + 1)

    def find(self, identity: Identity) -> int | None:
        """Where the record with an identity is."""
        with self._lock:
            return self._identities.get(identity)

    def truncate(self, before: int) -> int:
        """Remove records before a position."""
        with self._lock:
            gone = [stored for stored in self._log if stored.position < before][
                : len(self._log) - 1
            ]
            del self._log[: len(gone)]
            for stored in gone:
                del self._identities[stored.record.identity]
            return len(gone)

    def size(self) -> int:
        """Return the size of all payloads in bytes."""
        with self._lock:
            return sum(sum(map(len, _payloads_of(stored.record))) for stored in self._log)

    # -- the state ---------------------------------------------------------------------------------

    @contextmanager
    def view(self) -> Iterator[View]:
        """Open a view of the current state."""
        with self._lock:
            yield self._state()

    def _state(self) -> MemoryTransaction:
        return MemoryTransaction(self._tables, self._log, self._name)

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Run a transaction; its changes are kept all or not at all."""

        def change() -> T:
            state = self._state()
            self._tables.execute("SAVEPOINT change")  # work may write within itself
            try:
                result = work(state)
                state.finish()
            except BaseException:
                state.undo_roots()
                self._tables.execute("ROLLBACK TO change")
                raise
            finally:
                self._tables.execute("RELEASE change")
            return result

        return self._done(change)

    def _done(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            try:
                if self._closed:
                    raise StoreClosedError()
                future.set_result(work())
            except failures_here() as error:
                future.set_exception(error)
        for woken in self._woken:
            woken()
        return future

    # -- its life ----------------------------------------------------------------------------------

    def watch(self, woken: Callable[[], None]) -> None:
        """Call a function after each change."""
        self._woken.append(woken)

    def close(self) -> None:
        """Accept nothing any more."""
        with self._lock:
            self._closed = True


def _types_of(record: Record) -> list[EventType]:
    """Return the types of a record and of its root form."""
    named: list[Record | Root] = [record]
    if record.root is not None:
        named.append(record.root)
    return [EventType(holder.name, holder.version, holder.hash) for holder in named]


def _payloads_of(record: Record) -> list[bytes]:
    return [record.payload] if record.root is None else [record.payload, record.root.payload]


def _bytes(record: Record) -> int:
    """Estimate the size of a record in bytes."""
    around = size_of_context(record.topic, record.context, record.headers)
    return around + sum(map(len, _payloads_of(record)))


def newest_of(log: list[Stored]) -> int:
    """The newest position; 0 if nothing was ever appended."""
    return log[-1].position if log else 0


def oldest_of(log: list[Stored]) -> int:
    """The oldest position kept."""
    return log[0].position if log else 1
