"""A read-only store, which others may write meanwhile."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from polycast.errors import NotAStoreError, StoreDamagedError, StoreError
from polycast.stores.sqlite.read_half import Readable
from polycast.stores.sqlite.readonly_file import peek
from polycast.stores.sqlite.row_format import fetch_one
from polycast.stores.sqlite.schema import STEPS, version_of
from polycast.stores.sqlite.state import SqlView
from polycast.stores.values import ContextVersion, Routed, StoredRoute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores.contract import View
    from polycast.stores.sqlite.readonly_file import Peek, UnlockedFiles

__all__ = ["ReadOnlyStore", "open_readonly", "translated"]

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
