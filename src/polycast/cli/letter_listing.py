"""Dead letters, in a table or one by one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from polycast.cli.formatting import TextTable, ago, clip, moment
from polycast.cli.name_resolution import filter_of
from polycast.cli.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polycast.cli.formatting import Line
    from polycast.stores import Letter, View

__all__ = ["LETTER_PAGE", "chosen_letters", "letter_data", "letter_lines", "letter_table"]

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
