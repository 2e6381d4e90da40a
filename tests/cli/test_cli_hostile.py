"""What came from outside never moves a terminal: every command, over a store full of such text."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.cli import main
from polycast.cli.command_line import parser
from test_text import HOSTILE, obeyed

WILD = f"w{HOSTILE}"


@pc.event(name=f"shop.{HOSTILE}")
@dataclass
class Wild:
    text: str


@pc.event(name="shop.Tame")
@dataclass
class Tame:
    text: str


def refuse(event: Any) -> None:
    raise ValueError(HOSTILE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which all that has a name has a hostile one."""
    path = tmp_path_factory.mktemp(f"in{HOSTILE}".replace("\n", " ")) / "events.db"
    with pc.Bus(f"sqlite:///{path}", publisher=WILD) as bus:
        bus.subscribe(Wild, refuse, durable=WILD, attempts=1)
        bus.subscribe(
            Tame, refuse, durable="tame", group=WILD, attempts=1, where=lambda e: e.text != "\x1b"
        )
        bus.publish(Wild(HOSTILE), topic=f"/{WILD}")
        bus.publish(Tame(HOSTILE), headers={WILD: WILD})
        bus.flush(30)
    return path


@pytest.fixture(scope="module")
def broker(store: Path) -> Iterator[str]:
    with Serving(Broker(f"sqlite:///{store}")) as serving:
        yield serving.url


# For each command: what it does well over {at}, and what it refuses. Both are full of such text.
COMMANDS: dict[tuple[str, ...], list[list[str]]] = {
    ("pub",): [["{at}", "shop.Tame", '{"text": "{wild}"}'], ["{at}", "{wild}", "{wild}"]],
    ("sub",): [["{at}", "shop.Tame", "--since", "beginning", "--limit", "1"], ["{at}", "{wild}"]],
    ("tail",): [["{at}"], ["{at}", "--topic", "/{wild}"], ["{at}", "--since", "{wild}"]],
    ("types",): [["{at}"], ["{at}", "shop.{hostile}"], ["{at}", "{wild}"]],
    ("subs", "list"): [["{at}"], ["{wild}"]],
    ("subs", "cancel"): [["{at}", "{wild}?", "--yes"], ["{at}", "{wild}"]],
    ("explain",): [["{at}", "{wild}"], ["{at}", "tame", "1"], ["{at}", "{wild}?"]],
    ("dlq", "list"): [["{at}"], ["{at}", "--subscription", "{wild}?"]],
    ("dlq", "show"): [["{at}", "{letter}"], ["{at}", "{wild}"]],
    ("dlq", "replay"): [["{at}", "{letter}"], ["{at}", "{wild}"]],
    ("dlq", "purge"): [["{at}", "{letter}"], ["{at}", "--all", "--subscription", "{wild}"]],
    ("replay",): [
        ["{at}", "shop.Tame"],
        ["{at}", "{wild}"],
        ["{at}", "shop.Tame", "--to", "{wild}"],
    ],
    ("doctor",): [["{at}", "--no-sync-test"], ["{wild}"]],
    ("backup",): [["{at}", "{folder}/{name}.db"], ["{wild}", "{wild}"]],
    ("restore",): [["{wild}", "{folder}/{wild}"]],
    ("serve",): [["--store", "{at}", "--listen", "{wild}"], ["--tokens", "{wild}"]],
    ("bench",): [["{folder}/{name}/{wild}", "--events", "1"]],
    ("token", "new"): [["{name}"], ["{wild}"], ["--name", "{wild}"]],
    ("token", "check"): [["{wild}"], ["{folder}/tokens.toml"]],
    ("pipeline", "run"): [["{wild}"]],
    ("pipeline", "status"): [["{at}"], ["{wild}"]],
    ("context", "check"): [["{wild}"], ["{wild}.xml"], ["{folder}/wild.xml"]],
    ("context", "show"): [["{wild}", "{wild}"]],
    ("context", "compare"): [["{at}", "{wild}", "{wild}"]],
    ("completion",): [["{wild}"]],
}
XML = '<context name="a&#x9b;31m&#x202e;"><types>&#x9b;31m</types></context>'
TOKENS = '[[token]]\nname = "\\u001b[2J\\u202e"\n"\\u009b" = 1\n'


def commands(of: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Every command that there is."""
    families = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    if not families:
        yield words
    for family in families:
        for name, inner in family.choices.items():
            yield from commands(inner, *words, name)


def test_every_command_is_among_them() -> None:
    assert set(commands(parser())) == set(COMMANDS)


class Screen(io.StringIO):
    """A terminal with nobody who types."""

    def isatty(self) -> bool:
        return True


def filled(words: list[str], at: str, folder: Path, letter: str) -> list[str]:
    """The words of a command, with what they stand for."""
    kept = {
        "{at}": at,
        "{folder}": str(folder),
        "{letter}": letter,
        "{wild}": WILD,
        "{hostile}": HOSTILE,
        "{name}": "\x9b31m\u202e",
    }
    for name, text in kept.items():
        words = [word.replace(name, text) for word in words]
    return words


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_terminal_is_never_moved(
    run: Any, store: Path, broker: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "wild.xml").write_text(XML, encoding="utf-8")
    (tmp_path / "tokens.toml").write_text(TOKENS, encoding="utf-8")
    number = str(run("dlq", "list", store, "--json").data["letters"][0]["number"])
    places = [str(store), broker] if "{at}" in str(COMMANDS[command]) else [""]
    for at, words, how in product(places, COMMANDS[command], ([], ["--json"])):
        ran = run(*command, *filled(words, at, tmp_path, number), *how)
        said = ran.out + ran.err
        assert said
        assert set(obeyed(said)) <= {"\n"}, words
        assert not any(line.startswith("FORGED") for line in said.splitlines()), words


@pytest.mark.parametrize("words", [["subs"], ["types"], ["dlq", "list"], ["doctor"], ["tail"]])
def test_a_drawing_at_a_terminal_has_only_our_styles(
    store: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("COLUMNS", "400")
    seen = Screen()
    with contextlib.redirect_stdout(seen):
        assert main([*words, str(store)]) in (0, 3)
    drawn = re.sub(r"\x1b\[(0|1|33|1;31|32)m", "", seen.getvalue())
    assert set(obeyed(drawn)) <= {"\n"}
    assert not any(line.lstrip().startswith("FORGED") for line in drawn.splitlines())


def test_a_question_at_a_terminal_is_plain(
    store: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Screen()
    monkeypatch.setattr("sys.stdin", Screen("n\n"))
    with contextlib.redirect_stderr(asked):
        run("subs", "cancel", store, WILD)
    assert "Go on? [y/N]" in asked.getvalue()
    assert obeyed(asked.getvalue()) == []
