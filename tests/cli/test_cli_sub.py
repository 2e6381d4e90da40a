"""`polycast sub`: what a subscriber gets, printed as it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def positions(ran: Any) -> list[int]:
    """Of the events that were printed."""
    assert ran.status == 0, ran.out + ran.err
    return [row["position"] for row in ran.rows]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Sale"], [1, 2, 3]),
        (["shop_events.BigSale"], [8]),
        (["/shop/back"], [7, 8, 9]),
        (["Sale", "--topic", "/shop/back"], [7, 8, 9]),
        (["Sale", "--topic", "/shop/back", "--exact"], [7, 9]),
        ([], [1, 2, 3, 4, 5]),
        (["Sale", "--where", "event.number > 5"], [9, 10]),
        (["Sale", "--where", '{"format": 1, "filter": "event.number > 5"}'], [9, 10]),
    ],
)
def test_it_prints_what_is_subscribed_to(
    run: Any, place: str, words: list[str], expected: list[int]
) -> None:
    ran = run("sub", place, *words, "--since", "beginning", "--count", len(expected), "--json")
    assert positions(ran) == expected


def test_an_event_is_printed_whole(run: Any, place: str) -> None:
    (row,) = run("sub", place, "BigSale", "--since", 1, "--count", 1, "--json").rows
    assert row.pop("time") > 0
    assert row == {
        "position": 8,
        "class": "shop_events.BigSale",
        "version": 1,
        "identity": ["till-7", 1, 8],
        "topic": "/shop/back",
        "headers": {},
        "attempt": 1,
        "event": {"number": 5, "note": "", "customer": "Ann"},
    }
    line = run("sub", place, "BigSale", "--since", 1, "--count", 1).out
    assert 'shop_events.BigSale  /shop/back  {"number":5,"note":"","customer":"Ann"}' in line


def test_a_durable_one_goes_on_where_it_was(run: Any, place: str) -> None:
    words = ["sub", place, "Sale", "--durable", "desk", "--json", "--count"]
    assert positions(run(*words, 2, "--since", "beginning")) == [1, 2]
    assert positions(run(*words, 3)) == [3, 4, 7]
    (desk,) = [e for e in run("subs", place, "--json").data["subscriptions"] if e["name"] == "desk"]
    assert (desk["cursor"], desk["buses"], desk["in_flight"]) == (8, [], 0)


def test_a_durable_one_that_wants_something_else_is_an_error(run: Any, place: str) -> None:
    ran = run("sub", place, "Refund", "--durable", "billing", "--count", 1, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "durable-changed")


def test_a_group_goes_on_where_its_members_were(run: Any, place: str) -> None:
    words = ["sub", place, "Sale", "--durable", "d", "--group", "g", "--json", "--count"]
    first = positions(run(*words, 3, "--since", "beginning"))
    second = positions(run(*words, 5))
    assert sorted([*first, *second]) == [1, 2, 3, 4, 7, 8, 9, 10]


def test_a_filter_that_is_no_filter_is_refused(run: Any, store: Path) -> None:
    ran = run("sub", store, "Sale", "--where", "__import__('os').getcwd()", "--json")
    assert ran.status == 1
    assert "error" in ran.data
    mistaken = run("sub", store, "Sale", "--where", "event.nmber > 3", "--json")
    assert mistaken.data["error"]["code"] == "filter-mistake"


def test_an_unknown_type_is_an_error_with_the_nearest(run: Any, place: str) -> None:
    ran = run("sub", place, "Sail", "--json")
    assert "did you mean 'Sale'?" in ran.data["error"]["message"]


def test_a_process_without_the_classes_gets_subtypes_until_it_is_interrupted(
    run: Any, place: str
) -> None:
    words = [sys.executable, "-W", "error", "-m", "polycast", "sub", place, "Sale", "--json"]
    with subprocess.Popen(
        [*words, "--since", "9"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        lines = [json.loads(shown.stdout.readline()) for _ in range(2)]
        assert run("pub", place, "BigSale", '{"number": 7, "customer": "Bo"}').status == 0
        lines.append(json.loads(shown.stdout.readline()))
        os.kill(shown.pid, signal.SIGINT)
        assert (shown.wait(60), shown.stderr.read()) == (0, "")
    assert [line["position"] for line in lines] == [9, 10, 11]
    assert lines[2]["event"] == {"number": 7, "note": "", "customer": "Bo"}
