"""`polycast doctor` tells what is in a store, and what is wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from shop_events import Later, Refund, Sale, url

import polycast as pc
from polycast.stores import Retention, Stretch, open_store
from polycast.stores.sqlite.schema import STEPS


def problems(data: Any) -> str:
    """All problems on one line."""
    return " | ".join(
        f"{each['kind']}: {each['what']}. {each['advice']}" for each in data["problems"]
    )


def change(path: Path, sql: str) -> None:
    """Change a store behind its back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()


def healthy(path: Path) -> Path:
    """A store in which there is nothing to see to."""
    with pc.Bus(url(path), publisher="till-7") as bus:
        bus.subscribe(Sale, lambda sale: None, durable="billing")
        bus.publish_many([Sale(n) for n in range(50)])
        bus.flush(30)
    return path


# -- figures ---------------------------------------------------------------------------------------


def test_a_healthy_store_has_exit_status_0(run: Any, tmp_path: Path) -> None:
    ran = run("doctor", healthy(tmp_path / "a.db"))
    assert (ran.status, ran.out.splitlines()[-1]) == (0, "healthy: nothing to see to")


def test_the_figures_are_those_of_the_store(run: Any, store: Path) -> None:
    data = run("doctor", store, "--json").data
    assert data["version"] == data["accepted"] == len(STEPS)
    assert data["size"] == store.stat().st_size
    assert (data["log"]["events"], data["log"]["oldest"], data["log"]["newest"]) == (10, 1, 10)
    assert data["log"]["oldest_time"] <= data["log"]["newest_time"]
    assert {each["name"]: each["events"] for each in data["log"]["types"]} == {
        "shop_events.Sale": 7,
        "shop_events.BigSale": 1,
        "shop_events.Refund": 2,
    }
    assert (data["integrity"]["records"], data["integrity"]["letters"]) == (10, 2)


def test_the_cost_of_a_sync_is_measured(run: Any, store: Path) -> None:
    sync = run("doctor", store, "--json").data["sync"]
    assert 0 < sync["median"] <= sync["worst"]


def test_the_sync_test_can_be_left_out(run: Any, store: Path) -> None:
    assert run("doctor", store, "--json", "--no-sync-test").data["sync"] is None


def test_subscriptions_have_their_lag(run: Any, store: Path) -> None:
    data = run("doctor", store, "--json").data
    lags = {each["name"]: (each["lag"], each["attached"]) for each in data["subscriptions"]}
    assert lags == {"billing": (4, False), "refunds": (0, False)}
    assert data["pins"][0] == {"name": "billing", "position": 7, "behind": 4}


def test_dead_letters_are_counted_by_reason_and_are_a_warning(run: Any, store: Path) -> None:
    ran = run("doctor", store, "--json")
    assert [each["letters"] for each in ran.data["letters"]] == [1, 1]
    assert ran.data["letters"][0]["reason"] == "ValueError: no customer for 0"
    assert "warning: 2 dead letters of refunds" in problems(ran.data)
    assert (ran.status, ran.data["state"]) == (3, "warnings")


def test_the_text_says_the_same_in_words(run: Any, store: Path) -> None:
    out = run("doctor", store, clock=Later(200)).out
    assert "events        10, positions 1 to 10" in out
    assert "(3 min ago)" in out
    assert "integrity     well: 10 records and 2 dead letters verified" in out


def test_a_store_without_events_is_healthy(run: Any, tmp_path: Path) -> None:
    pc.Bus(url(tmp_path / "a.db")).close()
    ran = run("doctor", tmp_path / "a.db")
    assert ran.status == 0
    assert "events        none" in ran.out


def test_it_is_told_how_far_the_pipeline_has_come(run: Any, store: Path) -> None:
    assert "pipeline" not in run("doctor", store).out
    opened = open_store(store)
    opened.write(lambda tx: tx.begin_route("billing", b"{}")).result(10)
    token = opened.write(lambda tx: tx.take_routing()).result(10).token
    opened.write(lambda tx: tx.advance([Stretch(1, 8, b"")], token=token)).result(10)
    opened.close()
    ran = run("doctor", store)
    said = "pipeline      routed to position 7, 3 events behind, for 1 subscription"
    assert said in ran.out
    data = run("doctor", store, "--json").data
    assert data["routing"] == {"subscriptions": 1, "high": 8, "behind": 3, "pins": True}


