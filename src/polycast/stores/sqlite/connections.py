"""Connections to the file of a store, and the check that it is still that file.

A file that was removed or replaced can still be written and synced while it is open, but nobody
will ever find the data. So the files are checked before anything is acknowledged. A check asks for
the times of the folder and of the file. Only after a name in the folder has changed, the files
beside it are looked for; only after the file itself was written, as by a checkpoint, its first page
and the name of the store are read again. `write_ahead_log` checks the contents of that log.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import apsw

from polycast.errors import (
    ForkedError,
    NotAStoreError,
    StoreClosedError,
    StoreDamagedError,
    StoreError,
    StoreFailedError,
    StoreReplacedError,
)
from polycast.runtime import SYSTEM, Home, Runtime, in_child, note
from polycast.stores.sqlite.row_format import fetch
from polycast.stores.sqlite.schema import BUSY_SECONDS
from polycast.stores.sqlite.write_ahead_log import WriteAheadLog

FileIdentity = tuple[int, int]
"""The device and the inode of a file."""

# -- the files of an open store --------------------------------------------------------------------

_ABOUT = "SELECT name, (SELECT rootpage FROM sqlite_schema WHERE name = 'identity') FROM identity"
_HEADER = 100  # bytes at the beginning of a SQLite file
_TICK, _COARSE_TICK = 100_000_000, 3_000_000_000  # ns; some file systems keep whole seconds


class Files:
    """The files that a store was opened with, to compare with those at its path now."""

    def __init__(
        self, path: str, connection: apsw.Connection, *, before: FileIdentity | None = None
    ) -> None:
        self.path = os.path.abspath(path)  # the working directory may change
        found = fetch(connection, _ABOUT)  # a missing name is reported to whoever asks for it
        about: tuple[str, int] = found[0] if found else ("", 0)
        self._name, self._page = about
        ((self._page_size,),) = fetch(connection, "PRAGMA page_size")
        self._real = connection.filename  # where links lead
        log = connection.filename_wal
        self._log, self._index = log, f"{log.removesuffix('-wal')}-shm"
        self._seen = {name: identity_of(name) for name in (self.path, self._log, self._index)}
        self._folder = os.path.dirname(log)
        self._settled: tuple[int, ...] | None = None  # the folder, since when all are in place
        is_now = self.identity = self._seen[self.path]
        if before is not None and is_now != before:
            now = "nothing" if is_now is None else _file(self.path, is_now)
            raise StoreReplacedError(self.path, _file(self.path, before), now)
        self.lock = threading.RLock()
        if not self._is_named():  # the file had an older version until now
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._has_name = self._is_named()
        self._written: tuple[int, int] | None = None  # time and size of the file at the last check
        self._counter = 0  # of changes, in the file
        self._is_whole = True  # the write-ahead log, as far as it was checked
        self._ahead = WriteAheadLog(log, self._seen[log], self._page_size)

    def close(self) -> None:
        """Stop checking."""
        self._ahead.close()

    def check(self) -> None:
        """Raise `StoreReplacedError` if writes would not be found at the path."""
        self._check_names()
        self._raise_if(self._ahead.change())

    def begin(self) -> bool:
        """Like `check`, at the start of a transaction, while nobody else may write.

        Returns whether nobody has committed anything since this store did.
        """
        self._check_names()
        if self._ahead.is_as_left():
            return True
        self._raise_if(self._ahead.begin())
        return False

    def check_commit(self, frames: int, count: Callable[[], int]) -> None:
        """Check after a commit, which left the write-ahead log with so many frames.

        `count` asks SQLite for the current number.
        """
        self._check_names()
        self._raise_if(self._ahead.committed(frames, count))

    def check_moved(self) -> None:
        """Check after the write-ahead log was moved into the file: whether it was the right one."""
        self._raise_if(self._ahead.moved())

    def _raise_if(self, changed: tuple[str, str] | None) -> None:
        if changed is not None:
            self._is_whole = False
            raise StoreReplacedError(self.path, *changed)

    def may_be_completed(self) -> bool:
        """Whether the file is in place, and nobody began another write-ahead log beside it.

        The rest of a log that was cut or overwritten would damage the file.
        """
        with suppress(OSError):
            if not self._is_whole:
                return False
            now = {name: identity_of(name) for name in self._seen}
            beside = (self._log, self._index)
            is_there = now.pop(self.path) == self._seen[self.path]
            return is_there and all(now[name] in (None, self._seen[name]) for name in beside)
        return False

    def _check_names(self) -> None:
        """Raise `StoreReplacedError` if a name leads elsewhere, or the file was overwritten."""
        if self._is_still():
            return
        now, folder = time.time_ns(), None
        with suppress(OSError):
            folder = _state(self._folder)
        for change in self._changes():
            raise StoreReplacedError(self.path, *change)
        # A change within a tick of the clock would not show.
        tick = _TICK if folder and folder[0] % 1_000_000 else _COARSE_TICK
        is_settled = os.name == "posix" and folder is not None and folder[0] + tick < now
        self._settled = folder if is_settled else None

    def _is_still(self) -> bool:
        """Whether no name in the folder has changed since all were in place, nor the file."""
        if self._settled is None:
            return False
        try:
            folder, now = _state(self._folder), os.stat(self.path)
        except OSError:
            return False
        return (
            folder == self._settled
            and (now.st_mtime_ns, now.st_size) == self._written
            and (now.st_dev, now.st_ino) == self.identity
        )

    def _changes(self) -> Iterator[tuple[str, str]]:
        """Yield what was there, and what is there now, for each change."""
        for name, was in self._seen.items():
            if was is None or (name is self._log and self._ahead.is_in_place()):
                continue
            try:
                now = os.stat(name)
            except OSError as error:
                yield _file(name, was), f"{type(error).__name__}: {error.strerror}"
                return
            if (now.st_dev, now.st_ino) != was:
                yield _file(name, was), _file(name, (now.st_dev, now.st_ino))
            elif name is self.path and (now.st_mtime_ns, now.st_size) != self._written:
                yield from self._rewritten(now)

    def _rewritten(self, now: os.stat_result) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a file that was written by a checkpoint, or copied over."""
        note(self.lock)
        with self.lock:
            before = 0 if self._written is None else self._written[1]
            header = _read(self._real, 0, _HEADER)
            counter = int.from_bytes(header[24:28], "big")
            if len(header) < _HEADER or header[18:20] != b"\x02\x02":
                kind = "a SQLite file that no store has open" if header else "nothing"
                yield "a store that is open", f"{kind} in the same file"
                return
            if self._has_name and not self._is_named():
                yield f"the store {self._name}", "another one in the same file"
            elif counter < self._counter and self._counter - counter < 1 << 31:
                yield f"the state after {self._counter} changes", f"an older one, of {counter}"
            elif now.st_size < min(before, int.from_bytes(header[28:32], "big") * self._page_size):
                # Whoever frees pages writes the new page count first.
                yield f"{before} bytes in {self.path}", f"the first {now.st_size} of them"
            self._written, self._counter = (now.st_mtime_ns, now.st_size), counter

    def _is_named(self) -> bool:
        at = (self._page - 1) * self._page_size
        return at >= 0 and self._name.encode() in _read(self._real, at, self._page_size)


