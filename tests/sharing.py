"""How several processes share out the tests of `make test`; plain `pytest` is one process.

Whoever is left with a long file at the end makes all wait, so the longest begin. How long each
takes is known from the last run (build/test-seconds.json); without one, Spark begins, and then what
is marked as slow.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

__all__ = ["Sharing", "Stopwatch", "begin_with_the_longest", "known_seconds"]

SECONDS = Path(__file__).parents[1] / "build" / "test-seconds.json"
SPARK_AT_FIRST, SLOW_AT_FIRST = 600.0, 30.0  # seconds, as long as nothing is known

# What uses the one Spark session of a run: a second one costs more than it brings.
SPARK = (
    "tests/pipeline/",
    "tests/filters/spark/",
    "tests/cli/test_cli_pipeline.py",
    "tests/cli/test_cli_replay.py",
)


def share_of(nodeid: str) -> str:
    """What is given to one process as a whole: a file, as it makes things for its tests; Spark."""
    return "spark" if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


class Sharing(LoadFileScheduling):
    """Whole files are shared out; those of Spark are one."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def known_seconds(path: Path = SECONDS) -> dict[str, float]:
    """How long each share took last time."""
    try:
        found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def begin_with_the_longest(items: list[pytest.Item], known: dict[str, float]) -> None:
    """Order tests by how long their share takes; those of a share stay together."""
    slow = {share_of(item.nodeid) for item in items if item.get_closest_marker("slow")}

    def seconds(item: pytest.Item) -> float:
        share = share_of(item.nodeid)
        at_first = SPARK_AT_FIRST if share == "spark" else SLOW_AT_FIRST if share in slow else 0.0
        return known.get(share, at_first)

    items.sort(key=lambda item: -seconds(item))


class Stopwatch:
    """Remembers for the next run how long each share takes; made where the others are started."""

    def __init__(self, path: Path = SECONDS) -> None:
        self._path = path
        self._spent: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test was set up, called or taken down."""
        self._spent[share_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """What was not run this time is kept as it was known."""
        known = known_seconds(self._path) | {k: round(v, 2) for k, v in self._spent.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
