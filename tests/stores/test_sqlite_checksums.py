"""A row of the state that is not what was written is told by its reader, and by the doctor."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import apsw
import pytest
from store_drafts import MakeDrafts

from polycast.errors import StoreDamagedError
from polycast.events import Identity, Record
from polycast.stores import (
    Advert,
    ContextVersion,
    Flight,
    GroupMember,
    Letter,
    StoredRoute,
    StoredSubscription,
    Stretch,
    Transaction,
    View,
    open_store,
)
from polycast.stores.doctor import examine
from polycast.stores.sqlite import SqliteStore, back_up, restore
from polycast.stores.sqlite.row_format import CHECKSUMMED

Open = Callable[..., SqliteStore]
VERSION_3 = Path(__file__).parent / "files" / "version_3.db"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with something in every table; the bus 1 holds the group 'work' and its flight."""
    shutil.copy(VERSION_3, tmp_path / "store.db")
    return tmp_path / "store.db"


def harm(path: Path, *statements: str) -> None:
    """Change a file as a damaged disk could, whatever the tables allow."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        for sql in statements:
            connection.execute(sql)


def loosen(path: Path, table: str) -> None:
    """Let a table take what it must not hold: damage does not ask."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ' NOT NULL', ''), "
            "'STRICT, ', ''), 'STRICT', '') WHERE name = ?",
            (table,),
        )


READS: dict[str, tuple[str, str, Callable[[View], object]]] = {
    "subscription": (
        "UPDATE subscriptions SET cursor = 8 WHERE name = 'audit'",
        "the subscription 'audit'",
        lambda view: view.subscription("audit"),
    ),
    "subscriptions": (
        "UPDATE subscriptions SET name = 'auditor' WHERE name = 'audit'",
        "the subscription 'auditor'",
        lambda view: view.subscriptions(),
    ),
    "lapsed": (
        "UPDATE subscriptions SET lease = 5.0 WHERE name = 'audit'",
        "the subscription 'audit'",
        lambda view: view.lapsed(10.0),
    ),
    "flights": (
        "UPDATE flights SET attempts = 1 WHERE name = 'audit'",
        "the flight of 'audit' at position 2",
        lambda view: view.flights("audit"),
    ),
    "flight": (
        "UPDATE flights SET token = 9 WHERE name = 'audit'",
        "the flight of 'audit' at position 2",
        lambda view: view.flight("audit", 2),
    ),
    "under_way": (
        "UPDATE flights SET due = 0 WHERE name = 'audit'",
        "the flight of 'audit' at position 2",
        lambda view: view.under_way("audit"),
    ),
    "held_back": (
        "UPDATE flights SET position = 6 WHERE name = 'audit'",
        "the flight of 'audit' at position 6",
        lambda view: view.held_back(),
    ),
    "free": (
        "UPDATE flights SET due = 0 WHERE name = 'audit'",
        "the flight of 'audit' at position 2",
        lambda view: view.free("audit", at=1.0, limit=5),
    ),
    "members": (
        "UPDATE members SET looked = 9",
        "the member 1 of 'work'",
        lambda view: view.members("work"),
    ),
    "letters": (
        "UPDATE letters SET attempts = 4",
        "dead letter 3",
        lambda view: view.letters(subscription="audit"),
    ),
    "document": (
        "UPDATE documents SET body = x'7b7d'",
        "the document '' of kind 'retention'",
        lambda view: view.document("retention", ""),
    ),
    "documents": (
        "UPDATE documents SET name = 'x'",
        "the document 'x' of kind 'retention'",
        lambda view: view.documents("retention"),
    ),
    "routed": (
        "UPDATE routing SET high = 13",
        "how far the pipeline has come",
        lambda view: view.routed(),
    ),
    "route": (
        "UPDATE routes SET definition = x'7b7d' WHERE name = 'audit'",
        "the route 2 of 'audit'",
        lambda view: view.route("audit"),
    ),
    "routes": (
        "UPDATE routes SET name = 'auditor' WHERE name = 'audit'",
        "the route 2 of 'auditor'",
        lambda view: view.routes(),
    ),
    "routes at": (
        "UPDATE routes SET until = 15 WHERE name = 'audit'",
        "the route 2 of 'audit'",
        lambda view: view.routes(at=20),
    ),
    "turns": (
        "UPDATE routes SET start = 12 WHERE name = 'audit'",
        "the route 2 of 'audit'",
        lambda view: view.turns(10, 20),
    ),
    "context": (
        "UPDATE contexts SET body = x'7b7d' WHERE number = 5",
        "the version 5 of the context 'us'",
        lambda view: view.context("us"),
    ),
    "contexts": (
        "UPDATE contexts SET name = 'fr' WHERE number = 3",
        "the version 3 of the context 'fr'",
        lambda view: view.contexts(),
    ),
    "contexts at": (
        "UPDATE contexts SET until = 18 WHERE number = 5",
        "the version 5 of the context 'us'",
        lambda view: view.contexts(at=20),
    ),
    "turns of contexts": (
        "UPDATE contexts SET until = 16 WHERE number = 4",
        "the version 4 of the context 'uk'",
        lambda view: view.turns(15, 20),
    ),
    "stretches": (
        "UPDATE stretches SET takers = x'03' WHERE high = 9",
        "the stretch from 5 to 9",
        lambda view: view.stretches(0, limit=9),
    ),
}


