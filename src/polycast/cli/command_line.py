"""The command line as a whole: every command, what a line of words means, and its exit status."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import Parser, nearest
from polycast.cli.terminal import Terminal, UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from polycast.config import Clock

COMMANDS = {
    "pub": "publish events given as JSON, and print their positions in the log",
    "sub": "subscribe and print events; each is acknowledged once it is printed",
    "tail": "show the last events, and with --follow new ones",
    "types": "list the described event types, or show one with its attributes",
    "subs": "list durable subscriptions and groups, or cancel one",
    "explain": "explain what a subscription wants, and what became of an event",
    "dlq": "list, show, replay or purge dead letters",
    "replay": "show past events, or deliver them to a subscription again",
    "doctor": "examine a store or a broker: integrity, statistics and problems",
    "backup": "copy a store, even one in use, to a single file",
    "restore": "restore a store from a backup",
    "serve": "serve a store to other processes and hosts until Ctrl-C",
    "bench": "measure how fast events reach subscribers",
    "token": "create a token for a broker, or check a token file",
    "pipeline": "run the data pipeline over a store, or show its progress",
    "context": "check a context, show its rules, or compare it with another",
    "completion": "print a completion script for a shell",
}
"""What each command does. The module of the same name declares it, and is loaded to run it."""
_OF_SUBS = ("list", "cancel", "-h", "--help")
FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    terminal = Terminal(as_json="--json" in words, clock=clock)
    try:
        given = understood(words)
        terminal.options = given.command.options
        return int(given.run(given, terminal) or 0)
    except UsageError as error:
        terminal.fail(error)
        return MISUSED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # a file that is no longer what it was can surprise anybody
        terminal.fail(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


class _Version(argparse.Action):
    """Print the version: finding it takes a while, so it is not looked up before."""

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        from importlib.metadata import version

        parser._print_message(f"polycast {version('polycast')}\n", sys.stdout)
        parser.exit()


def parser(declared: Container[str] = COMMANDS) -> argparse.ArgumentParser:
    """Make the parser; of the commands that are not declared it knows only what they do."""
    top = Parser(
        prog="polycast",
        description="Publish, subscribe, and look after the stores and brokers of polycast buses.",
        epilog="Example: polycast doctor events.db",
        allow_abbrev=False,
    )
    top.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for name, what in COMMANDS.items():
        if name in declared:
            import_module(f"polycast.cli.{name}").declare(commands, what)
        else:
            commands.add_parser(name, help=what)
    return top


def understood(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line."""
    name = next((word for word in words if not word.startswith("-")), "")
    given, left = parser({nearest(name, COMMANDS)}).parse_known_args(_complete(words))
    if left := _with_late_words(given, left):
        given.command.refuse_unknown(left)
    return given


def _complete(words: Sequence[str]) -> list[str]:
    """`subs PLACE` means `subs list PLACE`."""
    if words[:1] == ["subs"] and words[1:2] and words[1] not in _OF_SUBS:
        return ["subs", "list", *words[1:]]
    return list(words)


def _with_late_words(given: argparse.Namespace, left: list[str]) -> list[str]:
    """Take words that stand after the options: argparse has decided before that there are none."""
    if given.late is None or not left:
        return left
    early = getattr(given, given.late)
    if isinstance(early, list):
        early += [word for word in left if not word.startswith("--")]
        return [word for word in left if word.startswith("--")]
    if left[0][0] != "-" and early is None:
        setattr(given, given.late, left[0])
        return left[1:]
    return left
