"""Backups of a store while it is in use, and restoring one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from polycast.config import Clock, SystemClock
from polycast.errors import NotAStoreError, StoreDamagedError, StoreError
from polycast.stores.sqlite.connections import connect, sqlite_errors
from polycast.stores.sqlite.readonly_store import peek
from polycast.stores.sqlite.row_format import fetch, fetch_one
from polycast.stores.sqlite.schema import prepare, sync_directory, version_of
from polycast.stores.sqlite.state import SqlTransaction

# -- replacing a file atomically, never one that is in use -----------------------------------------

BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a file
_WAIT = 1_000  # milliseconds to wait for readers of the target


class CopyTarget:
    """The target of a copy: a new file, or by force an existing one.

    Links are followed, so a file is replaced, and never the link to it.
    """

    def __init__(
        self, source: str, target: str, *, force: bool, link: Callable[[str, str], None] = os.link
    ) -> None:
        self.name, self._force, self._link = target, force, link
        self.path = os.path.realpath(target)
        self._rights = _rights_of(source)
        self._check(os.path.realpath(source))

    def _check(self, source: str) -> None:
        """Refuse a target that must not be written, before any work is done."""
        there = [path for path in _files(self.path) if os.path.lexists(path)]
        folder = os.path.dirname(self.path)
        if self.path in _files(source) or _same(source, self.path):
            raise StoreError(
                f"{self.name} is one of the files of {source}: it cannot be copied onto itself; "
                f"name another file"
            )
        for end in BESIDE:
            store = self.path.removesuffix(end)
            if store != self.path and os.path.lexists(store):
                raise StoreError(
                    f"{self.path} is where SQLite keeps what belongs to {store}, and was not "
                    f"replaced: with another file there, it would lose events; name another file"
                )
        if not os.path.isdir(folder):
            why = f"there is no folder {folder}"
            raise NotAStoreError(
                self.name, why=why, instead="Name a file in a folder that is there"
            )
        if there and not stat.S_ISREG(os.lstat(there[0]).st_mode):
            raise StoreError(f"{there[0]} is there already and is no file; name another file")
        if there and not self._force:
            raise self._taken(there[0])

    def _taken(self, path: str) -> StoreError:
        return StoreError(
            f"{path} is there already, and nothing was changed; name another file, or give "
            f"force=True to replace it"
        )

    @contextmanager
    def draft(self) -> Iterator[str]:
        """Create a temporary file beside the target; it is removed in any case."""
        draft = f"{self.path}.{secrets.token_hex(4)}.new"
        try:
            # Nobody else may read it before it has the permissions of the source.
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(f"{self.name} cannot be written: {error}") from None
        try:
            yield draft
        finally:
            _remove(draft)

    def put(self, draft: str) -> None:
        """Move a finished file to the target, atomically and durably."""
        try:
            self._put(draft)
        except OSError as error:
            raise StoreError(f"{self.name} cannot be written: {error}") from None

    def _put(self, draft: str) -> None:
        mode, owner, group = self._rights
        with suppress(OSError):  # as root, so that the owner of the source may use the copy
            os.chown(draft, owner, group)
        os.chmod(draft, mode)
        _sync(draft)
        if self._force:
            with _retired(self.path):
                os.replace(draft, self.path)
        else:
            self._put_new(draft)
        sync_directory(self.path)

    def _put_new(self, draft: str) -> None:
        """Move a finished file to a target that must still not exist."""
        try:
            for path in _files(self.path)[1:]:  # SQLite would take it for a part of the new file
                if os.path.lexists(path):
                    raise FileExistsError(path)
            try:
                self._link(draft, self.path)
            except FileExistsError:
                raise
            except OSError:  # a file system without links: an empty file keeps the name free
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                os.replace(draft, self.path)
        except FileExistsError:
            raise self._taken(self.path) from None


@contextmanager
def _retired(path: str) -> Iterator[None]:
    """Lock a store exclusively: SQLite leaves WAL mode only when no process has it open."""
    if not os.path.exists(path):
        _remove_beside(path)  # of a store whose file is gone
        yield
        return
    if not os.access(path, os.W_OK):
        raise StoreError(
            f"{path} was not replaced: this user may not write it, so that nobody can say whether "
            f"some process has it open; name another file"
        )
    try:
        connection = connect(path)
    except (NotAStoreError, StoreDamagedError):  # what is damaged is what a restore is for
        _remove_beside(path)
        yield
        return
    with closing(connection):
        try:
            connection.set_busy_timeout(_WAIT)
            fetch(connection, "PRAGMA locking_mode = EXCLUSIVE")
            mode = fetch_one(connection, "PRAGMA journal_mode = DELETE")
            if mode != "delete":
                raise apsw.BusyError
            connection.execute("BEGIN EXCLUSIVE")
        except apsw.BusyError:
            raise StoreError(
                f"{path} is open in some process, and was not replaced: that process would go on "
                f"with a file that nobody finds, and lose what it accepts, or stop. Close every "
                f"bus and broker over it first, then do this again"
            ) from None
        except (apsw.NotADBError, apsw.CorruptError):
            pass
        _remove_beside(path)
        yield


def _rights_of(source: str) -> tuple[int, int, int]:
    """Return mode, owner and group of a file."""
    try:
        status = os.stat(source)
    except OSError:  # opening it reports that there is none
        return 0o600, os.geteuid(), os.getegid()
    return stat.S_IMODE(status.st_mode) & 0o777, status.st_uid, status.st_gid


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _files(path: str) -> list[str]:
    """List a file, and those that SQLite may have beside it."""
    return [path, *(path + end for end in BESIDE)]


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    _remove_beside(path)


def _remove_beside(path: str) -> None:
    for name in _files(path)[1:]:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _same(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


# -- copies ----------------------------------------------------------------------------------------

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
