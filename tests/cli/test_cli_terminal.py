"""What a command prints on a terminal: tables, colours, pages; and nothing of it elsewhere."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from shop_events import Sale, url

import polycast as pc
from polycast.cli import main

BOLD, YELLOW = "\x1b[1m", "\x1b[33m"
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Screen(io.StringIO):
    """Somebody looks at it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of a usual terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PAGER", "LESS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "50")
    return monkeypatch


def shown(*words: object) -> str:
    """What a terminal shows after a command."""
    out = Screen()
    with contextlib.redirect_stdout(out):
        main([str(word) for word in words])
    return out.getvalue()


def pager_into(path: Path, *, lines: str = "") -> str:
    """A pager that keeps what it is given, or only so many lines, and then leaves."""
    what = f"''.join(next(sys.stdin) for _ in range({lines}))" if lines else "sys.stdin.read()"
    script = f"import sys, pathlib; pathlib.Path({str(path)!r}).write_text({what})"
    return shlex.join([sys.executable, "-c", script])


# -- tables and colours ----------------------------------------------------------------------------


def test_a_table_has_a_head_that_stands_out(store: Path, screen: pytest.MonkeyPatch) -> None:
    out = shown("subs", store)
    assert BOLD in out
    assert STYLE.sub("", out).splitlines()[1].split()[:3] == [
        *("billing", "shop_events.Sale", "sorted_set"),
    ]


def test_a_table_is_the_same_in_words_as_elsewhere(
    run: Any, store: Path, screen: pytest.MonkeyPatch
) -> None:
    assert STYLE.sub("", shown("subs", store)).split() == run("subs", store).out.split()


def test_a_warning_has_a_colour_unless_nobody_wants_any(
    store: Path, screen: pytest.MonkeyPatch
) -> None:
    assert f"{YELLOW}- warning: " in shown("doctor", store, "--no-sync-test")
    screen.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown("doctor", store, "--no-sync-test")


def test_json_has_no_colours(run: Any, store: Path, screen: pytest.MonkeyPatch) -> None:
    for words in (["subs", store], ["types", store], ["dlq", "list", store]):
        assert shown(*words, "--json") == run(*words, "--json").out


def test_nothing_is_drawn_where_nobody_looks(run: Any, store: Path) -> None:
    assert "\x1b" not in run("doctor", store, "--no-sync-test").out


def test_without_rich_the_table_is_plain(run: Any, store: Path, screen: pytest.MonkeyPatch) -> None:
    for name in ("rich", "rich.console"):
        screen.setitem(sys.modules, name, None)
    assert shown("subs", store) == run("subs", store).out


def test_a_table_is_as_wide_as_the_terminal(store: Path, screen: pytest.MonkeyPatch) -> None:
    screen.setenv("COLUMNS", "88")
    out = STYLE.sub("", shown("subs", store))
    assert max(map(len, out.splitlines())) <= 88
    kinds = "".join(row[9:25].rstrip() for row in out.splitlines()[1:])
    assert kinds == "shop_events.Saleshop_events.Refund"


def test_where_no_table_fits_each_row_is_a_line(
    run: Any, store: Path, screen: pytest.MonkeyPatch
) -> None:
    screen.setenv("COLUMNS", "40")
    assert shown("subs", store) == run("subs", store).out


# -- pages -----------------------------------------------------------------------------------------


@pytest.fixture
def long_store(tmp_path: Path) -> Path:
    """A store with more events than a screen has lines."""
    path = tmp_path / "long.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(200)])
    return path


def test_what_is_longer_than_the_screen_goes_through_the_pager(
    run: Any, long_store: Path, screen: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    screen.setenv("PAGER", pager_into(tmp_path / "paged"))
    words = ["tail", long_store, "-n", 100]
    assert shown(*words) == ""
    assert (tmp_path / "paged").read_text() == run(*words).out


@pytest.mark.parametrize(
    "words", [["types"], ["subs"], ["dlq", "list"]], ids=lambda words: " ".join(words)
)
def test_every_list_is_paged(
    store: Path, screen: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    screen.setenv("LINES", "3")
    screen.setenv("PAGER", pager_into(tmp_path / "paged"))
    assert shown(*words, store) == ""
    assert len((tmp_path / "paged").read_text().splitlines()) >= 3


def test_what_fits_on_the_screen_is_not_paged(
    store: Path, screen: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    screen.setenv("PAGER", pager_into(tmp_path / "paged"))
    assert len(shown("tail", store).splitlines()) == 10
    assert not (tmp_path / "paged").exists()


@pytest.mark.parametrize("pager", ["", "cat", "no-such-program-is-here", "'"])
def test_without_a_pager_all_is_printed(
    long_store: Path, screen: pytest.MonkeyPatch, pager: str
) -> None:
    screen.setenv("PAGER", pager)
    assert len(shown("tail", long_store, "-n", 100).splitlines()) == 100


def test_leaving_the_pager_is_no_error(
    long_store: Path, screen: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    screen.setenv("PAGER", pager_into(tmp_path / "paged", lines="2"))
    with contextlib.redirect_stdout(Screen()):
        status = main(["tail", str(long_store), "--since", "1", "--limit", "200"])
    assert status == 0
    assert len((tmp_path / "paged").read_text().splitlines()) == 2


def test_json_is_not_paged(long_store: Path, screen: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen.setenv("PAGER", pager_into(tmp_path / "paged"))
    rows = shown("tail", long_store, "-n", 100, "--json").splitlines()
    assert [json.loads(row)["position"] for row in rows] == list(range(101, 201))
