"""The file of a store: how it is made, which files are refused, old ones, damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

import apsw
import pytest
from msgspec.structs import replace
from store_drafts import MakeDrafts

from polycast.errors import NotAStoreError, StoreClosedError, StoreDamagedError, WouldDeadlockError
from polycast.events import Identity, Root
from polycast.stores import (
    Advert,
    ContextVersion,
    Effect,
    EventType,
    Flight,
    GroupMember,
    Retention,
    Routed,
    StoredRoute,
    StoredSubscription,
    Stretch,
    open_store,
    retention_of,
)
from polycast.stores.sqlite import SqliteStore
from polycast.stores.sqlite.connections import Readers, connect
from polycast.stores.sqlite.event_log import OF_TYPE, merged_by_position
from polycast.stores.sqlite.schema import APPLICATION, STEPS, prepare
from polycast.stores.sqlite.state import SqlTransaction

Open = Callable[..., SqliteStore]
VERSION_1 = Path(__file__).parent / "files" / "version_1.db"
VERSION_2 = VERSION_1.with_name("version_2.db")
VERSION_3 = VERSION_1.with_name("version_3.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def execute(path: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    """Do something to a file behind the back of its store."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        return connection.execute(sql, values).fetchall()  # type: ignore[arg-type]


def pragma(path: Path, name: str) -> object:
    return execute(path, f"PRAGMA {name}")[0][0]


# -- making and refusing ---------------------------------------------------------------------------


def test_a_new_file_is_a_store_of_the_current_version(open_sqlite: Open, path: Path) -> None:
    open_sqlite()
    assert pragma(path, "application_id") == APPLICATION
    assert pragma(path, "user_version") == len(STEPS)
    assert pragma(path, "journal_mode") == "wal"
    assert pragma(path, "auto_vacuum") == 2


def test_every_connection_syncs_fully(path: Path) -> None:
    with closing(connect(str(path), create=True)) as connection:
        assert connection.execute("PRAGMA synchronous").fetchall() == [(2,)]


def test_the_last_to_close_leaves_one_file(open_sqlite: Open, path: Path) -> None:
    open_sqlite().close()
    assert [each.name for each in path.parent.iterdir()] == ["store.db"]


def test_open_store_opens_it(path: Path) -> None:
    store = open_store(path)
    store.close()
    with pytest.raises(NotAStoreError, match="no such file"):
        open_store(path.with_name("other.db"), create=False)
    assert not path.with_name("other.db").exists()


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("not a store, but long enough to have a header " * 99, encoding="utf-8")
    execute(other, "CREATE TABLE t(x)")
    for path, said in ((text, "no SQLite file"), (other, "of something else")):
        before = path.read_bytes()
        with pytest.raises(NotAStoreError, match=said):
            open_store(path)
        assert path.read_bytes() == before


@pytest.mark.parametrize("where", ["no/folder/store.db", "."])
def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(NotAStoreError, match="folder"):
        open_store(tmp_path / where)


def test_a_newer_file_is_refused_with_both_versions(open_sqlite: Open, path: Path) -> None:
    open_sqlite().close()
    execute(path, f"PRAGMA user_version = {len(STEPS) + 2}")
    before = path.read_bytes()
    with pytest.raises(NotAStoreError, match=rf"version {len(STEPS) + 2}.* 1 to {len(STEPS)}"):
        open_store(path)
    assert path.read_bytes() == before


# -- older versions --------------------------------------------------------------------------------

LATER = (
    *STEPS,
    "ALTER TABLE adverts ADD COLUMN remark TEXT NOT NULL DEFAULT '-'",
    "CREATE TABLE extra(x)",
)


def test_an_older_file_is_brought_up_to_date_step_by_step(open_sqlite: Open, path: Path) -> None:
    store = open_sqlite()
    store.write(lambda t: t.advertise(Advert(0, 1, "shop.Order"))).result(10)
    store.close()
    with closing(connect(str(path))) as connection:
        prepare(connection, str(path), steps=LATER)
    assert execute(path, "SELECT what, remark FROM adverts") == [("shop.Order", "-")]
    assert execute(path, "SELECT * FROM extra") == []
    assert pragma(path, "user_version") == len(LATER)


def test_a_step_that_fails_leaves_the_version_before_it(open_sqlite: Open, path: Path) -> None:
    open_sqlite().close()
    steps = (*STEPS, LATER[-1], "CREATE TABLE halfway(x); INSERT INTO nowhere VALUES (1)")
    with closing(connect(str(path))) as connection, pytest.raises(apsw.SQLError):
        prepare(connection, str(path), steps=steps)
    assert pragma(path, "user_version") == len(STEPS) + 1
    assert execute(path, "SELECT name FROM sqlite_schema WHERE name = 'halfway'") == []


