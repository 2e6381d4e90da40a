"""A file layer for apsw that keeps a tape of what is written and synced, or fails when told to.

From the tape come the states in which a loss of power may leave the files (`proof_crash`). Nothing
is synced for real: what a sync would have kept is on the tape.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import apsw

__all__ = [
    "Failed",
    "Inode",
    "Link",
    "Note",
    "Sync",
    "Tape",
    "TapeVFS",
    "Truncate",
    "Unlink",
    "Write",
]

KEPT = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
# SQLite's own file layer syncs the directory with the first sync of these.
JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


@dataclass(eq=False)
class Inode:
    """A file, whatever its name; `before` is what it had when the tape began."""

    before: bytes = b""


@dataclass(frozen=True, eq=False)
class Write:
    """Bytes that were written."""

    file: Inode
    offset: int
    data: bytes


@dataclass(frozen=True, eq=False)
class Truncate:
    """A file cut to a size."""

    file: Inode
    size: int


@dataclass(frozen=True, eq=False)
class Sync:
    """A sync that has returned: it kept what was on the tape when it began."""

    file: Inode
    began: int
    names: bool  # the directory was synced, too


@dataclass(frozen=True, eq=False)
class Failed:
    """A sync that has failed: the system has dropped what was to be written, for good."""

    file: Inode
    began: int


@dataclass(frozen=True, eq=False)
class Link:
    """A file that was made."""

    name: str
    file: Inode


@dataclass(frozen=True, eq=False)
class Unlink:
    """A name that was deleted."""

    name: str
    began: int
    synced: bool


@dataclass(frozen=True, eq=False)
class Note:
    """What the program under test was told at this moment."""

    what: Any


Entry = Write | Truncate | Sync | Failed | Link | Unlink | Note


@dataclass
class Tape:
    """All that happened, in order."""

    entries: list[Entry] = field(default_factory=list)
    before: dict[str, Inode] = field(default_factory=dict)

    def note(self, what: Any) -> None:
        """Write down what the program was told."""
        self.entries.append(Note(what))


Before = Callable[[str, str, int], None]
"""Called with the operation, the name and its size before it is done; it may raise."""

_numbers = itertools.count(1)


class TapeVFS(apsw.VFS):
    """The file layer; connections name it by `vfs=layer.name`.

    `lies` are endings of names whose syncs are said to be done and are not: as with
    `synchronous=OFF` ("" for all files) or NORMAL ("-wal").
    """

    def __init__(
        self, *, tape: Tape | None = None, before: Before | None = None, lies: str | None = None
    ) -> None:
        self.name = f"proof-{next(_numbers)}"
        self.tape, self.before, self.lies = tape, before, lies
        self._names: dict[str, Inode] = {}
        self._lock = threading.Lock()
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not flags[0] & KEPT:
            return apsw.VFSFile("", name, flags)
        self.ask("open", path, 0)
        with self._lock:
            inode = self._inode(path)
            return TapeFile(self, path, name, flags, inode)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.ask("delete", filename, 0)
        with self._lock:
            began = len(self.tape.entries) if self.tape else 0
            super().xDelete(filename, False)
            self._names.pop(filename, None)
            if self.tape:
                self.tape.entries.append(Unlink(os.path.basename(filename), began, syncdir))

    def ask(self, operation: str, path: str, size: int) -> None:
        """Let a planted fault happen."""
        if self.before is not None:
            self.before(operation, os.path.basename(path), size)

    def _inode(self, path: str) -> Inode:
        known, name = self._names.get(path), os.path.basename(path)
        if known is not None:
            return known
        inode = self._names[path] = Inode()
        if self.tape is None:
            return inode
        if os.path.exists(path):
            with open(path, "rb") as file:
                inode.before = file.read()
            self.tape.before[name] = inode
        else:
            self.tape.entries.append(Link(name, inode))
        return inode


class TapeFile(apsw.VFSFile):
    """One opening of a file."""

    def __init__(
        self,
        layer: TapeVFS,
        path: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        inode: Inode,
    ) -> None:
        super().__init__("", name, flags)
        self._layer, self._path, self._inode = layer, path, inode
        self._names = bool(flags[0] & JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        self._lies = layer.lies is not None and path.endswith(layer.lies)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._layer.before is not None:
            self._layer.ask("read", self._path, amount)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._layer.before is not None:
            self._layer.ask("write", self._path, len(data))
        if self._layer.tape is not None:
            self._layer.tape.entries.append(Write(self._inode, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        if self._layer.before is not None:
            self._layer.ask("truncate", self._path, newsize)
        if self._layer.tape is not None:
            self._layer.tape.entries.append(Truncate(self._inode, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        tape = self._layer.tape
        try:
            if self._layer.before is not None:
                self._layer.ask("sync", self._path, 0)
        except apsw.Error:
            if tape is not None:
                tape.entries.append(Failed(self._inode, len(tape.entries)))
            raise
        if tape is not None and not self._lies:
            tape.entries.append(Sync(self._inode, len(tape.entries), self._names))
            self._names = False
