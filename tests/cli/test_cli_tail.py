"""`polycast tail`: the log, as it is and as it grows."""

from __future__ import annotations

import json
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from shop_events import Refund, Sale, url

import polycast as pc


def positions(ran: Any) -> list[int]:
    """Of the events that were shown."""
    assert ran.status == 0, ran.err
    return [row["position"] for row in ran.rows]


def test_every_event_is_a_line_of_json(run: Any, store: Path) -> None:
    rows = run("tail", store, "--json").rows
    assert [row["position"] for row in rows] == list(range(1, 11))
    big = rows[7]
    assert big.pop("time") > 0
    assert big == {
        "position": 8,
        "class": "shop_events.BigSale",
        "version": 1,
        "identity": ["till-7", 1, 8],
        "topic": "/shop/back",
        "priority": 0,
        "expires": None,
        "headers": {},
        "event": {"number": 5, "note": "", "customer": "Ann"},
    }


def test_the_text_has_class_topic_and_event(run: Any, store: Path) -> None:
    line = run("tail", store).out.splitlines()[7]
    assert "shop_events.BigSale  /shop/back  " in line
    assert '"customer":"Ann"' in line


def test_a_process_without_the_classes_shows_them_all_the_same(store: Path) -> None:
    words = [sys.executable, "-W", "error", "-m", "polycast", "tail", str(store), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[7]["event"] == {"number": 5, "note": "", "customer": "Ann"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shop_events.Refund", [5, 6]),
        ("BigSale", [8]),
        ("Sale", [1, 2, 3, 4, 7, 8, 9, 10]),
    ],
)
def test_a_type_is_meant_with_those_below_it(
    run: Any, store: Path, name: str, expected: list[int]
) -> None:
    assert positions(run("tail", store, "--type", name, "--json")) == expected


def test_a_type_that_is_not_there_is_an_error_with_the_nearest(run: Any, store: Path) -> None:
    ran = run("tail", store, "--type", "Sail", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "bad-option")
    assert "did you mean 'Sale'?" in ran.data["error"]["message"]


def test_a_topic_may_have_wildcards(run: Any, store: Path) -> None:
    assert positions(run("tail", store, "--topic", "/shop/*", "--json")) == [1, 2, 3, 4, 7, 8, 9]
    assert positions(run("tail", store, "--topic", "/shop/back", "--json")) == [7, 8, 9]


def test_a_bad_topic_is_an_error(run: Any, store: Path) -> None:
    assert run("tail", store, "--topic", "shop").status == 1


def test_it_begins_where_it_is_told_to(run: Any, store: Path) -> None:
    assert positions(run("tail", store, "--since", 8, "--json")) == [8, 9, 10]
    assert len(positions(run("tail", store, "--since", "beginning", "--json"))) == 10


def test_it_begins_at_a_time(run: Any, store: Path) -> None:
    times = {row["position"]: row["time"] for row in run("tail", store, "--json").rows}
    moment = datetime.fromtimestamp(times[7], UTC).isoformat()
    found = positions(run("tail", store, "--since", moment, "--json"))
    assert found[-1] == 10
    assert all(times[position] >= times[7] - 1e-6 for position in found)


def test_what_was_let_go_is_an_error(run: Any, store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM log WHERE position < 6")
        connection.commit()
    ran = run("tail", store, "--since", 2, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "history-gone")


def test_a_time_that_is_none_is_a_usage_error(run: Any, store: Path) -> None:
    assert run("tail", store, "--since", "yesterday").status == 2


def test_the_limit_is_kept_with_filters_too(run: Any, store: Path) -> None:
    ran = run("tail", store, "--topic", "/shop/*", "--limit", 5, "--json")
    assert positions(ran) == [1, 2, 3, 4, 7]
    assert run("tail", store, "--limit", 0, "--json").out == ""


def test_text_is_cut_with_a_word_on_how_to_go_on(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(1_234)])
    ran = run("tail", path, "--since", "beginning")
    assert len(ran.out.splitlines()) == 100
    assert "--since 101" in ran.err
    assert len(run("tail", path, "--since", 1, "--json").rows) == 1_234
    assert len(run("tail", path, "--since", 1, "--limit", 700).out.splitlines()) == 700


def test_without_a_place_the_last_ten_are_shown(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(1_234)])
    ran = run("tail", path, "--json")
    assert (positions(ran), ran.err) == (list(range(1_225, 1_235)), "")
    assert positions(run("tail", path, "--json", "-n", 3)) == [1_232, 1_233, 1_234]
    assert run("tail", path, "--last", 0).out == ""


def test_the_last_are_those_of_the_type_and_topic_however_far_back(
    run: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Refund(n) for n in range(3)], topic="/shop/back")
        bus.publish_many([Sale(n) for n in range(1_500)])
    assert positions(run("tail", path, "--json", "--type", "Refund", "-n", 2)) == [2, 3]
    assert positions(run("tail", path, "--json", "--topic", "/shop/*", "-n", 9)) == [1, 2, 3]


def test_it_follows_what_is_published(store: Path) -> None:
    words = ["tail", str(store), "--since", "10", "--follow", "--json"]
    shown = subprocess.Popen(
        [sys.executable, "-m", "polycast", *words], stdout=subprocess.PIPE, text=True
    )
    lines: queue.Queue[str] = queue.Queue()
    assert shown.stdout is not None
    reader = threading.Thread(target=lambda: [lines.put(line) for line in shown.stdout or ()])
    reader.start()
    try:
        assert json.loads(lines.get(timeout=60))["position"] == 10
        with pc.Bus(url(store)) as bus:
            for number in range(3):
                bus.publish(Sale(number))
                assert json.loads(lines.get(timeout=60))["event"]["number"] == number
    finally:
        os.kill(shown.pid, signal.SIGINT)
        status = shown.wait(60)
        reader.join(60)
        shown.stdout.close()
    assert status == 130
