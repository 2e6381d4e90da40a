"""What every list takes: a filter and a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polycast.broker.wire.protocol import Limits
from polycast.cli import main
from polycast.delivery.replay import MOST


def types(ran: Any) -> list[str]:
    return [kind["name"].removeprefix("shop_events.") for kind in ran.data["types"]]


def test_types_are_filtered_by_what_is_listed_of_them(run: Any, place: str) -> None:
    assert types(run("types", place, "--where", "'BigSale' in event.name", "--json")) == ["BigSale"]
    where = ["--where", "'shop_events.Sale' in event.supertypes"]
    assert types(run("types", place, *where, "--json")) == ["BigSale"]
    assert types(run("types", place, "--count", "--where", "event.events > 1", "--json")) == [
        *("Refund", "Sale"),
    ]
    assert types(run("types", place, "--limit", 2, "--json")) == ["BigSale", "Refund"]
    assert run("types", place, "--where", "event.version > 1").out == "no type is meant\n"


def test_subscriptions_are_filtered_by_what_is_listed_of_them(run: Any, place: str) -> None:
    ran = run("subs", place, "--where", "event.lag > 1 and event.level == 'sorted_set'", "--json")
    assert [row["name"] for row in ran.data["subscriptions"]] == ["billing"]
    ran = run("subs", place, "--limit", 1, "--where", "not event.attached", "--json")
    assert [row["name"] for row in ran.data["subscriptions"]] == ["billing"]
    assert run("subs", place, "--where", "event.lag > 99").out == "no subscription is meant\n"


def test_dead_letters_are_filtered_by_their_events(run: Any, place: str) -> None:
    data = run("dlq", "list", place, "--where", "event.number == 1", "--json").data
    assert (data["total"], [letter["position"] for letter in data["letters"]]) == (1, [6])
    ran = run("dlq", "list", place, "--where", "event.number >= 0", "--limit", 1)
    assert ran.out.splitlines()[-1] == "... 1 of 2; --limit shows more"
    assert run("dlq", "list", place, "--where", "event.note == ''").out == "no dead letters\n"


def test_events_are_filtered_whatever_their_type(run: Any, place: str) -> None:
    ran = run("tail", place, "--where", "event.number == 0 or event.customer == 'Ann'", "--json")
    assert [row["position"] for row in ran.rows] == [1, 5, 8]
    ran = run("tail", place, "--where", "event.number > 1", "-n", 2, "--json")
    assert [row["position"] for row in ran.rows] == [9, 10]
    words = ["--since", 1, "--limit", 2, "--type", "Sale", "--json"]
    ran = run("tail", place, "--where", "event.number > 2", *words)
    assert [row["position"] for row in ran.rows] == [4, 7]


@pytest.mark.parametrize(
    ("words", "attribute", "near"),
    [
        (["types"], "nam", "name"),
        (["subs"], "lagg", "lag"),
        (["tail", "--type", "Sale"], "numbr", "number"),
    ],
)
def test_an_attribute_that_is_not_there_is_an_error_with_the_nearest(
    run: Any, store: Path, words: list[str], attribute: str, near: str
) -> None:
    ran = run(words[0], store, *words[1:], "--where", f"event.{attribute} == 1")
    assert ran.status == 1
    assert f"has no attribute `{attribute}`; did you mean `{near}`?" in ran.err


@pytest.mark.parametrize("words", [["types"], ["subs"], ["dlq", "list"], ["tail"]], ids=" ".join)
def test_a_filter_that_is_none_shows_where(run: Any, store: Path, words: list[str]) -> None:
    ran = run(*words, store, "--where", "event.number > > 3")
    assert ran.status != 0
    assert ran.err.splitlines()[-1] == f"  {' ' * 15}^"


def test_what_help_says_of_defaults_is_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    limits = Limits()
    for command, said in (
        ("serve", f"bytes in one frame ({limits.frame:,})"),
        ("serve", f"subscriptions of one connection ({limits.subscriptions:,})"),
        ("serve", f"after which the broker pings a client ({limits.heartbeat:g})"),
        ("replay", f"At most {MOST:,} events go to a subscription at a time"),
    ):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert said in " ".join(capsys.readouterr().out.split())