def test_a_back_up_can_be_examined(run: Any, store: Path, tmp_path: Path) -> None:
    run("backup", store, tmp_path / "b.db")
    data = run("doctor", tmp_path / "b.db", "--json").data
    assert data["log"]["events"] == 10


# -- others have it open ---------------------------------------------------------------------------


def test_a_bus_that_is_open_is_alive_and_attached(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path), publisher="till-8") as bus:
        bus.subscribe(Sale, lambda sale: None, durable="billing")
        ran = run("doctor", path, "--json")
        assert [(e["publisher"], e["process"], e["alive"]) for e in ran.data["buses"]] == [
            ("till-8", os.getpid(), True)
        ]
        assert ran.data["subscriptions"][0]["attached"]
        assert ran.status == 0


def test_nothing_in_the_file_is_changed(run: Any, store: Path, tmp_path: Path) -> None:
    before, names = store.read_bytes(), sorted(each.name for each in tmp_path.iterdir())
    run("doctor", store)
    assert store.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == names


def test_it_works_while_others_write(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        for n in range(20):
            bus.publish_many([Sale(n)] * 20)
            ran = run("doctor", path, "--json", "--no-sync-test")
            assert (ran.status, ran.data["log"]["events"]) == (0, 20 * (n + 1))


def test_a_bus_that_has_not_been_heard_of_is_dead(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path), publisher="till-8") as bus:
        bus.subscribe(Sale, lambda sale: None, durable="billing")
        ran = run("doctor", path, "--json", clock=Later(3600))
    said = problems(ran.data)
    assert "died without closing" in said
    assert "'billing' is held by bus" in said
    assert ran.status == 3


CRASH = """
import os, sys
import polycast as pc
from shop_events import Sale
bus = pc.Bus(sys.argv[1], publisher="till-9")
bus.subscribe(Sale, print, durable="billing")
os._exit(9)
"""


def test_a_process_that_was_killed_is_known_to_be_dead_at_once(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", CRASH, url(path)], env=environment, check=False, timeout=60
    )
    assert done.returncode == 9
    data = run("doctor", path, "--json").data
    assert [each["alive"] for each in data["buses"]] == [False]


# -- what is stuck ---------------------------------------------------------------------------------


def test_a_group_without_members_is_named(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, lambda sale: None, durable="shippers", group="shippers").detach()
        bus.publish_many([Sale(1), Sale(2)])
    data = run("doctor", path, "--json").data
    assert "the group 'shippers' has 2 events and no member" in problems(data)


def test_what_should_have_been_tried_long_ago_is_named(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path), heartbeat_timeout=100_000) as bus:
        bus.subscribe(Sale, fail, durable="billing", backoff=5_000)
        bus.publish(Sale(1))
        wait_for_flight(run, path)
        now = run("doctor", path, "--json").data["subscriptions"][0]
        later = run("doctor", path, "--json", clock=Later(6_000))
    assert (now["in_flight"], now["attempts"], now["overdue"]) == (1, 1, 0)
    assert "1 events of 'billing' should have been tried again" in problems(later.data)


def fail(event: object) -> None:
    raise OSError("not now")


def wait_for_flight(run: Any, path: Path) -> None:
    deadline = Later(30).time()
    while not run("subs", path, "--json").data["subscriptions"][0]["in_flight"]:
        assert Later(0).time() < deadline


def test_a_lease_that_is_over_is_named(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, print, durable="billing", lease=60).detach()
    soon, late = (run("doctor", path, "--json", clock=Later(n)).data for n in (0, 100))
    assert soon["problems"] == []
    assert "the lease of 'billing' is over" in problems(late)


def test_a_lease_is_for_who_is_attached_to_end_whatever_the_clock_here_says(
    run: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path), heartbeat_timeout=100_000) as bus:
        bus.subscribe(Sale, print, durable="billing", lease=60)
        assert run("doctor", path, "--json", clock=Later(100)).data["problems"] == []


