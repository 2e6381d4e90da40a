"""What goes into a wheel, and what only into the source distribution."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied(folder: Path) -> Path:
    """The project, where a build may leave things behind."""
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=unwanted)
    return folder


def setup(project: Path, *words: str) -> str:
    command = [sys.executable, "setup.py", "-q", *words]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_has_the_modules_and_the_mark_of_types_and_no_sources_in_c(tmp_path: Path) -> None:
    project = copied(tmp_path)
    setup(project, "build_py", "--build-lib", "built")
    built = {each.relative_to(project / "built") for each in (project / "built").rglob("*.*")}
    modules = {each.relative_to(project / "src") for each in (project / "src").rglob("*.py")}
    assert built == modules | {Path("polycast/py.typed")}


def test_a_source_distribution_has_the_sources_in_c(tmp_path: Path) -> None:
    project = copied(tmp_path)
    setup(project, "sdist", "--formats=tar", "--dist-dir", "dist")
    (made,) = (project / "dist").iterdir()
    shutil.unpack_archive(made, tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()
    kernel = "src/polycast/matching/native/c"
    wanted = {each.name for each in (ROOT / kernel).iterdir() if each.suffix in (".c", ".h")}
    assert {each.name for each in (root / kernel).iterdir()} == wanted