@pytest.mark.parametrize(("sql", "place", "read"), READS.values(), ids=READS)
def test_a_damaged_row_is_told_by_its_reader_and_by_the_doctor(
    open_sqlite: Open, path: Path, sql: str, place: str, read: Callable[[View], object]
) -> None:
    harm(path, sql)
    with open_sqlite().view() as view, pytest.raises(StoreDamagedError, match="checksum") as caught:
        read(view)
    assert caught.value.place == place
    report = examine(path, sync_test=False)
    assert report.integrity is not None
    assert place in [each.place for each in report.integrity.damages]


CHANGES: dict[str, tuple[str, str, Callable[[Transaction], object]]] = {
    "move": (
        "UPDATE subscriptions SET start = 2 WHERE name = 'audit'",
        "the subscription 'audit'",
        lambda tx: tx.move("audit", token=2, cursor=9),
    ),
    "open_bus": (
        "UPDATE publishers SET epoch = 0 WHERE name = 'till'",
        "the last epoch of the publisher 'till'",
        lambda tx: tx.open_bus("till", until=1.0, address="", process=1),
    ),
    "land_before": (
        "UPDATE flights SET done = 1 WHERE name = 'audit'",
        "the flight of 'audit' at position 2",
        lambda tx: tx.land_before("audit", 9),
    ),
    "exhume": (
        "UPDATE letters SET reason = 'ot failed'",
        "dead letter 3",
        lambda tx: tx.exhume([3]),
    ),
    "begin_route": (
        "UPDATE routing SET numbers = 0",
        "how far the pipeline has come",
        lambda tx: tx.begin_route("new", b"{}"),
    ),
    "end_route": (
        "UPDATE routes SET start = 3 WHERE name = 'audit'",
        "the route 2 of 'audit'",
        lambda tx: tx.end_route("audit"),
    ),
    "forget_routes": (
        "UPDATE routes SET until = 13 WHERE name = 'audit'",
        "the route 2 of 'audit'",
        lambda tx: tx.forget_routes(99),
    ),
    "put_context": (
        "UPDATE contexts SET body = x'7b7d' WHERE number = 5",
        "the version 5 of the context 'us'",
        lambda tx: tx.put_context("us", b"{}"),
    ),
    "end_context": (
        "UPDATE contexts SET start = 3 WHERE number = 5",
        "the version 5 of the context 'us'",
        lambda tx: tx.end_context("us"),
    ),
    "forget_contexts": (
        "UPDATE contexts SET until = 13 WHERE number = 5",
        "the version 5 of the context 'us'",
        lambda tx: tx.forget_contexts(13),
    ),
    "take_routing": (
        "UPDATE routing SET token = 0",
        "how far the pipeline has come",
        lambda tx: tx.take_routing(),
    ),
    "advance": (
        "UPDATE routing SET high = 5",
        "how far the pipeline has come",
        lambda tx: tx.advance([Stretch(5, 8, b"")], token=1),
    ),
}


