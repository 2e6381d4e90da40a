"""Where the source of a function is found, and that a wrong one is never believed."""

from __future__ import annotations

import gc
import importlib.util
import linecache
import subprocess
import sys
import textwrap
import threading
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

import polycast as pc
from polycast.filters.lifting import function_source
from polycast.filters.lifting.function import lift_function


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(text: str, filename: str, **names: Any) -> Any:
    """What a source calls `made`; the source itself is not kept."""
    space: dict[str, Any] = dict(names)
    exec(compile(text, filename, "exec"), space)
    return space["made"]


def is_opaque(function: Any) -> bool:
    return bool(pc.lift(function).opaque_parts())


# -- files ---------------------------------------------------------------------------------------

LAMBDA = "x = 'é'; made = lambda t: t.name == 'é' and t.n > 1\n"
DEF = "class C:\n\tdef made(self, t):\n\t\treturn (t.name ==\n\t\t\t'é')\nmade = C().made\n"
BOTH = "(event.name == 'é') and (event.n > 1)"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LAMBDA.encode(), BOTH),
        (b"\xef\xbb\xbf" + LAMBDA.encode(), BOTH),
        (LAMBDA.replace("\n", "\r\n").encode(), BOTH),
        (("# 1\n# 2\n" + LAMBDA).replace("\n", "\r").encode(), BOTH),
        (("# -*- coding: latin-1 -*-\n" + LAMBDA).encode("latin-1"), BOTH),
        (("# coding: cp1252\r\n" + LAMBDA).encode("cp1252"), BOTH),
        (("\f\n\f" + LAMBDA + "\f\n").encode(), BOTH),
        ((LAMBDA + "y = '''\f\x0b\x1c\u2028'''\n").encode(), BOTH),
        (("y = '''\f\x0b\x1c\u2028'''\n" + LAMBDA).encode(), BOTH),
        (("from __future__ import annotations\n" + LAMBDA).encode(), BOTH),
        (LAMBDA.rstrip("\n").encode(), BOTH),
        (DEF.encode(), "event.name == 'é'"),
        (DEF.replace("\t", "        ").replace("\n", "\r\n").encode(), "event.name == 'é'"),
    ],
)
def test_a_file_of_any_shape_is_read(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "shaped.py"
    path.write_bytes(content)
    assert str(pc.lift(load(path).made)) == expected


def test_a_module_in_an_archive_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("zipped_filters.py", LAMBDA)
    monkeypatch.syspath_prepend(tmp_path / "code.zip")
    module = importlib.import_module("zipped_filters")
    monkeypatch.delitem(sys.modules, "zipped_filters")
    assert str(pc.lift(module.made)) == BOTH


@pytest.mark.parametrize(
    "later",
    [
        "made = lambda t: t.a > 2\n",  # another constant
        "made = lambda t: t.b > 1\n",  # another name
        "made = lambda t: t.a > True\n",  # another type
        "made = lambda t: t.a >= 1\n",
        "made = lambda u: u.a > 1 or u\n",
        "\n\nmade = lambda t: t.b\n",
        "x = [lambda t: t.a > 2,\n",  # no longer a program
        "",
    ],
)
def test_a_file_that_changed_since_is_not_believed(tmp_path: Path, later: str) -> None:
    path = tmp_path / "changed.py"
    path.write_text("made = lambda t: t.a > 1\n")
    module = load(path)
    path.write_text(later)
    lifted = pc.lift(module.made)
    assert lifted.opaque_parts()
    assert lifted.matches(SimpleNamespace(a=2))


def test_a_place_that_still_says_the_same_may_be_believed(tmp_path: Path) -> None:
    path = tmp_path / "same.py"
    path.write_text("made = lambda t: t.a > 1\n")
    module = load(path)
    path.write_text("made = lambda u: t.a > 1.5\n")  # but where the function was, it says `> 1`
    assert str(pc.lift(module.made)) == "event.a > 1"


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "again.py"
    path.write_text("made = lambda t: t.a > 1\n")
    one = load(path).made
    assert str(pc.lift(one)) == "event.a > 1"
    path.write_text("\nmade = lambda t: t.a > 2222\n")
    two = load(path).made
    assert str(pc.lift(two)) == "event.a > 2222"
    assert str(pc.lift(one)) == "event.a > 1"  # it is known


@pytest.mark.parametrize("zero", ["0.0", "0j", "(0.0, 1)"])
def test_a_file_that_differs_in_the_sign_of_zero_is_not_believed(zero: str) -> None:
    wrong = f"made = lambda t: t.a == {zero.replace('0.0', '-0.0').replace('0j', '-0j')}\n"
    linecache.cache["<zero>"] = (len(wrong), None, [wrong], "<zero>")
    assert is_opaque(made(f"made = lambda t: t.a == {zero}\n", "<zero>"))


def test_a_file_that_is_not_there_is_no_mistake() -> None:
    assert is_opaque(made("made = lambda t: t.a", "no_such_file.py"))
    assert is_opaque(made("made = lambda t: t.a", ""))
    assert is_opaque(made("made = lambda t: t.a", "<string>"))


def test_a_loader_that_breaks_is_no_mistake() -> None:
    class Broken:
        def get_source(self, name: str) -> str:
            raise ZeroDivisionError

    names = {"__loader__": Broken(), "__name__": "broken"}
    assert is_opaque(made("made = lambda t: t.a", "nowhere/broken.py", **names))


def test_without_columns_the_file_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "columns.py"
    text = "a = 1\nmade = (lambda t: t.a), (lambda t: t.b > 1)\n\nmore = lambda t: t.c\n"
    path.write_text(text)
    script = (
        "import runpy, polycast as pc, sys\nspace = runpy.run_path(sys.argv[1])\n"
        "print(*map(pc.lift, (*space['made'], space['more'])), sep='; ')"
    )
    command = [sys.executable, "-X", "no_debug_ranges", "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "event.a; event.b > 1; event.c"


def test_a_place_that_cannot_be_cut_out_is_found_by_parsing() -> None:
    function = made(text := "made = [\n lambda t: (t.a and\n  (t.b\n))][0]\n", "<cut>")
    linecache.cache["<cut>"] = (len(text), None, text.splitlines(keepends=True), "<cut>")
    assert str(pc.lift(function)) == "event.a and event.b"


def test_functions_are_found_while_they_are_traced() -> None:
    function = made("made = lambda t: t.a > 1\n", "<traced>")
    linecache.cache["<traced>"] = (1, None, ["made = lambda t: t.a > 1\n"], "<traced>")
    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: None)
    try:
        for _ in range(100):
            function(SimpleNamespace(a=1))  # its instructions are specialised, or instrumented
        lifted = pc.lift(function)
    finally:
        sys.settrace(before)
    assert str(lifted) == "event.a > 1"


# -- the command line ------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [["-c"], ["-Ic"], ["-uc"], ["-O", "-W", "ignore", "-c"], ["-Bc"]])
def test_the_command_is_found_whatever_stands_before_it(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "made = lambda t: t.a > 1"
    monkeypatch.setattr(sys, "orig_argv", ["python", *flags, text, "-c", "other"])
    assert str(pc.lift(made(text, "<string>"))) == "event.a > 1"


def test_a_command_joined_to_its_option_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "made = lambda t: t.a > 1"
    monkeypatch.setattr(sys, "orig_argv", ["python", f"-c{text}"])
    assert str(pc.lift(made(text, "<string>"))) == "event.a > 1"


def test_the_option_of_a_script_is_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "script.py", "-c", "made = lambda t: t.b"])
    assert is_opaque(made("made = lambda t: t.a", "<string>"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c"])
    assert is_opaque(made("made = lambda t: t.a", "<string>"))


# -- notebooks and shells --------------------------------------------------------------------------


def test_the_cells_of_a_notebook_are_searched() -> None:
    cells = ["", "made = lambda t: t.b", "x = 3\n\nmade = lambda t: t.a > x\n", "def made(t):"]
    for name in ("<ipython-input-2-0123456789ab>", "ipykernel_12/345.py"):
        assert str(pc.lift(made(cells[2], name, _ih=cells))) == "event.a > 3"


def test_a_cell_with_something_else_is_not_believed() -> None:
    cells: list[Any] = ["", None, "made = lambda t: t.b", "made = ("]
    assert is_opaque(made("made = lambda t: t.a", "<ipython-input-1-0>", _ih=cells))
    assert is_opaque(made("made = lambda t: t.a", "<ipython-input-1-0>", _ih="no list"))


def test_what_the_shell_keeps_by_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "made = lambda t: t.a > 1\n"

    def kept(code: CodeType) -> list[str]:
        return [text]

    monkeypatch.setattr(linecache, "_getlines_from_code", kept, raising=False)
    assert str(pc.lift(made(text, "<python-input-0>"))) == "event.a > 1"


class History:
    """What `readline` tells."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def get_current_history_length(self) -> int:
        return len(self.lines)

    def get_history_item(self, number: int) -> str:
        return self.lines[number - 1]


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    kept = History()
    monkeypatch.setitem(sys.modules, "readline", kept)
    return kept


def test_the_history_of_a_shell_is_searched(history: History) -> None:
    text = "def made(t):\n    return (t.a >\n      1)"
    lines = ["made = lambda t: t.b", *text.split("\n"), "print(1", ")", "x = '"]
    history.lines = tuple(lines)
    assert str(pc.lift(made(text, "<stdin>"))) == "event.a > 1"
    assert str(pc.lift(made(lines[0], "<console>"))) == "event.b"


def test_a_history_with_something_else_is_not_believed(history: History) -> None:
    history.lines = ("made = lambda t: t.b", "made = lambda t: t.a > 2", "x")
    assert is_opaque(made("made = lambda t: t.a > 1", "<stdin>"))
    assert is_opaque(made("made = lambda t: t.b", "<string>"))  # was not typed


def test_a_long_history_is_not_searched_for_ever(history: History) -> None:
    history.lines = ("made = lambda t: t.a > 1", *["x = 1"] * 10_000)
    assert is_opaque(made("made = lambda t: t.a > 1", "<stdin>"))


# -- what is kept ----------------------------------------------------------------------------------


def test_what_is_known_of_a_function_goes_with_it() -> None:
    codes = []
    before = len(function_source._known)
    for n in range(50):
        function = made(f"made = lambda t: t.a > {n}", "<string>")
        lift_function(function)
        codes.append(weakref.ref(function.__code__))
        del function
    gc.collect()
    assert [ref for ref in codes if ref() is not None] == []
    assert len(function_source._known) <= before


def test_equal_functions_of_different_places_are_searched_for_each() -> None:
    text = "made = lambda t: t.a > 77\n"
    lost = made(text, "<lost>")
    assert is_opaque(lost)
    linecache.cache["<kept>"] = (len(text), None, [text], "<kept>")
    kept = made(text, "<kept>")
    assert lost.__code__ == kept.__code__
    assert str(pc.lift(kept)) == "event.a > 77"


def test_files_are_kept_up_to_a_number() -> None:
    for n in range(2 * function_source.FILES_KEPT):
        made_there = made("made = lambda t: t.a", f"<file {n}>")
        linecache.cache[f"<file {n}>"] = (1, None, ["x = 1\n"], f"<file {n}>")
        assert is_opaque(made_there)
        del linecache.cache[f"<file {n}>"]
    assert len(function_source._files) <= function_source.FILES_KEPT


def test_threads_may_lift_the_same_functions_at_once() -> None:
    text = "".join(f"made_{n} = lambda t: t.a > {n}\n" for n in range(40))
    linecache.cache["<threads>"] = (len(text), None, text.splitlines(keepends=True), "<threads>")
    space: dict[str, Any] = {}
    exec(compile(text, "<threads>", "exec"), space)
    functions = [space[f"made_{n}"] for n in range(40)]
    start, wrong = threading.Barrier(6), []

    def run() -> None:
        start.wait(30)
        found = [str(pc.lift(function)) for function in functions]
        wrong.extend(set(found) ^ {f"event.a > {n}" for n in range(40)})

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


# -- interpreters with other settings --------------------------------------------------------------


SCRIPT = """
import polycast as pc

def wants(t):
    '''A docstring.'''
    return t.a > 1 and __debug__

class C:
    def m(self, t):
        "Another."
        return t.__x is None

print(*map(pc.lift, (wants, C().m, lambda t: t.b == '\\\\d')), sep="; ")
"""


@pytest.mark.parametrize("flags", [["-OO"], ["-W", "error", "-X", "dev"]])
def test_other_settings_of_the_interpreter_do_not_matter(tmp_path: Path, flags: list[str]) -> None:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, *flags, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    debug = "False" if "-OO" in flags else "True"
    assert done.stdout.strip() == (
        f"(event.a > 1) and {debug}; event._C__x is None; event.b == '\\\\d'"
    )
