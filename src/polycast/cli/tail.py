"""`polycast tail`: the end of the log, or any part of it, and what comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from polycast.cli.declaration import add_command, add_limit, add_place, add_where, whole

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.log_tail import LogTail
    from polycast.cli.terminal import Terminal

__all__ = ["declare"]

_PAGE = 500
LAST = 10  # events of the end of the log
LIMIT = 100  # with --since and without --limit, unless it follows


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "show the last events, and with --follow those that come; with --json one per line"
    example = "tail events.db --type Sale --topic '/shop/**' --follow"
    command = add_command(commands, "tail", run, what, example)
    add_place(command)
    command.add_argument("--last", "-n", metavar="N", type=whole, help="begin with so many (10)")
    command.add_argument(
        "--since",
        metavar="WHEN",
        help="begin there instead: a position, a time such as 2030-12-31T08:00, or 'beginning'",
    )
    command.add_argument("--type", metavar="NAME", help="only this class, and those below it")
    command.add_argument(
        "--topic", metavar="PATTERN", help="only on these topics, as in '/shop/**'"
    )
    add_where(command)
    most = "at most so many; with --since by default 100, all with --follow or --json"
    add_limit(command, most)
    command.add_argument("--follow", "-f", action="store_true", help="go on with what is published")


def run(given: Namespace, terminal: Terminal) -> int:
    """Show the last events, or those since a place in the log; with --follow those that come."""
    from polycast.cli.log_tail import LogTail
    from polycast.cli.targets import place_of

    with place_of(given).looking() as store:
        log = LogTail(store, given.type, given.topic, given.where)
        at = _start(given, log)
        with terminal.pages(paged=not given.follow):
            at = _show(given, log, at, terminal)
        if at <= store.newest() and given.limit is None:
            terminal.note(f"... there may be more: go on with --since {at}, or give --limit")
    return 0


def _show(given: Namespace, log: LogTail, at: int, terminal: Terminal) -> int:
    """Show events from a position on; the position after the last."""
    from polycast.cli.event_lines import line_of
    from polycast.cli.targets import WriteSignal

    signal, left = WriteSignal(log.store), _most(given, terminal)
    while left:
        signal.mark()
        batch = log.store.read(at, limit=_PAGE, types=log.numbers())
        shown = [stored for stored in batch.entries if log.is_wanted(stored)]
        if left > 0:
            shown = shown[:left]
        for stored in shown:
            terminal.line(line_of(stored, log.payloads_for(stored), as_json=terminal.as_json))
        left -= len(shown)
        is_end = batch.upto <= at
        at = max(at, batch.upto) if left else shown[-1].position + 1
        terminal.flush()
        if is_end and not given.follow:
            break
        if is_end:
            signal.wait()
    return at


def _most(given: Namespace, terminal: Terminal) -> int:
    """How many to show; a negative number never comes to 0."""
    if given.limit is not None:
        return int(given.limit)
    return LIMIT if given.since and not (given.follow or terminal.as_json) else -1


def _start(given: Namespace, log: LogTail) -> int:
    from polycast.cli.bounds import bound_of
    from polycast.stores.log_bounds import start_of

    if given.since is None:
        return log.before_last(LAST if given.last is None else given.last)
    return cast("int", start_of(log.store, bound_of("--since", given.since)))
