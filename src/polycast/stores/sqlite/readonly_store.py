"""A read-only store, which others may write meanwhile, even on a read-only file system.

Readers of a store that is open somewhere share the index of its write-ahead log, the `-shm` file.
A store that nobody has open has no such file, and a read-only file system allows none. Then the
file is read without locks, and each read is followed by a check that nobody has written meanwhile.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import apsw

from polycast.errors import NotAStoreError, StoreDamagedError, StoreError
from polycast.stores.sqlite.row_format import fetch, fetch_one
from polycast.stores.sqlite.schema import STEPS, version_of
from polycast.stores.sqlite.state import SqlView
from polycast.stores.sqlite.store import Readable
from polycast.stores.values import ContextVersion, Routed, StoredRoute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores.contract import View

_INSTEAD = "Name the file of a store, as in events.db or sqlite:///events.db"


class _SecondView(SqlView):
    """A file of version 2: there were no contexts."""

    def contexts(self, *, at: int | None = None) -> list[ContextVersion]:
        return []


class _FirstView(_SecondView):
    """A file of version 1: there was no pipeline either."""

    def identity(self) -> str:
        return ""

    def routed(self) -> Routed:
        return Routed(1, 0)

    def routes(self, *, at: int | None = None) -> list[StoredRoute]:
        return []


class ReadOnlyStore(Readable):
    """The reading half of a store, over one connection; it never changes the file."""

    def __init__(
        self,
        path: str,
        connection: apsw.Connection,
        *,
        version: int | None,
        guard: UnlockedFiles | None = None,
    ) -> None:
        super().__init__(path)
        self.connection, self._guard = connection, guard
        self._view = {1: _FirstView, 2: _SecondView}.get(version or 0, SqlView)

    @contextmanager
    def view(self) -> Iterator[View]:
        """Look at the state as it is now."""
        with self.snapshot() as connection:
            yield self._view(connection, self.path)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Lend the connection for reads of one moment; nested snapshots share it."""
        if self.connection.in_transaction:
            yield self.connection
            return
        self.connection.execute("BEGIN")
        try:
            yield self.connection
        finally:
            with suppress(apsw.Error):  # SQLite may have ended it by itself
                self.connection.execute("ROLLBACK")
            self._check()

    def _check(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def changes(self) -> int:
        """Return a number that changes whenever anybody writes."""
        self._check()
        return int(fetch_one(self.connection, "PRAGMA data_version"))


@contextmanager
def open_readonly(path: str | os.PathLike[str], *, current: bool = True) -> Iterator[ReadOnlyStore]:
    """Open the store in a file for reading; `NotAStoreError` if there is none.

    With `current`, an older version is refused, too, as it lacks tables of the current one.
    """
    path = os.fspath(path)
    connection, guard = _opened(path)
    try:
        with translated(path):
            version = _version(connection, path)
            if current and version is not None and version < len(STEPS):
                raise NotAStoreError(
                    path,
                    why=f"it has the older version {version}",
                    instead="Open a bus over it once: that brings it up to date",
                )
            yield ReadOnlyStore(path, connection, version=version, guard=guard)
    finally:
        connection.close()


def _opened(path: str) -> Peek:
    why = _not_to_read(path)
    if why is not None:
        raise NotAStoreError(path, why=why, instead=_INSTEAD)
    with translated(path):
        return peek(path)


def _not_to_read(path: str) -> str | None:
    if not os.path.exists(path):
        return "there is no such file"
    about = os.stat(path)
    if stat.S_ISDIR(about.st_mode):
        return "it is a folder"
    if not stat.S_ISREG(about.st_mode):
        return "it is no file"
    if not os.access(path, os.R_OK):
        return "this user may not read it"
    wal = f"{path}-wal"
    is_empty = not about.st_size and not (os.path.exists(wal) and os.path.getsize(wal))
    return "it is empty" if is_empty else None


def _version(connection: apsw.Connection, path: str) -> int | None:
    """The version of a store; None if that is damaged, too."""
    try:
        version = version_of(connection, path)
    except apsw.NotADBError:
        raise NotAStoreError(
            path, why="it is no SQLite file, or its beginning is destroyed", instead=_INSTEAD
        ) from None
    except apsw.CorruptError:
        return None
    if version == 0:
        raise NotAStoreError(path, why="it is empty", instead=_INSTEAD)
    return version


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate errors of SQLite into errors of stores."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamagedError(path, place="an unknown place", why=str(error)) from None
    except apsw.BusyError:
        raise StoreError(f"{path} is being written for long; ask again later") from None
    except apsw.Error as error:
        raise StoreError(f"{path} cannot be used: {type(error).__name__}: {error}") from None


_BUSY = 5_000  # milliseconds


class UnlockedFiles:
    """Files that are read without locks: detects that somebody writes them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._look()

    def _look(self) -> list[tuple[int, ...] | None]:
        identities: list[tuple[int, ...] | None] = []
        for end in ("", "-wal", "-shm"):
            try:
                now = os.stat(self._path + end)
            except OSError:
                identities.append(None)
            else:
                identities.append((now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns))
        return identities

    def check(self) -> None:
        """Raise `StoreError` if somebody has written: what was read may be inconsistent."""
        if self._look() != self._seen:
            raise StoreError(
                f"somebody has written to {self._path} while it was read where nothing can be "
                f"locked; ask again"
            )


class Peek(NamedTuple):
    """A read-only connection, and the files to check after each read, if read without locks."""

    connection: apsw.Connection
    guard: UnlockedFiles | None


def peek(path: str) -> Peek:
    """Open an existing file; nothing is changed, and no other file is left beside it."""
    path = os.path.realpath(path)  # what SQLite keeps beside a file is where links lead
    guard = UnlockedFiles(path)
    if _size(f"{path}-wal") and not os.path.exists(f"{path}-shm"):
        return Peek(_with_own_index(path), guard)  # a copy with its log, which nobody has open
    connection = _settled(apsw.Connection(path, flags=_flags(path)))
    try:
        fetch(connection, "SELECT 1 FROM sqlite_schema LIMIT 1")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        if _size(f"{path}-wal"):
            return Peek(_with_own_index(path), guard)
        return Peek(_as_it_is(path), guard)
    except (apsw.NotADBError, apsw.CorruptError, apsw.IOError):
        pass  # the first read reports it
    except BaseException:
        connection.close()
        raise
    return Peek(connection, None)


def _settled(connection: apsw.Connection) -> apsw.Connection:
    connection.set_busy_timeout(_BUSY)
    connection.execute("PRAGMA query_only = 1")
    return connection


def _as_it_is(path: str) -> apsw.Connection:
    """Open a file that has no write-ahead log beside it, or an empty one."""
    name = f"file:{quote(os.path.abspath(path))}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return _settled(apsw.Connection(name, flags=flags))


def _with_own_index(path: str) -> apsw.Connection:
    """Open a file with its log, whose index is in memory; SQLite allows that without locks."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs="unix-none")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return _settled(connection)


def _flags(path: str) -> int:
    """Open for writing if that cannot change the file: the write-ahead log is empty.

    Only such a connection removes the files that opening it has created beside the store.
    """
    may_write = not _size(f"{path}-wal") and os.access(path, os.W_OK)
    return apsw.SQLITE_OPEN_READWRITE if may_write else apsw.SQLITE_OPEN_READONLY


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0
