"""An examination of a broker over its own wire: how it is reached, and the state of its store."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from polycast.stores.doctor import (
    LetterFigures,
    LogFigures,
    PinFigures,
    RetentionFigures,
    RoutingFigures,
    StoreProblem,
    StoreReport,
    buses_in,
    subscriptions_in,
)
from polycast.stores.doctor.report import problems_of
from polycast.stores.retention import PIPELINE, pins, retention_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.client.remote_store import RemoteStore
    from polycast.stores import Letter, OpenBus, Store, View

_QUESTIONS = 20
SLOW = 0.5  # seconds of a round trip
ASTRAY = 5.0  # seconds between two clocks
_PAGE = 500
_MOST = 10_000  # dead letters that are looked at


class BrokerFigures(msgspec.Struct, frozen=True):
    """How a broker is reached; times are in seconds."""

    url: str
    name: str
    protocol: int
    store: str
    """The identity of its store."""
    token: str
    """Who it takes this client for."""
    round_trip: float
    worst_round_trip: float
    clock_offset: float
    """How much its clock is ahead of the one here."""
    limits: dict[str, Any]


class BrokerExamination(msgspec.Struct, frozen=True):
    """What was found."""

    broker: BrokerFigures
    report: StoreReport


def examine_broker(
    store: RemoteStore, url: str, *, has_died: Callable[[OpenBus], bool]
) -> BrokerExamination:
    """Ask a broker all that it answers; the file of its store is examined where it is."""
    figures = _figures(store, url)
    report = _report(cast("Store", store), url, store.clock.time(), has_died)
    report.problems += [*_problems(figures), *problems_of(report)]
    return BrokerExamination(figures, report)


def _figures(store: RemoteStore, url: str) -> BrokerFigures:
    welcome, took = store.welcome, []
    for _ in range(_QUESTIONS):
        began = time.perf_counter()
        store.oldest()
        took.append(time.perf_counter() - began)
    limits = {
        name: getattr(welcome.limits, name) for name in type(welcome.limits).__struct_fields__
    }
    return BrokerFigures(
        url,
        welcome.broker,
        welcome.protocol,
        welcome.store,
        welcome.rights,
        statistics.median(took),
        max(took),
        store.clock.offset(),
        limits,
    )


def _report(store: Store, url: str, now: float, has_died: Callable[[OpenBus], bool]) -> StoreReport:
    report = StoreReport(url, now, None, 0, store.size(), 0)
    report.log = _log(store)
    with store.view() as view:
        report.buses = buses_in(view, now=now, has_died=has_died)
        report.subscriptions = subscriptions_in(view, report.buses, now=now)
        report.letters = _letters(view)
        all_pins = pins(store)
        report.routing = _routing(view, any(pin.name == PIPELINE for pin in all_pins))
    report.pins = [PinFigures(pin.name, pin.position, pin.behind) for pin in all_pins if pin.pinned]
    rule = retention_of(store)
    used = None if rule.size is None else report.size / rule.size
    report.retention = RetentionFigures(rule.age, rule.size, rule.delivered, used)
    return report


def _log(store: Store) -> LogFigures:
    """The ends of the log; what is between is counted where the file is."""
    oldest, newest = store.oldest(), store.newest()
    ends = [store.read(at, limit=1, until=at + 1).entries for at in (oldest, newest)]
    times = [entries[0].record.time if entries else None for entries in ends]
    return LogFigures(max(0, newest + 1 - oldest), oldest, newest, times[0], times[1], [])


def _routing(view: View, pinned: object) -> RoutingFigures | None:
    routed, end = view.routed(), view.newest() + 1
    names = {route.name for route in view.routes() if route.until is None}
    if not names and not routed.token:
        return None
    return RoutingFigures(len(names), routed.high, max(0, end - routed.high), bool(pinned))


def _letters(view: View) -> list[LetterFigures]:
    counts = Counter((letter.subscription, letter.reason) for letter in _all_letters(view))
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return [LetterFigures(*about, many) for about, many in rows]


def _all_letters(view: View) -> Iterator[Letter]:
    after = seen = 0
    while seen < _MOST:
        page = view.letters(after=after, limit=_PAGE)
        yield from page
        if not page:
            return
        seen, after = seen + len(page), page[-1].number


def _problems(figures: BrokerFigures) -> Iterator[StoreProblem]:
    if figures.round_trip >= SLOW:
        what = f"a question to the broker takes {figures.round_trip * 1000:.0f} ms"
        yield StoreProblem("warning", what, "Publish many events per call, or come nearer to it")
    if abs(figures.clock_offset) >= ASTRAY:
        what = f"the clock of the broker differs from the one here by {figures.clock_offset:.1f} s"
        advice = "Let both be set by NTP; leases and expiry go by the broker's"
        yield StoreProblem("warning", what, advice)
