"""The doctor sees whether what the pipeline left in a store fits together."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from polycast.stores import StoredSubscription, Stretch
from polycast.stores.doctor import (
    LogFigures,
    PinFigures,
    RetentionFigures,
    RoutingFigures,
    StoreReport,
    examine,
)
from polycast.stores.doctor.report import BEHIND, problems_of
from polycast.stores.sqlite import SqliteStore
from polycast.stores.sqlite.row_format import CHECKSUMMED
from polycast.stores.sqlite.schema import STEPS

Open = Callable[..., SqliteStore]
FILES = Path(__file__).parent / "files"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with routes of 'audit' and 'work', and the stretches from 5 to 9 and to 12."""
    shutil.copy(FILES / "version_2.db", tmp_path / "store.db")
    return tmp_path / "store.db"


def damages(path: Path) -> dict[str, str]:
    found = examine(path, sync_test=False).integrity
    assert found is not None
    assert found.damaged == len(found.damages)
    return {each.place: each.why for each in found.damages}


def forge(path: Path, *statements: str) -> None:
    """Change a store behind its back."""
    with closing(apsw.Connection(str(path))) as connection:
        for sql in statements:
            connection.execute(sql)


def put(store: SqliteStore, *stretches: Stretch) -> None:
    """Stretches as they are, with a checksum that fits."""
    with closing(apsw.Connection(store.path)) as connection:
        connection.set_busy_timeout(10_000)
        for each in stretches:
            CHECKSUMMED["stretches"].put(connection, each.high, each.low, each.takers)


@pytest.mark.parametrize("version", range(1, len(STEPS) + 1))
def test_a_store_of_any_version_is_examined_without_complaint(version: int) -> None:
    assert damages(FILES / f"version_{version}.db") == {}


def test_the_figures_are_those_of_the_pipeline(path: Path) -> None:
    report = examine(path, sync_test=False)
    assert report.routing == RoutingFigures(1, high=12, behind=2, pins=True)
    assert PinFigures("pipeline", 12, 2) in report.pins


def test_a_store_without_a_pipeline_has_no_figures_of_one(open_sqlite: Open) -> None:
    store = open_sqlite()
    store.write(lambda tx: tx.save(StoredSubscription("a", b"{}", 1, 1))).result(10)
    assert examine(store.path, sync_test=False).routing is None


def test_a_gap_between_stretches_is_found(path: Path, open_sqlite: Open) -> None:
    store = open_sqlite()
    put(store, Stretch(10, 12, b""))
    why = "it begins after 9, where the one before it ends"
    assert damages(path) == {"the stretch from 10 to 12": why}


def test_stretches_that_overlap_are_found(path: Path, open_sqlite: Open) -> None:
    put(open_sqlite(), Stretch(8, 12, b""))
    why = "it begins before 9, where the one before it ends"
    assert damages(path) == {"the stretch from 8 to 12": why}


def test_a_stretch_that_is_empty_is_found(path: Path, open_sqlite: Open) -> None:
    put(open_sqlite(), Stretch(12, 12, b""))
    assert damages(path) == {"the stretch from 12 to 12": "it is empty"}


@pytest.mark.parametrize("last", [9, 14])
def test_stretches_that_do_not_end_where_the_pipeline_is_are_found(
    path: Path, open_sqlite: Open, last: int
) -> None:
    if last == 9:
        forge(path, "DELETE FROM stretches WHERE high = 12")
    else:
        put(open_sqlite(), Stretch(12, 14, b""))
    place = f"the stretch that ends at {last}"
    assert damages(path) == {place: "all before 12 should be routed"}


def test_dropped_stretches_are_no_gap(path: Path, open_sqlite: Open) -> None:
    store = open_sqlite()
    for before in (9, 12):
        store.write(lambda tx, at=before: tx.drop_stretches(at)).result(10)  # type: ignore[misc]
        assert damages(path) == {}


def test_a_route_without_its_subscription_is_found(path: Path) -> None:
    forge(path, "DELETE FROM subscriptions")  # that of 'work' has ended
    assert damages(path) == {"the route 2 of 'audit'": "there is no such subscription"}


def test_a_definition_that_cannot_be_read_is_found(path: Path, open_sqlite: Open) -> None:
    store = open_sqlite()
    store.write(lambda tx: tx.begin_route("work", b"[1]")).result(10)
    assert list(damages(path)) == ["the route 3 of 'work'"]
    assert "its definition cannot be read" in damages(path)["the route 3 of 'work'"]


