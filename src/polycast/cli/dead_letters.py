"""Dead letters: which are chosen, how they are shown, and what keeps one from a replay."""

from __future__ import annotations

import uuid
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.cli.event_lines import Payloads
from polycast.cli.formatting import TextTable, ago, clip, moment
from polycast.cli.name_resolution import filter_of
from polycast.cli.terminal import UsageError
from polycast.errors import BadOptionError
from polycast.routing.translation import context_of_letter

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from polycast.cli.formatting import Line
    from polycast.cli.targets import StorePlace
    from polycast.contexts import Context
    from polycast.stores import Letter, Transaction, View


LETTER_PAGE = 500  # letters that are read or changed at a time


def chosen_letters(
    view: View, subscription: str | None, where: str | None, limit: int
) -> tuple[list[Letter], int]:
    """The first dead letters whose events a filter is true of, and how many there are of these."""
    payloads = Payloads(view.descriptions())
    condition = filter_of(where, payloads.registry)
    if condition is None:
        total = view.count_letters(subscription=subscription)
        return view.letters(subscription=subscription, limit=limit), total
    letters = (
        letter
        for letter in _all_letters(view, subscription)
        if payloads.matches(condition, letter.record)
    )
    first = list(islice(letters, limit))
    return first, len(first) + sum(1 for _ in letters)


def _all_letters(view: View, subscription: str | None) -> Iterator[Letter]:
    after = 0
    while page := view.letters(subscription=subscription, after=after, limit=LETTER_PAGE):
        yield from page
        after = page[-1].number


def letter_table(
    letters: Sequence[Letter], total: int, payloads: Payloads | None, now: float
) -> Iterator[Line]:
    """A row for each dead letter, and how many more there are."""
    if not letters:
        yield "no dead letters"
        return
    heads = ["number", "subscription", "class", "position", "attempts", "when", "reason"]
    rows: list[list[object]] = [
        [
            str(letter.number),
            letter.subscription,
            letter.record.name,
            letter.position,
            letter.attempts,
            ago(letter.time, now),
            letter.reason,
        ]
        for letter in letters
    ]
    if payloads is not None:
        heads.append("event")
        for row, letter in zip(rows, letters, strict=True):
            row.append(payloads.text(letter.record))
    yield TextTable(heads, rows)
    if total > len(letters):
        yield f"... {len(letters):,} of {total:,}; --limit shows more"


def letter_data(letter: Letter, payloads: Payloads | None) -> dict[str, Any]:
    """A dead letter for a program."""
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


def letter_lines(letter: Letter, data: dict[str, Any], payloads: Payloads) -> list[str]:
    """All about a dead letter."""
    shown = {**data, "time": moment(letter.time), "published": moment(letter.record.time)}
    shown["event"] = payloads.text(letter.record)
    return [
        f"{key:<13} {clip(str(value), 10_000)}"
        for key, value in shown.items()
        if value not in (None, {})
    ]


class ChosenLetter(NamedTuple):
    """What a replay needs to know of a dead letter."""

    number: int
    subscription: str
    position: int
    publisher: str
    stuck: str = ""
    """The context that its event could not leave, if that is so."""


def translate_again(
    place: StorePlace, rows: list[ChosenLetter], contexts: dict[str, Context]
) -> set[int]:
    """Translate to the root events that could not leave their contexts; the numbers that went."""
    numbers = {letter.number for letter in rows}
    with place.bus(publisher=f"polycast-dlq-{uuid.uuid4().hex[:8]}") as bus:
        for name in dict.fromkeys(letter.stuck for letter in rows):
            bus.within(contexts[name])
        letters = bus.dead_letters()
        chosen = [letter for letter in letters if letter.number in numbers]
        if chosen:
            letters.replay(*chosen)
        # What is still there has a new number.
        left = {(letter.subscription, letter.position) for letter in letters}
        return {
            letter.number for letter in rows if (letter.subscription, letter.position) not in left
        }


STILL = "its event still cannot leave context {!r}; `polycast dlq show` has the reason"


def obstacle_to(
    letter: ChosenLetter, known: set[str], oldest: int, usable: dict[str, Context]
) -> str:
    """Why a letter cannot be replayed; nothing if it can."""
    if letter.stuck and letter.stuck not in usable:
        return (
            f"its event could not leave context {letter.stuck!r}, which needs the functions of "
            "that context: name the module that declares it as it is in the store, --import MODULE"
        )
    if letter.subscription not in known and context_of_letter(letter.subscription) is None:
        return f"the store does not keep a subscription {letter.subscription!r}"
    if letter.position < oldest:
        return f"its event at position {letter.position} is not in the log any more"
    return ""


def exhume(tx: Transaction, rows: list[ChosenLetter]) -> list[int]:
    """Remove dead letters; the numbers of those that were there."""
    return [letter.number for letter in tx.exhume([row.number for row in rows])]


def in_pages(rows: list[ChosenLetter]) -> Iterator[list[ChosenLetter]]:
    """As many as are changed in one transaction, at a time."""
    return (rows[at : at + LETTER_PAGE] for at in range(0, len(rows), LETTER_PAGE))


def choose(given: Namespace, view: View) -> list[ChosenLetter]:
    """The letters that are meant: by number, by subscription, or all."""
    ways = [bool(given.number), given.subscription is not None, given.all]
    if sum(ways) != 1:
        raise UsageError(
            "say which dead letters: their numbers, or --subscription NAME, or --all; "
            "`polycast dlq list STORE` shows them"
        )
    if given.number:
        return [_numbered(view, number) for number in dict.fromkeys(given.number)]
    rows: list[ChosenLetter] = []
    while True:
        after = rows[-1].number if rows else 0
        page = view.letters(subscription=given.subscription, after=after, limit=LETTER_PAGE)
        rows += map(_row, page)
        if len(page) < LETTER_PAGE:
            return rows


def _numbered(view: View, number: int) -> ChosenLetter:
    return _row(letter_numbered(view, number))


def letter_numbered(view: View, number: int) -> Letter:
    """The dead letter of a number."""
    page = view.letters(after=number - 1, limit=1)
    if not page or page[0].number != number:
        raise BadOptionError(
            "number",
            number,
            accepted="the number of a dead letter, as `polycast dlq list` shows it",
            why="there is no such dead letter",
        )
    return page[0]


def _row(letter: Letter) -> ChosenLetter:
    record, context = letter.record, context_of_letter(letter.subscription)
    stuck = context or "" if record.context == context and record.root is None else ""
    publisher = record.identity.publisher
    return ChosenLetter(letter.number, letter.subscription, letter.position, publisher, stuck)