def test_near_the_size_limit_it_is_told_who_holds_the_log_back(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    rule = Retention(size=200_000)
    with pc.Bus(url(path), retention=rule) as bus:
        bus.subscribe(Sale, print, durable="archive").detach()
        bus.publish_many([Sale(n, "x" * 500) for n in range(400)])
    data = run("doctor", path, "--json").data
    assert data["retention"]["used"] >= 0.8
    assert "of the size that it may. 'archive' is 400 events behind" in problems(data)


# -- damage ----------------------------------------------------------------------------------------


def test_a_record_that_is_not_what_was_written_is_found(run: Any, store: Path) -> None:
    change(store, "UPDATE log SET body = x'0102030405060708' WHERE position = 3")
    ran = run("doctor", store, "--json")
    assert (ran.status, ran.data["state"]) == (1, "damaged")
    assert [each["place"] for each in ran.data["integrity"]["damages"]] == ["position 3"]
    assert "polycast restore" in problems(ran.data)


def test_a_row_that_does_not_fit_its_record_is_found(run: Any, store: Path) -> None:
    change(store, "UPDATE log SET sequence = 99 WHERE position = 3")
    damages = run("doctor", store, "--json").data["integrity"]["damages"]
    assert [damage["why"] for damage in damages] == ["its row does not say what the record says"]


@pytest.mark.parametrize(
    ("gone", "place"),
    [("position = 4", "position 4"), ("position IN (4, 5, 6)", "positions 4 to 6")],
)
def test_a_gap_is_found(run: Any, store: Path, gone: str, place: str) -> None:
    change(store, f"DELETE FROM log WHERE {gone}")
    ran = run("doctor", store, "--json")
    assert [each["place"] for each in ran.data["integrity"]["damages"]] == [place]
    assert ran.status == 1


def test_what_retention_let_go_is_no_gap(run: Any, store: Path) -> None:
    change(store, "DELETE FROM log WHERE position < 6")
    data = run("doctor", store, "--json").data
    assert (data["integrity"]["damaged"], data["log"]["oldest"]) == (0, 6)


def test_a_damaged_dead_letter_is_found(run: Any, store: Path) -> None:
    change(store, "UPDATE letters SET body = x'00'")
    ran = run("doctor", store)
    assert ran.status == 1
    assert "dead letter" in ran.out.split("integrity")[1]


def test_around_a_page_that_cannot_be_read_all_else_is_told(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Refund, print, durable="refunds")
        bus.publish_many([Sale(n, "x" * 200) for n in range(2_000)])
    pages = bytearray(path.read_bytes())
    body = pages.index(b"x" * 200, len(pages) // 2) // 4096 * 4096
    pages[body : body + 4096] = bytes(4096)
    path.write_bytes(pages)
    ran = run("doctor", path, "--json")
    assert ran.status == 1
    assert 1_900 < ran.data["integrity"]["records"] < 2_000
    assert ran.data["integrity"]["file"]
    assert [each["name"] for each in ran.data["subscriptions"]] == ["refunds"]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_damaged_there_is_a_report_or_a_reason(
    run: Any, store: Path, seed: int
) -> None:
    step = 1013
    data = bytearray(store.read_bytes())
    for at in range(seed * 53, len(data), step * (1 + seed % 5)):
        data[at] ^= 0xFF
    store.write_bytes(data)
    for words in (["doctor"], ["doctor", "--json"], ["tail", "--json"], ["subs"]):
        ran = run(words[0], store, *words[1:])
        assert ran.status in (0, 1, 3)
        assert "Traceback" not in ran.out + ran.err


def test_a_damaged_store_is_not_called_healthy(run: Any, store: Path) -> None:
    whole = store.read_bytes()
    store.write_bytes(whole[: len(whole) // 2])
    assert run("doctor", store).status == 1


# -- what is no store ------------------------------------------------------------------------------


def test_a_newer_version_is_refused_with_both_versions(run: Any, store: Path) -> None:
    change(store, "PRAGMA user_version = 700")
    ran = run("doctor", store, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "not-a-store")
    assert "it has version 700, this polycast reads versions 1 to" in ran.data["error"]["message"]


def test_what_is_no_store_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all" * 1000)
    (tmp_path / "empty").write_bytes(b"")
    change(tmp_path / "other", "CREATE TABLE t(x)")
    for name, why in (
        ("text", "no SQLite file"),
        ("empty", "it is empty"),
        ("other", "of something else"),
        ("absent", "there is no such file"),
        (".", "it is a folder"),
    ):
        ran = run("doctor", tmp_path / name)
        assert ran.status == 1
        assert why in ran.err
    assert not (tmp_path / "absent").exists()


def test_a_copy_that_was_taken_while_it_was_open_is_read_with_its_log(
    run: Any, tmp_path: Path
) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(30)])
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{copy}{end}")
    assert run("doctor", copy, "--json").data["log"]["events"] == 30
