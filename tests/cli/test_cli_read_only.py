"""Commands that only read: where nothing can be written, and without leaving anything behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from shop_events import Sale, url

import polycast as pc
from polycast.errors import StoreError
from polycast.stores.doctor import open_readonly

READING = [
    ["doctor", "PLACE", "--no-sync-test"],
    ["doctor", "PLACE"],
    ["tail", "PLACE", "--since", "beginning"],
    ["subs", "PLACE"],
    ["dlq", "list", "PLACE", "--payload"],
    ["dlq", "show", "PLACE", "2"],
    ["types", "PLACE", "--count"],
    ["explain", "PLACE", "billing", "--position", "8"],
    ["replay", "PLACE", "Sale"],
    ["replay", "PLACE", "--to", "billing", "--dry-run"],
    ["pipeline", "status", "PLACE"],
    ["context", "compare", "PLACE", "root", "root"],
]
commands = pytest.mark.parametrize("words", READING, ids=" ".join)
RUN = """
import contextlib, io, json, sys
from polycast.cli import main
folder, lines = sys.argv[1], json.loads(sys.argv[2])
try:
    open(folder + "/new", "w")
except OSError:
    pass
else:
    raise SystemExit("it can be written to")
for words in lines:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = main(words)
    print(json.dumps([status, out.getvalue()]))
"""
MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


class ReadOnlyDisk(apsw.VFS):
    """A disk that nothing can be written to."""

    def __init__(self) -> None:
        self.name = "read only disk"
        super().__init__(self.name, "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if not os.path.exists(path or ""):
            raise apsw.CantOpenError(f"{path} cannot be made")
        writing = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        flags[0] = (flags[0] & ~writing) | apsw.SQLITE_OPEN_READONLY
        flags[1] = flags[0]
        return apsw.VFSFile("unix", name, flags)


@pytest.fixture
def read_only_disk() -> Iterator[None]:
    disk = ReadOnlyDisk()
    yield
    disk.unregister()


@pytest.fixture
def crashed(store: Path, tmp_path: Path) -> Path:
    """A store whose last process was killed: some of it is in the log beside it."""
    folder = tmp_path / "crashed"
    folder.mkdir()
    with pc.Bus(url(store)) as bus:
        bus.publish(Sale(77))
        for each in store.parent.glob("events.db*"):
            shutil.copy(each, folder / each.name)
    return folder / "events.db"


@pytest.fixture
def copied(crashed: Path) -> Path:
    """The same without the index of the log, as somebody copies it."""
    Path(f"{crashed}-shm").unlink()
    return crashed


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def said(words: list[str], path: Path) -> list[str]:
    return [word.replace("PLACE", str(path)) for word in words]


@commands
def test_a_store_that_nobody_has_open_is_read_where_nothing_can_be_written(
    run: Any, store: Path, words: list[str], read_only_disk: None
) -> None:
    with pytest.raises(apsw.CantOpenError):  # as SQLite has it by itself
        apsw.Connection(str(store)).execute("SELECT * FROM log").fetchall()
    ran = run(*said(words, store), "--json")
    assert ran.status == (3 if words[0] == "doctor" else 0), ran.out


@pytest.fixture
def mounted() -> Callable[[Path, list[list[str]]], list[tuple[int, str]]]:
    """Runs commands in a process that sees a folder mounted read-only."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here, so no read-only mount can be made")
    trial = ["unshare", "-m", "sh", "-c", MOUNT, "/tmp", "true"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount anything, so there is no read-only mount to try")

    def run(folder: Path, lines: list[list[str]]) -> list[tuple[int, str]]:
        inside = [sys.executable, "-c", RUN, str(folder), json.dumps(lines)]
        command = ["unshare", "-m", "sh", "-c", MOUNT, str(folder), *inside]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return [tuple(json.loads(line)) for line in ran.stdout.splitlines()]

    return run


@pytest.mark.parametrize("which", ["store", "crashed", "copied"])
def test_every_reading_command_works_on_a_read_only_mount(
    which: str, mounted: Any, run: Any, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(which)
    words = [said([*each, "--json"], path) for each in READING if each[0] != "doctor"]
    examined = said(["doctor", "PLACE", "--json"], path)
    found = mounted(path.parent, [*words, examined])
    assert found[:-1] == [(0, run(*word).out) for word in words]
    status, report = found[-1][0], json.loads(found[-1][1])
    assert (status, report["sync"], report["integrity"]["damaged"]) == (3, None, 0)
    assert report["log"]["events"] == (10 if which == "store" else 11)


def test_a_store_that_is_written_elsewhere_is_read_as_it_is_now(
    store: Path, mounted: Any, run: Any
) -> None:
    with pc.Bus(url(store)) as bus:
        bus.publish(Sale(88))
        words = said(["tail", "PLACE", "--last", "100", "--json"], store)
        assert mounted(store.parent, [words]) == [(0, run(*words).out)]
        bus.publish(Sale(89))
    assert len(run(*words).rows) == 12


def test_a_store_is_backed_up_from_a_read_only_mount(
    crashed: Path, mounted: Any, run: Any, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    ((status, _),) = mounted(crashed.parent, [["backup", str(crashed), str(copy)]])
    assert status == 0
    assert len(run("tail", copy, "--last", 100, "--json").rows) == 11


@commands
@pytest.mark.parametrize("which", ["store", "crashed", "copied"])
def test_reading_leaves_everything_as_it_was(
    run: Any, which: str, words: list[str], request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(which)
    before = files(path.parent)
    assert run(*said(words, path)).status == (3 if words[0] == "doctor" else 0)
    after = files(path.parent)
    for each in (before, after):  # the index is in memory that its readers share
        each.pop("events.db-shm", None) if which == "crashed" else None
    assert after == before


def test_what_is_only_in_the_log_is_read_without_its_index(run: Any, copied: Path) -> None:
    assert run("tail", copied, "--last", 100, "--json").rows[-1]["event"]["number"] == 77


@commands
@pytest.mark.parametrize("what", ["empty", "text", "other", "folder", "pipe", "absent", "link"])
def test_what_is_no_store_is_refused_by_name_and_left_alone(
    run: Any, tmp_path: Path, what: str, words: list[str]
) -> None:
    path = tmp_path / "here" / "events.db"
    path.parent.mkdir()
    {
        "empty": path.touch,
        "text": lambda: path.write_text("dear all, " * 999, encoding="utf-8"),
        "other": lambda: make_other(path),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "absent": lambda: None,
        "link": lambda: path.symlink_to("nowhere"),
    }[what]()
    before, names = files(path.parent), sorted(os.listdir(path.parent))
    ran = run(*said(words, path), "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "not-a-store"), ran.out
    assert (files(path.parent), sorted(os.listdir(path.parent))) == (before, names)


def make_other(path: Path) -> None:
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE mine (number)")
    connection.close()


def test_a_store_that_is_written_while_it_is_read_without_locks_is_not_believed(
    copied: Path,
) -> None:
    with open_readonly(copied) as store:
        assert store.newest() == 11
        log = Path(f"{copied}-wal")
        log.write_bytes(log.read_bytes() + b"more")
        with pytest.raises(StoreError, match=r"somebody has written to .* ask again"):
            store.newest()
