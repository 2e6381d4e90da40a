"""The files of an open store: whether they are still those at its path.

A file that was removed, or that another was put in place of, can be written and synced for as long
as it is open, and nobody will ever find what was written. So this is looked at before anything is
acknowledged. The looks are a few calls of stat(); only where the file itself was written since, as
a checkpoint does it, its first page and the name of the store are read once more. What is in the
write-ahead log is looked at in `ahead`.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from polycast.errors import StoreReplacedError
from polycast.locks import note
from polycast.stores.sqlite.row_format import fetch
from polycast.stores.sqlite.write_ahead_log import WriteAheadLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Files", "identity_of"]

_ABOUT = "SELECT name, (SELECT rootpage FROM sqlite_schema WHERE name = 'identity') FROM identity"
_HEADER = 100  # bytes at the beginning of a SQLite file


class Files:
    """What was at the path of a store when it was opened, to compare with what is there now."""

    def __init__(
        self, path: str, connection: apsw.Connection, *, before: tuple[int, int] | None = None
    ) -> None:
        self.path = os.path.abspath(path)  # the working directory may change
        found = fetch(connection, _ABOUT)  # a store that lost its name tells whoever asks for it
        about: tuple[str, int] = found[0] if found else ("", 0)
        self._name, self._page = about
        ((self._page_size,),) = fetch(connection, "PRAGMA page_size")
        self._real = connection.filename  # where links lead
        log = connection.filename_wal
        self._log, self._index = log, f"{log.removesuffix('-wal')}-shm"
        self._seen = {name: identity_of(name) for name in (self.path, self._log, self._index)}
        is_now = self.identity = self._seen[self.path]
        if before is not None and is_now != before:
            now = "nothing" if is_now is None else _file(self.path, is_now)
            raise StoreReplacedError(self.path, _file(self.path, before), now)
        self.lock = threading.RLock()
        if not self._is_named():  # by a file of an older version that was brought up to date
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._has_name = self._is_named()
        self._written: tuple[int, int] | None = None  # when and how large the file was left
        self._counter = 0  # of changes, in the file
        self._is_whole = True  # the write-ahead log, as far as anybody has seen
        self._ahead = WriteAheadLog(log, self._seen[log], self._page_size)

    def close(self) -> None:
        """Look no more."""
        self._ahead.close()

    def check(self) -> None:
        """`StoreReplacedError` if what is written would not be found at the path."""
        for now in self._changes():
            raise StoreReplacedError(self.path, *now)
        self._raise_if(self._ahead.change())

    def begin(self) -> None:
        """Look at the write-ahead log while nobody else may write."""
        self._ahead.begin()

    def check_commit(self, frames: int, count: Callable[[], int]) -> None:
        """The same after a commit that has left the write-ahead log with so many frames.

        `count` tells how many SQLite has in it now.
        """
        for now in self._changes():
            raise StoreReplacedError(self.path, *now)
        self._raise_if(self._ahead.committed(frames, count))

    def check_moved(self) -> None:
        """The same when the write-ahead log was moved into the file: it was the right one."""
        self._raise_if(self._ahead.moved())

    def _raise_if(self, changed: tuple[str, str] | None) -> None:
        if changed is not None:
            self._is_whole = False
            raise StoreReplacedError(self.path, *changed)

    def may_be_completed(self) -> bool:
        """Whether the file is there, and nobody began another write-ahead log beside it.

        What is left of one that was cut or copied over would damage the file.
        """
        with suppress(OSError):
            if not self._is_whole:
                return False
            now = {name: identity_of(name) for name in self._seen}
            beside = (self._log, self._index)
            is_there = now.pop(self.path) == self._seen[self.path]
            return is_there and all(now[name] in (None, self._seen[name]) for name in beside)
        return False

    def _changes(self) -> Iterator[tuple[str, str]]:
        """What was there, and what is there now."""
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
        """A checkpoint has written the file, or somebody has copied another over it."""
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
                # Who gives pages back writes first how many are left.
                yield f"{before} bytes in {self.path}", f"the first {now.st_size} of them"
            self._written, self._counter = (now.st_mtime_ns, now.st_size), counter

    def _is_named(self) -> bool:
        at = (self._page - 1) * self._page_size
        return at >= 0 and self._name.encode() in _read(self._real, at, self._page_size)


def identity_of(name: str) -> tuple[int, int] | None:
    """What tells a file from any other, whatever its name; None if there is none."""
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _file(name: str, identity: tuple[int, int]) -> str:
    return f"{name} (device {identity[0]}, inode {identity[1]})"


def _read(name: str, at: int, count: int) -> bytes:
    """Bytes of a file, by way of SQLite: closing any other handle would give up its locks."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    with suppress(apsw.Error):
        file = apsw.VFSFile("", name, [flags, 0])
        try:
            return file.xRead(count, at)
        finally:
            file.xClose()
    return b""
