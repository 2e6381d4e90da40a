"""A store in a SQLite file."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from polycast.config import SystemClock
from polycast.errors import WouldDeadlock
from polycast.stores.sqlite.connections import Readers, connect, told
from polycast.stores.sqlite.jobs import Appending, Change
from polycast.stores.sqlite.reading import LogReader
from polycast.stores.sqlite.rows import fetch_one
from polycast.stores.sqlite.schema import prepare
from polycast.stores.sqlite.state import SqlTransaction, SqlView
from polycast.stores.sqlite.waking import Listener, Peers
from polycast.stores.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future

    import apsw

    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.stores.contract import Batch, Draft, EventType, Run, Transaction, View

__all__ = ["SqliteStore"]

T = TypeVar("T")

_CHUNK = 5_000  # records let go in one transaction


class SqliteStore:
    """A store in a file that several processes of one host may have open."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        vfs: str | None = None,
        create: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self._clock: Clock = clock if clock is not None else SystemClock()
        connection = connect(self.path, vfs=vfs, create=create)
        try:
            with told(self.path):
                prepare(connection, self.path, create=create)
                connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        self._readers = Readers(self.path, vfs=vfs)
        self._log = LogReader(self.path)
        watchers: list[Callable[[], None]] = []
        self._listener = Listener(self.path, self._readers, watchers)
        self._peers = Peers(self._listener.address)
        self._writer = Writer(
            connection, self.path, peers=self._peers, watchers=watchers, finish=self._readers.close
        )
        self._writer.put(Change(self._peers.register))
        self._listener.start()
        # A store that is dropped without close() ends its threads all the same.
        self._end = weakref.finalize(self, _abandon, self._writer, self._listener)

    # -- the log -----------------------------------------------------------------------------------

    def submit(self, drafts: Sequence[Draft | Run]) -> Future[list[int]]:
        """Append, all or none, in one run of positions; the result comes when it is synced."""
        job = Appending(drafts)
        try:
            job.encode(self._clock.time())
        except Exception as error:
            job.error = error
            job.settle()
        else:
            self._writer.put(job)
        return job.future

    def append(self, drafts: Sequence[Draft | Run], *, timeout: float | None = None) -> list[int]:
        """The same, waiting for it."""
        self._may_wait("append()")
        return self.submit(drafts).result(timeout)

    def read(
        self,
        start: int,
        *,
        limit: int = 1_000,
        until: int | None = None,
        types: Collection[int] | None = None,
    ) -> Batch:
        """The first records from a position on, of all or of some types (by number).

        What is before a damaged record is given; the read that begins at it raises `StoreDamaged`.
        """
        with self._snapshot() as connection:
            return self._log.read(connection, start, limit=limit, until=until, types=types)

    def types(self) -> dict[int, EventType]:
        """The types of which there are records, by number."""
        with self._snapshot() as connection:
            return self._log.types(connection)

    def newest(self) -> int:
        """The newest position."""
        with self.view() as view:
            return view.newest()

    def oldest(self) -> int:
        """The oldest position kept."""
        with self.view() as view:
            return view.oldest()

    def position_at(self, moment: float) -> int:
        """The first position kept whose time is not before a moment."""
        with self._snapshot() as connection:
            return self._log.position_at(connection, moment)

    def find(self, identity: Identity) -> int | None:
        """Where the record with an identity is."""
        with self._snapshot() as connection:
            return self._log.find(connection, identity)

    def truncate(self, before: int) -> int:
        """Let go of what is before a position, but never of the newest; how many records went."""
        self._may_wait("truncate()")
        gone = 0
        while True:
            job = Change(partial(_let_go, before=before))
            self._writer.put(job)
            went = job.future.result()
            gone += went
            if went < _CHUNK:
                return gone

    def size(self) -> int:
        """How many bytes the file takes once all that was written is in it."""
        with self._snapshot() as connection:
            pages = fetch_one(connection, "PRAGMA page_count")
            return int(pages * fetch_one(connection, "PRAGMA page_size"))

    # -- the state ---------------------------------------------------------------------------------

    @contextmanager
    def view(self) -> Iterator[View]:
        """Look at the state as it is now."""
        with self._snapshot() as connection:
            yield SqlView(connection, self.path)

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Change the state; the result, or what `work` raised, comes when it is synced."""
        path = self.path
        job = Change(lambda connection: work(SqlTransaction(connection, path)))
        self._writer.put(job)
        return job.future

    # -- its life ----------------------------------------------------------------------------------

    @property
    def failure(self) -> Exception | None:
        """Why nothing can be written any more, if that is so."""
        return self._writer.failure

    def watch(self, woken: Callable[[], None]) -> None:
        """Have a function called, in some thread, soon after anybody has committed anything."""
        self._writer.watchers.append(woken)

    def close(self) -> None:
        """Finish what was submitted, and let go of the file."""
        self._end.detach()
        self._listener.stop(wait=True)
        self._writer.end(Change(self._peers.unregister))
        self._writer.join()

    def _may_wait(self, operation: str) -> None:
        if self._writer.is_current():
            raise WouldDeadlock(operation, why="it is called in the thread that writes the store")

    @contextmanager
    def _snapshot(self) -> Iterator[apsw.Connection]:
        with told(self.path), self._readers.snapshot() as connection:
            yield connection


def _abandon(writer: Writer, listener: Listener) -> None:
    listener.stop(wait=False)
    writer.end()


def _let_go(connection: apsw.Connection, *, before: int) -> int:
    """Remove some of the oldest records, and give their pages back to the file system."""
    oldest = fetch_one(connection, "SELECT min(position) FROM log")
    newest = fetch_one(connection, "SELECT max(position) FROM log")
    if oldest is None:
        return 0
    end = min(before, newest, oldest + _CHUNK)
    connection.execute("DELETE FROM log WHERE position < ?", (end,))
    gone = connection.changes() if end > oldest else 0
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    return gone
