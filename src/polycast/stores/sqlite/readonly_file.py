"""Opening the file of a store read-only, even on a read-only file system.

Readers of a store that is open somewhere share the index of its write-ahead log, the `-shm` file.
A store that nobody has open has no such file, and a read-only file system allows none. Then the
file is read without locks, and each read is followed by a check that nobody has written meanwhile.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

import apsw

from polycast.errors import StoreError
from polycast.stores.sqlite.row_format import fetch

__all__ = ["Peek", "UnlockedFiles", "peek"]

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
