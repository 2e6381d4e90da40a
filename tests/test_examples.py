"""Every example is a script that runs, ends and has something to show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PATIENCE = 60.0


def run(script: Path, *, where: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as its reader would, in a folder of its own, warnings being errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str | None:
    """What is wrong with a finished example."""
    if done.returncode != 0:
        return f"it ended with {done.returncode}:\n{done.stderr}"
    return None if done.stdout.strip() else "it printed nothing"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_an_example_runs_and_prints(script: Path, tmp_path: Path) -> None:
    assert complaint(run(script, where=tmp_path)) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("print('hello')", None),
        ("pass", "it printed nothing"),
        ("print('hello'); raise SystemExit(3)", "it ended with 3"),
        ("print('hello'); import warnings; warnings.warn('old')", "UserWarning: old"),
    ],
)
def test_an_example_is_judged_by_its_end_and_its_output(
    source: str, said: str | None, tmp_path: Path
) -> None:
    script = tmp_path / "example.py"
    script.write_text(source, encoding="utf-8")
    found = complaint(run(script, where=tmp_path))
    assert (said is None and found is None) or (said is not None and said in str(found))
