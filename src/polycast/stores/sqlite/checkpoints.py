"""The writer's view of the write-ahead log: what a commit has added, and when to move it away."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from polycast.stores.sqlite.open_files import Files

__all__ = ["Checkpoints"]

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
