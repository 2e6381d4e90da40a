"""The report of an examination, as plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "BusFigures",
    "Damage",
    "Integrity",
    "LetterFigures",
    "LogFigures",
    "PinFigures",
    "RetentionFigures",
    "RoutingFigures",
    "StoreProblem",
    "StoreReport",
    "SubscriptionFigures",
    "SyncCost",
    "TypeFigures",
]


class StoreProblem(msgspec.Struct, frozen=True):
    """Something that is not as it should be, and what to do about it."""

    kind: Literal["damage", "warning"]
    what: str
    advice: str


class TypeFigures(msgspec.Struct, frozen=True):
    """One class of events in the log."""

    name: str
    version: int
    hash: str
    events: int


class LogFigures(msgspec.Struct, frozen=True):
    """The log; times are seconds since 1970, None if it is empty."""

    events: int
    oldest: int
    newest: int
    oldest_time: float | None
    newest_time: float | None
    types: list[TypeFigures]


class Damage(msgspec.Struct, frozen=True):
    """A place where the data differs from what was written."""

    place: str
    why: str


class Integrity(msgspec.Struct, frozen=True):
    """What was verified; `complete` if all of it could be looked at."""

    records: int
    letters: int
    complete: bool
    damaged: int
    damages: list[Damage]
    """The first of them."""
    file: list[str]
    """The problems that SQLite reports about the file."""


class SyncCost(msgspec.Struct, frozen=True):
    """Seconds that it takes until something is on the disk for good."""

    syncs: int
    median: float
    worst: float


class BusFigures(msgspec.Struct, frozen=True):
    """A bus that is open over the store, or was so when it died."""

    id: int
    publisher: str
    epoch: int
    process: int
    until: float
    alive: bool


class SubscriptionFigures(msgspec.Struct, frozen=True):
    """A durable subscription, or a group."""

    name: str
    what: str
    where: str | None
    level: str
    group: str | None
    durable: bool
    pinned: bool
    cursor: int
    lag: int
    """How many positions of the log are not handled; not all of them need be wanted."""
    in_flight: int
    attempts: int
    """The most that were made for one event in flight."""
    overdue: int
    """How many in flight should have been tried again some time ago."""
    buses: list[int]
    """The live buses that it is attached to."""
    dead: list[int]
    """Buses that still hold it, and are dead."""
    lease: float | None
    """When it ends."""

    @property
    def attached(self) -> bool:
        """Whether anybody is there to handle events."""
        return bool(self.buses)


class LetterFigures(msgspec.Struct, frozen=True):
    """Dead letters of one subscription with one reason."""

    subscription: str
    reason: str
    letters: int


class RetentionFigures(msgspec.Struct, frozen=True):
    """The rule of what may be let go; `used` is the part of the size that is taken."""

    age: float | None
    size: int | None
    delivered: bool
    used: float | None


class PinFigures(msgspec.Struct, frozen=True):
    """A subscription that the log is kept for, from a position on."""

    name: str
    position: int
    behind: int


class RoutingFigures(msgspec.Struct, frozen=True):
    """The pipeline: all before `high` is routed for the subscriptions that it routes for."""

    subscriptions: int
    high: int
    behind: int
    """How many positions of the log are not routed."""
    pins: bool
    """Whether the log is kept for it."""


class StoreReport(msgspec.Struct):
    """All findings; a part that could not be read is None or empty, and a problem says so."""

    path: str
    time: float
    version: int | None
    accepted: int
    size: int
    wal: int
    log: LogFigures | None = None
    integrity: Integrity | None = None
    sync: SyncCost | None = None
    buses: list[BusFigures] = []
    subscriptions: list[SubscriptionFigures] = []
    routing: RoutingFigures | None = None
    """None if the pipeline never ran, and nobody waits for it."""
    pins: list[PinFigures] = []
    retention: RetentionFigures | None = None
    letters: list[LetterFigures] = []
    problems: list[StoreProblem] = []

    @property
    def state(self) -> Literal["healthy", "warnings", "damaged"]:
        """The worst of the problems."""
        if any(problem.kind == "damage" for problem in self.problems):
            return "damaged"
        return "warnings" if self.problems else "healthy"
