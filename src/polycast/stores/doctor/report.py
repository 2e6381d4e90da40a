"""The doctor's report, and the problems in it, each with advice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from polycast.stores.retention import PIPELINE

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


# -- problems --------------------------------------------------------------------------------------

FULL = 0.8  # of the size that retention allows
SLOW = 0.1  # seconds of a sync
LONG_WAL = 256 * 1024 * 1024
MOST = 0.5  # of the log
BEHIND = 100_000  # events that the pipeline has not routed
AGED = 1.1  # of the age that retention allows, because it does not work all the time

RESTORE = (
    "Stop all who write to it, keep a copy of the file, and restore a backup with "
    "`polycast restore BACKUP STORE --force`"
)
RUN = (
    "run it with `polycast pipeline run STORE`, or remove the subscriptions with engine='spark' "
    "that nobody needs"
)


def problems_of(report: StoreReport) -> list[StoreProblem]:
    """Damage first, then warnings."""
    damage = [StoreProblem("damage", *found) for found in _damage(report)]
    checks = (_version, _space, _speed, _buses, _pipeline, _subscriptions, _letters)
    return damage + [StoreProblem("warning", *found) for check in checks for found in check(report)]


Found = tuple[str, str]


def _damage(report: StoreReport) -> Iterator[Found]:
    integrity = report.integrity
    if integrity is None:
        return
    if integrity.file:
        yield f"the file is damaged: {'; '.join(integrity.file[:3])}", RESTORE
    if integrity.damaged:
        first = integrity.damages[0]
        many = integrity.damaged
        is_one = "1 record is" if many == 1 else f"{many:,} records are"
        yield f"{is_one} damaged or lost, the first at {first.place}: {first.why}", RESTORE
    if not integrity.complete:
        yield "not all of the file can be read", RESTORE


def _version(report: StoreReport) -> Iterator[Found]:
    if report.integrity is not None and report.integrity.file:
        return  # it need not be true
    if report.version is not None and report.version < report.accepted:
        what = f"the store has version {report.version}, the current one is {report.accepted}"
        yield what, "Opening a bus over it brings it up to date; make a backup first"


def _space(report: StoreReport) -> Iterator[Found]:
    rule = report.retention
    if report.wal >= LONG_WAL:
        yield (
            f"the write-ahead log takes {report.wal} bytes",
            "Somebody reads for very long, or a process died; close what is not needed any more",
        )
    if rule is None:
        return
    if rule.used is not None and rule.used >= FULL:
        yield f"the store takes {rule.used:.0%} of the size that it may", _held_by(report)
    if _is_too_old(report, rule):
        yield f"events are kept longer than the {rule.age:g} s of the rule", _held_by(report)


def _is_too_old(report: StoreReport, rule: RetentionFigures) -> bool:
    oldest = report.log.oldest_time if report.log is not None else None
    if rule.age is None or oldest is None or report.log is None or report.log.events < 2:
        return False
    return report.time - oldest > rule.age * AGED + 60


def _held_by(report: StoreReport) -> str:
    """Who keeps most of the log from being let go, if anybody does."""
    log, first = report.log, next(iter(report.pins), None)
    if log is not None and first is not None and first.behind > (log.newest - log.oldest) * MOST:
        routing = report.routing
        if routing is not None and (first.name, first.position) == (PIPELINE, routing.high):
            return (
                f"The pipeline is {first.behind} events behind, and the log is kept for it: {RUN}"
            )
        return (
            f"{first.name!r} is {first.behind} events behind, and the log is kept for it: attach "
            f"to it, or remove it with `polycast subs cancel STORE {first.name}`"
        )
    return "No subscription holds the log back: allow more, or keep a bus open that lets events go"


def _speed(report: StoreReport) -> Iterator[Found]:
    if report.sync is not None and report.sync.median >= SLOW:
        what = f"a sync of the disk takes {report.sync.median * 1000:.0f} ms"
        yield what, "Put the store on a faster disk, or publish many events per call"


def _buses(report: StoreReport) -> Iterator[Found]:
    for bus in report.buses:
        if not bus.alive:
            yield (
                f"bus {bus.id} ({bus.publisher}, process {bus.process}) died without closing",
                "Nothing is lost: any bus that is open over the store frees what it held",
            )


def _pipeline(report: StoreReport) -> Iterator[Found]:
    routing = report.routing
    if routing is not None and routing.pins and routing.behind > BEHIND:
        what = f"the pipeline is {routing.behind} events behind, and the log is kept for it"
        yield what, RUN[0].upper() + RUN[1:]


def _subscriptions(report: StoreReport) -> Iterator[Found]:
    for subscription in report.subscriptions:
        yield from _subscription(subscription, report.time)


def _subscription(sub: SubscriptionFigures, now: float) -> Iterator[Found]:
    waiting = sub.lag or sub.in_flight
    if sub.dead:
        buses = ", ".join(map(str, sub.dead))
        yield (
            f"{sub.name!r} is held by bus {buses}, which is dead",
            "Attach to it again, or open any bus over the store, which sets it free",
        )
    elif sub.group is not None and waiting and not sub.attached:
        yield (
            f"the group {sub.name!r} has {sub.lag + sub.in_flight} events and no member",
            "Start a member, or remove it with `polycast subs cancel`",
        )
    if sub.overdue and sub.attached:
        yield (
            f"{sub.overdue} events of {sub.name!r} should have been tried again a while ago",
            "See whether its callback is stuck: bus.health() in its process says so",
        )
    if sub.lease is not None and sub.lease <= now and not sub.attached:
        yield (
            f"the lease of {sub.name!r} is over",
            "Any bus that is open over the store removes it",
        )


def _letters(report: StoreReport) -> Iterator[Found]:
    count = sum(letters.letters for letters in report.letters)
    if count:
        names = sorted({letters.subscription for letters in report.letters})
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield (
            f"{count} dead {'letter' if count == 1 else 'letters'} of {shown}",
            "Look with `polycast dlq list STORE`; then replay them, or purge them",
        )
