"""The words of the command line: commands, what they take, and an example of each."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NoReturn

from polycast.cli.completion import SHELLS, print_completion
from polycast.cli.contexts import check_context, compare_contexts, show_context
from polycast.cli.copies import make_backup, restore_backup
from polycast.cli.doctor import doctor
from polycast.cli.events import show_events
from polycast.cli.letters import list_letters, purge_letters, replay_letters, show_letter
from polycast.cli.pipelines import run_pipeline, show_status
from polycast.cli.replaying import replay_events
from polycast.cli.subscriptions import list_subscriptions, remove_subscription
from polycast.cli.terminal import Refused
from polycast.delivery.replaying import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.cli.terminal import Terminal

    Run = Callable[[argparse.Namespace, Terminal], int]

__all__ = ["parser", "understood"]

STORE = "path of the store, or sqlite:///path"
REPLAY = (
    f"At most {MOST:,} events go to a subscription at a time. What it is busy with, or gets "
    "anyway, is left alone."
)
STATUS = "Exit status: 0 healthy, 1 damaged or no store, 3 warnings only."


class Parser(argparse.ArgumentParser):
    """One that leaves it to its caller to say what was wrong."""

    def error(self, message: str) -> NoReturn:
        """Refuse what was given, with how it is written."""
        usage = " ".join(self.format_usage().split())
        raise Refused(f"{message}. {usage[0].upper()}{usage[1:]}; --help says more")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="polycast",
        description="Look after the stores of polycast buses.",
        epilog="Example: polycast doctor events.db",
        allow_abbrev=False,
    )
    number = f"polycast {version('polycast')}"
    top.add_argument("--version", action="version", version=number)
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _add_examination(commands)
    _add_copies(commands)
    _add_letters(commands)
    _add_subscriptions(commands)
    _add_events(commands)
    _add_replay(commands)
    _add_pipeline(commands)
    _add_contexts(commands)
    _add_completion(commands, top)
    return top


def understood(words: Sequence[str]) -> argparse.Namespace:
    """What a command line means."""
    top = parser()
    given, left = top.parse_known_args(words)
    # A type that comes after options is left over: argparse has decided before that there is none.
    if given.run is replay_events and given.type is None and left and left[0][0] != "-":
        given.type = left.pop(0)
    if left:
        top.error(f"unrecognized arguments: {' '.join(left)}")
    return given


def _command(
    commands: Any, name: str, run: Run, what: str, example: str, *, more: str = ""
) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"{more} Example: polycast {example}".strip(),
        allow_abbrev=False,
    )
    added.add_argument("--json", action="store_true", help="print JSON, errors too")
    added.set_defaults(run=run)
    return added


def _family(commands: Any, name: str, what: str, example: str) -> Any:
    added = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"Example: polycast {example}",
        allow_abbrev=False,
    )
    return added.add_subparsers(metavar="COMMAND", required=True)


def _add_examination(commands: Any) -> None:
    what = "examine a store: integrity, figures, and what somebody should see to"
    one = _command(commands, "doctor", doctor, what, "doctor events.db --json", more=STATUS)
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument(
        "--no-sync-test", action="store_true", help="do not measure the cost of a sync"
    )


def _add_copies(commands: Any) -> None:
    what = "copy a store, which may be in use, to one file"
    one = _command(commands, "backup", make_backup, what, "backup events.db monday.db")
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument("target", metavar="TARGET", help="file to write; one that is there goes")
    what = "make a store from a back-up"
    one = _command(commands, "restore", restore_backup, what, "restore monday.db events.db --force")
    one.add_argument("backup", metavar="BACKUP", help="file that `polycast backup` wrote")
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument("--force", action="store_true", help="replace a store that is there")


def _add_letters(commands: Any) -> None:
    family = _family(commands, "dlq", "look after dead letters", "dlq list events.db")
    one = _command(
        family, "list", list_letters, "list dead letters", "dlq list events.db --payload"
    )
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument("--subscription", metavar="NAME", help="only those of one subscription")
    one.add_argument("--limit", metavar="N", type=_whole, default=100, help="at most so many (100)")
    one.add_argument("--payload", action="store_true", help="show the events, too")
    one = _command(family, "show", show_letter, "show one dead letter", "dlq show events.db 17")
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument("number", metavar="NUMBER", type=_whole, help="as `dlq list` shows it")
    for name, run, what in (
        ("replay", replay_letters, "give dead letters to their subscriptions once more"),
        ("purge", purge_letters, "throw dead letters away for good"),
    ):
        example = f"dlq {name} events.db --subscription billing"
        one = _command(family, name, run, what, example)
        one.add_argument("store", metavar="STORE", help=STORE)
        one.add_argument("number", metavar="NUMBER", nargs="*", type=_whole, help="which of them")
        one.add_argument("--subscription", metavar="NAME", help="all of one subscription")
        one.add_argument("--all", action="store_true", help="all there are")
        _add_yes(one)


def _add_subscriptions(commands: Any) -> None:
    what = "list durable subscriptions and groups, or remove one"
    family = _family(commands, "subscriptions", what, "subscriptions events.db")
    what = "list durable subscriptions and groups; `list` may be left out"
    one = _command(family, "list", list_subscriptions, what, "subscriptions events.db")
    one.add_argument("store", metavar="STORE", help=STORE)
    what = "remove a subscription that nobody will attach to again"
    example = "subscriptions remove events.db billing"
    one = _command(family, "remove", remove_subscription, what, example)
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument("name", metavar="NAME", help="as `subscriptions` shows it")
    _add_yes(one)


def _add_events(commands: Any) -> None:
    what = "show events; with --json one per line"
    example = "events events.db --type Sale --topic '/shop/**' --follow"
    one = _command(commands, "events", show_events, what, example)
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument(
        "--since",
        metavar="WHEN",
        help="a position, a time such as 2030-12-31T08:00, or 'beginning'; by default the "
        "beginning, or with --follow what comes from now on",
    )
    one.add_argument("--type", metavar="NAME", help="only this class, and those below it")
    one.add_argument("--topic", metavar="PATTERN", help="only on these topics, as in '/shop/**'")
    one.add_argument(
        "--limit",
        metavar="N",
        type=_whole,
        help="at most so many; by default 100, all with --follow or --json",
    )
    one.add_argument("--follow", action="store_true", help="go on with what is published next")


def _add_replay(commands: Any) -> None:
    what = "show events of the past, or give them to a subscription once more"
    example = "replay events.db Sale --since 2030-12-31 --to billing --dry-run"
    one = _command(commands, "replay", replay_events, what, example, more=REPLAY)
    one.add_argument("store", metavar="STORE", help=STORE)
    one.add_argument(
        "type",
        metavar="TYPE",
        nargs="?",
        help="only this type, and what conforms to it; with --to by default what that wants",
    )
    one.add_argument("--where", metavar="TEXT", help="a filter, as in 'event.number > 3'")
    one.add_argument("--topic", metavar="PATTERN", help="only on these topics, as in '/shop/**'")
    one.add_argument("--exact", action="store_true", help="this very type, and none below it")
    _add_bounds(one)
    one.add_argument("--to", metavar="NAME", help="give them to this durable subscription")
    one.add_argument("--dry-run", action="store_true", help="count and sample, change nothing")
    one.add_argument(
        "--limit",
        metavar="N",
        type=_whole,
        help="at most so many; by default 100 are shown, all with --json",
    )
    one.add_argument("--spark", action="store_true", help="search with Spark, on all cores")
    _add_yes(one)


def _add_bounds(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--since",
        metavar="WHEN",
        help="a position, a time such as 2030-12-31T08:00, or 'beginning', which is the default",
    )
    one.add_argument(
        "--until", metavar="WHEN", help="up to this position or time, which is not meant any more"
    )


def _add_pipeline(commands: Any) -> None:
    what = "run the data pipeline over a store, or see how it is getting on"
    family = _family(commands, "pipeline", what, "pipeline run events.db")
    what = "run the pipeline until Ctrl-C; with --json one report per line"
    example = "pipeline run events.db --imports shop.events"
    one = _command(family, "run", run_pipeline, what, example)
    one.add_argument("store", metavar="STORE", help=STORE)
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
        "--batch", metavar="N", type=_whole, default=50_000, help="events in a batch (50000)"
    )
    one.add_argument("--once", action="store_true", help="route what is there now, and end")
    one.add_argument("--log", metavar="FILE", help="where Spark's own words go; - is the terminal")
    what = "show how the pipeline over a store is getting on"
    one = _command(family, "status", show_status, what, "pipeline status events.db")
    one.add_argument("store", metavar="STORE", help=STORE)


def _add_contexts(commands: Any) -> None:
    what = "check a context, or show what it makes of events"
    family = _family(commands, "context", what, "context check shop.us:us")
    what = "check a context; exit status 1 if it has errors"
    example = "context check us.xml --root shop.eu:root --modules shop.us"
    one = _command(family, "check", check_context, what, example)
    _add_context(one)
    what = "show which rule applies at each path of events, and why"
    one = _command(family, "show", show_context, what, "context show shop.us:us InvoiceLine")
    _add_context(one)
    one.add_argument("type", metavar="TYPE", nargs="+", help="by its name, or its full name")
    what = "say which events of a store a context would show otherwise, before it is used"
    example = "context compare events.db us shop.us:new"
    one = _command(family, "compare", compare_contexts, what, example)
    one.add_argument("store", metavar="STORE", help=STORE)
    context = f"{_CONTEXT}, or the name of one that the store has"
    one.add_argument("old", metavar="OLD", help=context)
    one.add_argument("new", metavar="NEW", help=context)
    _add_above(one)
    _add_bounds(one)
    one.add_argument("--samples", metavar="N", type=_whole, default=10, help="10 by default")
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
    one = _command(commands, "completion", print_completion, what, example)
    one.add_argument("shell", choices=SHELLS, help="for which shell")
    one.set_defaults(parser=top)


def _add_yes(one: argparse.ArgumentParser) -> None:
    one.add_argument("--yes", action="store_true", help="do it without being asked")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