@pytest.mark.parametrize("gone", ["routes", "stretches", "routing"])
def test_a_table_that_is_not_there_is_found(path: Path, gone: str) -> None:
    forge(path, f"DROP TABLE {gone}")
    report = examine(path, sync_test=False)
    assert report.state == "damaged"
    assert any(gone in each.what for each in report.problems)


def test_the_row_of_the_pipeline_is_missed(path: Path) -> None:
    forge(path, "DELETE FROM routing")
    assert damages(path) == {"how far the pipeline has come": "there is no such row"}


# -- contexts --------------------------------------------------------------------------------------


@pytest.fixture
def abroad(tmp_path: Path) -> Path:
    """A store with versions of 'us' from 14 to 17 and after that, and of 'uk' from 14 to 17."""
    shutil.copy(FILES / "version_3.db", tmp_path / "abroad.db")
    return tmp_path / "abroad.db"


def put_version(path: Path, *values: object) -> None:
    """A version as it is, with a checksum that fits."""
    with closing(apsw.Connection(str(path))) as connection:
        CHECKSUMMED["contexts"].put(connection, *values)


@pytest.mark.parametrize(
    ("version", "place", "why"),
    [
        ((3, "us", b"{}", 14, 18), 5, "it begins at 17, and the one before it ends at 18"),
        ((6, "us", b"{}", 15, 16), 6, "it begins at 15, and the one before it ends at 17"),
        ((6, "us", b"{}", 18, 19), 6, "it begins at 18, and the one before it does not end"),
        ((6, "fr", b"{}", 17, 17), 6, "it is empty"),
    ],
)
def test_versions_of_a_context_that_overlap_are_found(
    abroad: Path, version: tuple[int, str, bytes, int, int], place: int, why: str
) -> None:
    put_version(abroad, *version)
    assert damages(abroad) == {f"the version {place} of the context {version[1]!r}": why}


def test_a_context_that_is_not_what_it_was_is_found(abroad: Path) -> None:
    forge(abroad, "UPDATE contexts SET body = x'7b7d' WHERE number = 5")
    assert list(damages(abroad)) == ["the version 5 of the context 'us'"]


def test_the_table_of_contexts_is_missed(abroad: Path) -> None:
    forge(abroad, "DROP TABLE contexts")
    report = examine(abroad, sync_test=False)
    assert report.state == "damaged"


@pytest.mark.parametrize("root", ["NULL", "1", "2", "77"])
def test_a_row_with_another_type_of_the_root_form_is_found(abroad: Path, root: str) -> None:
    right = "1"
    forge(abroad, f"UPDATE log SET root = {root} WHERE position = 14")
    assert list(damages(abroad)) == ([] if root == right else ["position 14"])


def test_a_root_form_without_a_description_is_told(abroad: Path) -> None:
    forge(abroad, "DELETE FROM descriptions")
    said = [each.what for each in examine(abroad, sync_test=False).problems]
    assert said.count("no description of shop.Order version 1 is kept") == 1
    assert "no description of us.Order version 1 is kept" in said


# -- what to see to --------------------------------------------------------------------------------


def problems(behind: int, *, pins: bool = True, used: float = 0.1) -> list[str]:
    report = StoreReport("store.db", 100.0, 2, 2, 4096, 0)
    report.routing = RoutingFigures(3, high=11, behind=behind, pins=pins)
    report.log = LogFigures(behind + 10, 1, behind + 10, 90.0, 99.0, [])
    report.pins = [PinFigures("pipeline", 11, behind), PinFigures("audit", 11, behind)]
    report.retention = RetentionFigures(None, 4096, delivered=False, used=used)
    return [f"{each.what}: {each.advice}" for each in problems_of(report)]


def test_a_pipeline_far_behind_is_told_if_the_log_is_kept_for_it() -> None:
    (said,) = problems(BEHIND + 1)
    assert said.startswith("the pipeline is 100001 events behind, and the log is kept for it: Run")
    assert problems(BEHIND) == []
    assert problems(BEHIND + 1, pins=False) == []


def test_near_the_size_limit_it_is_the_pipeline_that_is_to_run() -> None:
    (said,) = problems(50, used=0.9)
    assert "The pipeline is 50 events behind, and the log is kept for it: run it with" in said
