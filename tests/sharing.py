"""How several processes share out the tests of `make test`; plain `pytest` is one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

__all__ = ["Sharing", "begin_with_the_longest"]

# What uses the one Spark session of a run: a second one costs more than it brings.
SPARK = (
    "tests/pipeline/",
    "tests/filters/spark/",
    "tests/cli/test_cli_pipeline.py",
    "tests/cli/test_cli_replay.py",
)


class Sharing(LoadFileScheduling):
    """Whole files are shared out, as they make things for all of their tests; Spark is one."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    """Spark first, then files with slow tests, so that nobody is left with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(SPARK), item.path not in slow))