def identity_of(name: str) -> FileIdentity | None:
    """Return device and inode of a file; None if there is none."""
    try:
        status = os.stat(name)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _state(folder: str) -> tuple[int, int, int]:
    status = os.stat(folder)
    return status.st_ctime_ns, status.st_dev, status.st_ino


def _file(name: str, identity: FileIdentity) -> str:
    return f"{name} (device {identity[0]}, inode {identity[1]})"


def _read(name: str, at: int, count: int) -> bytes:
    """Read bytes of a file through SQLite: closing any other handle would release its locks."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    with suppress(apsw.Error):
        file = apsw.VFSFile("", name, [flags, 0])
        try:
            return file.xRead(count, at)
        finally:
            file.xClose()
    return b""


# -- files that a parent process has open ----------------------------------------------------------

# SQLite records in each process which locks it holds on a file. A child inherits these records, but
# the locks belong to its parent. So a connection that the child opens to such a file does not lock
# it: its commits are lost when the parent removes the write-ahead log, or it waits for a writer
# that does not exist. Nor may the child close what it inherited, as that would write to the file.
_open: WeakKeyDictionary[Any, Files] = WeakKeyDictionary()  # by the writers of open stores
_inherited: dict[FileIdentity, Any] = {}  # what must stay alive


def opened(writer: Any, files: Files) -> None:
    """Register the files of an open store; it is open until its writer `is_over`."""
    _open[writer] = files


def check_own(path: str) -> None:
    """Raise `ForkedError` for a file that the parent of this process had open at the fork."""
    if _inherited and identity_of(path) in _inherited:
        raise ForkedError(
            f"opening {path}",
            "this SQLite file",
            instead="SQLite cannot lock it twice. Open it before the fork or after it, not both; "
            'or start this process anew, as multiprocessing does with "spawn" or "forkserver"',
        )


def _inherit() -> None:
    for writer, files in list(_open.items()):
        if not writer.is_over and files.identity is not None:
            _inherited[files.identity] = (writer, files)
    _open.clear()


in_child(_inherit)


# -- connections -----------------------------------------------------------------------------------

_KEPT = 8  # idle readers kept for reuse


def connect(
    path: str,
    *,
    vfs: str | None = None,
    create: bool = False,
    write: bool = True,
    runtime: Runtime = SYSTEM,
) -> apsw.Connection:
    """Open a connection with the settings of every connection to a store."""
    check_own(path)
    if create:
        _check_not_moved(path)
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    flags |= apsw.SQLITE_OPEN_CREATE if create else 0
    try:
        connection = apsw.Connection(path, flags=flags, vfs=vfs)
    except apsw.CantOpenError:
        raise NotAStoreError(
            path, why=_absence(path, create=create), instead=_advice(path)
        ) from None
    connection.set_busy_handler(_patience(runtime))
    connection.wal_autocheckpoint(0)  # the writer does it, and checks for errors
    try:
        if write and connection.readonly("main"):
            raise NotAStoreError(path, why="this user may only read it", instead=_advice(path))
        with sqlite_errors(path):
            connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_not_moved(path: str) -> None:
    """Refuse to begin a store beside the log of another: SQLite would delete what that holds."""
    log = f"{path}-wal"
    with suppress(OSError):
        if not os.path.exists(path) and (size := os.path.getsize(log)):
            raise NotAStoreError(
                path,
                why=f"it is not there, but its write-ahead log is: {size:,} bytes in {log}, which "
                "may hold events that are nowhere else",
                instead="Put the file back beside its log; or move the log away, to begin anew",
            )


@contextmanager
def without_patience(connection: apsw.Connection, runtime: Runtime) -> Iterator[None]:
    """Have a connection raise BusyError at once where it would wait for another process."""
    connection.set_busy_handler(None)
    try:
        yield
    finally:
        connection.set_busy_handler(_patience(runtime))


@contextmanager
def sqlite_errors(path: str) -> Iterator[None]:
    """Translate errors of SQLite into errors of the store."""
    try:
        yield
    except apsw.NotADBError:
        raise NotAStoreError(path, why="it is no SQLite file", instead=_advice(path)) from None
    except apsw.CorruptError as error:
        raise StoreDamagedError(path, place="an unknown place", why=str(error)) from None
    except apsw.BusyError:
        raise StoreError(
            f"{path} has been held by another process for {BUSY_SECONDS:g} s; see what it does, "
            f"or end it, and try again"
        ) from None
    except apsw.Error as error:
        raise StoreFailedError(path, why=f"{type(error).__name__}: {error}") from None


def _patience(runtime: Runtime) -> Callable[[int], bool]:
    """Waits a little for another process; SQLite's own handler backs off, which is unfair."""
    since = 0.0  # one thread at a time uses a connection

    def wait(tries: int) -> bool:
        nonlocal since
        if tries == 0:
            since = runtime.monotonic()
        runtime.sleep(min(0.000_2 * (tries + 1), 0.002))
        return runtime.monotonic() - since < BUSY_SECONDS

    return wait