@pytest.mark.parametrize(("sql", "place", "change"), CHANGES.values(), ids=CHANGES)
def test_a_damaged_row_is_neither_covered_up_nor_deleted(
    open_sqlite: Open, path: Path, sql: str, place: str, change: Callable[[Transaction], object]
) -> None:
    harm(path, sql)
    store = open_sqlite()
    before = state_of(path)
    with pytest.raises(StoreDamagedError) as caught:
        store.write(change).result(10)
    assert caught.value.place == place
    assert state_of(path) == before
    assert store.failure is None


def state_of(path: Path) -> list[list[object]]:
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        return [
            list(connection.execute(f"{each.select} ORDER BY 1, 2"))
            for each in CHECKSUMMED.values()
        ]


KINDS = ("NULL", "7", "1e300", "'7'", "x'ff00'", "CAST(x'ff41' AS TEXT)")
PLACES: list[tuple[str, str, Callable[[View], object]]] = [
    ("subscriptions", "definition", lambda view: view.subscriptions()),
    ("subscriptions", "holder", lambda view: view.subscription("work")),
    ("subscriptions", "checksum", lambda view: view.subscriptions()),
    ("flights", "publisher", lambda view: view.flights("work")),
    ("flights", "holder", lambda view: view.flight("work", 5)),
    ("letters", "body", lambda view: view.letters()),
    ("letters", "subscription", lambda view: view.letters()),
    ("letters", "reason", lambda view: view.letters()),
    ("documents", "body", lambda view: view.documents("retention")),
    ("documents", "checksum", lambda view: view.document("retention", "")),
    ("routing", "high", lambda view: view.routed()),
    ("routes", "definition", lambda view: view.routes(at=20)),
    ("routes", "name", lambda view: view.routes()),
    ("contexts", "body", lambda view: view.contexts(at=20)),
    ("contexts", "name", lambda view: view.contexts()),
    ("stretches", "takers", lambda view: view.stretches(0, limit=9)),
    ("stretches", "low", lambda view: view.stretches(0, limit=9)),
]


@pytest.mark.parametrize("value", KINDS)
@pytest.mark.parametrize(("table", "column", "read"), PLACES)
def test_a_value_of_another_kind_is_told_as_damage(
    open_sqlite: Open,
    path: Path,
    table: str,
    column: str,
    read: Callable[[View], object],
    value: str,
) -> None:
    loosen(path, table)
    which = "WHERE name = 'work'" if table in ("subscriptions", "flights") else ""
    harm(path, f"UPDATE {table} SET {column} = {value} {which}")
    with open_sqlite().view() as view, pytest.raises(StoreDamagedError):
        read(view)
    report = examine(path, sync_test=False)
    assert report.integrity is not None
    assert report.integrity.damaged > 0
    assert report.state == "damaged"


def test_a_type_that_is_damaged_is_told_when_the_types_are_asked_for(
    open_sqlite: Open, path: Path
) -> None:
    harm(path, "UPDATE types SET version = 3 WHERE number = 2")
    store = open_sqlite()
    for _ in range(2):
        with pytest.raises(StoreDamagedError, match="the type with number 2"):
            store.types()


def test_a_type_whose_name_is_no_text_is_told(open_sqlite: Open, path: Path) -> None:
    harm(path, "UPDATE types SET name = CAST(x'ff41' AS TEXT) WHERE number = 2")
    with pytest.raises(StoreDamagedError, match="the table types"):
        open_sqlite().types()


def test_a_damaged_row_keeps_no_other_from_being_free(open_sqlite: Open, path: Path) -> None:
    store = open_sqlite()
    store.write(lambda tx: tx.fly([Flight("work", 6, "till", 1, 4)])).result(10)
    harm(path, "UPDATE flights SET attempts = 7 WHERE name = 'work' AND position = 5")
    store.write(lambda tx: tx.remove_bus(1)).result(10)
    with store.view() as view:
        kept = view.subscription("work")
        assert kept is not None
        assert kept.holder is None
        assert view.flight("work", 6) == Flight("work", 6, "till", None, 5)
        with pytest.raises(StoreDamagedError, match="the flight of 'work' at position 5"):
            view.flights("work")


