"""Several processes over one file: they append together, and wake and survive each other."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from store_drafts import MakeDrafts

from polycast.stores.sqlite import SqliteStore
from polycast.stores.sqlite.notifications import LOOK_SECONDS

Open = Callable[..., SqliteStore]

PROGRAM = """
import sys, threading
sys.path.insert(0, {here!r})
from store_drafts import make_drafts
from polycast.stores.sqlite import SqliteStore
store = SqliteStore({path!r})
def say(what):
    print(what, flush=True)
def listen():
    return sys.stdin.readline().strip()
{body}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a process with a store over the same file; `say` and `listen` talk to the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(body: str) -> subprocess.Popen[str]:
        here, path = str(Path(__file__).parent), str(tmp_path / "store.db")
        program = PROGRAM.format(here=here, path=path, body=body)
        child = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(child)
        return child

    yield begin
    for child in running:
        try:
            child.communicate(timeout=1)  # it hears nothing more, and ends by itself
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


def heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: subprocess.Popen[str], what: str = "go") -> None:
    assert child.stdin is not None
    child.stdin.write(f"{what}\n")
    child.stdin.flush()


APPEND = """
say("ready")
listen()
for n in range(0, 300, 3):
    given = store.append(make_drafts(n, n + 1, n + 2, publisher=listen_name))
    assert given == list(range(given[0], given[0] + 3)), given
store.close()
say("done")
"""


def test_two_processes_append_into_one_order(
    start: Callable[[str], subprocess.Popen[str]], open_sqlite: Open
) -> None:
    store = open_sqlite()
    children = [start(f"listen_name = {name!r}\n{APPEND}") for name in ("a", "b")]
    assert [heard(child) for child in children] == ["ready", "ready"]
    for child in children:
        tell(child)
    assert [heard(child) for child in children] == ["done", "done"]
    entries = store.read(1).entries
    assert [each.position for each in entries] == list(range(1, 601))
    for name in ("a", "b"):
        own = [e.record.identity.sequence for e in entries if e.record.identity.publisher == name]
        assert own == list(range(300))
    times = [each.record.time for each in entries]
    assert times == sorted(times)


def test_another_process_is_woken(
    start: Callable[[str], subprocess.Popen[str]], open_sqlite: Open, drafts: MakeDrafts
) -> None:
    child = start(
        """
woken = threading.Event()
store.watch(woken.set)
newest = store.newest()
say(newest)
while newest < 20:
    assert woken.wait(20)
    woken.clear()
    newest = store.newest()
    say(newest)
"""
    )
    store = open_sqlite()
    newest = int(heard(child))
    for n in range(1, 21):
        store.append(drafts(n))
        while newest < n:
            newest = int(heard(child))
    assert newest == 20


def test_a_flood_does_not_keep_others_asleep(
    start: Callable[[str], subprocess.Popen[str]],
    open_sqlite: Open,
    drafts: MakeDrafts,
    in_thread: Callable[..., threading.Thread],
) -> None:
    child = start(
        """
woken = threading.Event()
store.watch(lambda: store.newest() and woken.set())
say("ready")
assert woken.wait(20)
say("woken")
"""
    )
    assert heard(child) == "ready"
    store, said = open_sqlite(), threading.Event()
    in_thread(lambda: heard(child) == "woken" and said.set())
    deadline, n = time.monotonic() + 10, 0
    while not said.is_set():
        store.append(drafts(n := n + 1))
        assert time.monotonic() < deadline


def test_a_store_that_is_alone_learns_of_a_second_one(
    start: Callable[[str], subprocess.Popen[str]],
    open_sqlite: Open,
    eventually: Callable[..., None],
) -> None:
    store = open_sqlite()
    eventually(lambda: not looks(store))
    seen: list[int] = []
    store.watch(lambda: seen.append(store.newest()))
    child = start('store.append(make_drafts(1)); say("done"); listen()')
    assert heard(child) == "done"
    eventually(lambda: 1 in seen)
    assert looks(store)
    child.kill()
    child.wait()
    # It left itself on the list; the next to write finds nobody there, and takes it off.
    store.write(lambda transaction: None).result(10)
    eventually(lambda: not looks(store))
    assert listed(store) == [store._listener.address]


