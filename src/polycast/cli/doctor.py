"""`polycast doctor`: examine a store or a broker."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from polycast.cli.command_line import add_command
from polycast.cli.formatting import (
    ERROR,
    GOOD,
    Styled,
    TextTable,
    ago,
    by_severity,
    clip,
    count,
    duration,
    moment,
    size,
)
from polycast.cli.operands import place_of
from polycast.cli.subs import subscription_table
from polycast.stores.doctor import (
    LetterFigures,
    LogFigures,
    PinFigures,
    RetentionFigures,
    RoutingFigures,
    StoreProblem,
    StoreReport,
    buses_in,
    examine,
    subscriptions_in,
)
from polycast.stores.doctor.report import problems_of
from polycast.stores.doctor.verifier import LISTED
from polycast.stores.retention import PIPELINE, pins, retention_of
from polycast.subscriptions.heartbeat import has_died

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from polycast.broker.client.remote_store import RemoteStore
    from polycast.cli.formatting import Line
    from polycast.cli.terminal import Terminal
    from polycast.stores import Letter, Store, View

# -- a broker, over its own wire -------------------------------------------------------------------

_QUESTIONS = 20
SLOW = 0.5  # seconds of a round trip
CLOCK_TOLERANCE = 5.0  # seconds between two clocks
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


def examine_broker(store: RemoteStore, url: str) -> tuple[BrokerFigures, StoreReport]:
    """Ask a broker all that it answers; the file of its store is examined where it is."""
    figures = _figures(store, url)
    report = _report(cast("Store", store), url, store.clock.time())
    report.problems += [*_broker_problems(figures), *problems_of(report)]
    return figures, report


def _figures(store: RemoteStore, url: str) -> BrokerFigures:
    welcome, took = store.welcome, []
    for _ in range(_QUESTIONS):
        began = time.perf_counter()
        store.oldest()
        took.append(time.perf_counter() - began)
    return BrokerFigures(
        url,
        welcome.broker,
        welcome.protocol,
        welcome.store,
        welcome.rights,
        statistics.median(took),
        max(took),
        store.clock.offset(),
        msgspec.structs.asdict(welcome.limits),
    )


def _report(store: Store, url: str, now: float) -> StoreReport:
    report = StoreReport(url, now, None, 0, store.size(), 0)
    report.log = _log_figures(store)
    with store.view() as view:
        report.buses = buses_in(view, now=now, has_died=has_died)
        report.subscriptions = subscriptions_in(view, report.buses, now=now)
        report.letters = _letter_figures(view)
        all_pins = pins(store)
        report.routing = _routing(view, any(pin.name == PIPELINE for pin in all_pins))
    report.pins = [PinFigures(pin.name, pin.position, pin.behind) for pin in all_pins if pin.pinned]
    rule = retention_of(store)
    used = None if rule.size is None else report.size / rule.size
    report.retention = RetentionFigures(rule.age, rule.size, rule.delivered, used)
    return report


def _log_figures(store: Store) -> LogFigures:
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


def _letter_figures(view: View) -> list[LetterFigures]:
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


def _broker_problems(figures: BrokerFigures) -> Iterator[StoreProblem]:
    if figures.round_trip >= SLOW:
        what = f"a question to the broker takes {figures.round_trip * 1000:.0f} ms"
        yield StoreProblem("warning", what, "Publish many events per call, or come nearer to it")
    if abs(figures.clock_offset) >= CLOCK_TOLERANCE:
        what = f"the clock of the broker differs from the one here by {figures.clock_offset:.1f} s"
        advice = "Let both be set by NTP; leases and expiry go by the broker's"
        yield StoreProblem("warning", what, advice)


# -- the command -----------------------------------------------------------------------------------

STATUS = {"healthy": 0, "damaged": 1, "warnings": 3}
_STATUS_IN_WORDS = "Exit status: 0 healthy, 1 damaged or unreachable, 3 warnings only."


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "doctor events.db --json"
    command = add_command(commands, "doctor", run, what, example, more=_STATUS_IN_WORDS)
    command.take_place()
    command.take("--no-sync-test", "do not measure how long a sync takes")


def run(given: Namespace, terminal: Terminal) -> int:
    """Examine a store, or a broker with the store behind it."""
    place = place_of(given)
    if place.is_broker:
        with place.reached() as store:
            broker, report = examine_broker(store, place.text)
        data = {**_data(report), "broker": msgspec.to_builtins(broker)}
        terminal.show(data, broker_lines(broker, report))
        return STATUS[report.state]
    report = examine(
        place.file("an examination"),
        clock=terminal.clock,
        has_died=has_died,
        sync_test=not given.no_sync_test,
        progress=terminal.progress,
    )
    terminal.show(_data(report), report_lines(report))
    return STATUS[report.state]


def _data(report: StoreReport) -> dict[str, Any]:
    data: dict[str, Any] = {"state": report.state, **msgspec.to_builtins(report)}
    for row, figures in zip(data["subscriptions"], report.subscriptions, strict=True):
        row["attached"] = figures.attached
    return data


_SHOWN = 20  # rows of a table; JSON has all


def report_lines(report: StoreReport) -> Iterator[Line]:
    """All about the file of a store."""
    yield from _file(report)
    yield from _log(report)
    yield from _integrity(report)
    yield from _state(report)


def broker_lines(broker: BrokerFigures, report: StoreReport) -> Iterator[Line]:
    """All about a broker and the store behind it."""
    yield f"broker        {broker.url} ({broker.name}), protocol {broker.protocol}"
    yield f"token         {broker.token}"
    times = f"{duration(broker.round_trip)}, at worst {duration(broker.worst_round_trip)}"
    yield f"round trip    {times}"
    ahead = "ahead of" if broker.clock_offset > 0 else "behind"
    yield f"clock         {duration(abs(broker.clock_offset))} {ahead} the one here"
    limits = broker.limits
    rate = f"{limits['rate']:,} events/s" if limits["rate"] else "any number of events/s"
    yield (
        f"limits        {size(limits['frame'])} a frame, {rate}, "
        f"{limits['subscriptions']:,} subscriptions, {limits['pending']:,} open questions"
    )
    yield f"store         {broker.store}, {size(report.size)}"
    yield from _log(report)
    yield from _state(report)


def _state(report: StoreReport) -> Iterator[Line]:
    yield from _buses(report)
    yield from _subscriptions(report)
    yield from _pipeline(report)
    yield from _retention(report)
    yield from _letters(report)
    yield from _problems(report)


def _file(report: StoreReport) -> Iterator[Line]:
    yield f"store         {report.path}"
    version = "unknown" if report.version is None else str(report.version)
    yield f"version       {version} (this polycast writes {report.accepted})"
    yield f"size          {size(report.size)}, write-ahead log {size(report.wal)}"
    if report.sync is not None:
        cost = f"{duration(report.sync.median)}, at worst {duration(report.sync.worst)}"
        yield f"sync          {cost} ({count(report.sync.syncs, 'sync')})"


def _log(report: StoreReport) -> Iterator[Line]:
    log = report.log
    if log is None:
        return
    if not log.events:
        yield "events        none"
        return
    yield f"events        {log.events:,}, positions {log.oldest:,} to {log.newest:,}"
    for what, at in (("oldest", log.oldest_time), ("newest", log.newest_time)):
        yield f"{what}        {moment(at)} ({ago(at, report.time)})"
    rows = [(kind.name, kind.version, kind.events) for kind in log.types]
    if rows:
        yield ""
        yield from _table(("type", "version", "events"), rows)


def _integrity(report: StoreReport) -> Iterator[Line]:
    integrity = report.integrity
    if integrity is None:
        return
    yield ""
    records, letters = count(integrity.records, "record"), count(integrity.letters, "dead letter")
    verified = f"{records} and {letters} verified"
    if not integrity.damaged and not integrity.file:
        yield f"integrity     well: {verified}"
        return
    damaged = f"{integrity.damaged:,} damaged or lost"
    yield Styled(f"integrity     DAMAGED: {verified}, {damaged}", ERROR)
    yield from (f"  {clip(finding, 200)}" for finding in integrity.file)
    yield from (f"  {damage.place}: {clip(damage.why, 200)}" for damage in integrity.damages)
    if len(integrity.damages) == LISTED:
        yield "  ... and more that is not listed"


def _buses(report: StoreReport) -> Iterator[Line]:
    yield ""
    if not report.buses:
        yield "buses         none is open"
        return
    alive = sum(bus.alive for bus in report.buses)
    yield f"buses         {alive} open, {len(report.buses) - alive} dead"
    rows = [
        (str(bus.id), bus.publisher, str(bus.process), "alive" if bus.alive else "dead")
        for bus in report.buses
    ]
    yield from _table(("bus", "publisher", "process", "state"), rows)


def _subscriptions(report: StoreReport) -> Iterator[Line]:
    yield ""
    if not report.subscriptions:
        yield "subscriptions none is kept"
        return
    yield f"subscriptions {len(report.subscriptions):,}"
    yield subscription_table(report.subscriptions[:_SHOWN], report.time, indent=2)
    yield from _more(len(report.subscriptions))


def _pipeline(report: StoreReport) -> Iterator[Line]:
    routing = report.routing
    if routing is not None:
        yield ""
        behind = f"{count(routing.behind, 'event')} behind" if routing.behind else "to the end"
        for_whom = count(routing.subscriptions, "subscription")
        yield f"pipeline      routed to position {routing.high - 1:,}, {behind}, for {for_whom}"


def _retention(report: StoreReport) -> Iterator[Line]:
    rule = report.retention
    if rule is None:
        return
    parts = []
    if rule.age is not None:
        parts.append(f"events older than {duration(rule.age)} may go")
    if rule.size is not None:
        parts.append(f"at most {size(rule.size)}, {rule.used or 0:.0%} of it taken")
    if rule.delivered:
        parts.append("what everybody has may go")
    yield ""
    yield f"retention     {'; '.join(parts) or 'all is kept'}"
    behind = [pin for pin in report.pins if pin.behind]
    if behind:
        yield "  the log is kept for"
        rows = [(pin.name, pin.position, pin.behind) for pin in behind]
        yield from _table(("name", "from position", "events behind"), rows)


def _letters(report: StoreReport) -> Iterator[Line]:
    yield ""
    if not report.letters:
        yield "dead letters  none"
        return
    yield f"dead letters  {sum(figures.letters for figures in report.letters):,}"
    rows = [(figures.letters, figures.subscription, figures.reason) for figures in report.letters]
    yield from _table(("letters", "subscription", "reason"), rows)


def _problems(report: StoreReport) -> Iterator[Line]:
    yield ""
    if not report.problems:
        yield Styled("healthy: nothing to see to", GOOD)
        return
    yield f"{count(len(report.problems), 'problem')}:"
    for problem in report.problems:
        yield by_severity(problem.kind, f"- {problem.kind}: {clip(problem.what, 300)}")
        yield f"  {problem.advice}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[Line]:
    yield TextTable(heads, rows[:_SHOWN], indent=2)
    yield from _more(len(rows))


def _more(total: int) -> Iterator[Line]:
    if total > _SHOWN:
        yield f"  ... and {total - _SHOWN:,} more; --json has all"
