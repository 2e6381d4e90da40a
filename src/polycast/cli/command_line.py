"""The command line as a whole: every command, and what a line of words means."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from polycast.cli import (
    backup,
    bench,
    completion,
    context,
    dlq,
    doctor,
    explain,
    pipeline,
    pub,
    replay,
    serve,
    sub,
    subs,
    tail,
    token,
    types,
)
from polycast.cli.declaration import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["parser", "understood"]

COMMANDS = (
    *(pub, sub, tail, types, subs, explain, dlq, replay),
    *(doctor, backup, serve, bench, token, pipeline, context, completion),
)
"""The modules that declare commands, as the help lists them."""
_OF_SUBS = ("list", "cancel", "-h", "--help")


class _Version(argparse.Action):
    """Print the version: finding it takes a while, so it is not looked up before."""

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        from importlib.metadata import version

        parser._print_message(f"polycast {version('polycast')}\n", sys.stdout)
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
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
    for command in COMMANDS:
        command.declare(commands)
    return top


def understood(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line."""
    given, left = parser().parse_known_args(_complete(words))
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
