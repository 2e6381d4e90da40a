"""`polycast types`: what a store or a broker knows of event types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_limit, add_place, add_where

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["declare"]


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "list the event types that are described, or show one with all its attributes"
    command = add_command(commands, "types", run, what, "types events.db Sale --count", late="type")
    add_place(command)
    command.add_argument("type", metavar="TYPE", nargs="?", help="by its name, or the end of it")
    command.add_argument(
        "--count", action="store_true", help="count the events, which takes a while"
    )
    add_where(command, "a filter of types, as in 'event.version > 1', by what --json prints")
    add_limit(command)


def run(given: Namespace, terminal: Terminal) -> int:
    """List the types that are described, or show one whole; with --count how many events there are.

    Counting reads the log.
    """
    from polycast.cli.described_types import (
        DescribedType,
        count_events,
        described_type,
        type_lines,
        type_table,
    )
    from polycast.cli.name_resolution import meant_by, row_filter
    from polycast.cli.targets import place_of

    is_wanted = row_filter(given.where, DescribedType)
    with place_of(given).looking() as store:
        with store.view() as view:
            described = view.descriptions()
        if given.type is not None:
            meant = meant_by(given.type, {description.name for description in described})
            described = [description for description in described if description.name == meant]
        counts = count_events(store, described, terminal) if given.count else None
    described.sort(key=lambda description: (description.name, description.version))
    rows = [(described_type(description, counts), description) for description in described]
    chosen = [row for row in rows if is_wanted(row[0])][: given.limit]
    types = [kind for kind, _ in chosen]
    data = {"types": [kind.data() for kind in types]}
    if not chosen:
        lines = ["no types are described" if not rows else "no type is meant"]
        terminal.show(data, lines)
    elif given.type is None:
        terminal.show(data, [type_table(types, counted=given.count)], paged=True)
    else:
        terminal.show(data, type_lines([row[1] for row in chosen], counts), paged=True)
    return 0
