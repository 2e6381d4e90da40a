"""A search through history: what it means, what it finds, and what becomes of that."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.bounds import bound_of
from polycast.cli.event_lines import line_of
from polycast.cli.formatting import TextTable, ago, count, moment
from polycast.cli.name_resolution import filter_of, type_of
from polycast.cli.payloads import Payloads
from polycast.cli.targets import place_of, time_at
from polycast.delivery.replay import MOST, check_limit, told
from polycast.routing.search import Findings, History, known_types, search_for
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.formatting import Line
    from polycast.cli.targets import StorePlace
    from polycast.cli.terminal import Terminal
    from polycast.delivery.replay import Replayed
    from polycast.routing.search import Search
    from polycast.stores import Store, Stored

__all__ = ["AskedReplay", "asked_replay", "fates", "findings_of", "show_events", "tell_findings"]

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


def findings_of(given: Namespace, asked: AskedReplay, terminal: Terminal) -> Findings:
    """Search the log."""
    if given.spark:
        path = asked.place.file("a search with Spark")
        from polycast.pipeline.replay import find, some_session

        with some_session() as spark:
            return find(spark, path, asked.search, asked.low, asked.high)
    findings = Findings()
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
    given: Namespace, asked: AskedReplay, findings: Findings, store: Store, terminal: Terminal
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


def _counted(findings: Findings, times: list[float | None], now: float) -> Iterator[Line]:
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
