"""The files of an open store: whether they are still those at its path.

A file that was removed, or that another was put in place of, can be written and synced for as long
as it is open, and nobody will ever find what was written. So this is looked at before anything is
acknowledged. The looks are a few calls of stat(); only where the file itself was written since, as
a checkpoint does it, its first page and the name of the store are read once more.
"""

from __future__ import annotations

import io
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from polycast.errors import StoreReplacedError
from polycast.locks import note
from polycast.stores.sqlite.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Files", "identity_of"]

_ABOUT = "SELECT name, (SELECT rootpage FROM sqlite_schema WHERE name = 'identity') FROM identity"
_HEADER = 100  # bytes at the beginning of a SQLite file
_MANY = 200  # files in the folder, after which going through them takes longer than it saves
_BEGUN = range(12, 24)  # where a write-ahead log has its number and its salts
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


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
        self._length, self._was_cut = 0, False  # of the write-ahead log
        self._begun = b""  # what tells it from the one that was begun before it in the same file
        self._is_new = True  # whether that has to be looked up
        self._growing = _Growing(self._log, self._seen[self._log])

    def close(self) -> None:
        """Look no more."""
        self._growing.close()

    def check(self) -> None:
        """`StoreReplacedError` if what is written would not be found at the path."""
        for now in self._changes():
            raise StoreReplacedError(self.path, *now)

    def may_be_completed(self) -> bool:
        """Whether the file is there, and nobody began another write-ahead log beside it."""
        with suppress(OSError):
            now = {name: identity_of(name) for name in self._seen}
            beside = (self._log, self._index)
            is_there = now.pop(self.path) == self._seen[self.path]
            return is_there and all(now[name] in (None, self._seen[name]) for name in beside)
        return False

    def _changes(self) -> Iterator[tuple[str, str]]:
        """What was there, and what is there now."""
        for name, was in self._seen.items():
            if was is None or (name is self._log and self._has_only_grown()):
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
            elif name is self._log and (now.st_size < self._length or self._was_cut):
                yield from self._cut()
            elif name is self._log:
                self._length = now.st_size
                if self._is_new and now.st_size:
                    self._begun, self._is_new = self._beginning(), False

    def _has_only_grown(self) -> bool:
        """Whether the write-ahead log is the one that was looked at, and no shorter."""
        if self._is_new or self._was_cut:
            return False
        size = self._growing.size()
        if size < self._length:
            return False
        self._length = size
        return True

    def began_anew(self) -> None:
        """The write-ahead log was moved into the file, and written from its beginning."""
        self._is_new = True

    def _beginning(self) -> bytes:
        return _read(self._log, _BEGUN.start, len(_BEGUN))

    def _rewritten(self, now: os.stat_result) -> Iterator[tuple[str, str]]:
        """A checkpoint has written the file, or somebody has copied another over it."""
        note(self.lock)
        with self.lock:
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
            self._written, self._counter = (now.st_mtime_ns, now.st_size), counter

    def _is_named(self) -> bool:
        at = (self._page - 1) * self._page_size
        return at >= 0 and self._name.encode() in _read(self._real, at, self._page_size)

    def _cut(self) -> Iterator[tuple[str, str]]:
        """Shorter than it was: begun anew after a checkpoint, or cut or emptied by somebody."""
        note(self.lock)
        with self.lock:
            # Another thread may have looked meanwhile: it is as long by now as anybody has seen it.
            length, size = self._length, _size(self._log)
            # Nobody has begun it anew yet while it is empty; that is seen after the next commit.
            was_cut, self._was_cut = self._was_cut, not size
            if size and _read(self._log, 0, 4) not in _WAL_MAGIC:
                yield f"{length} bytes in {self._log}", "a file that was emptied meanwhile"
            elif 0 < size < length and self._begun.startswith(self._beginning()):
                yield f"{length} bytes in {self._log}", f"the first {size} of them"
            if was_cut or size < length:
                self._length, self._is_new = size, True


class _Growing:
    """A file that grows with each sync, looked at without asking for its times.

    Once somebody has asked for them, a file system has to write them with the next sync, too, which
    takes as long as the half of one. Its length is where its end is; that it stands in its folder,
    the folder tells.
    """

    def __init__(self, path: str, identity: tuple[int, int] | None) -> None:
        self._folder, self._name = os.path.split(path)
        self._number = None if identity is None else identity[1]
        self._file: io.FileIO | None = None
        self._is_alone = True  # among few others
        with suppress(OSError):
            self._file = io.FileIO(path)
            now = os.fstat(self._file.fileno())
            if (now.st_dev, now.st_ino) != identity:
                self.close()

    def size(self) -> int:
        """How long it is; less than nothing if it is not in its place, or that cannot be told."""
        try:
            if self._file is None or not self._is_in_place():
                return -1
            return self._file.seek(0, os.SEEK_END)
        except (OSError, ValueError):  # it was closed meanwhile
            return -1

    def _is_in_place(self) -> bool:
        if not self._is_alone:
            return False
        with os.scandir(self._folder) as entries:
            for count, entry in enumerate(entries):
                if entry.name == self._name:
                    return entry.inode() == self._number
                if count >= _MANY:
                    self._is_alone = False
                    break
        return False

    def close(self) -> None:
        """Look no more."""
        if self._file is not None:
            self._file.close()


def identity_of(name: str) -> tuple[int, int] | None:
    """What tells a file from any other, whatever its name; None if there is none."""
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _size(name: str) -> int:
    """How long a file is; one that is not there is told of at the next look."""
    with suppress(OSError):
        return os.path.getsize(name)
    return 0


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
