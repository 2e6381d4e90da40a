"""On a disk that fails, nothing is acknowledged that is not kept, and nobody hangs."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from proof_disk import FailAt, FullAfter, run_on
from proof_power import draft_of
from proof_vfs import Before, TapeVFS

from polycast.errors import StoreError, StoreFailedError
from polycast.stores.contract import Store
from polycast.stores.sqlite import SqliteStore


def open_store(path: Path, layer: str) -> Store:
    return SqliteStore(str(path), vfs=layer)


@pytest.mark.slow
@pytest.mark.parametrize("number", [*range(1, 16), 20, 33, 47, 60])
def test_a_failed_sync_stops_the_store_and_loses_nothing(tmp_path: Path, number: int) -> None:
    fault = FailAt("sync", number, apsw.SQLITE_IOERR_FSYNC)
    assert not run_on(fault, tmp_path / "x", open_store, appends=number + 5, seed=number).wrong
    assert fault.happened


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 600, 5_000, 20_000, 60_000, 100_000, 150_000, 250_000])
def test_a_full_disk_stops_the_store_and_loses_nothing(tmp_path: Path, room: int) -> None:
    fault = FullAfter(room)
    assert not run_on(fault, tmp_path / "x", open_store, appends=120, seed=room).wrong
    assert fault.happened


def test_a_write_that_fails_in_the_middle_of_a_commit_is_unknown_or_not_stored(
    tmp_path: Path,
) -> None:
    told = set()
    for number in range(22, 40, 3):
        fault = FailAt("write", number, apsw.SQLITE_IOERR_WRITE)
        assert not run_on(fault, tmp_path / str(number), open_store, appends=40, seed=number).wrong
        told.add(bool(fault.happened))
    assert told == {True}


def only_here(fault: Before) -> Before:
    """The same for the thread that asks; the store's own threads are spared."""
    here = threading.get_ident()

    def before(operation: str, name: str, size: int) -> None:
        if threading.get_ident() == here:
            fault(operation, name, size)

    return before


def read_errors(folder: Path) -> list[Exception]:
    """Let one read after the other fail; what was told, when all that was read was right."""
    dice, path = random.Random(0), str(folder / "x.db")
    with closing(SqliteStore(path)) as store:
        store.append([draft_of("p", n, 2_000, dice) for n in range(1, 60)])
        true = store.read(1).entries
    told: list[Exception] = []
    for number in range(1, 40):
        layer = TapeVFS()
        with closing(SqliteStore(path, vfs=layer.name)) as store:
            layer.before = only_here(FailAt("read", number, apsw.SQLITE_IOERR_READ))
            try:
                found = store.read(1)
            except (StoreError, apsw.Error) as error:
                told.append(error)
            else:
                assert found.entries == true[: len(found.entries)]
            layer.before = None
            assert store.read(1).entries == true
        layer.unregister()
    return told


def test_an_error_while_reading_is_told_and_reading_goes_on_afterwards(tmp_path: Path) -> None:
    assert len(read_errors(tmp_path)) > 5


def test_an_error_of_the_disk_is_told_as_one_of_the_store(tmp_path: Path) -> None:
    fault = FailAt("sync", 1, apsw.SQLITE_IOERR_FSYNC)
    assert not run_on(fault, tmp_path / "x", open_store, appends=1, seed=0).unexplained
    assert all(isinstance(each, StoreError) for each in read_errors(tmp_path))


def test_after_a_failure_the_error_says_what_to_do(tmp_path: Path) -> None:
    layer = TapeVFS()
    store = SqliteStore(str(tmp_path / "x.db"), vfs=layer.name)
    with closing(store):
        store.append([draft_of("p", 1, 10, random.Random(0))])
        layer.before = FailAt("sync", 1, apsw.SQLITE_IOERR_FSYNC)
        with pytest.raises(StoreFailedError) as refused:
            store.append([draft_of("p", 2, 10, random.Random(0))])
        assert refused.value.unknown
        with pytest.raises(StoreFailedError, match="takes nothing more") as later:
            store.append([draft_of("p", 3, 10, random.Random(0))])
        assert not later.value.unknown
        assert [each.record.identity.sequence for each in store.read(1).entries] == [1]
