"""The command line: how commands are declared, what a line of words means, and the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from polycast.cli.terminal import Terminal, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Run = Callable[[argparse.Namespace, Terminal], int]
    from collections.abc import Container, Sequence

    from polycast.config import Clock

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

    def take(
        self,
        words: str,
        what: str,
        *,
        group: argparse._ArgumentGroup | None = None,
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
        (group or self).add_argument(*names, help=what, **settings)

    def take_file(self) -> None:
        """Take the file of a store."""
        self.take("store STORE", "the store: a path, or sqlite:///path")

    def take_place(self) -> None:
        """Take a store or a broker, and how to connect to the latter."""
        place = "a store (a path, or sqlite:///path) or a broker (polycast://host:port)"
        self.take("store PLACE", place)
        group = self.add_argument_group("for a broker")
        plain = "send the token to another machine without TLS, where others can read it"
        for words, what in (
            ("--token SECRET", "the secret of the token; safer in the variable POLYCAST_TOKEN"),
            ("--allow-plain-token", plain),
            ("--tls-ca FILE", "the certificate authorities to trust"),
            ("--tls-cert FILE", "the client's own certificate"),
            ("--tls-key FILE", "the key of the client's certificate"),
        ):
            self.take(words, what, group=group)

    def take_bounds(self) -> None:
        """Take a range of the log."""
        since = "start at this position, time (2030-12-31T08:00), or 'beginning' (default)"
        self.take("--since WHEN", since)
        self.take("--until WHEN", "stop before this position or time")

    def take_imports(self, what: str = "modules that define types, separated by commas") -> None:
        """Take modules to import."""
        self.take("--import MODULES", what, dest="imports")

    def take_where(self, what: str = FILTER) -> None:
        """Take a filter."""
        self.take("--where TEXT", what)

    def take_limit(self, what: str = "show at most N", default: int | None = None) -> None:
        """Take the most that is shown."""
        self.take("--limit N", what, type=whole, default=default)

    def take_yes(self) -> None:
        """Take the answer to the question that comes before a change."""
        self.take("--yes", "do not ask for confirmation")


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
) -> Parser:
    """Add a command; `late` names its argument that may also stand after the options."""
    added = _added(commands, name, what, f"{more} Example: polycast {example}".strip())
    added.take("--json", "print JSON, including errors")
    added.set_defaults(run=run, command=added, late=late)
    return added


def add_family(commands: Any, name: str, what: str, example: str) -> Any:
    """Add a command that has commands of its own."""
    added = _added(commands, name, what, f"Example: polycast {example}")
    return added.add_subparsers(metavar="COMMAND", required=True)


def _added(commands: Any, name: str, what: str, epilog: str) -> Parser:
    about = f"{what[0].upper()}{what[1:]}."
    added: Parser = commands.add_parser(
        name, help=what, description=about, epilog=epilog, allow_abbrev=False
    )
    return added


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


# -- all commands ----------------------------------------------------------------------------------

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