def test_a_backup_with_a_damaged_row_is_not_restored(path: Path, tmp_path: Path) -> None:
    back_up(path, tmp_path / "copy.db")
    harm(tmp_path / "copy.db", "UPDATE subscriptions SET cursor = 8 WHERE name = 'audit'")
    with pytest.raises(StoreDamagedError, match="the subscription 'audit'"):
        restore(tmp_path / "copy.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


class Named(str):
    """A name of a kind of its own, as numpy has them."""

    __slots__ = ()


class Kind(StrEnum):
    """Names that are members of something."""

    WORK = "work"


@pytest.mark.parametrize("name", [Named("n"), Kind.WORK], ids=["a subclass", "a member"])
def test_what_sqlite_gives_back_otherwise_fits_its_checksum(
    open_sqlite: Open, drafts: MakeDrafts, name: str
) -> None:
    store = open_sqlite()
    store.append(drafts(1))
    letters = [Letter(0, name, 1, each.record, "r", 1, 5) for each in store.read(1).entries]

    def write(tx: Transaction) -> None:
        tx.save(StoredSubscription(name, bytearray(b"{}"), 1, 1, group=True, lease=5))  # type: ignore[arg-type]
        tx.fly([Flight(name, 1, "p", 1, 2, 3, -0.0, done=True)])
        tx.claim(Flight(name, 2, due=7))
        tx.join(GroupMember(name, 1, 2))
        tx.bury(letters)
        tx.put_document("k", name, memoryview(b"d"))  # type: ignore[arg-type]
        tx.begin_route(name, bytearray(b"r"))  # type: ignore[arg-type]
        tx.put_context(name, bytearray(b"c"))  # type: ignore[arg-type]
        tx.advance([Stretch(1, 2, memoryview(b"s"))], token=0)  # type: ignore[arg-type]

    store.write(write).result(10)
    with store.view() as view:
        assert [each.lease for each in view.subscriptions()] == [5.0]
        assert [each.time for each in view.letters()] == [5.0]
        assert [each.due for each in view.flights(name)] == [0.0, 7.0]
        assert (view.members(name), view.documents("k")) == (
            [GroupMember(name, 1, 2)],
            {name: b"d"},
        )
        assert view.routes() == [StoredRoute(1, name, b"r", 2)]
        assert view.contexts() == [ContextVersion(2, name, b"c", 2)]
        assert view.stretches(0, limit=1) == [Stretch(1, 2, b"s")]


NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, 2.0**63, float(2**53 + 2)]
WITH_NUMBER: dict[str, Callable[[Transaction, float], Any]] = {
    "lease": lambda tx, it: tx.save(StoredSubscription("k", b"{}", 1, 1, lease=it)),
    "due": lambda tx, it: tx.fly([Flight("k", 1, due=it)]),
    "until of a bus": lambda tx, it: tx.open_bus("p", until=it, address="", process=1),
    "sign of life": lambda tx, it: tx.keep_bus(bus(tx), until=it),
    "until of an advert": lambda tx, it: tx.advertise(Advert(0, bus(tx), "x", it)),
    "time of a letter": lambda tx, it: tx.bury([Letter(0, "k", 1, RECORD, "why", 1, it)]),
}
RECORD = Record("a.B", 1, "h", Identity("p", 1, 1), 1.0, "json", b"{}")
LOOKS: list[Callable[[View], object]] = [
    lambda view: view.subscriptions(),
    lambda view: view.lapsed(math.inf),
    lambda view: view.flights("k"),
    lambda view: view.held_back(),
    lambda view: view.buses(),
    lambda view: view.adverts(),
    lambda view: view.letters(),
]


def bus(tx: Transaction) -> int:
    return tx.open_bus("p", until=1.0, address="", process=1).id


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("what", WITH_NUMBER)
def test_no_number_makes_a_row_that_looks_damaged(tmp_path: Path, what: str, number: float) -> None:
    """Whoever may say it would take the list of all subscriptions from everybody."""
    store = open_store(str(tmp_path / "events.db"))
    try:
        with suppress(ValueError, apsw.ConstraintError):  # what is no number may be refused
            store.write(lambda tx: WITH_NUMBER[what](tx, number)).result(5)
        with store.view() as view:
            for look in LOOKS:
                look(view)
    finally:
        store.close()


def test_a_lease_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="the lease of 'k' is no number"):
        StoredSubscription("k", b"{}", 1, 1, lease=math.nan)
