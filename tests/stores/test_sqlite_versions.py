"""A file of every version there was is kept, and loses nothing when it is brought up to date."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from polycast.stores import StoredReply, StoredSubscription
from polycast.stores.doctor import open_readonly
from polycast.stores.sqlite import SqliteStore
from polycast.stores.sqlite.schema import STEPS

Open = Callable[..., SqliteStore]
Rows = dict[str, list[dict[str, Any]]]
FILES = Path(__file__).parent / "files"
VERSIONS = range(1, len(STEPS) + 1)
WRITTEN = (  # of the steps as they were released
    "251a258ab4f3732e",
    "e788f6922b927cd5",
    "0d0fe32bc9cb2165",
    "c15f8a9f3bbcd36d",
)
OPENED = {"listeners", "counters"}  # change by opening a store


def file_of(version: int) -> Path:
    return FILES / f"version_{version}.db"


def rows(path: Path) -> Rows:
    """All that is in the tables of a file."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        found: Rows = {}
        for (name,) in connection.execute(sql).fetchall():
            cursor = connection.execute(f"SELECT * FROM {name}")
            all_rows = cursor.fetchall()
            names = [] if not all_rows else _columns(connection, name)
            found[name] = [dict(zip(names, row, strict=True)) for row in all_rows]
        return found


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return [name for (name,) in connection.execute(sql, (table,)).fetchall()]


def digest(step: str) -> str:
    return hashlib.sha256(step.encode()).hexdigest()[:16]


def test_there_is_a_file_of_every_version() -> None:
    """Who adds a step adds `version_N.db`, and `write_version_N.py` that wrote it."""
    kept = sorted(each.name for each in FILES.glob("version_*.db"))
    assert kept == [f"version_{version}.db" for version in VERSIONS]
    for version in VERSIONS:
        with closing(apsw.Connection(str(file_of(version)))) as connection:
            assert connection.pragma("user_version") == version
        assert (FILES / f"write_version_{version}.py").exists()


def test_a_step_that_was_released_is_never_changed() -> None:
    """Files that have taken it would differ from those that take it now."""
    assert tuple(map(digest, STEPS)) == WRITTEN


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_lost_when_a_file_is_brought_up_to_date(
    version: int, tmp_path: Path, open_sqlite: Open
) -> None:
    path = tmp_path / "store.db"
    shutil.copy(file_of(version), path)
    before = rows(path)
    open_sqlite(path).close()
    after = rows(path)
    assert before["log"], "the file shows nothing"
    for table in before.keys() - OPENED:
        assert len(after[table]) == len(before[table]), table
        for was, now in zip(before[table], after[table], strict=True):
            assert {name: now[name] for name in was} == was, table
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("user_version") == len(STEPS)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_that_a_file_has_can_be_read_as_it_is_now(
    version: int, tmp_path: Path, open_sqlite: Open
) -> None:
    path = tmp_path / "store.db"
    shutil.copy(file_of(version), path)
    counted = {table: len(found) for table, found in rows(path).items()}
    store = open_sqlite(path)
    assert len(store.read(1).entries) == counted["log"]
    with store.view() as view:
        subscriptions = view.subscriptions()
        assert len(subscriptions) == counted["subscriptions"]
        assert sum(len(view.flights(e.name)) for e in subscriptions) == counted["flights"]
        assert sum(len(view.members(e.name)) for e in subscriptions) == counted["members"]
        assert len(view.letters()) == counted["letters"]
        assert len(view.descriptions()) == counted["descriptions"]
        assert len(view.adverts()) == counted["adverts"]
        assert len(view.buses()) == counted["buses"]
        assert len(view.documents("retention")) == counted["documents"]
        assert len(view.routes()) == counted.get("routes", 0)
        assert len(view.stretches(0, limit=99)) == counted.get("stretches", 0)
        assert len(view.contexts()) == counted.get("contexts", 0)


def test_a_store_of_version_4_is_read_and_goes_on(tmp_path: Path, open_sqlite: Open) -> None:
    path = tmp_path / "store.db"
    shutil.copy(file_of(4), path)
    first, second = (
        StoredReply("client-1", 7, b"\x93\1\2\3", 1_700_000_100.0),
        StoredReply("client-2", 1, b"", 1_700_000_200.5),
    )
    store = open_sqlite(path)
    answers = store.write(lambda tx: [tx.answer("client-1"), tx.answer("client-2")]).result(10)
    assert answers == [first, second]
    with open_readonly(path) as found, found.view() as view:
        bus = view.buses()[-1]
        assert (bus.publisher, bus.epoch) == ("abroad", 1)
        body = b'{"selector":"shop.Bill","lease":60.0}'
        about = ("leased", body, 13, 15, True, False, False, None, 9)
        assert view.subscription("leased") == StoredSubscription(*about, bus.id, 1_700_000_300.0)
    assert store.write(lambda tx: tx.drop_answers(1_700_000_150.0)).result(10) == 1