def test_a_store_of_version_1_is_read_and_goes_on(
    path: Path, open_sqlite: Open, drafts: MakeDrafts
) -> None:
    shutil.copy(VERSION_1, path)
    store = open_sqlite()
    assert (store.oldest(), store.newest()) == (3, 12)
    records = [each.record for each in store.read(1).entries]
    assert [each.payload for each in records[:2]] == [b'{"total":3}', b'{"item":"tea","price":4.5}']
    assert (records[2].topic, records[2].priority, records[2].headers) == (
        "/shop/tea",
        3,
        {"n": "5"},
    )
    assert [(each.name, each.version) for each in store.types().values()] == [
        ("shop.Order", 1),
        ("shop.Bill", 2),
    ]
    assert store.find(Identity("kiosk", 1, 8)) == 8
    assert store.position_at(1_700_000_007.5) == 9
    assert retention_of(store) == Retention(age=86_400.0, delivered=True)
    with store.view() as view:
        assert [(each.name, each.cursor) for each in view.subscriptions()] == [
            ("audit", 7),
            ("work", 9),
        ]
        assert view.flights("audit") == [Flight("audit", 2, "till", None, 1, 2, 1_700_000_030.0)]
        assert view.flights("work")[0].done
        assert view.members("work") == [GroupMember("work", 1, 8)]
        assert [each.reason for each in view.letters()] == ["it failed"]
        assert [each.name for each in view.descriptions()] == ["shop.Order", "shop.Bill"]
        assert [each.publisher for each in view.buses()] == ["till", "kiosk"]
        assert [each.what for each in view.adverts()] == ["shop.Order"]
    assert store.append(drafts(1, publisher="new")) == [13]
    reopened = store.write(lambda t: t.open_bus("till", until=1.0, address="", process=1))
    assert reopened.result(10).epoch == 2


def test_a_store_of_version_1_is_brought_up_to_date_without_a_pipeline(
    path: Path, open_sqlite: Open
) -> None:
    shutil.copy(VERSION_1, path)
    with open_sqlite().view() as view:
        assert (view.routed(), view.routes(), view.stretches(0, limit=1)) == (Routed(1, 0), [], [])
        first = view.identity()
    assert pragma(path, "user_version") == len(STEPS)
    shutil.copy(VERSION_1, path.with_name("other.db"))
    with open_sqlite(path.with_name("other.db")).view() as view:
        assert view.identity() != first


def test_a_store_of_version_2_is_read_and_goes_on(path: Path, open_sqlite: Open) -> None:
    shutil.copy(VERSION_2, path)
    store = open_sqlite()
    with store.view() as view:
        assert view.identity() == "dffd09f413808e2e52421f89b8ec990e"
        assert view.routed() == Routed(12, 1)
        assert view.routes() == [
            StoredRoute(1, "work", b'{"selector":"shop.Bill"}', 13, 14),
            StoredRoute(2, "audit", b'{"selector":"shop.Order"}', 14),
        ]
        assert view.stretches(0, limit=9) == [Stretch(5, 9, b"\1\2"), Stretch(9, 12, b"\3")]
        assert [each.cursor for each in view.subscriptions()] == [7, 9]
    assert store.write(lambda t: t.advance([Stretch(12, 14, b"")], token=1)).result(10)
    assert store.write(lambda t: t.begin_route("new", b"{}")).result(10).number == 3


@pytest.mark.parametrize("old", [VERSION_1, VERSION_2])
def test_an_older_store_is_brought_up_to_date_without_contexts(
    path: Path, open_sqlite: Open, old: Path, drafts: MakeDrafts
) -> None:
    shutil.copy(old, path)
    store = open_sqlite()
    before = [each.record for each in store.read(1).entries]
    assert {(each.context, each.root) for each in before} == {(None, None)}
    with store.view() as view:
        assert (view.contexts(), view.context("us")) == ([], None)
    (order,) = (each for each in store.types().values() if each.name == "shop.Order")
    root = Root(order.name, order.version, order.hash, b"{}")
    (draft,) = drafts(1, name="us.Order", publisher="new")
    (position,) = store.append([replace(draft, context="us", root=root)])
    assert store.read(position, types=[1]).entries == store.read(position).entries
    assert store.write(lambda t: t.put_context("us", b"{}")).result(10).start == position + 1


