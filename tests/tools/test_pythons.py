"""`make proof` names the Pythons that are missing, and does not take a launcher for one."""

from __future__ import annotations

import sys
from pathlib import Path

import pythons

ROOT = Path(__file__).parents[2]


def test_a_python_that_is_not_there_or_does_not_run_is_named(tmp_path: Path) -> None:
    launcher = tmp_path / "python3.99"
    launcher.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    launcher.chmod(0o755)
    here, missing = pythons.found([sys.executable, str(launcher), "no-such-python"])
    assert list(here) == [sys.executable]
    assert missing == [str(launcher), "no-such-python"]


def test_the_folders_whose_tests_are_run_are_there() -> None:
    assert [name for name in pythons.TESTS if not (ROOT / "tests" / name).is_dir()] == []
    assert (ROOT / pythons.LEFT_OUT).is_dir()


def test_the_supported_versions_are_those_that_the_package_names() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in pythons.SUPPORTED:
        assert f"Programming Language :: Python :: {name.removeprefix('python')}" in text
