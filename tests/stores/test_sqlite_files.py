"""Files removed or replaced while a store has them open: no receipt for what goes there."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from store_drafts import MakeDrafts, make_drafts

from polycast.errors import StoreFailedError, StoreReplacedError
from polycast.stores import Transaction
from polycast.stores.sqlite import SqliteStore, back_up

Open = Callable[..., SqliteStore]

LONG = 150_000_000  # ns after which the times of a folder are trusted


def remove_all(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def make_other(path: Path) -> Path:
    """Another store, closed, beside it."""
    other = path.with_name("other.db")
    SqliteStore(other).close()
    return other


def keep_backup(path: Path) -> Path:
    copy = path.with_name("copy.db")
    back_up(path, copy)
    return copy


def point_elsewhere(path: Path) -> None:
    """The folder's name leads to another folder."""
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.mkdir()
    shutil.copy(path.parent.with_name("moved") / path.name, path)


def cut_log(path: Path, size: Callable[[int], int]) -> None:
    log = f"{path}-wal"
    os.truncate(log, size(os.path.getsize(log)))


MISHAPS: dict[str, Callable[[Path], object]] = {
    "all removed": remove_all,
    "removed": lambda path: path.unlink(),
    "write-ahead log removed": lambda path: Path(f"{path}-wal").unlink(),
    "its index removed": lambda path: Path(f"{path}-shm").unlink(),
    "another moved there": lambda path: make_other(path).rename(path),
    "another copied over it": lambda path: shutil.copyfile(make_other(path), path),
    "a backup copied over it": lambda path: shutil.copyfile(keep_backup(path), path),
    "the same copied to its place": lambda path: os.replace(shutil.copy(path, f"{path}.1"), path),
    "emptied": lambda path: os.truncate(path, 0),
    "write-ahead log emptied": lambda path: os.truncate(f"{path}-wal", 0),
    "write-ahead log cut in the middle": lambda path: cut_log(path, lambda size: size // 2),
    "write-ahead log cut to its head": lambda path: cut_log(path, lambda size: 32),
    "write-ahead log cut in its head": lambda path: cut_log(path, lambda size: 20),
    "folder moved": lambda path: path.parent.rename(path.parent.with_name("moved")),
    "folder replaced": point_elsewhere,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "store.db"


@pytest.fixture
def held(open_sqlite: Open, path: Path, drafts: MakeDrafts) -> SqliteStore:
    """A store with one event."""
    store = open_sqlite(path)
    store.append(drafts(1))
    return store


@pytest.mark.parametrize("mishap", MISHAPS)
def test_nothing_is_acknowledged_into_a_file_that_nobody_will_find(
    held: SqliteStore, path: Path, drafts: MakeDrafts, mishap: str
) -> None:
    MISHAPS[mishap](path)
    with pytest.raises(StoreReplacedError, match="removed or replaced while it was open"):
        held.append(drafts(2))
    with pytest.raises(StoreReplacedError) as caught:
        held.write(lambda tx: tx.newest()).result(20)
    assert not caught.value.unknown
    assert caught.value.path == str(path)
    assert isinstance(held.failure, StoreReplacedError)


@pytest.mark.parametrize("mishap", MISHAPS)
def test_nothing_is_acknowledged_either_when_the_folder_was_long_unchanged(
    held: SqliteStore, path: Path, drafts: MakeDrafts, mishap: str
) -> None:
    number = 2
    while time.time_ns() - path.parent.stat().st_ctime_ns < LONG:
        held.append(drafts(number))
        number += 1
    held.append(drafts(number))  # which finds all names in place
    MISHAPS[mishap](path)
    with pytest.raises(StoreReplacedError) as caught:
        held.append(drafts(number + 1))
    # Only SQLite's next header in the log tells that somebody else has emptied it.
    assert caught.value.unknown == (mishap == "write-ahead log emptied")


@pytest.mark.parametrize("mishap", [each for each in MISHAPS if each != "write-ahead log emptied"])
def test_one_who_only_reads_is_told_too(held: SqliteStore, path: Path, mishap: str) -> None:
    MISHAPS[mishap](path)
    with pytest.raises(StoreReplacedError):
        held.read(1)
    assert isinstance(held.failure, StoreReplacedError)


def test_a_log_that_was_begun_anew_and_then_cut_is_told_too(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    number = 1
    before = os.path.getsize(f"{path}-wal")
    while os.path.getsize(f"{path}-wal") > before or number < 3_000:
        before = os.path.getsize(f"{path}-wal")
        held.append(drafts(*range(number + 1, number + 501)))
        number += 500
    cut_log(path, lambda size: size // 2)
    with pytest.raises(StoreReplacedError, match=r"the first [0-9]+ of them"):
        held.append(drafts(number + 1))


def copy_over(target: str, source: Path) -> None:
    """As `cp` does it: the file stays, and what is in it goes."""
    shutil.copyfile(source, target)


def copy_log_of_another(path: Path) -> None:
    def fill_and_copy() -> None:
        other = SqliteStore(path.with_name("other.db"))
        other.append(make_drafts(*range(500)))
        copy_over(f"{path}-wal", path.with_name("other.db-wal"))
        other.close()

    with ThreadPoolExecutor(1) as elsewhere:  # this may be a thread that others wait for
        elsewhere.submit(fill_and_copy).result(20)


IN_THE_LOG: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: os.truncate(f"{path}-wal", 0),
    "cut in its head": lambda path: cut_log(path, lambda size: 20),
    "cut to its head": lambda path: cut_log(path, lambda size: 32),
    "cut in the middle": lambda path: cut_log(path, lambda size: size // 2),
    "without its last byte": lambda path: cut_log(path, lambda size: size - 1),
    "filled with zeros": lambda path: Path(f"{path}-wal").write_bytes(
        bytes(os.path.getsize(f"{path}-wal"))
    ),
    "of another store copied over it": copy_log_of_another,
    "as it was before copied over it": lambda path: copy_over(
        f"{path}-wal", path.with_name("before")
    ),
}


@pytest.fixture
def busy(held: SqliteStore, path: Path, drafts: MakeDrafts) -> SqliteStore:
    """The same with two commits in its log, and a copy of the log after the first."""
    shutil.copyfile(f"{path}-wal", path.with_name("before"))
    held.append(drafts(2))
    return held


@pytest.mark.parametrize("mishap", IN_THE_LOG)
def test_a_log_that_is_changed_while_a_group_is_written_acknowledges_nothing(
    busy: SqliteStore, path: Path, drafts: MakeDrafts, mishap: str
) -> None:
    def change(tx: Transaction) -> None:
        tx.put_document("kind", "name", b"body")
        IN_THE_LOG[mishap](path)

    with pytest.raises(StoreReplacedError) as caught:
        busy.write(change).result(20)
    assert caught.value.unknown
    with pytest.raises(StoreReplacedError):
        busy.append(drafts(3))


class Syncing(apsw.VFS):
    """A disk that does something when the next sync of a log, or of a file, is over."""

    def __init__(self, name: str, *, of_log: bool = True) -> None:
        self.name, self.of_log, self.then = name, of_log, lambda: None
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return SyncedFile(name, flags, self)


class SyncedFile(apsw.VFSFile):
    """A file of it."""

    def __init__(self, name: Any, flags: list[int], disk: Syncing) -> None:
        self.disk = disk
        self.is_awaited = bool(flags[0] & apsw.SQLITE_OPEN_WAL) == disk.of_log
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        if self.is_awaited:
            then, self.disk.then = self.disk.then, lambda: None
            then()


@pytest.mark.parametrize("mishap", IN_THE_LOG)
def test_a_log_that_is_changed_when_a_group_was_written_acknowledges_nothing(
    path: Path, drafts: MakeDrafts, mishap: str
) -> None:
    disk = Syncing(f"syncing {mishap}")
    store = SqliteStore(path, vfs=disk.name)
    store.append(drafts(1))
    shutil.copyfile(f"{path}-wal", path.with_name("before"))
    store.append(drafts(2))
    disk.then = lambda: IN_THE_LOG[mishap](path)
    with pytest.raises(StoreReplacedError) as caught:
        store.append(drafts(3))
    assert caught.value.unknown
    store.close()
    disk.unregister()


def test_a_hole_before_the_last_frame_that_was_written_is_told(
    path: Path, drafts: MakeDrafts
) -> None:
    def punch() -> None:
        with open(f"{path}-wal", "r+b") as log:
            log.seek(-2 * (24 + 4_096), os.SEEK_END)
            log.write(bytes(24 + 4_096))

    disk = Syncing("syncing a hole")
    store = SqliteStore(path, vfs=disk.name)
    store.append(drafts(1))
    disk.then = punch
    with pytest.raises(StoreReplacedError, match="a hole"):
        store.append(drafts(2))
    store.close()
    disk.unregister()


def test_a_log_that_was_emptied_and_put_back_is_not_taken_for_a_new_one(
    busy: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    os.truncate(f"{path}-wal", 0)
    assert busy.failure is None  # SQLite itself may have emptied it
    copy_over(f"{path}-wal", path.with_name("before"))
    with pytest.raises(StoreReplacedError):
        busy.append(drafts(3))


def test_a_log_that_is_changed_while_it_is_moved_into_the_file_is_told(
    path: Path, drafts: MakeDrafts
) -> None:
    disk = Syncing("syncing a checkpoint", of_log=False)
    store = SqliteStore(path, vfs=disk.name)
    store.append(drafts(1))
    disk.then = lambda: copy_log_of_another(path)

    def fill() -> None:
        for number in range(2, 20_000, 500):
            store.append(drafts(*range(number, number + 500)))

    with pytest.raises(StoreReplacedError):
        fill()
    store.close()
    disk.unregister()


@pytest.mark.parametrize("pages", [1, 10, 1_000])
def test_a_file_that_is_cut_by_pages_acknowledges_nothing_more(
    held: SqliteStore, path: Path, drafts: MakeDrafts, pages: int
) -> None:
    checkpoint(path, "PASSIVE")
    held.append(drafts(2))
    os.truncate(path, max(4_096, path.stat().st_size - pages * 4_096))
    with pytest.raises(StoreReplacedError):
        held.append(drafts(3))


def test_a_file_that_gives_pages_back_was_not_cut(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    held.append(drafts(*range(2, 5_000)))
    checkpoint(path, "PASSIVE")
    held.append(drafts(5_000))
    size = path.stat().st_size
    held.truncate(5_000)
    checkpoint(path, "PASSIVE")
    held.append(drafts(5_001))
    assert path.stat().st_size < size
    assert held.failure is None


@pytest.mark.parametrize("mode", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
def test_others_may_begin_the_log_anew(
    held: SqliteStore, path: Path, drafts: MakeDrafts, mode: str
) -> None:
    for number in range(2, 10):
        checkpoint(path, mode)
        assert held.append(drafts(number)) == [number]
    assert held.failure is None


def test_a_log_that_sqlite_has_emptied_right_after_a_commit_was_not_cut(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    looks: list[str] = []
    check = held._files.check_commit

    def check_late(frames: int, count: Callable[[], int]) -> None:
        if not looks:
            checkpoint(path, "TRUNCATE")
            looks.append("late")
        check(frames, count)

    held._files.check_commit = check_late  # type: ignore[method-assign]
    assert held.append(drafts(2)) == [2]
    assert held.append(drafts(3)) == [3]
    assert looks


def checkpoint(path: Path, mode: str) -> None:
    """As another process does it."""
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute(f'PRAGMA wal_checkpoint({sys.argv[2]})').fetchall()"
    )
    subprocess.run([sys.executable, "-c", program, path, mode], check=True)


def test_what_was_written_when_it_is_found_out_is_unknown(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    removing = held.write(lambda tx: remove_all(path))
    with pytest.raises(StoreReplacedError) as caught:
        removing.result(20)
    assert caught.value.unknown


def test_closing_touches_nothing_that_was_put_there(
    held: SqliteStore, path: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    remove_all(path)
    new = open_sqlite(path)
    new.append(drafts(7, 8))
    held.close()  # the last that has the old file open: SQLite removes the log by its name
    new.append(drafts(9))
    assert [each.record.identity.sequence for each in new.read(1).entries] == [7, 8, 9]


def test_what_was_acknowledged_is_saved_where_only_the_log_was_removed(
    held: SqliteStore, path: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    held.append(drafts(2))
    Path(f"{path}-wal").unlink()
    with pytest.raises(StoreReplacedError):
        held.append(drafts(3))
    held.close()
    again = open_sqlite(path)
    assert [each.record.identity.sequence for each in again.read(1).entries][:2] == [1, 2]


def test_a_link_that_leads_elsewhere_stops_it(
    path: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    link = path.with_name("current.db")
    link.symlink_to(path.name)
    store = open_sqlite(link)
    store.append(drafts(1))
    other = make_other(path)
    link.unlink()
    link.symlink_to(other.name)
    with pytest.raises(StoreReplacedError):
        store.append(drafts(2))


def test_another_working_directory_and_a_checkpoint_are_no_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_sqlite(Path("store.db"))
    store.append(drafts(1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for at in range(1, 4):
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
            "print(c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall())"
        )
        subprocess.run([sys.executable, "-c", program, tmp_path / "store.db"], check=True)
        assert store.append(drafts(2 * at, 2 * at + 1)) == [2 * at, 2 * at + 1]
    assert store.failure is None


def test_looking_at_the_file_gives_up_no_lock_on_it(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    os.utime(path)  # it is read once more
    held.append(drafts(2))
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0); "
        "c.execute('PRAGMA journal_mode = DELETE')"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, path], check=False, capture_output=True, text=True
    )
    assert "locked" in told.stderr


def test_the_error_says_what_was_there_and_what_is(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    inode = path.stat().st_ino
    make_other(path).rename(path)
    with pytest.raises(StoreReplacedError) as caught:
        held.append(drafts(2))
    assert isinstance(caught.value, StoreFailedError)
    for part in (str(path), f"inode {inode}", f"inode {path.stat().st_ino}", "restore a backup"):
        assert part in str(caught.value)


def test_a_version_that_only_the_log_has_is_checked_as_well(
    path: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    shutil.copy(Path(__file__).parent / "files" / "version_1.db", path)
    with closing(sqlite3.connect(path)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        store = open_sqlite(path)
        store.append(drafts(1_001))
        shutil.copyfile(make_other(path), path)
        with pytest.raises(StoreReplacedError):
            store.append(drafts(1_002))


class Swapping(apsw.VFS):
    """A disk on which another file takes the place of a store right after it was opened."""

    def __init__(self, name: str, swap: Callable[[], None]) -> None:
        self.name, self.swap = name, swap
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        file = apsw.VFSFile("", name, flags)
        self.swap()
        return file


def test_a_store_replaced_while_it_was_being_opened_is_not_opened(
    held: SqliteStore, path: Path, drafts: MakeDrafts
) -> None:
    copy = keep_backup(path)
    held.close()
    left = [copy]

    def swap() -> None:
        while left:
            os.replace(left.pop(), path)

    disk = Swapping("swapping", swap)
    with pytest.raises(StoreReplacedError, match="was removed or replaced"):
        SqliteStore(path, vfs=disk.name)
    store = SqliteStore(path, vfs=disk.name)
    assert store.append(drafts(2)) == [2]
    store.close()
    disk.unregister()
