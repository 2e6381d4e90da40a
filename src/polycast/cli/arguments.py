"""What commands have in common: places, bounds, numbers, and how a command is added."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING, Any, NoReturn

from polycast.cli.terminal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.cli.terminal import Terminal

    Run = Callable[[argparse.Namespace, Terminal], int]

__all__ = [
    "Parser",
    "add_bounds",
    "add_file",
    "add_place",
    "add_yes",
    "command",
    "family",
    "seconds",
    "whole",
]

FILE = "path of the store, or sqlite:///path"
PLACE = "path of a store, sqlite:///path, or polycast://host:port of a broker"


class Parser(argparse.ArgumentParser):
    """One that leaves it to its caller to say what was wrong."""

    def error(self, message: str) -> NoReturn:
        """Refuse what was given, with how it is written."""
        usage = " ".join(self.format_usage().split())
        end = "" if message.endswith("?") else "."
        raise Refused(f"{message}{end} {usage[0].upper()}{usage[1:]}; --help says more")

    def refuse_unknown(self, words: list[str]) -> NoReturn:
        """Refuse words that are left over, with the option that the first may be meant as."""
        name = words[0].partition("=")[0]
        hint = _hint(name, self.options) if name.startswith("-") else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")

    @property
    def options(self) -> frozenset[str]:
        """All options of this command, as they are written."""
        return frozenset(self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = {str(each): each for each in action.choices}
        if near := _nearest(str(value), choices):
            meant = action.choices[near] if isinstance(action.choices, dict) else self
            what = "command" if isinstance(meant, Parser) and meant is not self else "choice"
            meant.error(f"{value!r} is no {what}; did you mean {near!r}?")
        super()._check_value(action, value)


def _hint(word: str, known: Iterable[str]) -> str:
    near = _nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def _nearest(word: str, known: Iterable[str]) -> str:
    bare = {each.lstrip("-"): each for each in sorted(known)}  # hyphens make all options alike
    found = difflib.get_close_matches(word.lstrip("-"), bare, n=1)
    return bare[found[0]] if found else ""


def command(
    commands: Any, name: str, run: Run, what: str, example: str, *, more: str = ""
) -> argparse.ArgumentParser:
    """Add a command."""
    added: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"{more} Example: polycast {example}".strip(),
        allow_abbrev=False,
    )
    added.add_argument("--json", action="store_true", help="print JSON, errors too")
    added.set_defaults(run=run, command=added)
    return added


def family(commands: Any, name: str, what: str, example: str) -> Any:
    """Add a command that has commands of its own."""
    added = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"Example: polycast {example}",
        allow_abbrev=False,
    )
    return added.add_subparsers(metavar="COMMAND", required=True)


def add_file(one: argparse.ArgumentParser) -> None:
    """The file of a store."""
    one.add_argument("store", metavar="STORE", help=FILE)


def add_place(one: argparse.ArgumentParser) -> None:
    """A store or a broker, and how the latter is reached."""
    one.add_argument("store", metavar="PLACE", help=PLACE)
    reached = one.add_argument_group("for a broker")
    reached.add_argument(
        "--token",
        metavar="SECRET",
        help="of the token; better in the variable POLYCAST_TOKEN, which others do not see",
    )
    reached.add_argument(
        "--allow-plain-token",
        action="store_true",
        help="send the token without TLS to another machine, where others may read it",
    )
    reached.add_argument("--tls-ca", metavar="FILE", help="certificates of authorities to trust")
    reached.add_argument("--tls-cert", metavar="FILE", help="the client's own certificate")
    reached.add_argument("--tls-key", metavar="FILE", help="its key")


def add_bounds(one: argparse.ArgumentParser) -> None:
    """A stretch of the log."""
    one.add_argument(
        "--since",
        metavar="WHEN",
        help="a position, a time such as 2030-12-31T08:00, or 'beginning', which is the default",
    )
    one.add_argument(
        "--until", metavar="WHEN", help="up to this position or time, which is not meant any more"
    )


def add_yes(one: argparse.ArgumentParser) -> None:
    """For what is asked before it is done."""
    one.add_argument("--yes", action="store_true", help="do it without being asked")


def whole(text: str) -> int:
    """A whole number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds, more than none."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, more than 0")
    return found
