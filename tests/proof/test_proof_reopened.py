"""After a sync that failed, who opens the store again builds on nothing that the disk has lost."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest
from proof_crash import Replay
from proof_power import draft_of
from proof_vfs import Tape, TapeVFS

from polycast.errors import StoreFailedError
from polycast.stores.sqlite import SqliteStore

STATES = 20


class _SyncFails:
    """Fails one sync of the write-ahead log, once it is told to."""

    is_next = False

    def __call__(self, operation: str, name: str, size: int) -> None:
        del size
        if self.is_next and operation == "sync" and name.endswith("-wal"):
            self.is_next = False
            raise apsw.IOError("a sync has failed")


def _run(path: Path, *, seed: int) -> tuple[Tape, list[int]]:
    """Events before a sync fails, and after the store was opened again; what was acknowledged."""
    dice, disk, tape = random.Random(seed), _SyncFails(), Tape()
    layer = TapeVFS(tape=tape, before=disk)
    acknowledged = []
    number = 0

    def append(store: SqliteStore) -> None:
        nonlocal number
        number += 1
        acknowledged.extend(store.append([draft_of("till", number, dice.randint(1, 9_000), dice)]))

    for _ in range(3):
        with closing(SqliteStore(str(path), vfs=layer.name)) as store:
            for _ in range(dice.randint(1, 3)):
                append(store)
            disk.is_next = True
            with suppress(StoreFailedError):
                append(store)
            assert not disk.is_next
    with closing(SqliteStore(str(path), vfs=layer.name)) as store:
        append(store)
        length = len(tape.entries)
    layer.unregister()
    del tape.entries[length:]
    return tape, acknowledged


@pytest.mark.parametrize("seed", range(10))
def test_events_accepted_after_a_failed_sync_survive_a_loss_of_power(
    tmp_path: Path, seed: int
) -> None:
    (tmp_path / "run").mkdir()
    tape, acknowledged = _run(tmp_path / "run" / "events.db", seed=seed)
    replay, dice = Replay(tape), random.Random(seed)
    replay.advance(len(tape.entries))
    for number in range(STATES):
        folder = tmp_path / f"state{number}"
        folder.mkdir()
        for name, content in replay.states(dice).items():
            (folder / Path(name).name).write_bytes(content)
        with closing(SqliteStore(str(folder / "events.db"))) as store:
            kept = {stored.position for stored in store.read(1, limit=100).entries}
        assert not set(acknowledged) - kept
