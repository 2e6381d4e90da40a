"""The write-ahead log of an open store, as it was when it was last looked at.

SQLite trusts its index of the log, which is in memory. It goes on writing where it thinks that the
log ends, whether what is before that is still there or not, and nobody could read it later. So the
beginning of the log and the last thing that this store has committed to it are read again.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WriteAheadLog"]

_MANY = 200  # files in the folder, after which going through them takes longer than it saves
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_HEAD, _FRAME = 32, 24  # bytes before the first frame, and before the page of each
_OF_HEAD, _OF_FRAME = slice(16, 24), slice(8, 16)  # where both have the same, in one log
_COUNT = slice(16, 20)  # of the head: one more each time the log is begun anew
_OFTEN = 1 << 24  # more often than that others do not begin it anew between two looks
_BACK = 1 << 16  # by so much a number that SQLite has drawn is hardly ever less


class _Seen(NamedTuple):
    """What is known of the log."""

    head: bytes = b""
    length: int = 0
    at: int = 0
    frame: bytes = b""  # what this store has committed last, and where
    is_empty: bool = False  # now; the head is the one that it had before


class WriteAheadLog:
    """A log that others may write, too; it only grows, until somebody begins it anew.

    Its length is asked of the end of an open file, and that it stands in its folder is asked of
    the folder: once somebody has asked for its times, a file system has to write them with the next
    sync, which takes half as long again.
    """

    def __init__(self, path: str, identity: tuple[int, int] | None, page_size: int) -> None:
        self.path, self._size = path, _FRAME + page_size
        self._folder, self._name = os.path.split(path)
        self._number = None if identity is None else identity[1]
        self._file: io.FileIO | None = None
        self._is_alone = True  # among few others
        # By anybody, and by who writes for this store, from its first commit on: what is there when
        # a store is opened is begun anew, with any number, if SQLite does not believe it.
        self._seen = self._own = _Seen()
        with suppress(OSError):
            self._file = io.FileIO(path, opener=_open_quietly)
            now = os.fstat(self._file.fileno())
            if (now.st_dev, now.st_ino) != identity:
                self.close()

    def close(self) -> None:
        """Look no more."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def is_in_place(self) -> bool:
        """Whether it is the file of its name, as far as that can be told without asking for it."""
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
        """What was in it, and what is there now, if something has gone.

        Several threads may look at once: what one has seen was so before the others looked, and it
        does no harm if it is forgotten for something older.
        """
        with suppress(_Closed, ValueError):
            found = self._look(was := self._seen)
            if isinstance(found, str):
                return f"{was.length} bytes in {self.path}", found
            self._seen = found
        return None

    def begin(self) -> None:
        """This store begins to write, and nobody else may until it has committed."""
        with suppress(_Closed, ValueError):
            found = self._look(self._own) if self._own.head else ""
            if not isinstance(found, str):  # else that is told after the commit
                self._own = found

    def moved(self) -> tuple[str, str] | None:
        """The same when this store has just moved what was in it into the file."""
        with suppress(_Closed, ValueError):
            found = self._look(was := self._own)
            if isinstance(found, str):
                return f"{was.length} bytes in {self.path}", found
            if found.head != was.head and not _is_later(found.head, was.head):
                return f"{was.length} bytes in {self.path}", "another one"
        return None

    def committed(self, frames: int, count: Callable[[], int]) -> tuple[str, str] | None:
        """The same when this store has just committed, and the log had so many frames then.

        `count` asks SQLite how many it has now.
        """
        at = _HEAD + (frames - 1) * self._size
        with suppress(_Closed, ValueError):
            wrong = self._look_after(at, lambda: count() < frames)
            return None if wrong is None else (f"{at + self._size} bytes in {self.path}", wrong)
        return None

    def _look_after(self, at: int, was_moved: Callable[[], bool]) -> str | None:
        while True:
            found = self._look(self._own)
            if isinstance(found, str):
                return found
            frame = self._read(at, self._size)
            if self._head() != (b"" if found.is_empty else found.head):
                continue  # it was begun anew in the midst of the look
            is_there = len(frame) == self._size and frame[_OF_FRAME] == found.head[_OF_HEAD]
            is_new = self._own.is_empty or _is_later(found.head, self._own.head)
            if is_there and (is_new or found.head == self._own.head):
                found = _Seen(found.head, max(found.length, at + self._size), at, frame)
            # Somebody may have moved all of it into the file by now, and begun it anew.
            elif not was_moved():
                return "not what was written there just now"
            self._own = self._seen = found
            return None

    def _look(self, was: _Seen) -> _Seen | str:
        """What is there now, or in words what is wrong with it."""
        while True:
            length, head = self._length(), self._head()
            wrong = self._wrong(was, head, length)
            if wrong is None:
                if not head:
                    return _Seen(was.head, is_empty=True)
                return was._replace(length=length) if head == was.head else _Seen(head, length)
            if self._head() == head:  # else it was begun anew in the midst of the look
                return wrong

    def _wrong(self, was: _Seen, head: bytes, length: int) -> str | None:
        if not _is_head(was.head) or not head:  # who emptied it shows with what is written next
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
        return os.lseek(self._number_of_file(), 0, os.SEEK_END)

    def _read(self, at: int, count: int) -> bytes:
        return os.pread(self._number_of_file(), count, at)

    def _number_of_file(self) -> int:
        if self._file is None:
            raise _Closed
        return self._file.fileno()  # a `ValueError` if it was closed meanwhile


class _Closed(Exception):
    """The store was closed meanwhile."""


def _is_head(head: bytes) -> bool:
    return len(head) == _HEAD and head[:4] in _MAGIC


def _is_later(head: bytes, was: bytes) -> bool:
    """Whether a log was begun after another one, or that cannot be told."""
    if not _is_head(head) or not was:
        return _is_head(head)
    return 0 < _times(was, head) < _OFTEN


def _times(before: bytes, after: bytes) -> int:
    """How often a log was begun anew between these heads; SQLite may draw a new number, too."""
    first, last = (int.from_bytes(head[_COUNT], "big") for head in (before, after))
    return (last - first) % (1 << 32)


def _open_quietly(path: str, flags: int) -> int:
    """Without a note of when it was read last, which would have to be written, too."""
    with suppress(OSError):  # only its owner may do so, and not every system can
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    return os.open(path, flags)
