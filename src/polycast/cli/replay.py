"""`polycast replay`: search the log, and give a subscription what is found."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.command_line import add_command
from polycast.cli.event_lines import Payloads, line_of
from polycast.cli.formatting import Line, TextTable, ago, count, moment
from polycast.cli.operands import StorePlace, bound_of, filter_of, place_of, time_at, type_of
from polycast.cli.terminal import Terminal, UsageError
from polycast.delivery.replay import MOST, Replayed, check_count, check_limit, replay_to, told
from polycast.routing.search import History, Search, SearchResult, known_types, search_for
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.stores import Store, Stored


_MORE = (
    f"At most {MOST:,} events go to a subscription at a time. Events that it is processing, or "
    "has yet to receive, are left out."
)


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "replay events.db Sale --since 2030-12-31 --to billing --dry-run"
    command = add_command(commands, "replay", run, what, example, more=_MORE, late="type")
    command.take_place()
    command.take(
        "type TYPE",
        "only this type and its subtypes; with --to, by default all that it wants",
        nargs="?",
    )
    command.take_where()
    command.take("--topic PATTERN", "only on these topics, such as '/shop/**'")
    command.take("--exact", "exclude subtypes")
    command.take_bounds()
    command.take("--to NAME", "deliver the events to this durable subscription")
    command.take("--dry-run", "count events and show samples, without delivering any")
    command.take_limit("at most N events; by default 100 are shown, all with --json")
    command.take("--spark", "search with Spark, on all cores")
    command.take_yes()


def run(given: Namespace, terminal: Terminal) -> int:
    """Show events of the past, count them, or give them to a subscription once more."""
    if given.spark and given.to is None and not given.dry_run:
        raise UsageError("--spark finds and counts: give --to NAME or --dry-run with it")
    with place_of(given).looking() as store:
        asked = asked_replay(given, store)
        if given.to is None and not given.dry_run:
            show_events(given, asked, store, terminal)
            return 0
        findings = findings_of(given, asked, terminal)
        if given.dry_run:
            tell_findings(given, asked, findings, store, terminal)
            return 0
    _deliver(given, asked, findings, terminal)
    return 0


def _deliver(
    given: Namespace, asked: AskedReplay, findings: SearchResult, terminal: Terminal
) -> None:
    """Let the subscription have them."""
    check_count(findings, to=given.to, limit=given.limit)
    going, went = findings.listed, 0
    what = f"{count(len(going), 'event')} would go to {given.to!r} once more"
    if going:
        what += f", positions {going[0][0]:,} to {going[-1][0]:,}"
        if terminal.confirm(what, yes=given.yes):
            with asked.place.changing() as writable:
                went = replay_to(writable, given.to, going)
    replayed = told(findings, to=given.to, count=went, is_sure=asked.history.is_sure)
    lines = list(fates(replayed, "go" if went != 1 else "goes"))
    if went:
        lines.append("it gets them now if somebody is attached, else when somebody is")
    terminal.show(msgspec.to_builtins(replayed) | {"dry_run": False}, lines)


SAMPLES = 3
LIMIT = 100  # events that are shown, without --limit
_STEP = 50_000  # positions after which it is shown how far it is


@dataclass(frozen=True)
class AskedReplay:
    """What is looked for, and where."""

    place: StorePlace
    search: Search
    history: History
    low: int
    high: int


def asked_replay(given: Namespace, store: Store) -> AskedReplay:
    """What a command line asks for."""
    with store.view() as view:
        registry = known_types(view)
        search = search_for(
            view,
            type_of(given.type, registry),
            where=filter_of(given.where, registry),
            topic=given.topic,
            exact=given.exact,
            to=given.to,
            most=SAMPLES if given.to is None else check_limit(given.limit),
        )
    low = start_of(store, bound_of("--since", given.since)) or store.oldest()
    high = end_of(store, bound_of("--until", given.until))
    return AskedReplay(place_of(given), search, History(search, store), low, high)


# -- searching -------------------------------------------------------------------------------------


def findings_of(given: Namespace, asked: AskedReplay, terminal: Terminal) -> SearchResult:
    """Search the log."""
    if given.spark:
        path = asked.place.file("a search with Spark")
        from polycast.pipeline.history_search import find, some_session

        with some_session() as spark:
            return find(spark, path, asked.search, asked.low, asked.high)
    findings = SearchResult()
    for low in range(asked.low, asked.high, _STEP):
        later = asked.history.findings(low, min(low + _STEP, asked.high))
        findings.extend(later, asked.search.most)
        terminal.progress("searching", low - asked.low, asked.high - asked.low)
    return findings


def show_events(given: Namespace, asked: AskedReplay, store: Store, terminal: Terminal) -> None:
    """The events themselves, as `polycast tail` shows them."""
    payloads = _payloads(store)
    left = given.limit
    if left is None:
        left = -1 if terminal.as_json else LIMIT
    for stored in chain.from_iterable(asked.history.matching(asked.low, asked.high)):
        if left == 0:
            if given.limit is None:
                more = f"go on with --since {stored.position}, or give --limit"
                terminal.note(f"... there is more: {more}")
            return
        terminal.line(line_of(stored, payloads, as_json=terminal.as_json))
        left -= 1


def _payloads(store: Store) -> Payloads:
    with store.view() as view:
        return Payloads(view.descriptions())


# -- telling ---------------------------------------------------------------------------------------


def tell_findings(
    given: Namespace, asked: AskedReplay, findings: SearchResult, store: Store, terminal: Terminal
) -> None:
    """Count and sample; nothing is changed."""
    payloads = _payloads(store)
    samples = [
        stored for position, _ in findings.listed[:SAMPLES] for stored in _at(store, position)
    ]
    times = [None if at is None else _time(store, at) for at in (findings.first, findings.last)]
    data: dict[str, Any] = {
        "dry_run": True,
        "events": findings.events,
        "types": findings.types,
        "first": findings.first,
        "last": findings.last,
        "times": times,
        "samples": [
            msgspec.json.decode(line_of(stored, payloads, as_json=True)) for stored in samples
        ],
    }
    lines: list[Line] = list(_counted(findings, times, time_at(store, terminal)))
    if given.to is not None:
        would = told(
            findings, to=given.to, count=len(findings.listed), is_sure=asked.history.is_sure
        )
        if given.limit is None:
            would = msgspec.structs.replace(would, count=findings.going)
        data |= msgspec.to_builtins(would)
        lines += ["", *fates(would, "would go", given.limit)]
    if samples:
        lines += ["", "the first of them:"]
        lines += [line_of(stored, payloads, as_json=False) for stored in samples]
    terminal.show(data, [*lines, "", "nothing was changed"])


def _counted(findings: SearchResult, times: list[float | None], now: float) -> Iterator[Line]:
    if not findings.events:
        yield "no event is meant"
        return
    where = f"positions {findings.first:,} to {findings.last:,}"
    yield f"{count(findings.events, 'event')} meant, {where}"
    for what, time in zip(("first", "last"), times, strict=True):
        yield f"{what:<6} {moment(time)} ({ago(time, now)})"
    yield ""
    rows = sorted(findings.types.items(), key=lambda row: (-row[1], row[0]))
    yield TextTable(("type", "events"), rows, indent=2)


def fates(replayed: Replayed, what: str, limit: int | None = None) -> Iterator[str]:
    """What becomes of events, in words."""
    most = " at most" if replayed.at_most else ""
    yield f"{count(replayed.count, 'event')}{most} {what} to {replayed.to!r} once more"
    if replayed.coming:
        yield f"{replayed.coming:,} it gets anyway: they are not before its place"
    if replayed.under_way:
        yield f"{replayed.under_way:,} it is busy with"
    if replayed.at_most:
        yield "what it does not want of these it leaves out: only its own process knows"
    if limit is None and replayed.count > MOST:
        yield f"these are more than go at a time ({MOST:,}): give --limit, --since or --until"


def _at(store: Store, position: int) -> list[Stored]:
    return store.read(position, limit=1, until=position + 1).entries


def _time(store: Store, position: int) -> float | None:
    return next((stored.record.time for stored in _at(store, position)), None)
