"""What tests leave is looked at for garbage, and what was there before is not."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heap import Heap

HERE = Path(__file__).parent
MANY = 1_000


@dataclass
class Item:
    path: Path


class Knot:
    """It holds itself."""

    def __init__(self) -> None:
        self.me = self


def played(hook: Generator[None]) -> None:
    """What goes on around something of pytest's."""
    next(hook)
    for _ in hook:
        raise AssertionError("it waits for one thing only")


def after_test(before: str, then: str) -> int:
    """How many objects are frozen when a test of a file was followed by one of another."""
    count, alive = gc.get_freeze_count(), [[number] for number in range(MANY)]
    item: Any = Item(HERE / before)
    following: Any = Item(HERE / then)
    played(Heap().pytest_runtest_teardown(item, following))
    return gc.get_freeze_count() - count if alive else 0


def test_what_is_alive_before_the_tests_is_frozen() -> None:
    count, alive = gc.get_freeze_count(), [[number] for number in range(MANY)]
    played(Heap().pytest_collection())
    assert gc.isenabled()
    assert gc.get_freeze_count() - count >= len(alive)


def test_it_is_frozen_when_a_file_is_through_and_not_before() -> None:
    assert after_test("a.py", "a.py") <= 0  # what was frozen before may go
    assert after_test("a.py", "b.py") >= MANY


def test_garbage_goes_before_it_could_be_frozen() -> None:
    knot = weakref.ref(Knot())
    played(Heap().pytest_collection())
    assert knot() is None


def test_at_the_end_all_is_looked_at_again() -> None:
    code = (
        "import gc; from heap import Heap; gc.freeze(); before = gc.get_freeze_count()\n"
        "Heap().pytest_sessionfinish(); print(before > 0, gc.get_freeze_count())"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["True", "0"]
