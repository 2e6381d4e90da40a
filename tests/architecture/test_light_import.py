"""`import polycast` is cheap: the heavy libraries come when they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "apsw",
    "attr",
    "numpy",
    "pandas",
    "pint",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "sqlite3",
    "starlette",
    "uvicorn",
)

# What the interpreter loaded for itself before the import does not count.
PROBE = """
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(module: str, *, where: Path) -> list[str]:
    """The modules that a fresh interpreter loads for `import module`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE.format(module=module)],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout)
    return names


def heavy_among(names: list[str]) -> set[str]:
    """Which of the heavy libraries are loaded."""
    return {name.partition(".")[0] for name in names} & set(HEAVY)


@pytest.mark.parametrize("module", ["polycast", "polycast.public_names"])
def test_importing_polycast_loads_nothing_heavy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    names = loaded_by(module, where=tmp_path)
    with capsys.disabled():
        print(f" [import {module} loads {len(names)} modules] ", end="")
    assert heavy_among(names) == set()


def test_the_public_names_are_loaded_when_the_first_is_used(tmp_path: Path) -> None:
    assert not any(
        name.startswith("polycast.bus") for name in loaded_by("polycast", where=tmp_path)
    )


def test_the_parser_of_the_command_line_loads_no_bus_and_no_store(tmp_path: Path) -> None:
    names = loaded_by("polycast.cli", where=tmp_path)
    own = {name for name in names if name.startswith("polycast.")}
    assert {name for name in own if not name.startswith("polycast.cli")} == {"polycast.lazy_names"}
    assert not {"msgspec", "logging", "dataclasses", "importlib.metadata"} & set(names)


def test_a_heavy_import_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "weighty.py").write_text("import sqlite3", encoding="utf-8")
    assert heavy_among(loaded_by("weighty", where=tmp_path)) == {"sqlite3"}
