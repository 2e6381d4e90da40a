"""House rules that a machine can keep: sizes, names, and what is not written here."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"

LONGEST_FILE = 500
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "base", "impl", "misc"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")

# The modules that generate code and therefore run it.
GENERATORS = {
    "polycast/contexts/compile/translation_codegen.py",
    "polycast/events/generated_functions.py",
    "polycast/routing/publish_codegen.py",
}

# Where text goes to a log or a terminal, and is made plain first: see `polycast.text`.
MOUTHS = {"polycast/plain_text.py", "polycast/cli/terminal.py", "polycast/cli/serve.py"}

# Folders of somebody's machine. The names stand alone so that this file does not match itself.
MACHINE_FOLDERS = ("work", "root", "home", "Users")
MACHINE_PATH = re.compile(rf"(?<![\w/.:$*@}}-])/(?:{'|'.join(MACHINE_FOLDERS)})(?![\w-])")


def files_below(folder: Path) -> list[Path]:
    """The Python files in a folder and the folders in it."""
    return sorted(folder.rglob("*.py"))


def text_of(path: Path) -> str:
    """A source file's text."""
    return path.read_text(encoding="utf-8")


def is_vague(path: Path) -> bool:
    """Whether a part of a module's name says nothing about what is in it."""
    return any(part.strip("_") in VAGUE_NAMES for part in path.with_suffix("").parts)


def calls(source: str) -> Iterator[tuple[int, str, ast.Call]]:
    """Line, dotted name and node of every call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func), node


def lines_that_call(name: str, source: str) -> list[int]:
    """Where a built-in function is called by its name."""
    return [line for line, called, _ in calls(source) if called in (name, f"builtins.{name}")]


def lines_that_import(name: str, source: str) -> list[int]:
    """Where a module is imported."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Import) and any(alias.name == name for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == name)
    ]