def test_a_store_of_version_3_is_read_and_goes_on(path: Path, open_sqlite: Open) -> None:
    shutil.copy(VERSION_3, path)
    store = open_sqlite()
    records = [each.record for each in store.read(14).entries]
    assert [each.context for each in records] == ["us", "us", "uk", "us"]
    assert [each.root and each.root.payload for each in records] == [
        b'{"item":"tea","price":4.5}',
        None,
        b"",
        b'{"item":"tea","price":4.5}',
    ]
    assert [each.position for each in store.read(13, types=[1]).entries] == [14, 16, 17]
    with store.view() as view:
        assert view.contexts() == [
            ContextVersion(3, "us", b'{"rules":1}', 14, 17),
            ContextVersion(4, "uk", b'{"rules":0}', 14, 17),
            ContextVersion(5, "us", b'{"rules":2}', 17),
        ]
        assert view.in_effect(15) == Effect(1, 4, 2)
        assert [each.record.context for each in view.letters()] == [None, "us"]
    assert store.write(lambda t: t.put_context("us", b"{}")).result(10).number == 6


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE log SET body = CAST(body || x'00' AS BLOB) WHERE position = 5",
        "UPDATE log SET body = x'' WHERE position = 5",
        "UPDATE log SET type = 1 WHERE position = 5",
        "UPDATE log SET type = 77 WHERE position = 5",
        "UPDATE log SET epoch = 77 WHERE position = 5",
        "UPDATE log SET sequence = 77 WHERE position = 5",
        "UPDATE log SET time = time + 1 WHERE position = 5",
        "UPDATE log SET root = 1 WHERE position = 5",
        "UPDATE log SET root = 77 WHERE position = 5",
        "UPDATE types SET name = 'shop.Other' WHERE number = 2",
        "UPDATE epochs SET epoch = 9 WHERE number = 2",
        "DELETE FROM log WHERE position = 5",
    ],
)
def test_a_record_that_is_not_what_was_written_stops_reading_there(
    open_sqlite: Open, path: Path, drafts: MakeDrafts, harm: str
) -> None:
    store = open_sqlite()
    # The type and the publisher of the record at 5 are its own.
    store.append(drafts(1, 2, 3, 4, name="shop.Bill", epoch=2))
    store.append(drafts(5))
    store.append(drafts(6, 7, name="shop.Bill", epoch=2))
    store.close()
    execute(path, harm)
    store = open_sqlite()
    batch = store.read(1)
    assert ([each.position for each in batch.entries], batch.upto) == ([1, 2, 3, 4], 5)
    with pytest.raises(StoreDamagedError, match="position 5") as caught:
        store.read(5)
    assert str(path) in str(caught.value)
    assert [each.position for each in store.read(6).entries] == [6, 7]
    assert store.append(drafts(8, name="shop.Bill", epoch=2)) == [8]


@pytest.mark.parametrize("root", ["NULL", "2", "3", "77"])
def test_a_record_whose_row_names_another_root_form_is_damage(
    open_sqlite: Open, path: Path, root: str
) -> None:
    shutil.copy(VERSION_3, path)
    execute(path, f"UPDATE log SET root = {root} WHERE position = 14")
    store = open_sqlite()
    with pytest.raises(StoreDamagedError, match="position 14"):
        store.read(14)
    assert [each.position for each in store.read(15).entries] == [15, 16, 17]


def test_pages_that_are_overwritten_are_damage(
    open_sqlite: Open, path: Path, drafts: MakeDrafts
) -> None:
    store = open_sqlite()
    for n in range(0, 4_000, 1_000):
        store.append(drafts(*range(n, n + 1_000)))
    store.close()
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2 // 4096 * 4096
    whole[middle : middle + 4096 * 3] = b"\xa5" * (4096 * 3)
    path.write_bytes(whole)
    store = open_sqlite()
    start, read = 1, 0
    with suppress(StoreDamagedError):
        while start <= 4_000:
            batch = store.read(start)
            start, read = batch.upto, read + len(batch.entries)
    assert 100 < read < 4_000  # what is before the damage was given


def test_a_damaged_letter_is_named(open_sqlite: Open, path: Path) -> None:
    shutil.copy(VERSION_1, path)
    execute(path, "UPDATE letters SET body = x'010203040506'")
    with open_sqlite().view() as view, pytest.raises(StoreDamagedError, match="dead letter 3"):
        view.letters()


def test_a_damaged_description_is_named(open_sqlite: Open, path: Path) -> None:
    shutil.copy(VERSION_1, path)
    execute(path, "UPDATE descriptions SET body = CAST(replace(body, 'item', 'itex') AS BLOB)")
    with open_sqlite().view() as view, pytest.raises(StoreDamagedError, match="the description"):
        view.descriptions()


@pytest.mark.parametrize(("table", "read"), [("routing", "routed"), ("identity", "identity")])
def test_a_row_that_must_be_there_and_is_not_is_damage(
    open_sqlite: Open, path: Path, table: str, read: str
) -> None:
    open_sqlite().close()
    execute(path, f"DELETE FROM {table}")
    with open_sqlite().view() as view, pytest.raises(StoreDamagedError):
        getattr(view, read)()


