"""The words of the command line: commands, what they take, and an example of each."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from polycast.cli.arguments import Parser, add_bounds, add_file, add_place, command, family, whole
from polycast.cli.completion import SHELLS, print_completion
from polycast.cli.contexts import check_context, compare_contexts, show_context
from polycast.cli.copies import make_backup, restore_backup
from polycast.cli.doctor import doctor
from polycast.cli.parsing_brokers import add_broker_commands
from polycast.cli.parsing_events import add_event_commands, take_late_words
from polycast.cli.pipelines import run_pipeline, show_status

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["parser", "understood"]

STATUS = "Exit status: 0 healthy, 1 damaged, or no store or broker, 3 warnings only."


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="polycast",
        description="Publish, subscribe, and look after the stores and brokers of polycast buses.",
        epilog="Example: polycast doctor events.db",
        allow_abbrev=False,
    )
    number = f"polycast {version('polycast')}"
    top.add_argument("--version", action="version", version=number)
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    add_event_commands(commands)
    _add_examination(commands)
    _add_copies(commands)
    add_broker_commands(commands)
    _add_pipeline(commands)
    _add_contexts(commands)
    _add_completion(commands, top)
    return top


def understood(words: Sequence[str]) -> argparse.Namespace:
    """What a command line means."""
    top = parser()
    given, left = top.parse_known_args(words)
    left = take_late_words(given, left)
    if left:
        given.command.refuse_unknown(left)
    return given


def _add_examination(commands: Any) -> None:
    what = "examine a store or a broker: integrity, figures, and what somebody should see to"
    one = command(commands, "doctor", doctor, what, "doctor events.db --json", more=STATUS)
    add_place(one)
    one.add_argument(
        "--no-sync-test", action="store_true", help="do not measure the cost of a sync"
    )


def _add_copies(commands: Any) -> None:
    what = "copy a store, which may be in use, to one file"
    one = command(commands, "backup", make_backup, what, "backup events.db monday.db")
    add_file(one)
    one.add_argument("target", metavar="TARGET", help="file to write")
    one.add_argument(
        "--force", action="store_true", help="replace a file that is there, if it is no open store"
    )
    what = "make a store from a back-up"
    one = command(commands, "restore", restore_backup, what, "restore monday.db events.db --force")
    one.add_argument("backup", metavar="BACKUP", help="file that `polycast backup` wrote")
    add_file(one)
    one.add_argument(
        "--force", action="store_true", help="replace a store that is there and not open"
    )


def _add_pipeline(commands: Any) -> None:
    what = "run the data pipeline over a store, or see how it is getting on"
    group = family(commands, "pipeline", what, "pipeline run events.db")
    what = "run the pipeline until Ctrl-C; with --json one report per line"
    example = "pipeline run events.db --imports shop.events"
    one = command(group, "run", run_pipeline, what, example)
    add_file(one)
    one.add_argument(
        "--checkpoint", metavar="FOLDER", help="a folder that Spark goes on from; none is needed"
    )
    one.add_argument(
        "--imports",
        metavar="MODULES",
        help="modules that define types and functions, separated by commas",
    )
    one.add_argument(
        "--master", metavar="URL", default="local[*]", help="where Spark runs (local[*]: here)"
    )
    one.add_argument(
        "--batch", metavar="N", type=whole, default=50_000, help="events in a batch (50000)"
    )
    one.add_argument("--once", action="store_true", help="route what is there now, and end")
    one.add_argument("--log", metavar="FILE", help="where Spark's own words go; - is the terminal")
    what = "show how the pipeline over a store is getting on"
    one = command(group, "status", show_status, what, "pipeline status events.db")
    add_place(one)


def _add_contexts(commands: Any) -> None:
    what = "check a context, or show what it makes of events"
    group = family(commands, "context", what, "context check shop.us:us")
    what = "check a context; exit status 1 if it has errors"
    example = "context check us.xml --root shop.eu:root --modules shop.us"
    one = command(group, "check", check_context, what, example)
    _add_context(one)
    what = "show which rule applies at each path of events, and why"
    one = command(group, "show", show_context, what, "context show shop.us:us InvoiceLine")
    _add_context(one)
    one.add_argument("type", metavar="TYPE", nargs="+", help="by its name, or its full name")
    what = "say which events of a store a context would show otherwise, before it is used"
    example = "context compare events.db us shop.us:new"
    one = command(group, "compare", compare_contexts, what, example)
    add_place(one)
    context = f"{_CONTEXT}, or the name of one that the store has"
    one.add_argument("old", metavar="OLD", help=context)
    one.add_argument("new", metavar="NEW", help=context)
    _add_above(one)
    add_bounds(one)
    one.add_argument("--samples", metavar="N", type=whole, default=10, help="10 by default")
    one.add_argument("--spark", action="store_true", help="look with Spark, on all cores")


_CONTEXT = "a file that ends in .xml, or MODULE:NAME"


def _add_context(one: argparse.ArgumentParser) -> None:
    one.add_argument("context", metavar="CONTEXT", help=f"{_CONTEXT} of one that Python declares")
    _add_above(one)


def _add_above(one: argparse.ArgumentParser) -> None:
    one.add_argument("--root", metavar="CONTEXT", help="the root of what is in files")
    one.add_argument(
        "--parent",
        metavar="CONTEXT",
        action="append",
        default=[],
        help="a parent of the one in a file, if that is not the root; may be said again",
    )
    one.add_argument(
        "--modules", metavar="MODULES", help="where files find names, separated by commas"
    )


def _add_completion(commands: Any, top: argparse.ArgumentParser) -> None:
    what = "print a script that completes these commands in a shell"
    example = "completion bash >> ~/.bashrc"
    one = command(commands, "completion", print_completion, what, example)
    one.add_argument("shell", choices=SHELLS, help="for which shell")
    one.set_defaults(parser=top)
