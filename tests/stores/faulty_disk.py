"""A file layer under SQLite that fails when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import apsw


class FaultyDisk(apsw.VFS):
    """Passes everything on, until `fail` says otherwise.

    `fail` gets what is done ("write" or "sync") and the name of the file, and returns the error to
    raise, or None.
    """

    def __init__(self, name: str) -> None:
        self.fail: Callable[[str, str], Exception | None] = lambda what, file: None
        self.done: list[tuple[str, str]] = []
        self.pause = threading.Event()  # writes wait while it is not set
        self.pause.set()
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self, name, flags)

    def happens(self, what: str, file: str) -> None:
        self.pause.wait(20)
        self.done.append((what, file))
        error = self.fail(what, file)
        if error is not None:
            raise error


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.happens("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.happens("sync", self._name)
        super().xSync(flags)
