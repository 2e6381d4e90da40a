"""The writer thread of a store, and its jobs: it commits in groups that grow with the load."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import apsw

from polycast.errors import (
    StoreClosedError,
    StoreDamagedError,
    StoreFailedError,
    StoreReplacedError,
)
from polycast.events import encode_record, record_encoder, rooted_encoder
from polycast.runtime import SYSTEM, Home, InterruptibleFuture, Runtime, others_wait
from polycast.stores.sqlite.connections import Files, opened
from polycast.stores.sqlite.event_log import Appender, Interner, NamedRun, Source, Type
from polycast.stores.sqlite.row_format import fetch
from polycast.stores.values import Draft, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from queue import SimpleQueue

    from polycast.stores.sqlite.notifications import Peers

T = TypeVar("T")

# -- jobs ------------------------------------------------------------------------------------------

_ENCODER_PAYS = 4  # events of a run, from which on an encoder of its own takes less time
_CHANGE = 100  # records that a change counts as when the size of a group is measured


class WriteJob(Generic[T]):
    """Something to write, with its outcome and the future of those who wait."""

    __slots__ = ("error", "future", "result")

    result: T
    records: int  # the size of groups is measured by both
    size: int
    is_silent: bool  # whether nobody has to look at the store because of it

    def __init__(self, future: Callable[[], InterruptibleFuture[T]]) -> None:
        self.future = future()
        self.future.set_running_or_notify_cancel()  # a submitted job cannot be cancelled
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Resolve the future."""
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Change(WriteJob[T]):
    """A function that changes the state, or truncates the log, in the writer's transaction."""

    __slots__ = ("is_silent", "work")

    records = _CHANGE
    size = 0

    def __init__(
        self,
        work: Callable[[apsw.Connection], T],
        *,
        future: Callable[[], InterruptibleFuture[T]] = InterruptibleFuture,
    ) -> None:
        super().__init__(future)
        self.work, self.is_silent = work, False


class Appending(WriteJob[list[int]]):
    """Drafts, encoded for insertion; what the events of a run have in common is there once.

    The submitting thread encodes them, so that the writer has little to do per record.
    """

    is_silent = False
    __slots__ = ("also", "bodies", "drafts", "moment", "records", "runs", "size")

    def __init__(
        self,
        drafts: Sequence[Draft | Run],
        *,
        future: Callable[[], InterruptibleFuture[list[int]]] = InterruptibleFuture,
    ) -> None:
        super().__init__(future)
        self.drafts = tuple(drafts)
        self.also: Callable[[apsw.Connection, list[int]], None] | None = None
        """Called with the positions, in the same transaction."""
        self.runs = [_named(draft) for draft in self.drafts]
        self.records = sum([len(run[-1]) for run in self.runs])

    def one_by_one(self) -> Iterator[tuple[Type, Type | None, Source, int, bytes]]:
        """Yield type, root type, source, sequence and bytes of each record."""
        bodies = iter(self.bodies)
        for kind, root, source, sequences in self.runs:
            for sequence in sequences:
                yield kind, root, source, sequence, next(bodies)

    def encode(self, moment: float) -> None:
        """Encode the records as appended at a moment."""
        self.moment = moment
        self.bodies: list[bytes] = []
        for draft in self.drafts:
            if not isinstance(draft, Run):
                self.bodies.append(encode_record(draft.at(moment)))
            elif len(draft.payloads) == 1 and draft.roots is None:
                self.bodies.append(encode_record(draft.record(moment, draft.payloads[0])))
            elif len(draft.payloads) < _ENCODER_PAYS:
                self.bodies += [encode_record(single.at(moment)) for single in draft.drafts()]
            else:
                self._encode_run(draft, moment)
        self.size = sum(map(len, self.bodies))

    def _encode_run(self, run: Run, moment: float) -> None:
        """Encode what the events of a run have in common once."""
        sequences = range(run.first.sequence, run.first.sequence + len(run.payloads))
        if run.roots is None:
            encode = record_encoder(run.record(moment))
            self.bodies += map(encode, sequences, run.payloads)
        else:
            rooted = rooted_encoder(run.record(moment))
            self.bodies += map(rooted, sequences, run.payloads, run.roots)


def _named(draft: Draft | Run) -> NamedRun:
    first, count = (
        (draft.first, len(draft.payloads)) if isinstance(draft, Run) else (draft.identity, 1)
    )
    kind, root = (draft.name, draft.version, draft.hash), draft.root
    other = None if root is None or root.is_of(draft) else (root.name, root.version, root.hash)
    sequences = range(first.sequence, first.sequence + count)
    return kind, other, (first.publisher, first.epoch), sequences


