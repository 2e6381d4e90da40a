"""Where copies of a store may go, and what they never take the place of."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from store_drafts import MakeDrafts

from polycast.errors import NotAStoreError, StoreError
from polycast.stores.sqlite import SqliteStore, back_up, restore
from polycast.stores.sqlite.backup import CopyTarget

Open = Callable[..., SqliteStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies" / "copy.db"


@pytest.fixture
def filled(open_sqlite: Open, drafts: MakeDrafts) -> SqliteStore:
    store = open_sqlite()
    store.append(drafts(*range(10)))
    return store


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_file_that_is_there_is_replaced_only_by_force(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    copy.write_text("a letter", encoding="utf-8")
    with pytest.raises(StoreError, match=r"is there already.*force=True"):
        back_up(path, copy)
    assert copy.read_text(encoding="utf-8") == "a letter"
    assert names(copy.parent) == ["copy.db"]
    back_up(path, copy, force=True)
    assert names(copy.parent) == ["copy.db"]
    assert open_sqlite(copy).newest() == filled.newest()


def test_a_store_that_is_open_is_not_replaced_by_a_back_up_even_by_force(
    filled: SqliteStore, path: Path, tmp_path: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    live = open_sqlite(tmp_path / "live.db")
    live.append(drafts(1, 2, 3, epoch=5))
    with pytest.raises(StoreError, match=r"is open in some process.*Close every"):
        back_up(path, tmp_path / "live.db", force=True)
    live.append(drafts(4, epoch=5))
    assert (live.newest(), live.failure) == (4, None)
    live.close()
    assert open_sqlite(tmp_path / "live.db").newest() == 4


def test_a_store_opened_while_it_was_copied_is_not_replaced(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    back_up(path, copy)
    opened: list[SqliteStore] = []

    def open_it(done: int, total: int) -> None:
        if not opened:
            opened.append(open_sqlite(copy))

    with pytest.raises(StoreError, match="is open in some process"):
        back_up(path, copy, force=True, progress=open_it)
    assert opened[0].failure is None
    assert opened[0].newest() == 10


@pytest.mark.parametrize("end", ["", "-wal", "-journal"])
def test_what_comes_into_being_while_the_copy_is_made_stays(
    filled: SqliteStore, path: Path, copy: Path, end: str
) -> None:
    other = copy.with_name(copy.name + end)

    def come(done: int, total: int) -> None:
        other.write_text("somebody else's", encoding="utf-8")

    with pytest.raises(StoreError, match="is there already"):
        back_up(path, copy, progress=come)
    assert names(copy.parent) == [other.name]
    assert other.read_text(encoding="utf-8") == "somebody else's"


def test_without_links_a_name_is_kept_free_all_the_same(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(95, "Operation not supported")

    place = CopyTarget(str(path), str(copy), force=False, link=refuse)
    with place.draft() as made:
        back_up(path, made, force=True)
        place.put(made)
    assert names(copy.parent) == ["copy.db"]
    assert open_sqlite(copy).newest() == 10
    late = CopyTarget(str(path), str(copy.parent / "late.db"), force=False, link=refuse)
    with late.draft() as made:
        (copy.parent / "late.db").write_text("first", encoding="utf-8")
        with pytest.raises(StoreError, match="is there already"):
            late.put(made)
    assert (copy.parent / "late.db").read_text(encoding="utf-8") == "first"


def test_a_log_left_over_from_another_file_is_not_taken_for_a_part_of_the_copy(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    log = copy.with_name("copy.db-wal")
    log.write_bytes(path.with_name("store.db-wal").read_bytes())
    with pytest.raises(StoreError, match=r"copy\.db-wal is there already"):
        back_up(path, copy)
    assert log.exists()
    back_up(path, copy, force=True)
    assert names(copy.parent) == ["copy.db"]
    assert open_sqlite(copy).read(1) == filled.read(1)


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_no_file_of_the_store_itself_is_written_to(
    filled: SqliteStore, path: Path, end: str, drafts: MakeDrafts
) -> None:
    before = names(path.parent)
    with pytest.raises(StoreError, match="onto itself"):
        back_up(path, f"{path}{end}", force=True)
    with pytest.raises(StoreError, match="onto itself"):
        restore(path, f"{path}{end}", force=True)
    assert names(path.parent) == before
    filled.append(drafts(77))
    assert filled.failure is None


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("copying", [back_up, restore])
def test_no_file_of_any_other_store_is_written_to(
    filled: SqliteStore,
    path: Path,
    tmp_path: Path,
    open_sqlite: Open,
    drafts: MakeDrafts,
    copying: Callable[..., object],
    end: str,
) -> None:
    live = open_sqlite(tmp_path / "live.db")
    live.append(drafts(1, epoch=5))
    back_up(path, tmp_path / "copy.db")
    before = names(tmp_path)
    for force in (False, True):
        with pytest.raises(StoreError, match=r"belongs to .*live\.db, and was not replaced"):
            copying(tmp_path / "copy.db", tmp_path / f"live.db{end}", force=force)
    assert names(tmp_path) == before
    assert live.append(drafts(2, epoch=5)) == [2]
    live.close()
    assert open_sqlite(tmp_path / "live.db").newest() == 2


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_link_to_the_store_is_the_store_itself(
    filled: SqliteStore, path: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    make(path, tmp_path / "link.db")
    for source, target in [(path, tmp_path / "link.db"), (tmp_path / "link.db", path)]:
        with pytest.raises(StoreError, match="onto itself"):
            back_up(source, target, force=True)


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    link = copy.with_name("link.db")
    link.symlink_to(copy)
    back_up(path, link)  # to where it leads, which is not there yet
    assert copy.is_file()
    with pytest.raises(StoreError, match="is there already"):
        back_up(path, link)
    filled.append(drafts(500))
    back_up(path, link, force=True)
    assert os.readlink(link) == str(copy)
    assert open_sqlite(copy).newest() == 11
    with pytest.raises(StoreError, match="is open in some process"):
        back_up(path, link, force=True)


def test_only_files_are_replaced(filled: SqliteStore, path: Path, copy: Path) -> None:
    copy.mkdir()
    os.mkfifo(copy.with_name("pipe"))
    for target in (copy, copy.with_name("pipe"), Path("/dev/null")):
        with pytest.raises(StoreError, match="is no file"):
            back_up(path, target, force=True)
    with pytest.raises(NotAStoreError, match="there is no folder"):
        back_up(path, copy.parent / "absent" / "copy.db", force=True)
    assert names(copy.parent) == ["copy.db", "pipe"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o400])
def test_copies_have_the_permissions_of_their_source(
    filled: SqliteStore, path: Path, copy: Path, tmp_path: Path, mode: int
) -> None:
    def is_private(done: int, total: int) -> None:
        (draft,) = copy.parent.iterdir()
        assert rights(draft) == 0o600

    path.chmod(mode)
    back_up(path, copy, progress=is_private)
    restore(copy, tmp_path / "again.db")
    assert (rights(copy), rights(tmp_path / "again.db")) == (mode, mode)


def test_what_is_beside_a_restored_store_has_its_permissions(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    path.chmod(0o660)
    back_up(path, copy)
    open_sqlite(copy).append(drafts(1, epoch=9))
    assert names(copy.parent) == ["copy.db", "copy.db-shm", "copy.db-wal"]
    assert {rights(each) for each in copy.parent.iterdir()} == {0o660}


def test_no_draft_is_left_if_it_cannot_take_its_place(
    filled: SqliteStore, path: Path, copy: Path
) -> None:
    def take_away(done: int, total: int) -> None:
        copy.mkdir(exist_ok=True)

    for force in (False, True):
        with pytest.raises(StoreError):
            back_up(path, copy, force=force, progress=take_away)
        assert names(copy.parent) == ["copy.db"]
        copy.rmdir()


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