def looks(store: SqliteStore) -> bool:
    """Whether it looks at the file every now and then."""
    return store._listener.looking


def listed(store: SqliteStore) -> list[str]:
    with store._readers.snapshot() as connection:
        return [str(row[0]) for row in connection.execute("SELECT address FROM listeners")]


def test_a_killed_process_holds_up_nobody(
    start: Callable[[str], subprocess.Popen[str]], open_sqlite: Open, drafts: MakeDrafts
) -> None:
    child = start(
        """
def work(transaction):
    transaction.put_document("k", "n", b"never committed")
    say("writing")
    listen()
store.write(work).result()
"""
    )
    assert heard(child) == "writing"
    store = open_sqlite()
    future = store.submit(drafts(1))
    child.kill()
    child.wait()
    assert future.result(20) == [1]
    with store.view() as view:
        assert view.documents("k") == {}


def test_what_was_acknowledged_before_a_kill_is_there(
    start: Callable[[str], subprocess.Popen[str]], open_sqlite: Open
) -> None:
    child = start("for n in range(100_000):\n    say(store.append(make_drafts(n))[0])")
    acknowledged = [heard(child) for _ in range(50)][-1]
    child.kill()
    child.wait()
    store = open_sqlite()
    assert store.newest() >= int(acknowledged)
    assert len(store.read(1, limit=100_000).entries) == store.newest()


def test_two_stores_of_one_process_wake_each_other(open_sqlite: Open, drafts: MakeDrafts) -> None:
    one, other = open_sqlite(), open_sqlite()
    woken = threading.Event()
    other.watch(lambda: other.newest() == 1 and woken.set())
    one.append(drafts(1))
    assert woken.wait(10)


def test_without_a_socket_it_looks(
    open_sqlite: Open, drafts: MakeDrafts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    one, other = open_sqlite(), open_sqlite()
    assert (one._listener.address, other._listener.address) == ("", "")
    woken = threading.Event()
    other.watch(lambda: other.newest() == 1 and woken.set())
    one.append(drafts(1))
    assert woken.wait(10)
    assert LOOK_SECONDS == 0.05


def test_a_store_that_is_dropped_ends_its_threads(
    open_sqlite: Open, tmp_path: Path, eventually: Callable[..., None], drafts: MakeDrafts
) -> None:
    before = threading.active_count()
    store = SqliteStore(tmp_path / "dropped.db")
    address = store._listener.address
    future = store.submit(drafts(1))
    assert threading.active_count() == before + 2
    del store
    gc.collect()
    assert future.result(10) == [1]
    eventually(lambda: threading.active_count() == before)
    assert not os.path.exists(address)


def test_a_process_that_ends_without_closing_does_not_hang(
    start: Callable[[str], subprocess.Popen[str]], open_sqlite: Open
) -> None:
    child = start("futures = [store.submit(make_drafts(n)) for n in range(100)]\nsay(1)")
    assert heard(child) == "1"
    assert child.wait(20) == 0
    assert open_sqlite().newest() <= 100


def test_a_long_writer_elsewhere_is_waited_for(
    open_sqlite: Open, tmp_path: Path, drafts: MakeDrafts
) -> None:
    store = open_sqlite()
    store.append(drafts(1))
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute("BEGIN IMMEDIATE")
    future = store.submit(drafts(2))
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        future.result(0.05)
    connection.execute("ROLLBACK")
    connection.close()
    assert future.result(20) == [2]
    assert time.monotonic() - started < 5
    assert store.failure is None


def test_processes_that_make_the_file_together_make_one_store(
    start: Callable[[str], subprocess.Popen[str]], open_sqlite: Open
) -> None:
    children = [start(f"say(store.append(make_drafts(1, publisher='{n}'))[0])") for n in range(4)]
    assert sorted(heard(child) for child in children) == ["1", "2", "3", "4"]
