"""Backups of a store while it is in use, and restoring one."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from polycast.config import SystemClock
from polycast.errors import NotAStoreError, StoreDamagedError
from polycast.stores.sqlite.connections import connect, sqlite_errors
from polycast.stores.sqlite.file_replacement import CopyTarget
from polycast.stores.sqlite.readonly_store import peek
from polycast.stores.sqlite.row_format import fetch
from polycast.stores.sqlite.schema import prepare, version_of
from polycast.stores.sqlite.state import SqlTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock

EPOCHS_SKIPPED = 1_000_000
"""By how much, at least, a restore raises the epoch of every publisher."""

_PAGES = 250  # copied at a time

StrPath = str | os.PathLike[str]


def back_up(
    store: StrPath,
    target: StrPath,
    *,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Copy a store, which may be written meanwhile, to one file; return the number of pages.

    The copy is a verified snapshot with the permissions of the store. An existing file is replaced
    only by force, and an open store not even then.
    """
    store, target = os.fspath(store), os.fspath(target)
    _check_source(store)
    with sqlite_errors(store):
        source, guard = peek(store)
    with sqlite_errors(target), closing(source):
        if version_of(source, store) == 0:
            raise _no_store(store)
        place = CopyTarget(store, target, force=force)
        with place.draft() as draft:
            pages = _copy(source, draft, progress)
            check_file(draft)
            if guard is not None:
                guard.check()
            place.put(draft)
    return pages


def _check_source(path: str) -> None:
    """Check that the source is a file, as opening it must not create one."""
    if not os.path.isfile(path):
        why = "it is no file" if os.path.exists(path) else "there is no such file"
        raise NotAStoreError(path, why=why, instead="Name the file of a store")


def _no_store(path: str) -> NotAStoreError:
    return NotAStoreError(path, why="it is empty", instead="Name a backup of a store")


def restore(
    backup: StrPath, target: StrPath, *, force: bool = False, clock: Clock | None = None
) -> None:
    """Restore a store from a backup; an existing one is replaced only by force, if it is not open.

    A backup does not know the epochs assigned after it. Assigning them again would give two events
    one identity, and whoever has received the first would take the second for a retry. So all
    publishers, known or new, continue with an epoch above any assigned before: the milliseconds of
    the clock, which differ if the same backup is restored twice.
    """
    backup, target = os.fspath(backup), os.fspath(target)
    check_file(backup)
    place = CopyTarget(backup, target, force=force)
    with (
        sqlite_errors(target),
        closing(connect(backup, write=False)) as source,
        place.draft() as draft,
    ):
        _copy(source, draft, None)
        _begin_anew(draft, backup, int((clock or SystemClock()).time() * 1000))
        check_file(draft)
        place.put(draft)


def check_file(path: str) -> None:
    """Check that a file is a sound store: `NotAStoreError` or `StoreDamagedError` if not."""
    with closing(connect(path, write=False)) as connection:
        try:
            if version_of(connection, path) == 0:
                raise _no_store(path)
            problems = [text for (text,) in fetch(connection, "PRAGMA integrity_check(10)")]
        except apsw.CorruptError as error:
            problems = [str(error)]
    if problems != ["ok"]:
        raise StoreDamagedError(path, place="the file", why="; ".join(map(str, problems)))


def _copy(source: apsw.Connection, path: str, progress: Callable[[int, int], None] | None) -> int:
    """Copy a snapshot of all pages."""
    # Within a read transaction, writes of other processes do not restart the copy.
    source.execute("BEGIN")
    fetch(source, "SELECT 1 FROM sqlite_schema LIMIT 1")
    with closing(connect(path)) as copy:
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_PAGES)
                if progress is not None:
                    progress(backup.page_count - backup.remaining, backup.page_count)
            pages = backup.page_count
        # A backup is one file: without the write-ahead log that the original has.
        fetch(copy, "PRAGMA journal_mode = DELETE")
    source.execute("ROLLBACK")
    return pages


def _begin_anew(path: str, backup: str, epoch: int) -> None:
    with closing(connect(path)) as connection:
        prepare(connection, path)  # the backup may be of an older version
        with connection:
            # Processes that had it open then do not have it open now.
            SqlTransaction(connection, backup).begin_anew(skipped=EPOCHS_SKIPPED, epoch=epoch)
        fetch(connection, "PRAGMA journal_mode = DELETE")
