"""Connections to the file of a store: one writer and a few readers."""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from polycast.errors import (
    NotAStoreError,
    StoreClosedError,
    StoreDamagedError,
    StoreError,
    StoreFailedError,
)
from polycast.runtime import SYSTEM, Home, Runtime
from polycast.stores.sqlite.open_files import check_own, identity_of
from polycast.stores.sqlite.schema import BUSY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.stores.sqlite.open_files import Files

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
    check_own(path, identity_of)
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
