"""The command line itself: help, versions, errors, completion, words."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polycast.cli import main
from polycast.cli.command_line import parser
from polycast.cli.completion import SHELLS, script_for
from polycast.cli.formatting import TextTable, ago, clip, count, duration, moment, size

Words = tuple[str, ...]


def names_of(top: argparse.ArgumentParser, *words: str) -> Iterator[tuple[Words, set[str]]]:
    """Each command, with the words and options that may follow it."""
    names: set[str] = set()
    for action in top._actions:
        names.update(action.option_strings)
        if action.choices is not None:
            names.update(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from names_of(below, *words, name)
    yield words, names


COMMANDS = [words for words, _ in names_of(parser()) if words]
SINGLE = [words for words in COMMANDS if words not in [("dlq",), ("subs",)]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert "Example: polycast" in " ".join(capsys.readouterr().out.split())


def test_every_example_can_be_parsed() -> None:
    top = parser()
    for words in SINGLE:
        inner: Any = top
        for word in words:
            choices = next(a.choices for a in inner._actions if a.choices and word in a.choices)
            inner = choices[word]
        example = inner.epilog.partition("Example: polycast ")[2].split(" >> ")[0]
        given = shlex.split(example)
        if given[0] == "subs" and given[1] not in ("list", "cancel"):
            given.insert(1, "list")
        assert top.parse_args(given).run


@pytest.mark.parametrize("words", SINGLE, ids=" ".join)
def test_every_command_takes_json_and_has_errors_in_it(run: Any, words: tuple[str, ...]) -> None:
    ran = run(*words, "--json", "--nonsense")
    assert (ran.status, ran.err) == (2, "")
    assert ran.data["error"]["code"] == "usage"


@pytest.mark.parametrize("words", [[], ["dlq"], ["docter", "x"], ["doctor"], ["dlq", "show", "x"]])
def test_what_cannot_be_understood_is_a_usage_error(run: Any, words: list[str]) -> None:
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert "Usage: polycast" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["doctr", "x"], "'doctr' is no command; did you mean 'doctor'? Usage: polycast doctor ["),
        (["dlq", "lst", "x"], "did you mean 'list'? Usage: polycast dlq list ["),
        (["tail", "x", "--lst"], "--lst; did you mean --last? Usage: polycast tail ["),
        (["tail", "x", "--typ=Sale"], "did you mean --type? Usage: polycast tail ["),
        (["dlq", "list", "x", "--zzz"], "unrecognized arguments: --zzz. Usage: polycast dlq list"),
        (["completion", "bsh"], "'bsh' is no choice; did you mean 'bash'? Usage: polycast compl"),
    ],
)
def test_a_slip_of_the_pen_gets_the_nearest_word_and_the_usage_of_the_command(
    run: Any, words: list[str], said: str
) -> None:
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("words", "mistake", "at"),
    [
        (["tail", "--topic", "/a//b"], "/a//b", 3),
        (["tail", "--topic", "shop"], "shop", 0),
        (["tail", "--topic", "/a/b*"], "/a/b*", 3),
        (["replay", "Sale", "--where", "event.number > > 3"], "event.number > > 3", 15),
        (["replay", "Sale", "--where", "event.number + "], "event.number +", 14),
        (["replay", "Sale", "--where", '{"format": 1,'], '{"format": 1,', 13),
        (["pub", "Sale", '{"number": }'], '{"number": }', 11),
    ],
)
def test_a_caret_stands_under_the_mistake_in_a_text(
    run: Any, store: Path, words: list[str], mistake: str, at: int
) -> None:
    ran = run(words[0], store, *words[1:])
    assert ran.status != 0
    assert ran.err.splitlines()[-2:] == [f"  {mistake}", f"  {' ' * at}^"]


def test_of_a_long_line_only_what_is_around_the_mistake_is_shown(run: Any, store: Path) -> None:
    ran = run("pub", store, "Sale", f'{{"number": 1, "note": "{"x" * 10_000}" 2}}')
    *_, line, caret = ran.err.splitlines()
    assert len(line) < 100
    assert line[caret.index("^")] == "2"


def test_errors_name_the_option_and_not_the_argument_of_python(
    run: Any, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "b.db").write_bytes(b"")
    ran = run("backup", store, tmp_path / "b.db")
    assert "or give --force to replace it" in ran.err
    assert "force=" not in ran.err
    ran = run("sub", store, "Sale", "--group", "a", "--durable", "")
    assert "durable=" not in ran.err
    assert "--durable ''" in ran.err
    ran = run("tail", "polycast://192.0.2.1:7788", "--token", "abc")
    assert "or say --allow-plain-token if" in ran.err


@pytest.mark.parametrize("number", ["-1", "x", "1.5"])
def test_a_number_is_a_whole_number(run: Any, store: Path, number: str) -> None:
    assert run("dlq", "list", store, "--limit", number).status == 2


def test_a_store_in_memory_or_elsewhere_is_refused(run: Any) -> None:
    for store in ("memory:", "kafka://host", "sqlite:events.db"):
        ran = run("doctor", store)
        assert ran.status == 1
        assert "sqlite:///" in ran.err


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_store_is_a_path_or_a_url(run: Any, store: Path, form: str) -> None:
    assert run("subs", form.format(store)).status == 0


def test_python_m_polycast_is_the_command(store: Path) -> None:
    words = [sys.executable, "-W", "error", "-m", "polycast"]
    version = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=60)
    assert version.stdout.startswith("polycast ")
    ran = subprocess.run([*words, "doctor", str(store), "--json"], capture_output=True, timeout=60)
    assert json.loads(ran.stdout)["log"]["events"] == 10
    assert (ran.returncode, ran.stderr) == (3, b"")


# -- completion ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_option(run: Any, shell: str) -> None:
    script = run("completion", shell).out
    assert run("completion", shell, "--json").data["script"].strip() == script.strip()
    for _, names in names_of(parser()):
        assert {name for name in names if name.lstrip("-") not in script} == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_can_read_its_script(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    (tmp_path / "script").write_text(script_for(shell, parser()))
    done = subprocess.run([program, "-n", str(tmp_path / "script")], timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["doc"], {"doctor"}),
        (["dlq", ""], {"list", "show", "replay", "purge"}),
        (["dlq", "list", "a.db", "--pa"], {"--payload"}),
        (["subs", "can"], {"cancel"}),
        (["su"], {"sub", "subs"}),
        (["sub", "a.db", "--du"], {"--durable"}),
        (["serve", "--ins"], {"--insecure"}),
        (["pub", "a.db", "Sale", "--json-"], {"--json-lines"}),
        (["completion", "f"], {"fish"}),
    ],
)
def test_bash_offers_what_may_come_next(
    typed: list[str], offered: set[str], tmp_path: Path
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    words = " ".join(f'"{word}"' for word in ["polycast", *typed])
    script = (
        f"{script_for('bash', parser())}\nCOMP_WORDS=({words})\nCOMP_CWORD={len(typed)}\n"
        '_shtab_polycast\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert offered <= set(done.stdout.split())
    if typed[-1]:
        assert set(done.stdout.split()) == offered


def test_bash_offers_files_for_a_place(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    (tmp_path / "events.db").touch()
    script = (
        f"{script_for('bash', parser())}\nCOMP_WORDS=(polycast doctor ev)\nCOMP_CWORD=2\n"
        '_shtab_polycast\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.stdout.split() == ["events.db"]


def test_without_the_extra_the_error_names_it(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    ran = run("completion", "bash")
    assert (ran.status, ran.out) == (1, "")
    assert "pip install 'polycast[cli]'" in ran.err


# -- words -----------------------------------------------------------------------------------------


def test_sizes_and_durations_are_in_words() -> None:
    assert [size(n) for n in (0, 999, 1_200, 45_600_000, 1.2e9, 3e12)] == [
        *("0 bytes", "999 bytes", "1.2 kB", "45.6 MB", "1.2 GB", "3 TB"),
    ]
    assert [duration(n) for n in (0, 0.0004, 1, 59, 60, 7_200, 86_400, 200_000)] == [
        *("0 s", "0.4 ms", "1 s", "59 s", "1 min", "2 h", "1 day", "2 days"),
    ]
    assert [ago(n, 1_000) for n in (None, 1_000, 800, 1_020)] == [
        *("-", "now", "3 min ago", "in 20 s"),
    ]
    assert (count(1, "event"), count(1_234, "event")) == ("1 event", "1,234 events")


def test_a_size_that_is_nearly_the_next_is_not_in_powers_of_ten() -> None:
    assert [size(n) for n in (999_600, 999_999_999)] == ["1 MB", "1 GB"]
    assert [duration(n) for n in (0.1234, 0.9994, 0.9999)] == ["123 ms", "999 ms", "1 s"]


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert (moment(None), moment(1e300)) == ("-", "1e+300")


def test_long_and_wild_text_is_clipped() -> None:
    assert clip("a" * 100) == "a" * 57 + "..."
    assert clip("a\tb\x00") == "a\\tb\\x00"


def test_numbers_are_to_the_right() -> None:
    assert TextTable(("name", "n"), [("a", 5), ("bcdef", 1_000)]).lines() == [
        *("name       n", "a          5", "bcdef  1,000"),
    ]
