"""One flipped bit is harmless or found; no wrong record is ever given."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from proof_flips import STATE, answers, fill, flip, flips, verdict
from proof_power import NAME, draft_of
from proof_vfs import TapeVFS

from polycast.errors import StoreDamagedError
from polycast.stores.contract import Store
from polycast.stores.sqlite import SqliteStore

FLIPS = 100
LOG = ("log", "log_by_type", "sqlite_autoindex_log_1")


@pytest.fixture
def layer() -> TapeVFS:
    return TapeVFS()


def classes_of(
    folder: Path, layer: TapeVFS, *, part: str, count: int, tables: Collection[str] = ()
) -> dict[str, list[str]]:
    """What became of so many flips, by class."""

    def open_store(path: Path) -> Store:
        return SqliteStore(str(path), vfs=layer.name)

    found: dict[str, list[str]] = defaultdict(list)
    for kind, told in flips(folder, open_store, part=part, seed=5, count=count, tables=tables):
        found[kind].append(told)
    return found


@pytest.mark.slow
def test_a_flipped_bit_in_the_log_is_harmless_or_found(tmp_path: Path, layer: TapeVFS) -> None:
    found = classes_of(tmp_path, layer, part=NAME, count=FLIPS, tables=LOG)
    assert not found["wrong record"]
    assert not found["silent"]
    assert not found["the end is missing"]
    assert not found["not explained"]
    assert len(found["refused when read"]) > FLIPS // 4


@pytest.mark.slow
def test_a_flipped_bit_in_the_write_ahead_log_gives_no_wrong_record(
    tmp_path: Path, layer: TapeVFS
) -> None:
    # SQLite takes a damaged frame for the end of what was written before a crash.
    found = classes_of(tmp_path, layer, part=NAME + "-wal", count=FLIPS // 4)
    assert not found["wrong record"]
    assert not found["silent"]


@pytest.mark.slow
def test_a_flipped_bit_in_the_state_is_harmless_or_found(tmp_path: Path, layer: TapeVFS) -> None:
    found = classes_of(tmp_path, layer, part=NAME, count=FLIPS, tables=STATE)
    assert not found["silent"]
    assert not found["wrong record"]
    assert not found["not explained"]
    assert len(found["refused when read"]) > FLIPS // 2


@pytest.mark.slow
def test_damage_is_always_told_as_damage_of_the_store(tmp_path: Path, layer: TapeVFS) -> None:
    names = ("types", "epochs", "sqlite_schema")
    found = classes_of(tmp_path, layer, part=NAME, count=FLIPS // 2, tables=names)
    assert not found["not explained"]


@pytest.mark.parametrize("size", [0, 40, 120, 180, 240, 300, 370, 440])
def test_a_body_that_has_become_a_number_is_told_as_damage(tmp_path: Path, size: int) -> None:
    # The length of a value stands before it, in the place of its kind: one bit less, and what was
    # bytes is an integer of one to eight bytes, or a float.
    path = tmp_path / NAME
    with closing(SqliteStore(str(path))) as store:
        store.append([draft_of("p", n, size, random.Random(0)) for n in range(3)])
    database = apsw.Connection(str(path))
    ((body,),) = database.execute("SELECT body FROM log WHERE position = 2").fetchall()
    database.close()
    content = bytearray(path.read_bytes())
    kind = 12 + 2 * len(body)
    header = bytes((7, 0x80 | kind >> 7, kind & 0x7F))  # after the time, which is a float
    at = content.rindex(header, 0, content.index(body)) + 1
    content[at] ^= 0x80
    path.write_bytes(content)
    with (
        closing(SqliteStore(str(path))) as store,
        pytest.raises(StoreDamagedError, match="position 2"),
    ):
        store.read(2)


def test_the_wrong_answer_of_a_store_is_noticed(tmp_path: Path) -> None:
    with closing(SqliteStore(str(tmp_path / NAME))) as store:
        fill(store)
        true = answers(store)
        store.write(lambda tx: tx.remove("one")).result(10)
    assert verdict(tmp_path, true, lambda path: SqliteStore(str(path)))[0] == "silent"


def test_a_flip_changes_one_bit() -> None:
    content = bytes(range(100))
    changed, bit = flip(content, random.Random(1))
    assert [a ^ b for a, b in zip(content, changed, strict=True) if a != b] == [1 << bit % 8]
