"""`polycast backup` and `polycast restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shop_events import Sale, url

import polycast as pc


def test_what_was_backed_up_comes_back(run: Any, store: Path, tmp_path: Path) -> None:
    backup, restored = tmp_path / "monday.db", tmp_path / "again.db"
    ran = run("backup", store, backup, "--json")
    assert (ran.status, ran.data["bytes"]) == (0, backup.stat().st_size)
    assert run("restore", backup, restored).status == 0
    assert run("tail", restored, "--json").out == run("tail", store, "--json", "--last", 1_000).out


def test_a_store_is_backed_up_while_it_is_written(run: Any, tmp_path: Path) -> None:
    path, backup = tmp_path / "a.db", tmp_path / "b.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(100)])
        assert run("backup", f"sqlite:///{path}", backup).status == 0
        bus.publish(Sale(100))
    assert len(run("tail", backup, "--json", "--last", 1_000).rows) == 100


def test_a_store_that_is_there_is_replaced_only_by_force(
    run: Any, store: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "b.db"
    run("backup", store, backup)
    with pc.Bus(url(store)) as bus:
        bus.publish(Sale(99))
    ran = run("restore", backup, store, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "store-error")
    assert len(run("tail", store, "--json", "--last", 1_000).rows) == 11
    assert run("restore", backup, store, "--force").status == 0
    assert len(run("tail", store, "--json", "--last", 1_000).rows) == 10


def test_a_back_up_replaces_what_is_there_only_by_force_and_an_open_store_never(
    run: Any, store: Path, tmp_path: Path
) -> None:
    live = tmp_path / "live.db"
    with pc.Bus(url(live)) as bus:
        bus.publish(Sale(1))
        for words in (["--json"], ["--force", "--json"]):
            ran = run("backup", store, live, *words)
            assert (ran.status, ran.data["error"]["code"]) == (1, "store-error")
        bus.publish(Sale(2))
    assert len(run("tail", live, "--json", "--last", 1_000).rows) == 2
    assert run("backup", store, live, "--json").status == 1
    assert len(run("tail", live, "--json", "--last", 1_000).rows) == 2
    live.chmod(0o600)
    store.chmod(0o640)
    assert run("backup", store, live, "--force").status == 0
    assert live.stat().st_mode & 0o777 == 0o640
    assert len(run("tail", live, "--json", "--last", 1_000).rows) == 10


@pytest.mark.parametrize("words", [["backup", "absent", "b"], ["restore", "absent", "b"]])
def test_what_is_not_there_is_an_error(run: Any, tmp_path: Path, words: list[str]) -> None:
    command, source, target = words
    ran = run(command, tmp_path / source, tmp_path / target, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "not-a-store")
    assert not (tmp_path / target).exists()


def test_a_damaged_back_up_is_refused(run: Any, store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "b.db"
    run("backup", store, backup)
    data = bytearray(backup.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    backup.write_bytes(data)
    ran = run("restore", backup, store, "--force", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "store-damaged")
    assert len(run("tail", store, "--json", "--last", 1_000).rows) == 10
