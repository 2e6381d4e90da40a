"""Whenever the power is lost, the store has what it said it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from proof_power import losses, record_run

from polycast.stores.contract import Store
from polycast.stores.sqlite import SqliteStore

STATES = 60  # per run


def open_store(path: Path, layer: str) -> Store:
    return SqliteStore(str(path), vfs=layer)


def lost(folder: Path, *, seed: int, states: int, lies: str | None = None) -> list[str]:
    """What is wrong in so many states after a run."""
    (folder / "run").mkdir()
    tape = record_run(folder / "run", open_store, seed=seed, lies=lies)
    found = losses(tape, folder, open_store, seed=seed, states=states)
    return [each for each in found if each is not None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_power_loss_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    assert not lost(tmp_path, seed=seed, states=STATES)


def test_power_loss_while_the_store_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    tape = record_run(tmp_path / "run", open_store, seed=0, phases=0)
    found = losses(tape, tmp_path, open_store, seed=0, states=80)
    assert not [each for each in found if each is not None]


@pytest.mark.slow
@pytest.mark.parametrize("lies", ["", "-wal"])
def test_on_a_disk_that_lies_about_syncs_losses_are_found(tmp_path: Path, lies: str) -> None:
    assert len(lost(tmp_path, seed=1, states=30, lies=lies)) > 10