def test_a_stretch_that_is_missing_is_damage(open_sqlite: Open, path: Path) -> None:
    shutil.copy(VERSION_2, path)
    store = open_sqlite()
    stretches = [Stretch(12, 13, b""), Stretch(13, 14, b"")]
    store.write(lambda t: t.advance(stretches, token=1)).result(10)
    execute(path, "DELETE FROM stretches WHERE high = 12")
    with store.view() as view, pytest.raises(StoreDamagedError, match="position 9"):
        view.stretches(0, limit=9)


# -- reading by type -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_reading_types_uses_the_index_and_sorts_nothing(
    open_sqlite: Open, path: Path, count: int
) -> None:
    open_sqlite()
    values = [0] * (count * 3 + 1)
    sql = f"EXPLAIN QUERY PLAN {merged_by_position([OF_TYPE] * count)}"
    plan = [str(row[-1]) for row in execute(path, sql, *values)]
    searches = [step for step in plan if "log" in step]
    assert (
        searches == ["SEARCH log USING INDEX log_by_type (type=? AND rowid>? AND rowid<?)"] * count
    )
    assert not [step for step in plan if "B-TREE" in step]


def test_the_types_of_other_stores_are_known(open_sqlite: Open, drafts: MakeDrafts) -> None:
    one, other = open_sqlite(), open_sqlite()
    one.append(drafts(1, name="a"))
    other.append(drafts(2, name="b"))
    one.append(drafts(3, name="b"))
    assert one.types() == other.types()
    assert one.types() == {
        1: EventType("a", 1, "a" + "0" * 31),
        2: EventType("b", 1, "b" + "0" * 31),
    }
    assert [each.position for each in other.read(1, types=[2]).entries] == [2, 3]


# -- letting go, closing ---------------------------------------------------------------------------


def test_a_long_log_is_let_go_in_pieces_and_the_file_shrinks(
    open_sqlite: Open, path: Path, drafts: MakeDrafts
) -> None:
    store = open_sqlite()
    store.append(drafts(*range(12_500)))
    before = store.size()
    assert store.truncate(12_400) == 12_399
    assert store.size() < before / 5
    store.close()
    assert path.stat().st_size < before / 5


def test_waiting_for_itself_in_the_thread_that_writes_is_refused(
    open_sqlite: Open, drafts: MakeDrafts
) -> None:
    store = open_sqlite()
    with pytest.raises(WouldDeadlockError):
        store.write(lambda t: store.append(drafts(1))).result(10)
    with pytest.raises(WouldDeadlockError):
        store.write(lambda t: store.truncate(1)).result(10)


def test_what_was_submitted_is_written_before_it_closes(
    open_sqlite: Open, drafts: MakeDrafts
) -> None:
    store = open_sqlite()
    futures = [store.submit(drafts(n)) for n in range(50)]
    store.close()
    assert [future.result(0) for future in futures] == [[n] for n in range(1, 51)]
    with pytest.raises(StoreClosedError):
        store.read(1)


def test_a_view_that_is_open_while_it_closes_is_not_cut_off(
    open_sqlite: Open, drafts: MakeDrafts
) -> None:
    store = open_sqlite()
    store.append(drafts(1))
    with store.view() as view:
        store.close()
        assert view.newest() == 1


def test_a_watcher_that_raises_stops_nobody(open_sqlite: Open, drafts: MakeDrafts) -> None:
    store = open_sqlite()
    store.watch(lambda: 1 / 0)
    assert [store.append(drafts(n)) for n in (1, 2)] == [[1], [2]]


def test_only_a_transaction_that_does_no_more_than_move_cursors_wakes_nobody(
    open_sqlite: Open,
) -> None:
    store = open_sqlite()
    kept = StoredSubscription("s", b"", 1, 1)
    token = store.write(lambda tx: tx.take_over(kept)).result(10)

    def move(tx: SqlTransaction, cursor: int, *, also: bool = False) -> bool:
        assert tx.move("s", token=token, cursor=cursor)
        if also:
            tx.put_document("k", "n", b"")
        return tx.is_silent

    assert store.write(lambda tx: move(cast("SqlTransaction", tx), 2)).result(10)
    assert not store.write(lambda tx: move(cast("SqlTransaction", tx), 3, also=True)).result(10)


def test_a_file_that_is_gone_before_anybody_listens_leaves_no_socket(
    path: Path, drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(readers: Readers) -> apsw.Connection:
        raise apsw.CantOpenError("it is gone")

    monkeypatch.setattr(Readers, "open", nothing)
    store = SqliteStore(path)
    assert store.append(drafts(1)) == [1]
    listening = store._listener._socket
    store.close()
    assert listening is None or listening.fileno() == -1


def test_a_long_reader_keeps_its_moment(open_sqlite: Open, drafts: MakeDrafts) -> None:
    store = open_sqlite()
    store.append(drafts(1))
    with store.view() as view:
        assert view.newest() == 1
        for n in range(2, 30):
            store.append(drafts(n))
        assert view.newest() == 1
    assert store.newest() == 29
