"""`polycast doctor`: an examination, in words or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.brokers import examine_broker
from polycast.cli.formatting import ago, clip, count, duration, listed, moment, size, table
from polycast.cli.targets import has_died, place_of
from polycast.stores.doctor import examine
from polycast.stores.doctor.verifier import LISTED

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.brokers import Examined
    from polycast.cli.terminal import Terminal
    from polycast.stores.doctor import StoreReport, SubscriptionFigures

__all__ = ["doctor", "subscription_rows"]

STATUS = {"healthy": 0, "damaged": 1, "warnings": 3}
SUBSCRIPTION = (
    *("name", "what", "level", "group", "lag", "in flight", "attempts", "attached to", "lease"),
)
_SHOWN = 20  # rows of a table; JSON has all


def doctor(given: Namespace, terminal: Terminal) -> int:
    """Examine a store, or a broker with the store behind it."""
    place = place_of(given)
    if place.is_broker:
        with place.reached() as store:
            found = examine_broker(store, place.text, has_died=has_died)
        data = msgspec.to_builtins(found.broker)
        terminal.show({**_data(found.report), "broker": data}, _broker_lines(found))
        return STATUS[found.report.state]
    report = examine(
        place.file("an examination"),
        clock=terminal.clock,
        has_died=has_died,
        sync_test=not given.no_sync_test,
        progress=terminal.progress,
    )
    terminal.show(_data(report), _lines(report))
    return STATUS[report.state]


def _data(report: StoreReport) -> dict[str, Any]:
    data: dict[str, Any] = {"state": report.state, **msgspec.to_builtins(report)}
    for row, each in zip(data["subscriptions"], report.subscriptions, strict=True):
        row["attached"] = each.attached
    return data


def _lines(report: StoreReport) -> Iterator[str]:
    yield from _file(report)
    yield from _log(report)
    yield from _integrity(report)
    yield from _state(report)


def _broker_lines(found: Examined) -> Iterator[str]:
    broker, report = found.broker, found.report
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


def _state(report: StoreReport) -> Iterator[str]:
    yield from _buses(report)
    yield from _subscriptions(report)
    yield from _pipeline(report)
    yield from _retention(report)
    yield from _letters(report)
    yield from _problems(report)


def _file(report: StoreReport) -> Iterator[str]:
    yield f"store         {report.path}"
    version = "unknown" if report.version is None else str(report.version)
    yield f"version       {version} (this polycast writes {report.accepted})"
    yield f"size          {size(report.size)}, write-ahead log {size(report.wal)}"
    if report.sync is not None:
        cost = f"{duration(report.sync.median)}, at worst {duration(report.sync.worst)}"
        yield f"sync          {cost} ({count(report.sync.syncs, 'sync')})"


def _log(report: StoreReport) -> Iterator[str]:
    log = report.log
    if log is None:
        return
    if not log.events:
        yield "events        none"
        return
    yield f"events        {log.events:,}, positions {log.oldest:,} to {log.newest:,}"
    for what, time in (("oldest", log.oldest_time), ("newest", log.newest_time)):
        yield f"{what}        {moment(time)} ({ago(time, report.time)})"
    rows = [(each.name, each.version, each.events) for each in log.types[:_SHOWN]]
    if not rows:
        return
    yield ""
    yield from table(("type", "version", "events"), rows, indent=2)
    yield from _more(len(log.types))


def _integrity(report: StoreReport) -> Iterator[str]:
    found = report.integrity
    if found is None:
        return
    yield ""
    looked = f"{count(found.records, 'record')} and {count(found.letters, 'dead letter')} verified"
    if not found.damaged and not found.file:
        yield f"integrity     well: {looked}"
        return
    yield f"integrity     DAMAGED: {looked}, {found.damaged:,} damaged or lost"
    yield from (f"  {clip(each, 200)}" for each in found.file)
    yield from (f"  {each.place}: {clip(each.why, 200)}" for each in found.damages)
    if len(found.damages) == LISTED:
        yield "  ... and more that is not listed"


def _buses(report: StoreReport) -> Iterator[str]:
    yield ""
    if not report.buses:
        yield "buses         none is open"
        return
    alive = sum(each.alive for each in report.buses)
    yield f"buses         {alive} open, {len(report.buses) - alive} dead"
    rows = [
        (str(each.id), each.publisher, str(each.process), "alive" if each.alive else "dead")
        for each in report.buses[:_SHOWN]
    ]
    yield from table(("bus", "publisher", "process", "state"), rows, indent=2)
    yield from _more(len(report.buses))


def _subscriptions(report: StoreReport) -> Iterator[str]:
    yield ""
    if not report.subscriptions:
        yield "subscriptions none is kept"
        return
    yield f"subscriptions {len(report.subscriptions):,}"
    rows = subscription_rows(report.subscriptions[:_SHOWN], report.time)
    yield from table(SUBSCRIPTION, rows, indent=2)
    yield from _more(len(report.subscriptions))


def subscription_rows(found: list[SubscriptionFigures], now: float) -> list[tuple[object, ...]]:
    """The rows of the table of subscriptions."""
    return [
        (
            each.name,
            each.what if each.where is None else f"{each.what} where {each.where}",
            each.level,
            each.group or "-",
            each.lag,
            each.in_flight,
            each.attempts,
            _holders(each),
            "-" if each.lease is None else f"ends {ago(each.lease, now)}",
        )
        for each in found
    ]


def _holders(each: SubscriptionFigures) -> str:
    dead = [f"bus {bus} (dead)" for bus in each.dead]
    return listed([*(f"bus {bus}" for bus in each.buses), *dead])


def _pipeline(report: StoreReport) -> Iterator[str]:
    found = report.routing
    if found is not None:
        yield ""
        behind = f"{count(found.behind, 'event')} behind" if found.behind else "to the end"
        for_whom = count(found.subscriptions, "subscription")
        yield f"pipeline      routed to position {found.high - 1:,}, {behind}, for {for_whom}"


def _retention(report: StoreReport) -> Iterator[str]:
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
    behind = [each for each in report.pins if each.behind]
    if behind:
        yield "  the log is kept for"
        rows = [(each.name, each.position, each.behind) for each in behind[:_SHOWN]]
        yield from table(("name", "from position", "events behind"), rows, indent=2)
        yield from _more(len(behind))


def _letters(report: StoreReport) -> Iterator[str]:
    yield ""
    if not report.letters:
        yield "dead letters  none"
        return
    yield f"dead letters  {sum(each.letters for each in report.letters):,}"
    rows = [(each.letters, each.subscription, each.reason) for each in report.letters[:_SHOWN]]
    yield from table(("letters", "subscription", "reason"), rows, indent=2)
    yield from _more(len(report.letters))


def _problems(report: StoreReport) -> Iterator[str]:
    yield ""
    if not report.problems:
        yield "healthy: nothing to see to"
        return
    yield f"{count(len(report.problems), 'problem')}:"
    for each in report.problems:
        yield f"- {each.kind}: {clip(each.what, 300)}"
        yield f"  {each.advice}"


def _more(total: int) -> Iterator[str]:
    if total > _SHOWN:
        yield f"  ... and {total - _SHOWN:,} more; --json has all"
