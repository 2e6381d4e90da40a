"""A store in a SQLite file."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import apsw

from polycast.config import Clock, SystemClock
from polycast.errors import WouldDeadlockError
from polycast.runtime import check_free, is_awaited, runtime_of
from polycast.stores.contract import ReadableStore, Store, Transaction, View, bury_astray
from polycast.stores.sqlite.connections import (
    Files,
    Readers,
    connect,
    identity_of,
    sqlite_errors,
    without_patience,
)
from polycast.stores.sqlite.event_log import LogRowReader
from polycast.stores.sqlite.notifications import ChangeListener, Peers
from polycast.stores.sqlite.row_format import fetch_one
from polycast.stores.sqlite.schema import prepare, version_of
from polycast.stores.sqlite.state import SqlTransaction, SqlView
from polycast.stores.sqlite.write_ahead_log import write_again
from polycast.stores.sqlite.writer import Appending, Change, StoreWriter
from polycast.stores.values import Draft, EventType, LogPage, LogQuery, Run, Stray, one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from polycast.events import Identity


class Readable(ReadableStore):
    """All reads of a store, on the connections that `snapshot` lends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._log = LogRowReader(path)

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection on which all reads see one moment."""

    @contextmanager
    def view(self) -> Iterator[View]:
        """Open a view of the current state."""
        with self.snapshot() as connection:
            yield SqlView(connection, self.path)

    def _page(self, query: LogQuery) -> LogPage:
        with self.snapshot() as connection:
            return self._log.read(connection, query)

    def types(self) -> dict[int, EventType]:
        """Return the types of all records, past ones included, by number."""
        with self.snapshot() as connection:
            return self._log.types(connection)

    def position_at(self, moment: float) -> int:
        """Return the first position whose time is not before a moment."""
        with self.snapshot() as connection:
            return self._log.position_at(connection, moment)

    def find(self, identity: Identity) -> int | None:
        """Return the position of the record with an identity."""
        with self.snapshot() as connection:
            return self._log.find(connection, identity)

    def size(self) -> int:
        """Return the size of the file in bytes, once the write-ahead log is moved into it."""
        with self.snapshot() as connection:
            pages = fetch_one(connection, "PRAGMA page_count")
            return int(pages * fetch_one(connection, "PRAGMA page_size"))


T = TypeVar("T")

_CHUNK = 5_000  # records removed in one transaction


class SqliteStore(Readable, Store):
    """A store in a file that several processes of one host may have open."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        vfs: str | None = None,
        create: bool = True,
    ) -> None:
        super().__init__(os.fspath(path))
        self._clock: Clock = clock if clock is not None else SystemClock()
        runtime = runtime_of(self._clock)
        self._future, vfs = runtime.future, vfs or runtime.vfs
        before = identity_of(self.path)
        connection = connect(self.path, vfs=vfs, create=create, runtime=runtime)
        try:
            with sqlite_errors(self.path):
                version_of(connection, self.path)  # a file of something else is left alone
                with without_patience(connection, runtime):
                    write_again(connection, self.path, vfs)
                prepare(connection, self.path, create=create, runtime=runtime)
                connection.execute("PRAGMA synchronous = FULL")
                files = Files(self.path, connection, before=before)
        except BaseException:  # closing it must not checkpoint: the disk may take nothing more
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()
            raise
        self._files = files
        self._readers = Readers(self.path, files, vfs=vfs, runtime=runtime)
        watchers: list[Callable[[], None]] = []
        self._listener = ChangeListener(self.path, self._readers, watchers, runtime=runtime)
        self._peers = Peers(self._listener.address, runtime=runtime)
        self._writer = StoreWriter(
            connection,
            self.path,
            files=files,
            peers=self._peers,
            watchers=watchers,
            finish=self._readers.close,
            runtime=runtime,
        )
        self._writer.put(Change(self._peers.register, future=self._future))
        self._listener.start()
        # A store that is dropped without close() still ends its threads.
        self._end = weakref.finalize(self, _abandon, self._writer, self._listener)

    # -- the log -----------------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft | Run], *, astray: Sequence[Stray] = ()
    ) -> Future[list[int]]:
        """Append all drafts or none, at consecutive positions; the future resolves once synced."""
        path = self.path
        job = Appending(drafts, future=self._future)
        if astray:
            single, now = one_by_one(drafts), self._clock.time()
            job.also = lambda connection, positions: bury_astray(
                SqlTransaction(connection, path), single, positions, astray, now
            )
        try:
            job.encode(self._clock.time())
        except Exception as error:
            job.error = error
            job.settle()
        else:
            self._writer.put(job)
        return job.future

    def truncate(self, before: int) -> int:
        """Remove records before a position, but never the newest, and return how many."""
        self.check_wait("truncate()")
        total = 0
        while True:
            job = Change(partial(_truncate, before=before), future=self._future)
            self._writer.put(job)
            removed: int = job.future.result()
            total += removed
            if removed < _CHUNK:
                return total

    # -- the state ---------------------------------------------------------------------------------

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Run a transaction; the future has the result, or what `work` raised, once synced."""
        path = self.path

        def change(connection: apsw.Connection) -> T:
            tx = SqlTransaction(connection, path)
            result = work(tx)
            tx.finish()
            job.is_silent = tx.is_silent
            return result

        job = Change(change, future=self._future)
        self._writer.put(job)
        return job.future

    # -- its life ----------------------------------------------------------------------------------

    @property
    def failure(self) -> Exception | None:
        """Why the store accepts no more writes, if it has failed."""
        self._writer.home.check("looking at a store")
        return self._writer.look()

    def watch(self, woken: Callable[[], None]) -> None:
        """Call a function, in any thread, soon after every commit by any process."""
        self._writer.watchers.append(woken)

    def close(self) -> None:
        """Finish what was submitted, and release the file."""
        self._end.detach()
        if self._writer.home.is_elsewhere():
            return
        self._listener.stop(wait=True)
        self._writer.end(Change(self._peers.unregister, future=self._future))
        self._writer.join()

    def check_wait(self, operation: str) -> None:
        """Raise `WouldDeadlockError` in a thread that the store itself waits for."""
        self._writer.home.check(operation)
        if is_awaited():
            raise WouldDeadlockError(operation, why="it is called in a thread that others wait for")
        check_free(operation, self._files.lock)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Lend a connection within a read transaction."""
        with sqlite_errors(self.path), self._readers.snapshot() as connection:
            yield connection


def _abandon(writer: StoreWriter, listener: ChangeListener) -> None:
    if writer.home.is_elsewhere():
        return
    listener.stop(wait=False)
    writer.end()


def _truncate(connection: apsw.Connection, *, before: int) -> int:
    """Remove some of the oldest records, and return their pages to the file system."""
    oldest = fetch_one(connection, "SELECT min(position) FROM log")
    newest = fetch_one(connection, "SELECT max(position) FROM log")
    if oldest is None:
        return 0
    end = min(before, newest, oldest + _CHUNK)
    connection.execute("DELETE FROM log WHERE position < ?", (end,))
    gone = connection.changes() if end > oldest else 0
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    return gone
