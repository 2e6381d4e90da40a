"""`polycast explain`: why a kept subscription gets an event or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_place, whole

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["declare"]


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "say what a kept subscription wants, where that is asked, and what became of an event"
    command = add_command(commands, "explain", run, what, "explain events.db billing --position 17")
    add_place(command)
    command.add_argument("name", metavar="SUBSCRIPTION", help="as `subs` shows it")
    command.add_argument("--position", metavar="N", type=whole, help="of an event in the log")


def run(given: Namespace, terminal: Terminal) -> int:
    """Say what a kept subscription wants and where that is asked; and what it makes of an event."""
    from polycast.cli.stored_explanation import StoredExplanation, kept_named, stored_at
    from polycast.cli.targets import place_of, time_at

    with place_of(given).looking() as store:
        with store.view() as view:
            explanation = StoredExplanation(view, kept_named(view, given.name))
        asked = explanation.asked()
        lines = explanation.lines(asked)
        data = explanation.data() | {"at_broker": asked, "means": lines}
        if given.position is not None:
            stored = stored_at(store, given.position)
            judgement = explanation.judge(store, stored, time_at(store, terminal))
            data |= judgement
            lines = [*lines, "", *judgement["reasons"]]
    terminal.show(data, lines)
    return 0
