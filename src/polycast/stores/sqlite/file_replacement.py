"""A finished file takes its place: whole, for good, and over nothing that is in use."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from polycast.errors import NotAStoreError, StoreDamagedError, StoreError
from polycast.stores.sqlite.connections import connect
from polycast.stores.sqlite.row_format import fetch, fetch_one
from polycast.stores.sqlite.schema import sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CopyTarget"]

BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a file
_WAIT = 1_000  # milliseconds for whoever is just reading the target


class CopyTarget:
    """Where a copy of a source goes: to another file that is not there, unless by force.

    Links are followed, so what is replaced is a file, and never the link to it.
    """

    def __init__(
        self,
        source: str,
        target: str,
        *,
        force: bool,
        link: Callable[[str, str], None] = os.link,
    ) -> None:
        self.name, self._force, self._link = target, force, link
        self.path = os.path.realpath(target)
        self._rights = _rights_of(source)
        self._check(os.path.realpath(source))

    def _check(self, source: str) -> None:
        """Refuse what must not be written to, before any work is done."""
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
        """A new file beside the target to write to; whatever happens, it is not left there."""
        made = f"{self.path}.{secrets.token_hex(4)}.new"
        try:
            # Nobody else reads it before it has the rights that the source has.
            os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(f"{self.name} cannot be written: {error}") from None
        try:
            yield made
        finally:
            _remove(made)

    def put(self, made: str) -> None:
        """Put a finished file in its place, at once and for good."""
        try:
            self._put(made)
        except OSError as error:
            raise StoreError(f"{self.name} cannot be written: {error}") from None

    def _put(self, made: str) -> None:
        mode, owner, group = self._rights
        with suppress(OSError):  # as root, so that whoever owns the one may use the other
            os.chown(made, owner, group)
        os.chmod(made, mode)
        _sync(made)
        if self._force:
            with _retired(self.path):
                os.replace(made, self.path)
        else:
            self._put_new(made)
        sync_directory(self.path)

    def _put_new(self, made: str) -> None:
        """The same where nothing may be, even if something has come there meanwhile."""
        try:
            for path in _files(self.path)[1:]:  # SQLite would take it for a part of the new file
                if os.path.lexists(path):
                    raise FileExistsError(path)
            try:
                self._link(made, self.path)
            except FileExistsError:
                raise
            except OSError:  # a file system without links: an empty file keeps the name free
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                os.replace(made, self.path)
        except FileExistsError:
            raise self._taken(self.path) from None


@contextmanager
def _retired(path: str) -> Iterator[None]:
    """Within it nobody has the store open, or can open it; SQLite leaves WAL mode only then."""
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
    """What everybody may do with a file, and whose it is."""
    try:
        found = os.stat(source)
    except OSError:  # that there is none is told by whoever opens it
        return 0o600, os.geteuid(), os.getegid()
    return stat.S_IMODE(found.st_mode) & 0o777, found.st_uid, found.st_gid


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _files(path: str) -> list[str]:
    """A file, and those that SQLite may have beside it."""
    return [path, *(path + end for end in BESIDE)]


def _remove(path: str) -> None:
    for name in _files(path):
        with suppress(FileNotFoundError):
            os.unlink(name)


def _remove_beside(path: str) -> None:
    for name in _files(path)[1:]:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _same(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
