"""The examination of a store: everything is read as far as it can be."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from polycast.config import Clock, SystemClock
from polycast.stores.doctor.report import (
    BusFigures,
    LetterFigures,
    LogFigures,
    PinFigures,
    RetentionFigures,
    RoutingFigures,
    StoreProblem,
    StoreReport,
    SubscriptionFigures,
    SyncCost,
    TypeFigures,
    problems_of,
)
from polycast.stores.doctor.verifier import Verifier
from polycast.stores.retention import PIPELINE, Pin, pins, retention_of
from polycast.stores.sqlite.event_log import InternedNames
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly
from polycast.stores.sqlite.row_format import fetch, fetch_one
from polycast.stores.sqlite.schema import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from polycast.stores.contract import Store, View
    from polycast.stores.values import EventType, Flight, OpenBus, StoredSubscription

T = TypeVar("T")

_SYNCS, _SYNC_SECONDS = 20, 2.0  # how many syncs, unless they take longer in total


def examine(
    path: str | os.PathLike[str],
    *,
    clock: Clock | None = None,
    has_died: Callable[[OpenBus], bool] = lambda bus: False,
    sync_test: bool = True,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> StoreReport:
    """Examine a store, which may be open and written meanwhile, without changing anything.

    Raises `NotAStoreError` for no store, or one that is too new; the report has all other problems.
    """
    now = (clock if clock is not None else SystemClock()).time()
    with open_readonly(path, current=False) as store:
        report = _begun(store, now)
        examination = _Examination(store, report)
        with store.snapshot():
            examination.look_at_state(now, has_died)
        examination.verify(progress)
    if sync_test:
        report.sync = sync_cost(report.path)
    report.problems += problems_of(report)
    return report


def _begun(store: ReadOnlyStore, now: float) -> StoreReport:
    version: int | None = None
    with suppress(Exception):  # the beginning of the file is damaged; reported below
        version = fetch_one(store.connection, "PRAGMA user_version")
    wal = 0
    with suppress(OSError):
        wal = os.path.getsize(f"{store.path}-wal")
    return StoreReport(
        os.path.abspath(store.path), now, version, len(STEPS), os.path.getsize(store.path), wal
    )


class _Examination:
    """Fills a report part by part; a part that cannot be read becomes a problem."""

    def __init__(self, store: ReadOnlyStore, report: StoreReport) -> None:
        self._store, self._report = store, report
        self._described: set[str] | None = None
        self._unreadable: list[StoreProblem] = report.problems

    def _part(self, what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception as error:  # whatever a damaged file holds must not end the examination
            what, advice = f"{what} cannot be read: {error}", "Restore a backup"
            self._unreadable.append(StoreProblem("damage", what, advice))
            return None

    def look_at_state(self, now: float, has_died: Callable[[OpenBus], bool]) -> None:
        """Read everything but the log, in one snapshot."""
        report, store = self._report, cast("Store", self._store)
        with store.view() as view:
            report.buses = (
                self._part("the list of buses", lambda: buses_in(view, now=now, has_died=has_died))
                or []
            )
            report.subscriptions = (
                self._part(
                    "the list of subscriptions",
                    lambda: subscriptions_in(view, report.buses, now=now),
                )
                or []
            )
            report.retention = self._part("the rule of retention", self._retention)
            held_by = self._part("what holds the log back", lambda: pins(store)) or []
            report.pins = [
                PinFigures(pin.name, pin.position, pin.behind) for pin in held_by if pin.pinned
            ]
            report.routing = self._part(
                "the state of the pipeline", lambda: _routing(view, held_by)
            )
            report.letters = self._part("the list of dead letters", self._letters) or []
            described = self._part("the descriptions of classes", view.descriptions)
            if described is not None:
                self._described = {description.hash for description in described}

    def _retention(self) -> RetentionFigures:
        rule = retention_of(cast("Store", self._store))
        used = None if rule.size is None else self._store.size() / rule.size
        return RetentionFigures(rule.age, rule.size, rule.delivered, used)

    def _letters(self) -> list[LetterFigures]:
        # All rows are verified later; here, a damaged one must only do no harm.
        sql = (
            "SELECT subscription, reason, count(*) FROM letters "
            "WHERE typeof(subscription) = 'text' AND typeof(reason) = 'text' "
            "GROUP BY subscription, reason ORDER BY count(*) DESC, subscription, reason"
        )
        return [LetterFigures(*row) for row in fetch(self._store.connection, sql)]

    # -- the log -----------------------------------------------------------------------------------

    def verify(self, progress: Callable[[str, int, int], None]) -> None:
        """Read and count every record."""
        counts: Counter[int] = Counter()
        verifier = Verifier(self._store.connection, progress, version=self._report.version)
        self._report.integrity = verifier.verify(counts)
        self._report.log = self._part("the log", lambda: self._log(counts, verifier.roots))

    def _log(self, counts: Counter[int], roots: Collection[int | None]) -> LogFigures:
        with self._store.snapshot() as connection:
            ends = "SELECT position, time FROM log ORDER BY position"
            oldest = fetch(connection, f"{ends} LIMIT 1")
            newest = fetch(connection, f"{ends} DESC LIMIT 1")
            names = InternedNames()  # damaged ones are reported where all rows are verified
            names.load(connection)
        types = [
            TypeFigures(named.name, named.version, named.hash, counts[number])
            for number, named in names.types.items()
            if counts[number]
        ]
        types.sort(key=lambda figures: (-figures.events, figures.name, figures.version))
        self._see_descriptions([*types, *(named for n, named in names.types.items() if n in roots)])
        first, last = (rows[0] if rows else (None, None) for rows in (oldest, newest))
        return LogFigures(
            sum(counts.values()), first[0] or 1, last[0] or 0, first[1], last[1], types
        )

    def _see_descriptions(self, types: list[TypeFigures | EventType]) -> None:
        if self._described is None:
            return
        for kind in {kind.hash: kind for kind in types}.values():
            if kind.hash not in self._described:
                what = f"no description of {kind.name} version {kind.version} is kept"
                advice = "Only processes that have the class can read its events"
                self._unreadable.append(StoreProblem("warning", what, advice))


def _routing(view: View, held_by: list[Pin]) -> RoutingFigures | None:
    routed, end = view.routed(), view.newest() + 1
    names = {route.name for route in view.routes() if route.until is None}
    if not names and not routed.token:
        return None
    pinned = any(pin.name == PIPELINE and pin.position == routed.high for pin in held_by)
    return RoutingFigures(len(names), routed.high, max(0, end - routed.high), pinned)


def sync_cost(path: str) -> SyncCost | None:
    """Measure syncs of a page to a file beside the store; None if that is impossible."""
    took: list[float] = []
    folder, name = os.path.split(os.path.abspath(path))
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=f"{name}.sync-") as file:
            began = time.perf_counter()
            while len(took) < _SYNCS and time.perf_counter() - began < _SYNC_SECONDS:
                file.write(bytes(4096))
                file.flush()
                start = time.perf_counter()
                os.fsync(file.fileno())
                took.append(time.perf_counter() - start)
    except OSError:
        return None
    return SyncCost(len(took), statistics.median(took), max(took))


OVERDUE = 60.0  # seconds after which a due attempt counts as overdue


class _Defined(msgspec.Struct):
    """The parts of a definition that are shown."""

    selector: str = "?"
    level: str = "?"
    where: str | None = None
    group: str | None = None


def buses_in(
    view: View, *, now: float, has_died: Callable[[OpenBus], bool] = lambda bus: False
) -> list[BusFigures]:
    """The buses that the store lists; `has_died` knows of processes that are certainly gone."""
    return [
        BusFigures(
            bus.id,
            bus.publisher,
            bus.epoch,
            bus.process,
            bus.until,
            bus.until > now and not has_died(bus),
        )
        for bus in view.buses()
    ]


def subscriptions_in(
    view: View, buses: Sequence[BusFigures], *, now: float
) -> list[SubscriptionFigures]:
    """Every durable subscription and group, the one with the greatest lag first."""
    alive = {bus.id for bus in buses if bus.alive}
    end = view.newest() + 1
    listed = [_figures(view, kept, alive, end, now) for kept in view.subscriptions()]
    return sorted(listed, key=lambda figures: (-figures.lag, figures.name))


def _figures(
    view: View, kept: StoredSubscription, alive: set[int], end: int, now: float
) -> SubscriptionFigures:
    defined = _defined(kept.definition)
    flights = view.under_way(kept.name)
    holders = {member.bus for member in view.members(kept.name)} if kept.group else set()
    holders |= {
        holder for holder in (kept.holder, *(f.holder for f in flights)) if holder is not None
    }
    lag = max(0, end - kept.cursor) if kept.until is None else max(0, kept.until - kept.cursor)
    return SubscriptionFigures(
        name=kept.name,
        what=defined.selector,
        where=defined.where,
        level=defined.level,
        group=defined.group,
        durable=kept.durable,
        pinned=kept.pinned,
        cursor=kept.cursor,
        lag=lag,
        in_flight=len(flights),
        attempts=max((flight.attempts for flight in flights), default=0),
        overdue=sum(_is_overdue(flight, now) for flight in flights),
        buses=sorted(holders & alive),
        dead=sorted(holders - alive),
        lease=kept.lease,
    )


def _is_overdue(flight: Flight, now: float) -> bool:
    """Whether a retry is overdue; what never failed is not due at any time."""
    return 0 < flight.due <= now - OVERDUE and flight.holder is None


def _defined(definition: bytes) -> Any:
    try:
        return msgspec.json.decode(definition, type=_Defined)
    except (msgspec.DecodeError, ValueError, TypeError):  # a damaged row may have none
        return _Defined()
