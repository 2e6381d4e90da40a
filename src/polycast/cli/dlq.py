"""`polycast dlq`: list, show, replay and purge dead letters."""

from __future__ import annotations

import uuid
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.bus.stored_dead_letters import fly_again
from polycast.cli.command_line import FILTER, Parser, add_command, add_family, whole
from polycast.cli.event_lines import Payloads
from polycast.cli.formatting import Line, TextTable, ago, clip, count, moment
from polycast.cli.operands import (
    StorePlace,
    declared_contexts,
    filter_of,
    import_modules,
    place_of,
    time_at,
)
from polycast.cli.terminal import Terminal, UsageError
from polycast.contexts.declare.context_state import state_of
from polycast.errors import BadOptionError
from polycast.routing.translation import context_of_letter

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from polycast.cli.operands import StorePlace
    from polycast.contexts import Context
    from polycast.stores import Letter, Transaction, View

_IMPORTS = "modules that declare contexts, for events that could not leave one"


def declare(commands: Any, what: str) -> None:
    """Declare the commands."""
    family = add_family(commands, "dlq", what, "dlq list events.db")
    what, example = "list dead letters", "dlq list events.db --payload"
    command = add_command(family, "list", run_list, what, example)
    command.take_place()
    command.take("--subscription NAME", "only the letters of this subscription")
    command.take_where(f"{FILTER}: only letters whose event matches")
    command.take_limit("show at most N (100)", 100)
    command.take("--payload", "show the events as well")
    command = add_command(family, "show", run_show, "show one dead letter", "dlq show events.db 17")
    command.take_place()
    command.take("number NUMBER", "the number, as `dlq list` shows it", type=whole)
    what = "deliver dead letters to their subscriptions again"
    example = "dlq replay events.db --subscription billing"
    command = add_command(family, "replay", run_replay, what, example)
    _add_choice(command)
    command.take_imports(_IMPORTS)
    command.take_yes()
    what = "delete dead letters for good"
    example = "dlq purge events.db --subscription billing"
    command = add_command(family, "purge", run_purge, what, example)
    _add_choice(command)
    command.take_yes()


def _add_choice(command: Parser) -> None:
    command.take_place()
    command.take("number NUMBER", "the numbers of letters", nargs="*", type=whole)
    command.take("--subscription NAME", "all letters of this subscription")
    command.take("--all", "all letters")


def run_list(given: Namespace, terminal: Terminal) -> int:
    """List dead letters, the oldest first."""
    with place_of(given).looking() as store, store.view() as view:
        now = time_at(store, terminal)
        letters, total = chosen_letters(view, given.subscription, given.where, given.limit)
        payloads = Payloads(view.descriptions()) if given.payload else None
    data = {"total": total, "letters": [letter_data(letter, payloads) for letter in letters]}
    terminal.show(data, letter_table(letters, total, payloads, now), paged=True)
    return 0


def run_show(given: Namespace, terminal: Terminal) -> int:
    """Show one dead letter whole."""
    with place_of(given).looking() as store, store.view() as view:
        letter = letter_numbered(view, given.number)
        payloads = Payloads(view.descriptions())
    data = letter_data(letter, payloads) | {"published": letter.record.time}
    terminal.show(data, letter_lines(letter, data, payloads))
    return 0


def run_replay(given: Namespace, terminal: Terminal) -> int:
    """Give dead letters to their subscriptions once more."""
    place = place_of(given)
    declared = declared_contexts(import_modules(given.imports))
    with place.looking() as store, store.view() as view:
        chosen = choose(given, view)
        known = {subscription.name for subscription in view.subscriptions()}
        oldest = view.oldest()
        stored = {state.name: state.body for state in view.contexts() if state.until is None}
    usable = {
        context.name: context
        for context in declared
        if stored.get(context.name) == state_of(context)
    }
    obstacles = {letter.number: obstacle_to(letter, known, oldest, usable) for letter in chosen}
    going = [letter for letter in chosen if not obstacles[letter.number]]
    staying = [{"number": number, "why": why} for number, why in obstacles.items() if why]
    what = f"{count(len(going), 'dead letter')} would go to their subscriptions again"
    if staying:
        first = staying[0]
        what += f", {len(staying):,} cannot (number {first['number']}: {first['why']})"
    went: set[int] = set()
    if going and terminal.confirm(what, yes=given.yes):
        went = _replay(place, going, usable)
        staying += [
            {"number": letter.number, "why": STILL.format(letter.stuck)}
            for letter in going
            if letter.stuck and letter.number not in went
        ]
    lines = [f"{count(len(went), 'dead letter')} replayed"]
    lines += [f"{letter['number']} stays: {letter['why']}" for letter in staying]
    terminal.show({"replayed": sorted(went), "staying": staying}, lines)
    return 0


def _replay(place: StorePlace, going: list[ChosenLetter], usable: dict[str, Context]) -> set[int]:
    """Replay letters; the numbers of those that went."""
    went: set[int] = set()
    with place.changing() as writable:
        for page in in_pages([letter for letter in going if not letter.stuck]):
            rows = [letter[:4] for letter in page]
            went |= writable.write(partial(fly_again, letters=rows)).result()
    stuck = [letter for letter in going if letter.stuck]
    return went | translate_again(place, stuck, usable) if stuck else went


def run_purge(given: Namespace, terminal: Terminal) -> int:
    """Throw dead letters away."""
    place = place_of(given)
    with place.looking() as store, store.view() as view:
        chosen = choose(given, view)
    gone: list[int] = []
    what = f"{count(len(chosen), 'dead letter')} would be thrown away for good"
    if chosen and terminal.confirm(what, yes=given.yes):
        with place.changing() as writable:
            for page in in_pages(chosen):
                gone += writable.write(partial(_exhume, rows=page)).result()
    terminal.show({"purged": gone}, [f"{count(len(gone), 'dead letter')} purged"])
    return 0


# -- dead letters ----------------------------------------------------------------------------------

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
    heads += [] if payloads is None else ["event"]
    rows = [
        (
            str(letter.number),
            letter.subscription,
            letter.record.name,
            letter.position,
            letter.attempts,
            ago(letter.time, now),
            letter.reason,
            *([] if payloads is None else [payloads.text(letter.record)]),
        )
        for letter in letters
    ]
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


def _exhume(tx: Transaction, rows: list[ChosenLetter]) -> list[int]:
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
        return [_chosen(letter_numbered(view, number)) for number in dict.fromkeys(given.number)]
    return list(map(_chosen, _all_letters(view, given.subscription)))


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


def _chosen(letter: Letter) -> ChosenLetter:
    record, context = letter.record, context_of_letter(letter.subscription)
    stuck = context or "" if record.context == context and record.root is None else ""
    publisher = record.identity.publisher
    return ChosenLetter(letter.number, letter.subscription, letter.position, publisher, stuck)