def lines_that_sleep(source: str) -> list[int]:
    """Where time passes for real; sleep(0) only lets others run."""
    return [
        line
        for line, called, node in calls(source)
        if called in ("sleep", "time.sleep", "asyncio.sleep")
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def lines_that_speak(source: str) -> list[int]:
    """Where something is printed, written to a standard stream, or a logger is had."""
    said = ("print", "logging.getLogger", "getLogger", "logging.basicConfig")
    return [
        line
        for line, called, _ in calls(source)
        if called in said or called.startswith(("sys.stdout.w", "sys.stderr.w"))
    ]


def lines_with_a_machine_path(text: str) -> list[int]:
    """Where a folder of somebody's machine is named."""
    return [n for n, line in enumerate(text.splitlines(), 1) if MACHINE_PATH.search(line)]


def files_under_version_control() -> list[Path]:
    """Every file that is, or is about to be, committed."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    listed = subprocess.run(
        [git, "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("path", files_below(SOURCE), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_source_file_keeps_the_house_rules(path: Path) -> None:
    name, source = path.relative_to(SOURCE).as_posix(), text_of(path)
    assert len(source.splitlines()) <= LONGEST_FILE
    assert not is_vague(path.relative_to(SOURCE))
    assert not UNFINISHED.findall(source)
    assert not lines_that_import("pickle", source)
    assert not lines_that_call("eval", source)
    assert name in GENERATORS or not lines_that_call("exec", source)
    assert name in MOUTHS or not lines_that_speak(source)


@pytest.mark.parametrize("path", files_below(TESTS), ids=lambda p: str(p.relative_to(TESTS)))
def test_a_test_does_not_sleep(path: Path) -> None:
    assert not lines_that_sleep(text_of(path))


def test_test_modules_have_names_of_their_own() -> None:
    twice = [name for name, n in Counter(p.name for p in TESTS.rglob("test_*.py")).items() if n > 1]
    assert not twice, "pytest imports a test module by its bare name"
    assert not list(TESTS.rglob("__init__.py")), "a package `typing` would hide the standard one"


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    found = []
    for path in files_under_version_control():
        try:
            lines = lines_with_a_machine_path(text_of(path))
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}, line {line}" for line in lines]
    assert not found


def test_the_lock_names_no_package_index() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links)\b", text, re.M)


@pytest.mark.parametrize("name", ["utils.py", "_helpers.py", "filters/common/nodes.py", "base.py"])
def test_a_vague_name_is_found(name: str) -> None:
    assert is_vague(Path(name))


@pytest.mark.parametrize("name", ["filters/tree/nodes.py", "database.py", "__init__.py"])
def test_a_telling_name_is_left_alone(name: str) -> None:
    assert not is_vague(Path(name))


@pytest.mark.parametrize(
    "source",
    ["time.sleep(1)", "async def f(): await asyncio.sleep(0.1)", "sleep(n)", "time.sleep(secs=1)"],
)
def test_a_planted_sleep_is_found(source: str) -> None:
    assert lines_that_sleep(source) == [1]


@pytest.mark.parametrize("source", ["time.sleep(0)", "async def f(): await asyncio.sleep(0)"])
def test_letting_others_run_is_no_sleep(source: str) -> None:
    assert lines_that_sleep(source) == []


def test_planted_code_from_strings_is_found() -> None:
    assert lines_that_call("eval", "x = 1\neval('x')") == [2]
    assert lines_that_call("exec", "builtins.exec('x')") == [1]
    assert lines_that_import("pickle", "import json, pickle") == [1]
    assert lines_that_import("pickle", "def f():\n    from pickle import loads") == [2]


@pytest.mark.parametrize(
    "source", ["print(1)", "_log = logging.getLogger('polycast')", "sys.stderr.write('x')"]
)
def test_a_planted_word_to_a_log_or_a_terminal_is_found(source: str) -> None:
    assert lines_that_speak(source) == [1]


def test_a_method_called_exec_is_left_alone() -> None:
    assert lines_that_call("exec", "database.exec('x')") == []


@pytest.mark.parametrize("folder", MACHINE_FOLDERS)
def test_a_planted_machine_path_is_found(folder: str) -> None:
    assert lines_with_a_machine_path(f"first\nopen('/{folder}/me/x.db')") == [2]


@pytest.mark.parametrize(
    "text", ["https://example.org/home/x", "docs/work/x", "/workers/1", "a/root", "/tmp/x"]
)
def test_another_path_is_left_alone(text: str) -> None:
    assert lines_with_a_machine_path(text) == []


NAMED_PATH = re.compile(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`")


def paths_that_are_not_there(page: str) -> list[str]:
    """The modules and folders that a page names, and that are neither below polycast nor here."""
    named = NAMED_PATH.findall(page)
    return [
        path
        for path in named
        if not any((at / path).exists() for at in (SOURCE / "polycast", SOURCE, ROOT))
    ]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_a_page_about_the_source_names_only_what_is_there(page: str) -> None:
    assert paths_that_are_not_there(text_of(ROOT / page)) == []


PACKAGE_TABLE = re.compile(r"^\| package \|.*\n\|---.*\n((?:\|.*\n)+)", re.MULTILINE)


def packages_that_are_not_there(page: str) -> list[str]:
    """The names in the first column of a page's table of packages that are no modules of ours."""
    rows = [row for table in PACKAGE_TABLE.findall(page) for row in table.splitlines()]
    named = [name for row in rows for name in re.findall(r"`([a-z_.]+)`", row.split("|")[1])]
    assert named, "the page has no table of packages"
    paths = [SOURCE / "polycast" / name.replace(".", "/") for name in named]
    return [
        name
        for name, path in zip(named, paths, strict=True)
        if not (path / "__init__.py").exists() and not path.with_suffix(".py").exists()
    ]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_a_table_of_packages_names_only_what_is_there(page: str) -> None:
    assert packages_that_are_not_there(text_of(ROOT / page)) == []


def test_a_package_that_is_not_there_is_found() -> None:
    page = "| package | what |\n|---|---|\n| `bus` · `channels` | `later` |\n| `broker.wire` | |\n"
    assert packages_that_are_not_there(page) == ["channels"]


def test_a_path_that_is_not_there_is_found() -> None:
    assert paths_that_are_not_there("`bus/bus.py`, `bus/roster.py` and `docs/`") == [
        "bus/roster.py"
    ]
