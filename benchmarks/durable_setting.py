"""What the benchmarks over a store share: events, how much of everything, files on a real disk."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import QUICK as QUICK_EFFORT
from measure import Effort

Report = Callable[[str], None]

IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}  # file systems where a sync costs nothing


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What is published where it does not matter what."""

    number: int
    item: str
    price: float
    count: int
    customer: str


class Sale(Order):
    """A common kind of order."""


class Refund(Order):
    """Another kind."""


class Visit(Order):
    """Another kind."""


class Parcel(Order):
    """Another kind."""


class Alarm(Order):
    """A rare kind."""


@dataclass(frozen=True)
class DetailRecord:
    """As in DAC 6.2: two dates and two strings."""

    begin: datetime
    end: datetime
    customer: str
    service: str


@dataclass(frozen=True)
class CallDetailRecord(DetailRecord):
    """As in DAC 6.2: four integers and two strings more."""

    seconds: int
    units: int
    cell: int
    tariff: int
    caller: str
    callee: str


ORDER = Order(7, "tea", 4.5, 2, "Eugster")
_BEGIN = datetime(1999, 4, 1, 9, 30, tzinfo=UTC)
_END = datetime(1999, 4, 1, 9, 42, tzinfo=UTC)
_LETTERS = "abcdefghijklmnopqrst"

KINDS: dict[str, Callable[[int], object]] = {
    "integer": lambda number: number,
    "string": lambda number: _LETTERS[: 10 + number % 11],  # of 10 to 20 characters
    "DetailRecord": lambda number: DetailRecord(_BEGIN, _END, f"customer {number}", "voice"),
    "CallDetailRecord": lambda number: CallDetailRecord(
        _BEGIN, _END, f"customer {number}", "voice", 720, 12, number, 3, "021 693", "021 694"
    ),
}
"""The four kinds of messages of DAC figures 21 and 22, by number."""


# -- how much --------------------------------------------------------------------------------------


EFFORT = Effort(rounds=12, slice=0.25, longest=60.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    effort: Effort = EFFORT
    publishers: tuple[int, ...] = (1, 8, 64)
    batches: tuple[int, ...] = (1, 10, 100, 1_000)
    finding_out: float = 2.0  # seconds, for the load that is then halved
    lasting: float = 20.0  # seconds of half load
    log: int = 1_000_000  # events that an absent subscriber catches up with
    catching_up: int = 3  # rounds of that
    messages: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1_000)
    experiments: int = 7  # with so many messages
    idle: int = 100_000  # durable subscriptions that nobody is attached to
    attached: int = 2_000  # and such that somebody is attached to
    sharing: tuple[int, ...] = (1, 10, 50)  # subscribers to what can be changed

    @property
    def is_quick(self) -> bool:
        return self.effort.is_quick


QUICK = Plan(
    effort=QUICK_EFFORT,
    publishers=(1, 2),
    batches=(1, 10),
    finding_out=0.05,
    lasting=0.1,
    log=6_000,
    catching_up=1,
    messages=(10,),
    experiments=1,
    idle=100,
    attached=10,
    sharing=(2,),
)


# -- files -----------------------------------------------------------------------------------------


SCRATCH = Path(__file__).parents[1] / "build" / "benchmarks"
"""Git ignores it and `make clean` removes it: a run that is killed leaves its files there."""


@contextmanager
def scratch(*, quick: bool) -> Iterator[Path]:
    """A folder that is gone afterwards: on a disk, or anywhere for a quick run.

    The folder for temporary files may be in memory, where a sync costs nothing.
    """
    if not quick:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        kind = file_system(SCRATCH)
        if kind in IN_MEMORY:
            sys.exit(f"{SCRATCH} is on {kind}, where a sync costs nothing; check out on a disk")
    with TemporaryDirectory(
        prefix="run-", dir=None if quick else SCRATCH, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def file_system(path: Path) -> str:
    """The kind of file system that a path is on, as far as Linux tells."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    found = ((Path(line.split()[1]), line.split()[2]) for line in mounts)
    above = [(len(point.parts), kind) for point, kind in found if path.is_relative_to(point)]
    return max(above, default=(0, "unknown"))[1]


def sync_cost(folder: Path, *, times: int = 200) -> dict[str, float]:
    """Seconds to sync a file after one page was added to it, as a commit does."""
    handle = os.open(folder / "synced", os.O_CREAT | os.O_RDWR)
    spent = []
    try:
        for _ in range(times):
            os.write(handle, bytes(4096))
            start = time.perf_counter()
            os.fsync(handle)
            spent.append(time.perf_counter() - start)
    finally:
        os.close(handle)
    return {"median": statistics.median(spent), "best": min(spent), "worst": max(spent)}


def url_of(path: Path) -> str:
    """What a bus over a file is opened with."""
    return f"sqlite:///{path}"


# -- memory ----------------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of this process in memory now; the most so far where that is all that can be known."""
    return _status("VmRSS") or most_resident()


def most_resident() -> int:
    """The most bytes that this process had in memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)


def megabytes(size: float) -> str:
    """A size for a person."""
    return f"{size / 1e6:,.1f} MB"
