"""What the benchmarks of the pipeline share: how much of everything, and stores to begin with.

It does not import the class of the events, nor does anything that a process with workers imports:
so these are of a class made from its description, as in any pipeline that is told of no modules.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Report = Callable[[str], None]


# -- how much --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    sizes: dict[int, int]  # numbers of subscriptions, and how many events there are for each
    alone: int = 100_000  # events for a worker without Spark
    longest: float = 4.0  # seconds that one shape runs after its warm-up
    rounds: int = 2
    batch: int = 50_000
    batches: tuple[int, ...] = (5_000, 20_000, 50_000, 200_000)
    plain_batches: int = 2  # of the plain way, after one that warms up
    rate: int = 20_000  # events per second offered, where latency is measured
    warming: float = 10.0  # seconds of that
    lasting: float = 20.0  # seconds of that, measured
    is_quick: bool = False


FULL = Plan({100: 800_000, 2_000: 300_000, 10_000: 200_000})
QUICK = Plan(
    {20: 20_000},
    alone=20_000,
    longest=0.2,
    rounds=1,
    batch=4_000,
    batches=(4_000,),
    plain_batches=1,
    rate=2_000,
    warming=1.0,
    lasting=1.5,
    is_quick=True,
)


# -- stores ----------------------------------------------------------------------------------------


def store_of(folder: Path, size: int) -> Path:
    """Where the store with so many subscriptions is."""
    return folder / f"{size}-subscriptions.db"


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of a store of which nothing is routed yet, under a name that was never used."""
    copy = path.with_name(f"{path.stem}-{uuid.uuid4().hex[:8]}.db")
    shutil.copyfile(path, copy)
    try:
        yield copy
    finally:
        for each in path.parent.glob(f"{copy.name}*"):
            each.unlink()
