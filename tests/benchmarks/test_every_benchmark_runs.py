"""Every benchmark of `make bench` runs: `--quick` does all that it does, in seconds.

Figures are not looked at; that there are some is.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
TOO_LONG = 300  # seconds that only a broken program reaches
TABLE = "\N{BOX DRAWINGS HEAVY DOWN AND RIGHT}"

# Scripts that can be run and that measure nothing by themselves, each with the reason.
NO_BENCHMARKS = {
    "checkouts_work": "a worker, which checkouts starts",
    "matching_ours": "a contender, which matching_peers starts",
    "ready10": "a workload, which checks itself",
}
ON_REQUEST = {
    "checkouts": "asks for another checkout",
    "queued": "a part of in_process, alone",
}
NEEDS_JAVA = {"pipeline"}


def listed(makefile: str) -> list[str]:
    """The scripts that `make bench` runs, in order."""
    recipe = re.search(r"^bench:[^\n]*\n((?:\t[^\n]*\n)+)", makefile, re.M)
    return re.findall(r"benchmarks/(\w+)\.py", recipe[1]) if recipe else []


def can_be_run(source: str) -> bool:
    """Whether a file is a program."""
    return any(
        isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        for node in ast.parse(source).body
    )


def programs(folder: Path) -> set[str]:
    """The files of a folder that can be run."""
    return {each.stem for each in folder.glob("*.py") if can_be_run(each.read_text("utf-8"))}


BENCHMARKS = listed((ROOT / "Makefile").read_text(encoding="utf-8"))


def what_is_kept() -> dict[str, int]:
    """The files that a whole run writes, and when they were written."""
    docs = ROOT / "docs"
    places = FOLDER / "results", docs / "images", docs / "benchmarks"
    files = [*(each for place in places for each in place.glob("*")), docs / "benchmarks.md"]
    return {str(each): each.stat().st_mtime_ns for each in files}


def tried(script: Path, scratch: Path) -> tuple[int, str, str]:
    """Exit status, output and errors of the quick form of a benchmark."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(scratch)}
    done = subprocess.run(
        [sys.executable, str(script), "--quick"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TOO_LONG,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BENCHMARKS, *ON_REQUEST])
def test_a_benchmark_runs_and_shows_a_table(name: str, tmp_path: Path) -> None:
    if name in NEEDS_JAVA and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(f"benchmarks/{name}.py needs Java, which is not here")
    before = what_is_kept()
    status, output, errors = tried(FOLDER / f"{name}.py", tmp_path)
    assert status == 0, errors
    assert "Traceback" not in errors, errors
    assert TABLE in output
    assert what_is_kept() == before, "what is only tried out writes nothing"


def test_make_bench_runs_every_benchmark_that_asks_for_nothing() -> None:
    assert programs(FOLDER) == {*BENCHMARKS} | NO_BENCHMARKS.keys() | ON_REQUEST.keys()
    assert len(BENCHMARKS) == len({*BENCHMARKS})


def test_make_bench_puts_the_figures_on_the_page_at_last() -> None:
    assert BENCHMARKS[-1] == "page"


def loaded(name: str) -> Any:
    """A benchmark as a module of another name: tests have a `page` of their own."""
    spec = spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_takes_one_table_or_several() -> None:
    table = {"title": "a", "columns": ["x"], "rows": [["1"]]}
    page = loaded("page")
    assert page.tables_in({"tables": [table]}) == page.tables_in({"table": table}) == [table]


def test_every_page_of_benchmarks_is_written_and_linked_from_the_summary() -> None:
    filled = {name for names in loaded("page").PAGES_OF.values() for name in names}
    summary = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(benchmarks/([\w-]+)\.md\)", summary))
    there = {path.stem for path in (ROOT / "docs" / "benchmarks").glob("*.md")}
    assert filled == linked == there


def test_the_tables_of_one_benchmark_may_be_on_two_pages() -> None:
    updated = loaded("page").updated
    tables = [{"columns": ["x"], "rows": [[1]]}, {"columns": ["x"], "rows": [["2 (1-3)"]]}]
    page = "| x |\n|---|\n| old |\n\nprose\n"
    assert updated(page, tables) == "| x |\n|---|\n| 1 |\n\nprose\n"
    assert updated(page, tables) == "| x |\n|---|\n| 2 (1 to 3) |\n\nprose\n"
    assert updated(page, tables) == page


# -- the rules themselves --------------------------------------------------------------------------


def test_a_benchmark_that_is_not_listed_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text('if __name__ == "__main__":\n    main()\n', "utf-8")
    (tmp_path / "part.py").write_text("def main() -> None: ...\n", "utf-8")
    assert programs(tmp_path) == {"new"}
    makefile = "bench: java  ## Measure.\n\t@x benchmarks/a.py\n\t@x benchmarks/b.py\n\nother:\n"
    assert listed(makefile + "\t@x benchmarks/c.py\n") == ["a", "b"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [("raise SystemExit(3)", 3), ("print(1 / 0)", 1), ("import no_such_module", 1)],
)
def test_a_benchmark_that_fails_is_noticed(source: str, expected: int, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(source, encoding="utf-8")
    assert tried(script, tmp_path)[0] == expected