# -- the writer ------------------------------------------------------------------------------------

_MOST_RECORDS = 10_000  # in one group
_MOST_BYTES = 8_000_000

_END_OF_LOG = """
SELECT listening, (SELECT max(position) FROM log),
    (SELECT time FROM log ORDER BY position DESC LIMIT 1)
FROM counters
"""


class StoreWriter:
    """Group commit: writes all queued jobs in one transaction, then settles their futures.

    While it syncs, the next group gathers in the queue. A job that is alone there is written at
    once.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        path: str,
        *,
        files: Files,
        peers: Peers,
        watchers: list[Callable[[], None]],
        finish: Callable[[], None],
        runtime: Runtime = SYSTEM,
    ) -> None:
        self.failure: StoreFailedError | None = None
        self.watchers = watchers
        self._connection, self._path, self._files = connection, path, files
        self._peers, self._finish = peers, finish
        self._numbers = Interner(connection)
        self._appender = Appender(connection, path, self._numbers)
        self._queue: SimpleQueue[WriteJob[Any] | None] = runtime.queue()
        self._lock = runtime.rlock()
        self._closed = self._ending = False
        self.home, self.is_over = Home("this store"), False
        self._thread = runtime.thread(self._run, name="polycast-store")
        self._checkpoints = Checkpoints(connection, files)
        opened(self, files)
        self._thread.start()

    # -- any thread --------------------------------------------------------------------------------

    def put(self, job: WriteJob[Any]) -> None:
        """Queue a job; its future has the outcome."""
        self.home.check("writing to a store")
        with self._lock:
            if not self._closed and self.failure is None:
                self._queue.put(job)
                return
        failed = self.failure
        job.error = StoreClosedError() if failed is None else _another(failed)
        job.settle()

    def look(self) -> StoreFailedError | None:
        """Check the files; return why nothing can be written any more, if that is so."""
        if self.failure is None and not self._closed:
            try:
                self._files.check()
            except StoreReplacedError as error:
                self._stop(error)
        return self.failure

    def end(self, *last: WriteJob[Any]) -> None:
        """Write what is queued, then the last jobs, then end the thread."""
        if self.home.is_elsewhere():
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                for job in (*last, None):
                    self._queue.put(job)

    def join(self) -> None:
        """Wait for the thread to end."""
        if not self.is_current() and not self.home.is_elsewhere():
            self._thread.join()

    def is_current(self) -> bool:
        """Whether this is the writer thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    # -- the writer's thread -----------------------------------------------------------------------

    def _run(self) -> None:
        with others_wait():
            while not self._ending:
                group = self._gather()
                if group:
                    self._write(group)
                group = []  # keep nothing alive while waiting
        self._finish()
        self._peers.close()
        if not self._may_tidy():  # leave the file as it is
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        with suppress(apsw.Error, OSError):
            self._connection.close()
        self._files.close()
        self.is_over = True

    def _may_tidy(self) -> bool:
        """Whether the files are its own: SQLite would remove by name what others put there."""
        with suppress(StoreReplacedError):
            self._files.check()
            return self.failure is None
        return False

    def _gather(self) -> list[WriteJob[Any]]:
        group: list[WriteJob[Any]] = []
        records = size = 0
        job = self._queue.get()
        while job is not None:
            group.append(job)
            records += job.records
            size += job.size
            if records >= _MOST_RECORDS or size >= _MOST_BYTES:
                return group
            if self._queue.empty():  # nobody else takes from it
                return group
            job = self._queue.get()
        self._ending = True
        return group

    def _write(self, group: list[WriteJob[Any]]) -> None:
        unknown = False
        try:
            if self.failure is not None:
                raise _another(self.failure)
            self._begin()
            self._perform(group)
            unknown = True
            self._checkpoints.frames = 0
            self._connection.execute("COMMIT")
            self._checkpoints.check()
        except BaseException as error:
            self._undo()
            self._fail(group, error, unknown=unknown)
            return
        self._numbers.keep_new()
        for job in group:
            job.settle()
        if not all(job.is_silent for job in group):
            self._wake()
        try:
            self._checkpoints.run()  # after those who wait were told
        except Exception as error:
            self._fail([], error)

    def _begin(self) -> None:
        execute = self._connection.execute
        while True:
            try:
                execute("BEGIN IMMEDIATE")
                break
            except apsw.BusyError:  # another process writes for long: no failure of the disk
                if self._closed:
                    raise
            except apsw.Error:
                self._files.check()  # which names the cause, if the files were replaced
                raise
        if self._files.begin():
            return  # the end of the log is where this store has left it
        ((listening, newest, latest),) = fetch(self._connection, _END_OF_LOG)
        self._appender.start(newest or 0, latest or 0.0)
        self._peers.refresh(self._connection, listening)

    def _perform(self, group: list[WriteJob[Any]]) -> None:
        for kind, jobs in groupby(group, key=type):
            if kind is Appending:
                appended = cast("list[Appending]", list(jobs))
                self._appender.append(appended)
                for appending in appended:
                    if appending.also is not None and appending.error is None:
                        appending.also(self._connection, appending.result)
            else:
                for job in jobs:
                    self._change(cast("Change[Any]", job))

    def _change(self, job: Change[Any]) -> None:
        """Run one change; if it raises, it alone is undone."""
        execute = self._connection.execute
        execute("SAVEPOINT change")
        try:
            job.result = job.work(self._connection)
        except (apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError):
            raise
        except BaseException as error:
            job.error = error
            if self._connection.in_transaction:
                execute("ROLLBACK TO change")
        execute("RELEASE change")  # fails if SQLite has given up the transaction

    def _undo(self) -> None:
        self._numbers.forget_new()
        with suppress(Exception):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _fail(
        self, group: Sequence[WriteJob[Any]], error: BaseException, *, unknown: bool = False
    ) -> None:
        """Stop accepting writes: after a failed sync, a second one proves nothing."""
        if isinstance(error, StoreReplacedError) and self._files.may_be_completed():
            with suppress(apsw.Error):  # earlier acknowledged writes are only in the lost log
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        is_damage = isinstance(error, apsw.CorruptError | apsw.NotADBError | StoreDamagedError)
        damage = str(error) if is_damage else None
        if not isinstance(error, StoreFailedError):
            error = StoreFailedError(self._path, why=f"{type(error).__name__}: {error}")
        self._stop(error)
        for job in group:
            job.error = _another(error, unknown=unknown)
            if damage is not None:
                job.error = StoreDamagedError(self._path, place="an unknown place", why=damage)
            job.settle()
        self._wake()  # so that all watchers notice the failure

    def _stop(self, why: StoreFailedError) -> None:
        with self._lock:
            # Later jobs are certainly not stored, whatever became of this group.
            self.failure = self.failure or _another(why)

    # -- after a commit ----------------------------------------------------------------------------

    def _wake(self) -> None:
        for woken in tuple(self.watchers):
            with suppress(Exception):  # a watcher that raises must not stop the store
                woken()
        dead = self._peers.notify()
        if dead:
            self.put(Change(lambda connection: self._peers.remove(connection, dead)))


