"""`polycast doctor`: examine a store or a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.broker_examination import examine_broker
from polycast.cli.declaration import add, add_command, add_place
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
from polycast.cli.subs import subscription_table
from polycast.cli.targets import place_of
from polycast.stores.doctor import examine
from polycast.stores.doctor.verifier import LISTED
from polycast.subscriptions.heartbeat import has_died

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.broker_examination import BrokerExamination
    from polycast.cli.formatting import Line
    from polycast.cli.terminal import Terminal
    from polycast.stores.doctor import StoreReport


STATUS = {"healthy": 0, "damaged": 1, "warnings": 3}
_STATUS_IN_WORDS = "Exit status: 0 healthy, 1 damaged or unreachable, 3 warnings only."


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "doctor events.db --json"
    command = add_command(commands, "doctor", run, what, example, more=_STATUS_IN_WORDS)
    add_place(command)
    add(command, "--no-sync-test", "do not measure how long a sync takes")


def run(given: Namespace, terminal: Terminal) -> int:
    """Examine a store, or a broker with the store behind it."""
    place = place_of(given)
    if place.is_broker:
        with place.reached() as store:
            examination = examine_broker(store, place.text, has_died=has_died)
        broker = msgspec.to_builtins(examination.broker)
        terminal.show({**_data(examination.report), "broker": broker}, broker_lines(examination))
        return STATUS[examination.report.state]
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


def broker_lines(examination: BrokerExamination) -> Iterator[Line]:
    """All about a broker and the store behind it."""
    broker, report = examination.broker, examination.report
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
    for what, time in (("oldest", log.oldest_time), ("newest", log.newest_time)):
        yield f"{what}        {moment(time)} ({ago(time, report.time)})"
    rows = [(kind.name, kind.version, kind.events) for kind in log.types[:_SHOWN]]
    if not rows:
        return
    yield ""
    yield TextTable(("type", "version", "events"), rows, indent=2)
    yield from _more(len(log.types))


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
        for bus in report.buses[:_SHOWN]
    ]
    yield TextTable(("bus", "publisher", "process", "state"), rows, indent=2)
    yield from _more(len(report.buses))


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
        rows = [(pin.name, pin.position, pin.behind) for pin in behind[:_SHOWN]]
        yield TextTable(("name", "from position", "events behind"), rows, indent=2)
        yield from _more(len(behind))


def _letters(report: StoreReport) -> Iterator[Line]:
    yield ""
    if not report.letters:
        yield "dead letters  none"
        return
    yield f"dead letters  {sum(figures.letters for figures in report.letters):,}"
    rows = [
        (figures.letters, figures.subscription, figures.reason)
        for figures in report.letters[:_SHOWN]
    ]
    yield TextTable(("letters", "subscription", "reason"), rows, indent=2)
    yield from _more(len(report.letters))


def _problems(report: StoreReport) -> Iterator[Line]:
    yield ""
    if not report.problems:
        yield Styled("healthy: nothing to see to", GOOD)
        return
    yield f"{count(len(report.problems), 'problem')}:"
    for problem in report.problems:
        yield by_severity(problem.kind, f"- {problem.kind}: {clip(problem.what, 300)}")
        yield f"  {problem.advice}"


def _more(total: int) -> Iterator[Line]:
    if total > _SHOWN:
        yield f"  ... and {total - _SHOWN:,} more; --json has all"
