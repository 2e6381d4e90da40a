"""`polycast dlq`: list, show, replay and purge dead letters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.bus.stored_dead_letters import fly_again
from polycast.cli.dead_letters import (
    STILL,
    choose,
    chosen_letters,
    exhume,
    in_pages,
    letter_data,
    letter_lines,
    letter_numbered,
    letter_table,
    obstacle_to,
    translate_again,
)
from polycast.cli.declaration import (
    FILTER,
    add,
    add_command,
    add_family,
    add_imports,
    add_limit,
    add_place,
    add_where,
    add_yes,
    whole,
)
from polycast.cli.event_lines import Payloads
from polycast.cli.formatting import count
from polycast.cli.name_resolution import declared_contexts, import_modules
from polycast.cli.targets import place_of, time_at
from polycast.contexts.declare.context_state import state_of

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from polycast.cli.dead_letters import ChosenLetter
    from polycast.cli.targets import StorePlace
    from polycast.cli.terminal import Terminal
    from polycast.contexts import Context


_IMPORTS = "modules that declare contexts, for events that could not leave one"


def declare(commands: Any, what: str) -> None:
    """Declare the commands."""
    family = add_family(commands, "dlq", what, "dlq list events.db")
    what, example = "list dead letters", "dlq list events.db --payload"
    command = add_command(family, "list", run_list, what, example)
    add_place(command)
    add(command, "--subscription NAME", "only the letters of this subscription")
    add_where(command, f"{FILTER}: only letters whose event matches")
    add_limit(command, "show at most N (100)", 100)
    add(command, "--payload", "show the events as well")
    command = add_command(family, "show", run_show, "show one dead letter", "dlq show events.db 17")
    add_place(command)
    add(command, "number NUMBER", "the number, as `dlq list` shows it", type=whole)
    what = "deliver dead letters to their subscriptions again"
    example = "dlq replay events.db --subscription billing"
    command = add_command(family, "replay", run_replay, what, example)
    _add_choice(command)
    add_imports(command, _IMPORTS)
    add_yes(command)
    what = "delete dead letters for good"
    example = "dlq purge events.db --subscription billing"
    command = add_command(family, "purge", run_purge, what, example)
    _add_choice(command)
    add_yes(command)


def _add_choice(command: argparse.ArgumentParser) -> None:
    add_place(command)
    add(command, "number NUMBER", "the numbers of letters", nargs="*", type=whole)
    add(command, "--subscription NAME", "all letters of this subscription")
    add(command, "--all", "all letters")


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
                gone += writable.write(partial(exhume, rows=page)).result()
    terminal.show({"purged": gone}, [f"{count(len(gone), 'dead letter')} purged"])
    return 0
