"""`polycast dlq`: dead letters are listed, shown, replayed and purged."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from shop_events import Later, Refund, Sale, refuse, url

import polycast as pc


class Keyboard(io.StringIO):
    """A terminal with somebody who types."""

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: str) -> Keyboard:
    """Somebody sits there and types; what they are asked."""
    asked = Keyboard()
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    monkeypatch.setattr("sys.stderr", asked)
    return asked


def numbers(run: Any, store: Path) -> list[int]:
    """Of the dead letters that are there."""
    listed = run("dlq", "list", store, "--json").data
    return [each["number"] for each in listed["letters"]]


def received(store: Path) -> list[int]:
    """What the subscription handles when it is attached again."""
    seen: list[int] = []
    with pc.Bus(url(store)) as bus:
        bus.subscribe(Refund, lambda event: seen.append(event.number), durable="refunds")
        bus.flush(30)
    return seen


# -- looking ---------------------------------------------------------------------------------------


def test_letters_are_listed_with_why_and_when(run: Any, store: Path) -> None:
    data = run("dlq", "list", store, "--json").data
    assert data["total"] == 2
    letter = data["letters"][0]
    assert letter.pop("time") > 0
    assert letter.pop("number") > 0
    assert letter == {
        "subscription": "refunds",
        "class": "shop_events.Refund",
        "version": 1,
        "position": 5,
        "attempts": 1,
        "reason": "ValueError: no customer for 0",
    }


def test_the_list_in_words_says_how_long_ago(run: Any, store: Path) -> None:
    out = run("dlq", "list", store, clock=Later(7_300)).out
    assert "2 h ago  ValueError: no customer for 0" in out


def test_the_list_has_the_events_if_asked(run: Any, store: Path) -> None:
    assert '{"number":1}' in run("dlq", "list", store, "--payload").out
    data = run("dlq", "list", store, "--payload", "--json").data
    assert [each["event"] for each in data["letters"]] == [{"number": 0}, {"number": 1}]


def test_the_list_can_be_cut(run: Any, store: Path) -> None:
    ran = run("dlq", "list", store, "--limit", 1)
    assert "1 of 2; --limit shows more" in ran.out
    assert "no customer for 1" not in ran.out


def test_the_list_can_be_of_one_subscription(run: Any, store: Path) -> None:
    assert run("dlq", "list", store, "--subscription", "refunds", "--json").data["total"] == 2
    assert run("dlq", "list", store, "--subscription", "billing").out == "no dead letters\n"


def test_one_letter_is_shown_whole(run: Any, store: Path) -> None:
    number = numbers(run, store)[1]
    data = run("dlq", "show", store, number, "--json").data
    assert (data["event"], data["identity"]) == ({"number": 1}, ["till-7", 1, 6])
    assert '{"number":1}' in run("dlq", "show", store, number).out


def test_a_letter_that_is_not_there_is_an_error(run: Any, store: Path) -> None:
    ran = run("dlq", "show", store, 999)
    assert ran.status == 1
    assert "there is no such dead letter" in ran.err


def test_what_a_terminal_would_obey_is_shown_as_text(run: Any, tmp_path: Path) -> None:
    def refuse_rudely(event: object) -> None:
        raise ValueError("\x1b[2J\nnumber 7")

    with pc.Bus(url(tmp_path / "a.db")) as bus:
        bus.subscribe(Refund, refuse_rudely, durable="refunds", attempts=1)
        bus.publish(Refund(1))
        bus.flush(30)
    out = run("dlq", "list", tmp_path / "a.db").out
    assert "\\x1b[2J\\nnumber 7" in out


# -- replaying -------------------------------------------------------------------------------------


def test_replayed_letters_come_when_somebody_attaches(run: Any, store: Path) -> None:
    ran = run("dlq", "replay", store, "--all", "--yes")
    assert (ran.status, ran.out) == (0, "2 dead letters replayed\n")
    assert numbers(run, store) == []
    assert received(store) == [0, 1]


def test_only_the_numbers_that_are_given_are_replayed(run: Any, store: Path) -> None:
    first, second = numbers(run, store)
    data = run("dlq", "replay", store, second, "--yes", "--json").data
    assert data == {"replayed": [second], "staying": []}
    assert numbers(run, store) == [first]
    assert received(store) == [1]


def test_replayed_letters_come_to_who_is_attached(run: Any, tmp_path: Path) -> None:
    path, healed, seen = tmp_path / "a.db", [], []

    def work(event: Refund) -> None:
        if not healed:
            refuse(event)
        seen.append(event.number)

    with pc.Bus(url(path)) as bus:
        bus.subscribe(Refund, work, durable="refunds", attempts=1)
        bus.publish_many([Refund(0), Refund(1)])
        bus.flush(30)
        healed.append(True)
        assert run("dlq", "replay", path, "--subscription", "refunds", "--yes").status == 0
        deadline = Later(30).time()
        while len(seen) < 2 and Later(0).time() < deadline:
            bus.flush(30)
    assert seen == [0, 1]


def test_what_cannot_be_replayed_stays_with_the_reason(run: Any, store: Path) -> None:
    assert run("subs", "cancel", store, "refunds", "--yes").status == 0
    data = run("dlq", "replay", store, "--all", "--yes", "--json").data
    assert data["replayed"] == []
    assert "does not keep a subscription 'refunds'" in data["staying"][0]["why"]
    assert len(numbers(run, store)) == 2


def test_an_event_that_is_not_in_the_log_any_more_stays(run: Any, store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM log WHERE position < 6")
        connection.commit()
    data = run("dlq", "replay", store, "--all", "--yes", "--json").data
    assert len(data["replayed"]) == 1
    assert "position 5 is not in the log any more" in data["staying"][0]["why"]


# -- purging ---------------------------------------------------------------------------------------


def test_purged_letters_are_gone(run: Any, store: Path) -> None:
    ran = run("dlq", "purge", store, "--subscription", "refunds", "--yes")
    assert (ran.status, ran.out) == (0, "2 dead letters purged\n")
    assert numbers(run, store) == []
    assert received(store) == []


def test_letters_of_many_pages_go(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, refuse, durable="sales", attempts=1)
        bus.publish_many([Sale(n) for n in range(1_200)])
        bus.flush(60)
    assert len(run("dlq", "purge", path, "--all", "--yes", "--json").data["purged"]) == 1_200


# -- asking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["replay", "purge"])
def test_without_a_terminal_nothing_is_done_unasked(run: Any, store: Path, action: str) -> None:
    ran = run("dlq", action, store, "--all", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (2, "usage")
    assert "2 dead letters would" in ran.data["error"]["message"]
    assert len(numbers(run, store)) == 2


@pytest.mark.parametrize("action", ["replay", "purge"])
@pytest.mark.parametrize(("typed", "left"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("", 2)])
def test_at_a_terminal_it_is_asked(
    run: Any, store: Path, monkeypatch: pytest.MonkeyPatch, action: str, typed: str, left: int
) -> None:
    with monkeypatch.context() as patch:
        asked = at_a_terminal(patch, typed)
        assert run("dlq", action, store, "--all").status == 0
    assert "2 dead letters would" in asked.getvalue()
    assert "Go on? [y/N]" in asked.getvalue()
    assert len(numbers(run, store)) == left


@pytest.mark.parametrize("words", [[], ["--all", "--subscription", "x"], ["3", "--all"]])
def test_which_letters_is_said_in_one_way(run: Any, store: Path, words: list[str]) -> None:
    ran = run("dlq", "purge", store, *words, "--yes")
    assert ran.status == 2
    assert "say which dead letters" in ran.err
    assert len(numbers(run, store)) == 2


def test_one_wrong_number_and_nothing_is_done(run: Any, store: Path) -> None:
    assert run("dlq", "purge", store, numbers(run, store)[0], 999, "--yes").status == 1
    assert len(numbers(run, store)) == 2


def test_with_nothing_to_do_nobody_is_asked(run: Any, store: Path) -> None:
    ran = run("dlq", "purge", store, "--subscription", "billing")
    assert (ran.status, ran.out) == (0, "0 dead letters purged\n")
