"""The write-ahead log of an open store: detects that it was cut or overwritten.

SQLite trusts its index of the log, which is in memory, and keeps writing at the end that the index
says, even if the log before it is gone and nobody could read the rest. So the header of the log and
the last frame that this store has committed are read again.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import closing, suppress
from typing import NamedTuple

import apsw

_MANY = 200  # files in the folder; listing more takes longer than it saves
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_HEAD, _FRAME = 32, 24  # bytes before the first frame, and before the page of each
_OF_HEAD, _OF_FRAME = slice(16, 24), slice(8, 16)  # where both have the same, in one log
_AT_ONCE = 1 << 20  # bytes of the log that are read at once, at most
_AT_A_TIME = 1 << 16  # bytes that are written again at once; SQLite writes no more than 2 ** 17 - 1
_COUNT = slice(16, 20)  # of the header: incremented whenever the log restarts
_OFTEN = 1 << 24  # others restart it less often than this between two checks
_BACK = 1 << 16  # a random number of SQLite is hardly ever less by no more than this


def write_again(connection: apsw.Connection, path: str, vfs: str | None) -> None:
    """Write a log that others have left a second time, and sync it, before the store is used.

    After a sync that has failed, the system may show commits that the disk does not have, and it
    reports that only once. SQLite would take them for safe and write behind them, and a loss of
    power would take what was acknowledged there. The lock for writing keeps the log as it is;
    whoever has it now has opened the store before, and has done this.
    """
    log = f"{path}-wal"
    with suppress(FileNotFoundError, apsw.BusyError):
        if not os.path.getsize(log):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            flags = [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0]
            with closing(_Closing(vfs or "", log, flags)) as file:
                for start in range(0, size := file.xFileSize(), _AT_A_TIME):
                    file.xWrite(file.xRead(min(_AT_A_TIME, size - start), start), start)
                file.xSync(apsw.SQLITE_SYNC_FULL)
        finally:
            connection.execute("ROLLBACK")


class _Closing(apsw.VFSFile):
    """A file of SQLite that is closed as files are."""

    def close(self) -> None:
        """Close it."""
        self.xClose()


class _Seen(NamedTuple):
    """The log as it was at a check."""

    head: bytes = b""
    length: int = 0
    at: int = 0
    frame: bytes = b""  # the last frame this store has committed, and where
    is_empty: bool = False  # the log is empty now; `head` is from before


class WriteAheadLog:
    """A log that others may write, too; it only grows, until somebody restarts it.

    Its length is found by seeking, and its presence by listing the folder, without stat(): a file
    system must write times that somebody has read with the next sync, which makes that half as
    slow again.
    """

    def __init__(self, path: str, identity: tuple[int, int] | None, page_size: int) -> None:
        self.path, self._size = path, _FRAME + page_size
        self._folder, self._name = os.path.split(path)
        self._number = None if identity is None else identity[1]
        self._file: io.FileIO | None = None
        self._is_alone = True  # among few others
        # As any thread has seen it, and as the writer has since its first commit: SQLite restarts
        # a log that it finds invalid on opening, with any number.
        self._seen = self._own = _Seen()
        with suppress(OSError):
            self._file = io.FileIO(path, opener=_open_quietly)
            now = os.fstat(self._file.fileno())
            if (now.st_dev, now.st_ino) != identity:
                self.close()

    def close(self) -> None:
        """Stop checking."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def is_in_place(self) -> bool:
        """Whether its name still leads to it, as far as that can be found out without stat()."""
        if not self._is_alone or self._file is None:
            return False
        with suppress(OSError), os.scandir(self._folder) as entries:
            for count, entry in enumerate(entries):
                if entry.name == self._name:
                    return entry.inode() == self._number
                if count >= _MANY:
                    self._is_alone = False
                    break
        return False

    def change(self) -> tuple[str, str] | None:
        """Return what was in it, and what is there now, if something is gone.

        Several threads may check at once. If one overwrites what another has seen with something
        older, that does no harm.
        """
        with suppress(_Closed, ValueError):
            now = self._look(was := self._seen)
            if isinstance(now, str):
                return f"{was.length} bytes in {self.path}", now
            self._seen = now
        return None

    def is_as_left(self) -> bool:
        """Whether it is whole, and ends with the last commit of this store.

        Only at the start of this store's transaction, as `begin`.
        """
        own, size = self._own, self._size
        if own is not self._seen or not own.frame or own.is_empty or self._file is None:
            return False
        end = self._read(own.at, size + _FRAME)
        return (
            end.startswith(own.frame)
            and end[size:][_OF_FRAME] != own.head[_OF_HEAD]  # what comes next is of an earlier log
            and self._is_as_long(own)
            and self._head() == own.head
        )

    def begin(self) -> tuple[str, str] | None:
        """Like `change`, at the start of this store's transaction, while nobody else may write."""
        changed = self.change()
        if changed is None and self._own.head:
            with suppress(_Closed, ValueError):
                now = self._look(self._own)
                if not isinstance(now, str):  # else the check after the commit reports it
                    self._own = now
        return changed

    def moved(self) -> tuple[str, str] | None:
        """Like `change`, after this store has moved the log into the file."""
        with suppress(_Closed, ValueError):
            now = self._look(was := self._own)
            if isinstance(now, str):
                return f"{was.length} bytes in {self.path}", now
            if now.head != was.head and not _is_later(now.head, was.head):
                return f"{was.length} bytes in {self.path}", "another one"
        return None

    def committed(self, frames: int, count: Callable[[], int]) -> tuple[str, str] | None:
        """Like `change`, after this store has committed, and the log had so many frames.

        `count` asks SQLite for the current number.
        """
        at = _HEAD + (frames - 1) * self._size
        with suppress(_Closed, ValueError):
            is_whole = self._is_whole_to(at)
            wrong: str | None = "a file with a hole"
            if is_whole is None:
                wrong = self._look_after(at, lambda: count() < frames)
            elif is_whole:
                return None
            return None if wrong is None else (f"{at + self._size} bytes in {self.path}", wrong)
        return None

    def _is_whole_to(self, at: int) -> bool | None:
        """Whether all frames since this store's last commit are of the same log, up to `at`.

        None if that cannot be said so easily, as when somebody has restarted the log.
        """
        own, size = self._own, self._size
        if own.is_empty or not own.frame or not own.at < at < own.at + _AT_ONCE:
            return None
        count = at + size - own.at
        frames = self._read(own.at, count)
        mark, is_whole = own.head[_OF_HEAD], True
        for start in range(size + _OF_FRAME.start, len(frames), size):
            is_whole = is_whole and frames.startswith(mark, start)
        if (
            len(frames) < count
            or not frames.startswith(own.frame)
            or not self._is_as_long(own)
            or self._head() != own.head
        ):
            return None
        length = max(own.length, at + size)
        self._own = self._seen = _Seen(own.head, length, at, frames[-size:])
        return is_whole

    def _is_as_long(self, own: _Seen) -> bool:
        """Whether nothing is gone behind the last frame, where frames of an earlier log may be."""
        return own.length == own.at + self._size or self._length() >= own.length

    def _look_after(self, at: int, was_moved: Callable[[], bool]) -> str | None:
        while True:
            now = self._look(self._own)
            if isinstance(now, str):
                return now
            frame = self._read(at, self._size)
            if self._head() != (b"" if now.is_empty else now.head):
                continue  # the log restarted during the check
            is_there = len(frame) == self._size and frame[_OF_FRAME] == now.head[_OF_HEAD]
            is_new = self._own.is_empty or _is_later(now.head, self._own.head)
            if is_there and (is_new or now.head == self._own.head):
                now = _Seen(now.head, max(now.length, at + self._size), at, frame)
            # Another process may have moved all of it into the file by now, and restarted it.
            elif not was_moved():
                return "not what was written there just now"
            self._own = self._seen = now
            return None

    def _look(self, was: _Seen) -> _Seen | str:
        """Return the log as it is now, or in words what is wrong with it."""
        while True:
            length, head = self._length(), self._head()
            wrong = self._wrong(was, head, length)
            if wrong is None:
                if not head:
                    return _Seen(was.head, is_empty=True)
                if head != was.head:
                    return _Seen(head, length)
                return was if length == was.length else was._replace(length=length)
            if self._head() == head:  # else the log restarted during the check
                return wrong

    def _wrong(self, was: _Seen, head: bytes, length: int) -> str | None:
        if not _is_head(was.head) or not head:  # the next header shows who emptied it
            return None
        if not _is_head(head):
            return "a file that was emptied meanwhile"
        if head != was.head:
            return "an older one" if 0 < _times(head, was.head) < _BACK else None
        if was.is_empty or length < was.length:
            return f"the first {length} of them"
        if was.frame and self._read(was.at, len(was.frame)) != was.frame:
            return "a file with other bytes in it"
        return None

    def _head(self) -> bytes:
        return self._read(0, _HEAD)

    def _length(self) -> int:
        return os.lseek(self._open_file().fileno(), 0, os.SEEK_END)

    def _read(self, at: int, count: int) -> bytes:
        return os.pread(self._open_file().fileno(), count, at)

    def _open_file(self) -> io.FileIO:
        if self._file is None:
            raise _Closed
        return self._file  # its number is a `ValueError` if it was closed meanwhile


class _Closed(Exception):
    """The store was closed meanwhile."""


def _is_head(head: bytes) -> bool:
    return len(head) == _HEAD and head[:4] in _MAGIC


def _is_later(head: bytes, was: bytes) -> bool:
    """Whether a log is a later restart of another, or may be."""
    if not _is_head(head) or not was:
        return _is_head(head)
    return 0 < _times(was, head) < _OFTEN


def _times(before: bytes, after: bytes) -> int:
    """Count the restarts between two headers; SQLite may also draw a random new number."""
    first, last = (int.from_bytes(head[_COUNT], "big") for head in (before, after))
    return (last - first) % (1 << 32)


def _open_quietly(path: str, flags: int) -> int:
    """Open without updating the access time, which would have to be written, too."""
    with suppress(OSError):  # only its owner may do so, and not every system can
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    return os.open(path, flags)
