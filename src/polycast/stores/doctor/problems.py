"""The problems in a report, each with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.stores.doctor.report import StoreProblem
from polycast.stores.retention import PIPELINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores.doctor.report import RetentionFigures, StoreReport, SubscriptionFigures

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
