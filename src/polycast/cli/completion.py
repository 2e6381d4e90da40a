"""`polycast completion`: scripts for shells, which `shtab` makes from the parser itself."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from polycast.cli.command_line import add_command, parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.cli.terminal import Terminal

SHELLS = ("bash", "zsh", "fish")
_FILES = ("PLACE", "STORE", "FILE", "BACKUP", "TARGET", "CONTEXT")
"""What the shell completes with the names of files."""


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "completion bash >> ~/.bashrc"
    command = add_command(commands, "completion", run, what, example)
    command.add_argument("shell", choices=SHELLS, help="the shell")


def run(given: argparse.Namespace, terminal: Terminal) -> int:
    """Print the script of a shell."""
    script = script_for(given.shell, parser())
    terminal.show({"shell": given.shell, "script": script}, script.splitlines())
    return 0


def script_for(shell: str, commands: argparse.ArgumentParser) -> str:
    """The script that completes the commands of a parser in a shell."""
    try:
        import shtab
    except ImportError as error:
        from polycast.errors import NotAvailableError

        raise NotAvailableError(
            "completion", why="it needs shtab", instead="pip install 'polycast[cli]'"
        ) from error
    for action in _actions(commands):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(commands, shell=shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a parser, and of the commands below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
