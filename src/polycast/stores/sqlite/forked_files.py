"""SQLite files that were open when this process was forked from another.

SQLite keeps, in each process, which locks that has of a file. A child has a copy of that, and the
locks themselves are its parent's. So a connection that the child opens to such a file does not lock
it: what it commits is lost when the parent removes the write-ahead log, or it waits for a writer
that is not there. Nor may the child close what it has inherited, which would write to the file.
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
_inherited: dict[Identity, Any] = {}  # and what must not be let go of


def opened(writer: Any, files: Files) -> None:
    """A store was opened, which is open until its writer `is_over`."""
    _open[writer] = files


def check_own(path: str, identity: Callable[[str], Identity | None]) -> None:
    """Refuse to open a file that was open in the parent of this process when it was forked."""
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
