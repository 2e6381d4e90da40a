"""What a failing disk does to a store in a file: rule 5 of the guarantees."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from faulty_disk import FaultyDisk
from store_drafts import MakeDrafts

from polycast.errors import StoreFailedError
from polycast.stores import Stretch
from polycast.stores.sqlite import SqliteStore

Open = Callable[..., SqliteStore]


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk("faulty")
    yield disk
    disk.fail = lambda what, file: None
    disk.unregister()


@pytest.fixture
def faulty(open_sqlite: Open, disk: FaultyDisk, drafts: MakeDrafts) -> SqliteStore:
    """A store with one event, on a disk that can fail."""
    store = open_sqlite(vfs="faulty")
    store.append(drafts(1))
    return store


def fails(what: str, error: Exception) -> Callable[[str, str], Exception | None]:
    """Every such operation on the write-ahead log fails."""
    return lambda done, file: error if (done, file.endswith("-wal")) == (what, True) else None


@pytest.mark.parametrize(
    "error", [apsw.IOError("sync"), OSError(errno.EIO, "sync")], ids=["sqlite", "system"]
)
def test_a_failed_sync_leaves_it_unknown_and_is_not_tried_again(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts, error: Exception
) -> None:
    disk.fail = fails("sync", error)
    with pytest.raises(StoreFailedError) as caught:
        faulty.append(drafts(2))
    assert caught.value.unknown
    syncs = [each for each in disk.done if each[0] == "sync"]
    disk.fail = lambda what, file: None  # the disk is well again, but nobody knows what is on it
    with pytest.raises(StoreFailedError) as caught:
        faulty.append(drafts(3))
    assert not caught.value.unknown
    assert [each for each in disk.done if each[0] == "sync"] == syncs
    assert isinstance(faulty.failure, StoreFailedError)


@pytest.mark.parametrize("error", [apsw.FullError("full"), apsw.IOError("io")], ids=["full", "io"])
def test_a_write_that_fails_at_the_commit_leaves_it_unknown(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts, error: Exception
) -> None:
    disk.fail = fails("write", error)
    with pytest.raises(StoreFailedError) as caught:
        faulty.append(drafts(2))
    assert caught.value.unknown


def test_a_disk_that_fills_before_the_commit_has_stored_nothing(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts, open_sqlite: Open
) -> None:
    disk.fail = fails("write", apsw.FullError("full"))
    # More than the cache of SQLite holds, so that it writes before the commit.
    with pytest.raises(StoreFailedError) as caught:
        faulty.append(drafts(*range(2, 40_000)), timeout=20)
    assert not caught.value.unknown
    assert faulty.newest() == 1


def test_reading_goes_on_after_a_failure(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts
) -> None:
    disk.fail = fails("sync", apsw.IOError("sync"))
    assert isinstance(faulty.submit(drafts(2)).exception(20), StoreFailedError)
    assert [each.position for each in faulty.read(1).entries] == [1]
    with faulty.view() as view:
        assert view.newest() == 1


def test_all_that_waits_behind_a_failure_fails_with_it(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts, eventually: Callable[..., None]
) -> None:
    disk.fail = fails("sync", apsw.IOError("sync"))
    disk.pause.clear()
    futures = [faulty.submit(drafts(n)) for n in range(2, 7)]
    change = faulty.write(lambda transaction: transaction.put_document("k", "n", b""))
    disk.pause.set()
    for future in (*futures, change):
        assert isinstance(future.exception(20), StoreFailedError)


def test_who_watches_learns_of_a_failure(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts, eventually: Callable[..., None]
) -> None:
    failures: list[Exception | None] = []
    faulty.watch(lambda: failures.append(faulty.failure))
    disk.fail = fails("sync", apsw.IOError("sync"))
    faulty.submit(drafts(2)).exception(20)
    eventually(lambda: failures and isinstance(failures[-1], StoreFailedError))


def test_a_failure_inside_a_change_is_one_of_the_store(
    faulty: SqliteStore, drafts: MakeDrafts
) -> None:
    def work(transaction: object) -> None:
        raise apsw.IOError("the disk")

    assert isinstance(faulty.write(work).exception(20), StoreFailedError)
    assert isinstance(faulty.failure, StoreFailedError)


def test_a_failed_checkpoint_ends_writing_but_not_what_was_acknowledged(
    faulty: SqliteStore,
    disk: FaultyDisk,
    drafts: MakeDrafts,
    open_sqlite: Open,
    eventually: Callable[..., None],
) -> None:
    main = str(Path(faulty.path))
    disk.fail = lambda what, file: apsw.IOError("sync") if (what, file) == ("sync", main) else None
    assert len(faulty.append(drafts(*range(2, 30_000)))) == 29_998
    eventually(lambda: faulty.failure)
    faulty.close()
    assert open_sqlite().newest() == 29_999


def test_nothing_is_synced_when_a_failed_store_is_closed(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts
) -> None:
    disk.fail = fails("sync", apsw.IOError("sync"))
    faulty.submit(drafts(2)).exception(20)
    before = list(disk.done)
    faulty.close()
    assert disk.done == before


def test_what_was_unknown_is_there_once_or_not_at_all_after_a_retry(
    faulty: SqliteStore, disk: FaultyDisk, drafts: MakeDrafts, open_sqlite: Open
) -> None:
    disk.fail = fails("sync", apsw.IOError("sync"))
    faulty.submit(drafts(2, 3)).exception(20)
    faulty.close()
    again = open_sqlite()
    assert again.append(drafts(2, 3)) == [2, 3]
    assert [each.record.identity.sequence for each in again.read(1).entries] == [1, 2, 3]


def test_what_the_pipeline_found_out_is_there_once_or_not_at_all_after_a_retry(
    faulty: SqliteStore, disk: FaultyDisk, open_sqlite: Open
) -> None:
    token = faulty.write(lambda t: t.take_routing()).result(20).token
    disk.fail = fails("sync", apsw.IOError("sync"))
    stretches = [Stretch(1, 2, b"x")]
    faulty.write(lambda t: t.advance(stretches, token=token)).exception(20)
    faulty.close()
    again = open_sqlite()
    assert again.write(lambda t: t.advance(stretches, token=token)).result(20)
    with again.view() as view:
        assert (view.routed().high, view.stretches(0, limit=9)) == (2, stretches)
