"""`polycast token`: make tokens for a broker, and check a file of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from polycast.broker.server.access import Rights
from polycast.broker.server.limits import QUOTAS, Quota
from polycast.broker.server.tokenfile import (
    TokenFinding,
    findings_at,
    name_problem,
    new_token,
    read_tokens,
)
from polycast.cli.command_line import add_command, add_family
from polycast.cli.formatting import Line, by_severity, count, listed, moment
from polycast.cli.terminal import Terminal, UsageError
from polycast.errors import BadGrantError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.broker.server.tokenfile import AccessToken, Contents


WRONG, DOUBTFUL = 1, 3
_GRANTS = "A grant is shop.Order, 'shop.*', '/Chat/**', 'shop.Note @ /Chat/**' or '*'."
_STATUS_IN_WORDS = "Exit status: 0 no findings, 1 errors, 3 warnings only."


def declare(commands: Any, what: str) -> None:
    """Declare the commands."""
    family = add_family(commands, "token", what, "token new")
    what = "create a secret, shown only once, and its token for a broker's token file"
    example = "token new --name till-7 --publish shop.Order --subscribe '/Chat/**'"
    command = add_command(family, "new", run_new, what, example, more=_GRANTS)
    command.take("--name NAME", "the name in logs and errors")
    publish, subscribe = "a type or topic that it may publish", "one that it may subscribe to"
    command.take("--publish GRANT", publish, repeated=True)
    command.take("--subscribe GRANT", subscribe, repeated=True)
    describe = "type names that belong to its owner, such as 'shop.*'"
    command.take("--describe GRANT", describe, repeated=True)
    command.take("--admin", "it may do everything, to what belongs to others as well")
    owner = "tokens of one owner share publishers and subscriptions; by default its name"
    command.take("--owner NAME", owner)
    what = "list the tokens in a file, their rights, and what is wrong"
    example = "token check tokens.toml"
    command = add_command(family, "check", run_check, what, example, more=_STATUS_IN_WORDS)
    command.take("file FILE", "the broker's token file")


def run_new(given: Namespace, terminal: Terminal) -> int:
    """Print a new secret, which is kept nowhere, and what to put into the file of tokens."""
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
    if problem := name_problem(name):
        raise UsageError(f"the {what} of a token {problem}")


def run_check(given: Namespace, terminal: Terminal) -> int:
    """List the tokens of a file and what is wrong with it: 1 for errors, 3 for warnings only."""
    contents, now = read_tokens(given.file), terminal.clock.time()
    findings = (*contents.findings, *findings_at(contents.tokens, now))
    data = tokens_data(given.file, contents, findings, now)
    terminal.show(data, token_lines(contents, findings))
    if contents.errors:
        return WRONG
    return DOUBTFUL if findings else 0


def given_rights(given: Namespace) -> Rights:
    """The rights that a command line grants."""
    try:
        return Rights.of(
            publish=given.publish,
            subscribe=given.subscribe,
            admin=given.admin,
            describe=given.describe,
        )
    except BadGrantError as error:
        raise UsageError(str(error)) from error


def token_toml(name: str, digest: str, rights: Rights, owner: str | None) -> str:
    """What to put into the file of tokens."""
    # Strings of printable characters are written in TOML as in JSON.
    granted = {"publish": rights.publish, "subscribe": rights.subscribe}
    if rights.describe:
        granted["describe"] = rights.describe
    lines = [
        "[[token]]",
        f"name = {json.dumps(name, ensure_ascii=False)}",
        f'sha256 = "{digest}"',
        *(
            f"{key} = {json.dumps([grant.text for grant in grants], ensure_ascii=False)}"
            for key, grants in granted.items()
        ),
    ]
    if rights.admin:
        lines.append("admin = true")
    if owner is not None:
        lines.append(f"owner = {json.dumps(owner, ensure_ascii=False)}")
    return "\n".join(lines)


def tokens_data(
    file: str, contents: Contents, findings: tuple[TokenFinding, ...], now: float
) -> dict[str, Any]:
    """The same for a program."""
    return {
        "file": file,
        "ok": not contents.errors,
        "tokens": [_data(token, now) for token in contents.tokens],
        "owners": [_owner(name, contents) for name in _owners(contents)],
        "findings": [_finding_data(finding) for finding in findings],
    }


def _data(token: AccessToken, now: float) -> dict[str, Any]:
    return {
        "name": token.name,
        "publish": [grant.text for grant in token.rights.publish],
        "subscribe": [grant.text for grant in token.rights.subscribe],
        "describe": [grant.text for grant in token.rights.describe],
        "admin": token.rights.admin,
        "owner": token.owner,
        "expires": token.expires,
        "valid": token.is_valid(now),
    }


def _finding_data(finding: TokenFinding) -> dict[str, str]:
    return {name: getattr(finding, name) for name in ("severity", "code", "where", "text")}


def _owners(contents: Contents) -> list[str]:
    """All to whom something may belong."""
    return sorted({*contents.quotas, *(token.owner for token in contents.tokens)} - {""})


def _owner(name: str, contents: Contents) -> dict[str, Any]:
    quota = contents.quotas.get(name, Quota())
    return {"name": name, **{key: getattr(quota, key) for key in QUOTAS}}


def token_lines(contents: Contents, findings: tuple[TokenFinding, ...]) -> Iterator[Line]:
    """All tokens with their rights, and what is wrong."""
    tokens = contents.tokens
    for token in tokens:
        yield token.name
        yield from (f"  {key:<9}  {value}" for key, value in _rows(token))
        yield ""
    for name, quota in contents.quotas.items():
        yield f"owner {name}"
        given = ((key, getattr(quota, key)) for key in QUOTAS)
        yield from (f"  {key:<13}  {'-' if many is None else many}" for key, many in given)
        yield ""
    for finding in findings:
        yield by_severity(finding.severity, f"{finding.severity}: {finding}")
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    words = ((len(tokens), "token"), (errors, "error"), (warnings, "warning"))
    yield ", ".join(count(number, word) for number, word in words)


def _rows(token: AccessToken) -> Iterator[tuple[str, str]]:
    """Every right in full: what is not shown might be what matters."""
    rights = token.rights
    if rights.admin:
        yield "admin", "may do everything, also to others"
    else:
        yield "publish", listed(rights.publish)
        yield "subscribe", listed(rights.subscribe)
        if rights.describe:
            yield "describe", listed(rights.describe)
    if token.given_owner is not None:
        yield "owner", token.given_owner
    if token.expires is not None:
        yield "expires", moment(token.expires)
