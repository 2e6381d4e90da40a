"""`polycast dlq`: dead letters are listed, shown, replayed and purged."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.bus.stored_dead_letters import fly_again
from polycast.cli.formatting import ago, clip, count, moment, table
from polycast.cli.naming import declared_contexts, import_modules
from polycast.cli.payloads import Payloads
from polycast.cli.targets import place_of, time_at
from polycast.cli.terminal import Refused
from polycast.contexts.declare.context_state import state_of
from polycast.errors import BadOptionError
from polycast.routing.translation import context_of_letter

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.targets import Place
    from polycast.cli.terminal import Terminal
    from polycast.contexts import Context
    from polycast.stores import Letter, Transaction, View

__all__ = ["list_letters", "purge_letters", "replay_letters", "show_letter"]

_PAGE = 500  # letters in one transaction


class Row(NamedTuple):
    """What replaying a letter needs to know."""

    number: int
    subscription: str
    position: int
    publisher: str
    stuck: str = ""
    """The context that its event could not leave, if that is so."""


def list_letters(given: Namespace, terminal: Terminal) -> int:
    """List dead letters, the oldest first."""
    with place_of(given).looking() as store, store.view() as view:
        now = time_at(store, terminal)
        total = view.count_letters(subscription=given.subscription)
        found = view.letters(subscription=given.subscription, limit=given.limit)
        payloads = Payloads(view.descriptions()) if given.payload else None
    data = {"total": total, "letters": [_data(each, payloads) for each in found]}
    terminal.show(data, _listing(found, total, payloads, now))
    return 0


def _listing(
    found: list[Letter], total: int, payloads: Payloads | None, now: float
) -> Iterator[str]:
    if not found:
        yield "no dead letters"
        return
    heads = ["number", "subscription", "class", "position", "attempts", "when", "reason"]
    rows: list[list[object]] = [
        [
            str(each.number),
            each.subscription,
            each.record.name,
            each.position,
            each.attempts,
            ago(each.time, now),
            each.reason,
        ]
        for each in found
    ]
    if payloads is not None:
        heads.append("event")
        for row, each in zip(rows, found, strict=True):
            row.append(payloads.text(each.record))
    yield from table(heads, rows)
    if total > len(found):
        yield f"... {len(found):,} of {total:,}; --limit shows more"


def _data(letter: Letter, payloads: Payloads | None) -> dict[str, Any]:
    record = letter.record
    data: dict[str, Any] = {
        "number": letter.number,
        "subscription": letter.subscription,
        "class": record.name,
        "version": record.version,
        "position": letter.position,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "time": letter.time,
    }
    return data if payloads is None else data | payloads.fields(record)


def show_letter(given: Namespace, terminal: Terminal) -> int:
    """Show one dead letter whole."""
    with place_of(given).looking() as store, store.view() as view:
        found = view.letters(after=given.number - 1, limit=1)
        if not found or found[0].number != given.number:
            raise _unknown(given.number)
        payloads = Payloads(view.descriptions())
    letter = found[0]
    data = _data(letter, payloads) | {"published": letter.record.time}
    shown = {**data, "time": moment(letter.time), "published": moment(letter.record.time)}
    shown["event"] = payloads.text(letter.record)
    lines = [
        f"{key:<13} {clip(str(value), 10_000)}"
        for key, value in shown.items()
        if value not in (None, {})
    ]
    terminal.show(data, lines)
    return 0


# -- replay and purge ------------------------------------------------------------------------------


def replay_letters(given: Namespace, terminal: Terminal) -> int:
    """Give dead letters to their subscriptions once more."""
    place = place_of(given)
    declared = declared_contexts(import_modules(given.imports))
    with place.looking() as store, store.view() as view:
        chosen = _chosen(given, view)
        known, oldest = {each.name for each in view.subscriptions()}, view.oldest()
        kept = {each.name: each.body for each in view.contexts() if each.until is None}
    usable = {each.name: each for each in declared if kept.get(each.name) == state_of(each)}
    stay = {row.number: _obstacle(row, known, oldest, usable) for row in chosen}
    going = [row for row in chosen if not stay[row.number]]
    staying = [{"number": number, "why": why} for number, why in stay.items() if why]
    what = f"{count(len(going), 'dead letter')} would go to their subscriptions again"
    if staying:
        first = staying[0]
        what += f", {len(staying):,} cannot (number {first['number']}: {first['why']})"
    went: set[int] = set()
    if going and terminal.confirm(what, yes=given.yes):
        with place.changing() as writable:
            for page in _pages([row for row in going if not row.stuck]):
                rows = [row[:4] for row in page]
                went |= writable.write(partial(fly_again, letters=rows)).result()
        stuck = [row for row in going if row.stuck]
        if stuck:
            went |= _let_out(place, stuck, usable)
        staying += [
            {"number": row.number, "why": _STILL.format(row.stuck)}
            for row in stuck
            if row.number not in went
        ]
    lines = [f"{count(len(went), 'dead letter')} replayed"]
    lines += [f"{each['number']} stays: {each['why']}" for each in staying]
    terminal.show({"replayed": sorted(went), "staying": staying}, lines)
    return 0


def _let_out(place: Place, rows: list[Row], contexts: dict[str, Context]) -> set[int]:
    """Make what events are in the root that could not leave their contexts; those that went."""
    numbers = {row.number for row in rows}
    with place.bus(publisher=f"polycast-dlq-{uuid.uuid4().hex[:8]}") as bus:
        for name in dict.fromkeys(row.stuck for row in rows):
            bus.within(contexts[name])
        letters = bus.dead_letters()
        chosen = [each for each in letters if each.number in numbers]
        if chosen:
            letters.replay(*chosen)
        left = {(each.subscription, each.position) for each in letters}  # with a new number
        return {row.number for row in rows if (row.subscription, row.position) not in left}


_STILL = "its event still cannot leave context {!r}; `polycast dlq show` has the reason"


def _obstacle(row: Row, known: set[str], oldest: int, usable: dict[str, Context]) -> str:
    if row.stuck and row.stuck not in usable:
        return (
            f"its event could not leave context {row.stuck!r}, which needs the functions of that "
            "context: name the module that declares it as it is in the store, --import MODULE"
        )
    if row.subscription not in known and context_of_letter(row.subscription) is None:
        return f"the store does not keep a subscription {row.subscription!r}"
    if row.position < oldest:
        return f"its event at position {row.position} is not in the log any more"
    return ""


def purge_letters(given: Namespace, terminal: Terminal) -> int:
    """Throw dead letters away."""
    place = place_of(given)
    with place.looking() as store, store.view() as view:
        chosen = _chosen(given, view)
    gone: list[int] = []
    what = f"{count(len(chosen), 'dead letter')} would be thrown away for good"
    if chosen and terminal.confirm(what, yes=given.yes):
        with place.changing() as writable:
            for page in _pages(chosen):
                gone += writable.write(partial(_exhume, rows=page)).result()
    terminal.show({"purged": gone}, [f"{count(len(gone), 'dead letter')} purged"])
    return 0


def _exhume(tx: Transaction, rows: list[Row]) -> list[int]:
    return [letter.number for letter in tx.exhume([row.number for row in rows])]


def _pages(rows: list[Row]) -> Iterator[list[Row]]:
    return (rows[at : at + _PAGE] for at in range(0, len(rows), _PAGE))


def _chosen(given: Namespace, view: View) -> list[Row]:
    """The letters that are meant: by number, by subscription, or all."""
    ways = [bool(given.number), given.subscription is not None, given.all]
    if sum(ways) != 1:
        raise Refused(
            "say which dead letters: their numbers, or --subscription NAME, or --all; "
            "`polycast dlq list STORE` shows them"
        )
    if given.number:
        return [_numbered(view, number) for number in dict.fromkeys(given.number)]
    rows: list[Row] = []
    while True:
        after = rows[-1].number if rows else 0
        page = view.letters(subscription=given.subscription, after=after, limit=_PAGE)
        rows += map(_row, page)
        if len(page) < _PAGE:
            return rows


def _numbered(view: View, number: int) -> Row:
    found = view.letters(after=number - 1, limit=1)
    if not found or found[0].number != number:
        raise _unknown(number)
    return _row(found[0])


def _row(letter: Letter) -> Row:
    record, context = letter.record, context_of_letter(letter.subscription)
    stuck = context or "" if record.context == context and record.root is None else ""
    publisher = record.identity.publisher
    return Row(letter.number, letter.subscription, letter.position, publisher, stuck)


def _unknown(number: int) -> BadOptionError:
    return BadOptionError(
        "number",
        number,
        accepted="the number of a dead letter, as `polycast dlq list` shows it",
        why="there is no such dead letter",
    )
