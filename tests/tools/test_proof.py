"""`make proof` has what is too long for each run, and each run has one case of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {
    "a browser": "tests/proof/test_browser.py",
    "a cluster": "tests/pipeline/test_pipeline_cluster.py",
    "kills of processes": "tests/proof/torture.py --only kills",
    "kills of brokers": "--brokers",
    "kills of a pipeline": "--pipelines",
    "every version of Python": "tools/pythons.py",
    "every version of a store's file": "tests/stores/test_sqlite_versions.py",
}
AT_LENGTH = {"AT_LENGTH"}  # what marks a test that `make proof` alone runs


def recipe() -> str:
    """What `make proof` does."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^proof:[^\n]*\n((?:\t[^\n]*\n)+)", makefile, re.M)
    return found[1] if found else ""


def in_each_run(source: str) -> list[str]:
    """The tests of a file that are not for `make proof` alone."""
    tree = ast.parse(source)
    marks = [node for node in tree.body if isinstance(node, ast.Assign)]
    if any("POLYCAST_PROOF" in ast.unparse(e) and "pytestmark" in ast.unparse(e) for e in marks):
        return []
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not any(ast.unparse(each) in AT_LENGTH for each in node.decorator_list)
    ]


@pytest.mark.parametrize("part", PARTS)
def test_it_is_part_of_make_proof(part: str) -> None:
    assert PARTS[part] in recipe()


def test_the_files_that_it_runs_are_there() -> None:
    named = re.findall(r"(?:tests|tools)/\S+\.py", recipe())
    assert named
    assert [each for each in named if not (ROOT / each).is_file()] == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"tests/\S+/test_\w+\.py", recipe()))))
def test_each_run_has_one_case_of_it(name: str) -> None:
    assert in_each_run((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["kills", "broker", "pipeline"])
def test_each_run_has_one_case_of_what_is_killed(name: str) -> None:
    source = (ROOT / "tests" / "proof" / f"test_proof_{name}.py").read_text(encoding="utf-8")
    assert in_each_run(source)


@pytest.mark.parametrize(
    "planted",
    [
        "pytestmark = skipif('POLYCAST_PROOF' not in environ)\ndef test_a(): pass\n",
        "@AT_LENGTH\ndef test_a(): pass\n",
        "def no_test(): pass\n",
    ],
)
def test_a_file_of_which_nothing_is_in_each_run_is_noticed(planted: str) -> None:
    assert in_each_run(planted) == []
