"""`polycast replay`: a subscription over any stretch of history."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.bounds import bound_of
from polycast.cli.event_lines import line_of
from polycast.cli.formatting import ago, count, moment, table
from polycast.cli.naming import filter_of, type_of
from polycast.cli.payloads import Payloads
from polycast.cli.targets import place_of, time_at
from polycast.cli.terminal import Refused
from polycast.delivery.replay import MOST, check_count, check_limit, replay_to, told
from polycast.routing.search import Findings, History, known_types, search_for
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.targets import Place
    from polycast.cli.terminal import Terminal
    from polycast.delivery.replay import Replayed
    from polycast.routing.search import Search
    from polycast.stores import Store, Stored

__all__ = ["replay_events"]

SAMPLES = 3
LIMIT = 100  # events that are shown, without --limit
_STEP = 50_000  # positions after which it is shown how far it is


@dataclass(frozen=True)
class _Asked:
    """What is looked for, and where."""

    place: Place
    search: Search
    history: History
    low: int
    high: int


def replay_events(given: Namespace, terminal: Terminal) -> int:
    """Show events of the past, count them, or give them to a subscription once more."""
    if given.spark and given.to is None and not given.dry_run:
        raise Refused("--spark finds and counts: give --to NAME or --dry-run with it")
    with place_of(given).looking() as store:
        asked = _asked(given, store)
        if given.to is None and not given.dry_run:
            _show(given, asked, store, terminal)
            return 0
        found = _found(given, asked, terminal)
        if given.dry_run:
            _tell(given, asked, found, store, terminal)
            return 0
    _deliver(given, asked, found, terminal)
    return 0


# -- what is asked ---------------------------------------------------------------------------------


def _asked(given: Namespace, store: Store) -> _Asked:
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
    return _Asked(place_of(given), search, History(search, store), low, high)


# -- searching -------------------------------------------------------------------------------------


def _found(given: Namespace, asked: _Asked, terminal: Terminal) -> Findings:
    if given.spark:
        path = asked.place.file("a search with Spark")
        from polycast.pipeline.replay import find, some_session

        with some_session() as spark:
            return find(spark, path, asked.search, asked.low, asked.high)
    found = Findings()
    for low in range(asked.low, asked.high, _STEP):
        later = asked.history.findings(low, min(low + _STEP, asked.high))
        found.extend(later, asked.search.most)
        terminal.progress("searching", low - asked.low, asked.high - asked.low)
    return found


def _show(given: Namespace, asked: _Asked, store: Store, terminal: Terminal) -> None:
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


def _tell(
    given: Namespace, asked: _Asked, found: Findings, store: Store, terminal: Terminal
) -> None:
    """Count and sample; nothing is changed."""
    payloads = _payloads(store)
    samples = [_at(store, position) for position, _ in found.listed[:SAMPLES]]
    times = [None if at is None else _time(store, at) for at in (found.first, found.last)]
    data: dict[str, Any] = {
        "dry_run": True,
        "events": found.events,
        "types": found.types,
        "first": found.first,
        "last": found.last,
        "times": times,
        "samples": [
            msgspec.json.decode(line_of(each, payloads, as_json=True))
            for page in samples
            for each in page
        ],
    }
    lines = list(_counted(found, times, time_at(store, terminal)))
    if given.to is not None:
        would = told(found, to=given.to, count=len(found.listed), is_sure=asked.history.is_sure)
        if given.limit is None:
            would = msgspec.structs.replace(would, count=found.going)
        data |= msgspec.to_builtins(would)
        lines += ["", *_fates(would, "would go", given.limit)]
    if samples:
        lines += ["", "the first of them:"]
        lines += [line_of(each, payloads, as_json=False) for page in samples for each in page]
    terminal.show(data, [*lines, "", "nothing was changed"])


def _counted(found: Findings, times: list[float | None], now: float) -> Iterator[str]:
    if not found.events:
        yield "no event is meant"
        return
    where = f"positions {found.first:,} to {found.last:,}"
    yield f"{count(found.events, 'event')} meant, {where}"
    for what, time in zip(("first", "last"), times, strict=True):
        yield f"{what:<6} {moment(time)} ({ago(time, now)})"
    yield ""
    rows = sorted(found.types.items(), key=lambda each: (-each[1], each[0]))
    yield from table(("type", "events"), rows, indent=2)


def _fates(replayed: Replayed, what: str, limit: int | None = None) -> Iterator[str]:
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
    return next((each.record.time for each in _at(store, position)), None)


# -- delivering ------------------------------------------------------------------------------------


def _deliver(given: Namespace, asked: _Asked, found: Findings, terminal: Terminal) -> None:
    """Let the subscription have them."""
    check_count(found, to=given.to, limit=given.limit)
    going, went = found.listed, 0
    what = f"{count(len(going), 'event')} would go to {given.to!r} once more"
    if going:
        what += f", positions {going[0][0]:,} to {going[-1][0]:,}"
        if terminal.confirm(what, yes=given.yes):
            with asked.place.changing() as writable:
                went = replay_to(writable, given.to, going)
    replayed = told(found, to=given.to, count=went, is_sure=asked.history.is_sure)
    lines = list(_fates(replayed, "go" if went != 1 else "goes"))
    if went:
        lines.append("it gets them now if somebody is attached, else when somebody is")
    terminal.show(msgspec.to_builtins(replayed) | {"dry_run": False}, lines)
