"""`polycast replay`: a subscription over any range of history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import (
    add_bounds,
    add_command,
    add_limit,
    add_place,
    add_where,
    add_yes,
)
from polycast.cli.terminal import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.history_replay import AskedReplay
    from polycast.cli.terminal import Terminal
    from polycast.routing.search import Findings

__all__ = ["MOST", "declare"]

MOST = 10_000  # as polycast.delivery.replay has it, which takes long to load
_MORE = (
    f"At most {MOST:,} events go to a subscription at a time. What it is busy with, or gets "
    "anyway, is left alone."
)


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "show events of the past, or give them to a subscription once more"
    example = "replay events.db Sale --since 2030-12-31 --to billing --dry-run"
    command = add_command(commands, "replay", run, what, example, more=_MORE, late="type")
    add_place(command)
    command.add_argument(
        "type",
        metavar="TYPE",
        nargs="?",
        help="only this type, and what conforms to it; with --to by default what that wants",
    )
    add_where(command)
    command.add_argument(
        "--topic", metavar="PATTERN", help="only on these topics, as in '/shop/**'"
    )
    command.add_argument("--exact", action="store_true", help="this very type, and none below it")
    add_bounds(command)
    command.add_argument("--to", metavar="NAME", help="give them to this durable subscription")
    command.add_argument("--dry-run", action="store_true", help="count and sample, change nothing")
    add_limit(command, "at most so many; by default 100 are shown, all with --json")
    command.add_argument("--spark", action="store_true", help="search with Spark, on all cores")
    add_yes(command)


def run(given: Namespace, terminal: Terminal) -> int:
    """Show events of the past, count them, or give them to a subscription once more."""
    from polycast.cli.history_replay import (
        asked_replay,
        findings_of,
        show_events,
        tell_findings,
    )
    from polycast.cli.targets import place_of

    if given.spark and given.to is None and not given.dry_run:
        raise UsageError("--spark finds and counts: give --to NAME or --dry-run with it")
    with place_of(given).looking() as store:
        asked = asked_replay(given, store)
        if given.to is None and not given.dry_run:
            show_events(given, asked, store, terminal)
            return 0
        findings = findings_of(given, asked, terminal)
        if given.dry_run:
            tell_findings(given, asked, findings, store, terminal)
            return 0
    _deliver(given, asked, findings, terminal)
    return 0


def _deliver(given: Namespace, asked: AskedReplay, findings: Findings, terminal: Terminal) -> None:
    """Let the subscription have them."""
    import msgspec

    from polycast.cli.formatting import count
    from polycast.cli.history_replay import fates
    from polycast.delivery.replay import check_count, replay_to, told

    check_count(findings, to=given.to, limit=given.limit)
    going, went = findings.listed, 0
    what = f"{count(len(going), 'event')} would go to {given.to!r} once more"
    if going:
        what += f", positions {going[0][0]:,} to {going[-1][0]:,}"
        if terminal.confirm(what, yes=given.yes):
            with asked.place.changing() as writable:
                went = replay_to(writable, given.to, going)
    replayed = told(findings, to=given.to, count=went, is_sure=asked.history.is_sure)
    lines = list(fates(replayed, "go" if went != 1 else "goes"))
    if went:
        lines.append("it gets them now if somebody is attached, else when somebody is")
    terminal.show(msgspec.to_builtins(replayed) | {"dry_run": False}, lines)
