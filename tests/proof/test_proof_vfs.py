"""The file layer keeps what a disk keeps; bare SQLite shows that it can fail, and when not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from proof_crash import Replay
from proof_vfs import Inode, Link, Note, Sync, Tape, TapeVFS, Unlink, Write

STATES = 150


def insert_rows(path: Path, layer: TapeVFS, *, synchronous: str, rows: int = 60) -> None:
    """Insert one row per transaction, and note each that was committed."""
    assert layer.tape is not None
    database = apsw.Connection(str(path), vfs=layer.name)
    database.pragma("synchronous", "EXTRA" if synchronous == "FULL" else synchronous)
    database.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, filling BLOB)")
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", synchronous)
    database.wal_autocheckpoint(8)
    layer.tape.note(0)
    for number in range(1, rows + 1):
        database.execute("INSERT INTO kept VALUES (?, ?)", (number, bytes(number * 37 % 3_000)))
        layer.tape.note(number)
    database.close()


def rows_after(state: dict[str, bytes], folder: Path) -> list[int]:
    """What SQLite finds in a state of the files."""
    folder.mkdir()
    for name, content in state.items():
        (folder / name).write_bytes(content)
    database = apsw.Connection(str(folder / "x.db"))
    try:
        assert database.pragma("integrity_check") == "ok"
        return [row[0] for row in database.execute("SELECT number FROM kept ORDER BY number")]
    finally:
        database.close()


def losses(tmp_path: Path, *, synchronous: str = "FULL", lies: str | None = None) -> int:
    """In how many states something that was committed is missing, or the file is broken."""
    layer = TapeVFS(tape=Tape(), lies=lies)
    assert layer.tape is not None
    insert_rows(tmp_path / "x.db", layer, synchronous=synchronous)
    dice, replay, lost = random.Random(1), Replay(layer.tape), 0
    entries = layer.tape.entries
    begin = next(at for at, each in enumerate(entries) if isinstance(each, Note))
    for n, at in enumerate(sorted(dice.choices(range(begin + 1, len(entries)), k=STATES))):
        replay.advance(at)
        told = [each.what for each in entries[:at] if isinstance(each, Note)]
        try:
            found = rows_after(replay.states(dice), tmp_path / str(n))
        except (apsw.Error, AssertionError):
            lost += 1
            continue
        lost += found != list(range(1, len(found) + 1)) or len(found) < told[-1]
    return lost


def test_with_full_sync_sqlite_loses_nothing(tmp_path: Path) -> None:
    assert losses(tmp_path) == 0


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_with_weaker_sync_losses_are_found(tmp_path: Path, synchronous: str) -> None:
    assert losses(tmp_path, synchronous=synchronous) > 10


@pytest.mark.parametrize("lies", ["", "-wal", ".db"])
def test_a_disk_that_lies_about_syncs_is_found_out(tmp_path: Path, lies: str) -> None:
    assert losses(tmp_path, lies=lies) > 5


def all_states(build: Callable[[Tape, Inode], None]) -> set[bytes | None]:
    """Every content that one file may have after a short tape."""
    tape, inode = Tape(), Inode()
    tape.entries.append(Link("x", inode))
    build(tape, inode)
    replay, dice = Replay(tape), random.Random(0)
    replay.advance(len(tape.entries))
    return {replay.states(dice).get("x") for _ in range(300)}


def test_a_name_that_was_not_synced_may_be_missing() -> None:
    def build(tape: Tape, inode: Inode) -> None:
        tape.entries.append(Write(inode, 0, b"a"))
        tape.entries.append(Sync(inode, 2, False))

    assert all_states(build) == {None, b"a"}


def test_what_was_synced_with_its_name_stays() -> None:
    def build(tape: Tape, inode: Inode) -> None:
        tape.entries.append(Write(inode, 0, b"a"))
        tape.entries.append(Sync(inode, 2, True))

    assert all_states(build) == {b"a"}


def test_a_write_that_came_during_a_sync_is_not_kept_by_it() -> None:
    def build(tape: Tape, inode: Inode) -> None:
        tape.entries.append(Write(inode, 0, b"a"))
        began = len(tape.entries)
        tape.entries.append(Write(inode, 0, b"b"))
        tape.entries.append(Sync(inode, began, True))

    assert all_states(build) == {b"a", b"b"}


def test_sectors_survive_one_by_one() -> None:
    def build(tape: Tape, inode: Inode) -> None:
        tape.entries.append(Write(inode, 0, b"a" * 1024))
        tape.entries.append(Sync(inode, 2, True))
        tape.entries.append(Write(inode, 0, b"b" * 1024))

    a, b = b"a" * 512, b"b" * 512
    assert all_states(build) == {a + a, a + b, b + a, b + b}


def test_a_deletion_that_was_not_synced_may_be_undone() -> None:
    def build(tape: Tape, inode: Inode) -> None:
        tape.entries.append(Sync(inode, 1, True))
        tape.entries.append(Unlink("x", 2, False))

    assert all_states(build) == {None, b""}
