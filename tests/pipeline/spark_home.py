"""Spark as it is installed, but with the PySpark that is installed, in place of one in a zip file.

Python keeps nothing of what it compiles from a zip file. So each process that Spark starts, one for
every query at least, would compile PySpark anew, which is half of what a small query costs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["quick_home", "use_quick_home"]


def quick_home(folder: Path) -> Path:
    """A home of Spark's in a folder of ours, which also has what executors write."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = folder / "spark"
    home.mkdir()
    for each in Path(found.origin).parent.iterdir():
        if each.name not in ("python", "work"):
            (home / each.name).symlink_to(each)
    return home


def use_quick_home() -> None:
    """Let all of Spark that is started from here on be quick, unless somebody has another."""
    if "SPARK_HOME" not in os.environ and find_spec("pyspark") is not None:
        folder = tempfile.mkdtemp(prefix="polycast-tests-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["SPARK_HOME"] = str(quick_home(Path(folder)))