def _absence(path: str, *, create: bool) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if os.path.isdir(path):
        return "it is a folder"
    if not os.path.exists(path):
        return "it cannot be made there" if create else "there is no such file"
    return "this user may not read and write it"


def _advice(path: str) -> str:
    return f"Give the path of a file that can be written, as in sqlite:///{os.path.abspath(path)}"


class Readers:
    """A pool of read-only connections; each serves one reader at a time, in any thread."""

    def __init__(
        self, path: str, files: Files, *, vfs: str | None = None, runtime: Runtime = SYSTEM
    ) -> None:
        self._path, self._vfs, self._files, self._runtime = path, vfs, files, runtime
        self._home = Home("this store")
        # No lock: a finaliser may publish in the midst of this, and wait for who waits for it.
        self._idle: deque[apsw.Connection] = deque()
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """A connection within one read transaction: all it sees is of one moment."""
        connection = self._take()
        try:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        finally:
            self._give_back(connection)

    def open(self) -> apsw.Connection:
        """One more connection that only reads, which the caller closes."""
        self._files.check()
        connection = connect(self._path, vfs=self._vfs, runtime=self._runtime)
        try:
            self._files.check()  # it is open now, and what was there before was looked at
        except BaseException:
            connection.close()
            raise
        connection.execute("PRAGMA query_only = 1")
        # The writer is closed last and checkpoints, unless it must not touch the file any more.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return connection

    def _take(self) -> apsw.Connection:
        self._home.check("reading a store")
        if self._closed:
            raise StoreClosedError()
        try:
            connection = self._idle.pop()
        except IndexError:
            return self.open()
        try:
            self._files.check()
        except BaseException:
            self._give_back(connection)
            raise
        return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        if len(self._idle) >= _KEPT:
            connection.close()
            return
        self._idle.append(connection)
        if self._closed:  # before it was put back, or meanwhile
            self._close_idle()

    def close(self) -> None:
        """Close idle connections; the others close when they are returned."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
