"""Copies of a store while it is written, and stores made from copies."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from store_drafts import MakeDrafts

from polycast.errors import NotAStoreError, StoreDamagedError, StoreError
from polycast.stores import Flight, StoredSubscription, Stretch
from polycast.stores.sqlite import SqliteStore, back_up, restore
from polycast.stores.sqlite.backup import EPOCHS_SKIPPED
from polycast.testing import ManualClock

Open = Callable[..., SqliteStore]
VERSION_1 = Path(__file__).parent / "files" / "version_1.db"


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
    store.append(drafts(*range(100)))
    return store


def test_a_back_up_has_all_that_was_acknowledged(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    assert back_up(path, copy) > 10
    assert [each.name for each in copy.parent.iterdir()] == ["copy.db"]
    assert open_sqlite(copy).read(1) == filled.read(1)


def test_a_back_up_while_others_write_is_of_one_moment(
    filled: SqliteStore,
    path: Path,
    copy: Path,
    open_sqlite: Open,
    drafts: MakeDrafts,
    in_thread: Callable[..., threading.Thread],
) -> None:
    filled.append(drafts(*range(100, 20_000)))  # some steps long
    stop, written = threading.Event(), threading.Semaphore(0)

    def write() -> None:
        n = 20_000
        while not stop.is_set():
            filled.append(drafts(n, n + 1, epoch=2))
            written.release()
            n += 2

    in_thread(write)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        assert written.acquire(timeout=20)  # something is written between the steps
        seen.append((done, total))

    back_up(path, copy, progress=progress)
    stop.set()
    copied = open_sqlite(copy)
    assert len({total for _, total in seen}) == 1
    assert len(seen) > 1
    assert 20_000 <= copied.newest() < filled.newest() + 1
    assert copied.newest() % 2 == 0  # never half of what was appended together
    assert copied.read(19_000) == filled.read(19_000, until=copied.newest() + 1)


def test_a_back_up_replaces_the_one_before_only_when_it_is_whole(
    filled: SqliteStore, path: Path, copy: Path, drafts: MakeDrafts
) -> None:
    back_up(path, copy)
    before = copy.read_bytes()
    filled.append(drafts(500))

    def fail(done: int, total: int) -> None:
        raise KeyError("interrupted")

    with pytest.raises(KeyError):
        back_up(path, copy, force=True, progress=fail)
    assert copy.read_bytes() == before
    back_up(path, copy, force=True)
    assert copy.read_bytes() != before
    assert [each.name for each in copy.parent.iterdir()] == ["copy.db"]


def test_a_damaged_store_is_not_backed_up_over_a_good_one(
    filled: SqliteStore, path: Path, copy: Path, drafts: MakeDrafts
) -> None:
    filled.append(drafts(*range(1000, 3000)))
    back_up(path, copy)
    before = copy.read_bytes()
    filled.close()
    harmed = bytearray(path.read_bytes())
    harmed[len(harmed) // 2 : len(harmed) // 2 + 9000] = b"\xa5" * 9000
    path.write_bytes(harmed)
    with pytest.raises(StoreDamagedError):
        back_up(path, copy, force=True)
    assert copy.read_bytes() == before


def test_a_store_is_not_backed_up_onto_itself(filled: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreError, match="onto itself"):
        back_up(path, path)


def test_what_is_not_there_cannot_be_backed_up(path: Path, copy: Path) -> None:
    with pytest.raises(NotAStoreError, match="no such file"):
        back_up(path, copy)
    assert list(copy.parent.iterdir()) == []


def test_a_restored_store_goes_on_from_the_back_up(
    filled: SqliteStore, path: Path, copy: Path, tmp_path: Path, open_sqlite: Open
) -> None:
    back_up(path, copy)
    restore(copy, tmp_path / "new.db")
    assert open_sqlite(tmp_path / "new.db").read(1) == filled.read(1)


def test_no_identity_is_given_twice_after_a_restore(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open, clock: ManualClock
) -> None:
    def opened(store: SqliteStore, publisher: str) -> int:
        work = store.write(lambda t: t.open_bus(publisher, until=1.0, address="", process=1))
        return work.result(10).epoch

    first = opened(filled, "till")
    back_up(path, copy)
    # What is given after the backup, the restored store does not know of.
    given = {"till": [first, opened(filled, "till")], "kiosk": [opened(filled, "kiosk")]}
    store = filled
    for _ in range(3):  # of the same backup
        store.close()
        clock.advance(1)
        restore(copy, path, force=True, clock=clock)
        store = open_sqlite()
        for publisher, epochs in given.items():
            epochs += [opened(store, publisher), opened(store, publisher)]
    assert all(epochs == sorted(set(epochs)) for epochs in given.values())
    assert given["till"][2] > first + EPOCHS_SKIPPED


def test_whoever_held_something_then_does_not_hold_it_after_a_restore(
    filled: SqliteStore, path: Path, copy: Path, tmp_path: Path, open_sqlite: Open
) -> None:
    filled.write(lambda t: t.save(StoredSubscription("s", b"", 1, 5, holder=1, token=3))).result(10)
    filled.write(lambda t: t.fly([Flight("s", 2, holder=1, token=8)])).result(10)
    filled.write(lambda t: t.open_bus("till", until=1.0, address="", process=1)).result(10)
    back_up(path, copy)
    restore(copy, tmp_path / "new.db")
    with open_sqlite(tmp_path / "new.db").view() as view:
        assert view.subscription("s") == StoredSubscription("s", b"", 1, 5, holder=None, token=4)
        assert view.flights("s") == [Flight("s", 2, holder=None, token=9)]
        assert view.buses() == []


def test_no_pipeline_goes_on_after_a_restore(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open, clock: ManualClock
) -> None:
    def take(store: SqliteStore) -> int:
        return store.write(lambda t: t.take_routing()).result(10).token

    def about(store: SqliteStore) -> tuple[str, list[Stretch]]:
        with store.view() as view:
            return view.identity(), view.stretches(0, limit=9)

    tokens = [take(filled)]
    filled.write(lambda t: t.advance([Stretch(1, 50, b"x")], token=tokens[0])).result(10)
    identity, stretches = about(filled)
    back_up(path, copy)
    tokens.append(take(filled))  # which the backup does not know of
    filled.close()
    restore(copy, path, force=True, clock=clock)
    store = open_sqlite()
    for token in tokens:
        work = store.write(lambda t, token=token: t.advance([], token=token))  # type: ignore[misc]
        assert not work.result(10)
    tokens.append(take(store))
    assert tokens == sorted(set(tokens))
    assert about(store)[1] == stretches
    assert about(store)[0] != identity  # what was said of the other is not said of this one


def test_a_back_up_of_an_older_version_is_brought_up_to_date(
    copy: Path, tmp_path: Path, open_sqlite: Open
) -> None:
    shutil.copy(VERSION_1, copy)
    restore(copy, tmp_path / "new.db")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copies", "new.db"]
    store = open_sqlite(tmp_path / "new.db")
    assert (store.oldest(), store.newest()) == (3, 12)
    with store.view() as view:
        assert view.routed().token >= EPOCHS_SKIPPED
    assert copy.read_bytes() == VERSION_1.read_bytes()


def test_an_existing_store_is_replaced_only_by_force(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    back_up(path, copy)
    filled.append(drafts(500))
    filled.close()
    with pytest.raises(StoreError, match="there already"):
        restore(copy, path)
    assert open_sqlite().newest() == 101
    with pytest.raises(StoreError, match="is open"):
        restore(copy, path, force=True)


def test_a_store_that_is_open_is_not_replaced(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    back_up(path, copy)
    with pytest.raises(StoreError, match="is open"):
        restore(copy, path, force=True)
    assert filled.newest() == 100
    filled.close()
    restore(copy, path, force=True)
    assert open_sqlite().newest() == 100
    assert sorted(each.name for each in copy.parent.iterdir()) == ["copy.db"]


def test_a_damaged_back_up_is_not_restored(
    filled: SqliteStore, path: Path, copy: Path, tmp_path: Path
) -> None:
    back_up(path, copy)
    copy.write_bytes(copy.read_bytes()[:40_000])
    with pytest.raises(StoreDamagedError):
        restore(copy, tmp_path / "new.db")
    copy.write_text("nothing of the kind", encoding="utf-8")
    with pytest.raises(NotAStoreError):
        restore(copy, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_damaged_store_can_be_replaced(
    filled: SqliteStore, path: Path, copy: Path, open_sqlite: Open
) -> None:
    back_up(path, copy)
    filled.close()
    path.write_text("this was a store once " * 999, encoding="utf-8")
    restore(copy, path, force=True)
    assert open_sqlite().newest() == 100
