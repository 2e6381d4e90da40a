"""`polycast completion`: scripts for shells, made from the parser itself."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.cli.terminal import Terminal

__all__ = ["SHELLS", "print_completion", "script_for"]


@dataclass(frozen=True)
class Command:
    """A command: its words, what may follow them, and its options, each with what it is."""

    words: tuple[str, ...]
    following: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Its words as they are typed."""
        return " ".join(self.words)


def print_completion(given: argparse.Namespace, terminal: Terminal) -> int:
    """Print the script of a shell."""
    script = script_for(given.shell, given.parser)
    terminal.show({"shell": given.shell, "script": script}, script.splitlines())
    return 0


def script_for(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script that completes the commands of a parser in a shell."""
    return _SCRIPTS[shell](list(commands_of(parser)))


def commands_of(parser: argparse.ArgumentParser, *words: str) -> Iterator[Command]:
    """All commands, the longest first, so that the first that fits is the right one."""
    following: dict[str, str] = {}
    options: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for name, below in action.choices.items():
                following[name] = helps.get(name, "")
                yield from commands_of(below, *words, name)
        elif action.option_strings:
            options.update({name: str(action.help or "") for name in action.option_strings})
        elif action.choices is not None:
            following.update({str(choice): "" for choice in action.choices})
    yield Command(words, following, options)


def _bash(commands: list[Command]) -> str:
    cases = "\n".join(
        f'        "{each.path}"|"{each.path} "*) words="{_joined(each)}" ;;'
        for each in commands
        if each.words
    )
    return f"""# polycast in bash: put this into ~/.bashrc
_polycast() {{
    local before="${{COMP_WORDS[*]:1:COMP_CWORD-1}}" current="${{COMP_WORDS[COMP_CWORD]}}" words
    case "$before" in
{cases}
        *) words="{_joined(commands[-1])}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ -n "$before" && "$current" != -* ]]; then
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _polycast polycast"""


def _zsh(commands: list[Command]) -> str:
    cases = "\n".join(
        f'        ("{each.path}"|"{each.path} "*) found=({_joined(each)}) ;;'
        for each in commands
        if each.words
    )
    return f"""#compdef polycast
# polycast in zsh: put this into ~/.zshrc, after compinit
_polycast() {{
    local -a found
    local before="${{(j: :)words[2,CURRENT-1]}}"
    case "$before" in
{cases}
        (*) found=({_joined(commands[-1])}) ;;
    esac
    compadd -- $found
    [[ -n "$before" && "$PREFIX" != -* ]] && _files
}}
compdef _polycast polycast"""


def _fish(commands: list[Command]) -> str:
    lines = ["# polycast in fish: put this into ~/.config/fish/completions/polycast.fish"]
    for command in reversed(commands):
        when = _fish_condition(command)
        for name, what in command.following.items():
            lines.append(f"complete -c polycast -f -n '{when}' -a {name} -d {_quoted(what)}")
        for name, what in command.options.items():
            how = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"complete -c polycast -n '{when}' {how} -d {_quoted(what)}")
    return "\n".join(lines)


def _fish_condition(command: Command) -> str:
    if not command.words:
        return "__fish_use_subcommand"
    parts = [f"__fish_seen_subcommand_from {word}" for word in command.words]
    if command.following:
        parts.append(f"not __fish_seen_subcommand_from {' '.join(command.following)}")
    return "; and ".join(parts)


def _joined(command: Command) -> str:
    return " ".join([*command.following, *command.options])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
SHELLS = tuple(_SCRIPTS)
