"""How a command is declared: its parser, and the arguments that several commands have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from polycast.cli.terminal import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.cli.terminal import Terminal

    Run = Callable[[argparse.Namespace, Terminal], int]

FILE = "the store: a path, or sqlite:///path"
PLACE = "a store (a path, or sqlite:///path) or a broker (polycast://host:port)"
FILTER = "a filter such as 'event.number > 3', or one as JSON"


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError`, so that its caller decides how errors are printed."""

    def error(self, message: str) -> NoReturn:
        """Raise an error with the usage of the command."""
        usage = " ".join(self.format_usage().split())
        end = "" if message.endswith("?") else "."
        raise UsageError(f"{message}{end} {usage[0].upper()}{usage[1:]}; --help says more")

    def refuse_unknown(self, words: list[str]) -> NoReturn:
        """Raise an error about words that are left over, with the option closest to the first."""
        name = words[0].partition("=")[0]
        near = nearest(name, self.options) if name.startswith("-") else ""
        hint = f"; did you mean {near}?" if near else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")

    @property
    def options(self) -> frozenset[str]:
        """All options of this command, as they are written."""
        return frozenset(self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = {str(choice): choice for choice in action.choices}
        if near := nearest(str(value), choices):
            meant = action.choices[near] if isinstance(action.choices, dict) else self
            what = "command" if isinstance(meant, Parser) and meant is not self else "choice"
            meant.error(f"{value!r} is no {what}; did you mean {near!r}?")
        super()._check_value(action, value)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the closest of the known words; nothing if none is close."""
    from difflib import get_close_matches

    bare = {name.lstrip("-"): name for name in sorted(known)}  # hyphens make all options alike
    near = get_close_matches(word.lstrip("-"), bare, n=1)
    return bare[near[0]] if near else ""


def add_command(
    commands: Any,
    name: str,
    run: Run,
    what: str,
    example: str,
    *,
    more: str = "",
    late: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command; `late` names its argument that may also stand after the options."""
    added: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"{more} Example: polycast {example}".strip(),
        allow_abbrev=False,
    )
    add(added, "--json", "print JSON, including errors")
    added.set_defaults(run=run, command=added, late=late)
    return added


def add_family(commands: Any, name: str, what: str, example: str) -> Any:
    """Add a command that has commands of its own."""
    added = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"Example: polycast {example}",
        allow_abbrev=False,
    )
    return added.add_subparsers(metavar="COMMAND", required=True)


def add(
    command: argparse._ActionsContainer,
    words: str,
    what: str,
    *,
    repeated: bool = False,
    **settings: Any,
) -> None:
    """Take an argument: `name METAVAR`, `--name METAVAR`, or `--name` of a switch."""
    *names, last = words.split()
    if last.startswith("-"):
        names.append(last)
        settings["action"] = "store_true"
    else:
        settings["metavar"] = last
    if repeated:
        what = f"{what}; may be repeated"
        settings |= {"action": "append", "default": []}
    command.add_argument(*names, help=what, **settings)


def add_file(command: argparse.ArgumentParser) -> None:
    """Take the file of a store."""
    add(command, "store STORE", FILE)


def add_place(command: argparse.ArgumentParser) -> None:
    """Take a store or a broker, and how to connect to the latter."""
    add(command, "store PLACE", PLACE)
    connection = command.add_argument_group("for a broker")
    add(
        connection,
        "--token SECRET",
        "the secret of the token; safer in the variable POLYCAST_TOKEN",
    )
    add(
        connection,
        "--allow-plain-token",
        "send the token to another machine without TLS, where others can read it",
    )
    add(connection, "--tls-ca FILE", "the certificate authorities to trust")
    add(connection, "--tls-cert FILE", "the client's own certificate")
    add(connection, "--tls-key FILE", "the key of the client's certificate")


def add_bounds(command: argparse.ArgumentParser) -> None:
    """Take a range of the log."""
    add(
        command,
        "--since WHEN",
        "start at this position, time (2030-12-31T08:00), or 'beginning' (default)",
    )
    add(command, "--until WHEN", "stop before this position or time")


def add_imports(
    command: argparse.ArgumentParser, what: str = "modules that define types, separated by commas"
) -> None:
    """Take modules to import."""
    add(command, "--import MODULES", what, dest="imports")


def add_where(command: argparse.ArgumentParser, what: str = FILTER) -> None:
    """Take a filter."""
    add(command, "--where TEXT", what)


def add_limit(
    command: argparse.ArgumentParser, what: str = "show at most N", default: int | None = None
) -> None:
    """Take the most that is shown."""
    add(command, "--limit N", what, type=whole, default=default)


def add_yes(command: argparse.ArgumentParser) -> None:
    """Take the answer to the question that comes before a change."""
    add(command, "--yes", "do not ask for confirmation")


def whole(text: str) -> int:
    """Read a whole number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def seconds(text: str) -> float:
    """Read a number of seconds, more than 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, more than 0")
    return number
