"""SQLite files that were open when this process was forked from another.

SQLite records in each process which locks it holds on a file. A child inherits these records, but
the locks belong to its parent. So a connection that the child opens to such a file does not lock
it: its commits are lost when the parent removes the write-ahead log, or it waits for a writer that
does not exist. Nor may the child close what it inherited, as that would write to the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from polycast.errors import ForkedError
from polycast.forks import in_child

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.stores.sqlite.open_files import Files

    Identity = tuple[int, int]  # the device and the inode of a file

__all__ = ["check_own", "opened"]

_open: WeakKeyDictionary[Any, Files] = WeakKeyDictionary()  # by the writers of open stores
_inherited: dict[Identity, Any] = {}  # what must stay alive


def opened(writer: Any, files: Files) -> None:
    """Register the files of an open store; it is open until its writer `is_over`."""
    _open[writer] = files


def check_own(path: str, identity: Callable[[str], Identity | None]) -> None:
    """Raise `ForkedError` for a file that the parent of this process had open at the fork."""
    if _inherited and identity(path) in _inherited:
        raise ForkedError(
            f"opening {path}",
            "this SQLite file",
            instead="SQLite cannot lock it twice. Open it before the fork or after it, not both; "
            'or start this process anew, as multiprocessing does with "spawn" or "forkserver"',
        )


def _inherit() -> None:
    for writer, files in list(_open.items()):
        if not writer.is_over and files.identity is not None:
            _inherited[files.identity] = (writer, files)
    _open.clear()


in_child(_inherit)
