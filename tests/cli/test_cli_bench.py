"""`polycast bench`: a quick measurement that leaves nobody subscribed."""

from __future__ import annotations

from typing import Any


def test_it_measures_both_rounds_and_leaves_no_subscription(run: Any, place: str) -> None:
    words = ["--events", 250, "--size", 20, "--subscribers", 2]
    data = run("bench", place, *words, "--json").data
    assert (data["events"], data["size"], data["subscribers"]) == (250, 20, 2)
    many, single = data["rounds"].values()
    assert (many["events"], many["delivered"]) == (250, 500)
    assert (single["events"], single["delivered"]) == (200, 400)
    for each in (many, single):
        assert each["published_per_second"] > 0
        assert each["delivered_per_second"] > 0
        assert 0 < each["latency"]["p50"] <= each["latency"]["p99"] <= each["latency"]["max"]
    names = [each["name"] for each in run("subs", place, "--json").data["subscriptions"]]
    assert sorted(names) == ["billing", "refunds"]


def test_its_events_have_a_type_a_topic_and_an_end_of_their_own(run: Any, store: Any) -> None:
    run("bench", store, "--events", 5, "--json")
    (last,) = run("tail", store, "-n", 1, "--json").rows
    assert last["class"] == "polycast.BenchProbe"
    assert last["topic"].startswith("/polycast/bench/")
    assert last["expires"] > last["time"]


def test_the_table_has_a_row_for_each_round(run: Any, store: Any) -> None:
    ran = run("bench", store, "--events", 5)
    assert ran.status == 0
    assert "5 events of 100 bytes, 1 subscriber" in ran.out
    assert [line.split("  ")[0] for line in ran.out.splitlines()[2:]] == [
        *("round", "batches of 100", "one by one"),
    ]


def test_it_says_what_it_leaves(run: Any, store: Any) -> None:
    assert "10 events of this stay in the log" in run("bench", store, "--events", 5).err
    said = run("bench", store, "--events", 5, "--json")
    assert (said.data["left"], said.err) == (10, "")


def test_nothing_cannot_be_measured(run: Any, store: Any) -> None:
    assert run("bench", store, "--events", 0).status == 2