def _another(error: StoreFailedError, *, unknown: bool = False) -> StoreFailedError:
    """Copy an error, as each `raise` adds its traceback to it."""
    if isinstance(error, StoreReplacedError):
        return StoreReplacedError(error.path, error.was, error.now, unknown=unknown)
    return StoreFailedError(error.path, why=error.why, unknown=unknown)


# -- checkpoints -----------------------------------------------------------------------------------

_PAGES = 1_000  # in the write-ahead log, from which on it is moved into the file


class Checkpoints:
    """Used in the writer's thread only."""

    def __init__(self, connection: apsw.Connection, files: Files) -> None:
        self._connection, self._files = connection, files
        self.frames = 0  # in the write-ahead log, if the last commit has written any
        self._pages, self._due = 0, _PAGES
        connection.set_wal_hook(self._note)

    def _note(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._pages = self.frames = pages
        return apsw.SQLITE_OK

    def check(self) -> None:
        """Raise `StoreReplacedError` if what was just committed would not be found."""
        if self.frames:
            self._files.check_commit(self.frames, self._count)
        else:  # nothing was written
            self._files.check()

    def _count(self) -> int:
        """How many frames there are in the write-ahead log, by the index that SQLite has of it."""
        return self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]

    def run(self) -> None:
        """Move the write-ahead log into the file if it is long."""
        if self._pages < _PAGES:
            self._due = _PAGES
        if self._pages < self._due:
            return
        # A reader may hold it up; then it is tried again after as many pages more.
        self._due = self._pages + _PAGES
        with suppress(apsw.BusyError):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._files.check_moved()
