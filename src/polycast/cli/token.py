"""`polycast token`: make tokens for a broker, and see what is in a file of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_family
from polycast.cli.terminal import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["declare"]

WRONG, DOUBTFUL = 1, 3
_GRANTS = "A grant is shop.Order, 'shop.*', '/Chat/**', 'shop.Note @ /Chat/**' or '*'."
_STATUS_IN_WORDS = "Exit status: 0 well, 1 errors, 3 warnings only."


def declare(commands: Any) -> None:
    """Declare the commands."""
    family = add_family(commands, "token", "make and check tokens of a broker", "token new")
    what = "make a secret, shown this once, and the token of it for a broker's file of tokens"
    example = "token new --name till-7 --publish shop.Order --subscribe '/Chat/**'"
    command = add_command(family, "new", run_new, what, example, more=_GRANTS)
    command.add_argument("--name", metavar="NAME", help="what logs and errors call it")
    for name, may in (
        ("publish", "what it may publish"),
        ("subscribe", "what it may subscribe to"),
        ("describe", "names of types that belong to its owner, such as 'shop.*'"),
    ):
        text = f"{may}; may be said again"
        command.add_argument(f"--{name}", metavar="GRANT", action="append", default=[], help=text)
    command.add_argument(
        "--admin", action="store_true", help="it may do everything, also to others"
    )
    owner = "tokens with the same owner share their publishers and subscriptions; default: its name"
    command.add_argument("--owner", metavar="NAME", help=owner)
    what = "list the tokens of a file, their rights, and what is wrong"
    example = "token check tokens.toml"
    command = add_command(family, "check", run_check, what, example, more=_STATUS_IN_WORDS)
    command.add_argument("file", metavar="FILE", help="the broker's file of tokens")


def run_new(given: Namespace, terminal: Terminal) -> int:
    """Print a new secret, which is kept nowhere, and what to put into the file of tokens."""
    from polycast.broker.server.access import new_token
    from polycast.cli.token_listing import given_rights, token_toml

    rights = given_rights(given)
    secret, digest = new_token()
    name = f"token-{digest[:8]}" if given.name is None else given.name
    _check_name("name", name)
    if given.owner is not None:
        _check_name("owner", given.owner)
    toml = token_toml(name, digest, rights, given.owner)
    data = {"name": name, "secret": secret, "sha256": digest, "toml": toml}
    lines = (
        "The secret, which is shown this once, for who is to connect:",
        *("", f"    {secret}", ""),
        "The token, for the broker's file of tokens:",
        *("", *toml.splitlines()),
    )
    terminal.show(data, lines)
    if not (rights.admin or rights.publish or rights.subscribe):
        terminal.note("It may do nothing yet: give it --publish, --subscribe or --admin")
    return 0


def _check_name(what: str, name: str) -> None:
    from polycast.broker.server.tokenfile import name_problem

    if problem := name_problem(name):
        raise UsageError(f"the {what} of a token {problem}")


def run_check(given: Namespace, terminal: Terminal) -> int:
    """List the tokens of a file and what is wrong with it: 1 for errors, 3 for warnings only."""
    from polycast.broker.server.tokenfile import findings_at, read_tokens
    from polycast.cli.token_listing import token_lines, tokens_data

    contents, now = read_tokens(given.file), terminal.clock.time()
    findings = (*contents.findings, *findings_at(contents.tokens, now))
    data = tokens_data(given.file, contents, findings, now)
    terminal.show(data, token_lines(contents, findings))
    if contents.errors:
        return WRONG
    return DOUBTFUL if findings else 0
