"""`polycast token`: make tokens for a broker, and see what is in a file of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from polycast.broker.server.access import Rights, new_token
from polycast.broker.server.quotas import QUOTAS, Quota
from polycast.broker.server.tokenfile import findings_at, name_problem, read_tokens
from polycast.cli.formatting import count, listed, moment
from polycast.cli.terminal import Refused
from polycast.errors import BadGrantError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.broker.server.access import TokenFinding
    from polycast.broker.server.tokenfile import AccessToken, Contents
    from polycast.cli.terminal import Terminal

__all__ = ["check_tokens", "make_token"]

WRONG, DOUBTFUL = 1, 3


def make_token(given: Namespace, terminal: Terminal) -> int:
    """Print a new secret, which is kept nowhere, and what to put into the file of tokens."""
    rights = _rights(given)
    secret, digest = new_token()
    name = f"token-{digest[:8]}" if given.name is None else given.name
    problem = name_problem(name)
    if problem:
        raise Refused(f"the name of a token {problem}")
    problem = "" if given.owner is None else name_problem(given.owner)
    if problem:
        raise Refused(f"the owner of a token {problem}")
    toml = _toml(name, digest, rights, given.owner)
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


def _rights(given: Namespace) -> Rights:
    try:
        return Rights.of(
            publish=given.publish,
            subscribe=given.subscribe,
            admin=given.admin,
            describe=given.describe,
        )
    except BadGrantError as error:
        raise Refused(str(error)) from error


def _toml(name: str, digest: str, rights: Rights, owner: str | None) -> str:
    # Strings of printable characters are written in TOML as in JSON.
    granted = {"publish": rights.publish, "subscribe": rights.subscribe}
    if rights.describe:
        granted["describe"] = rights.describe
    lines = [
        "[[token]]",
        f"name = {json.dumps(name, ensure_ascii=False)}",
        f'sha256 = "{digest}"',
        *(
            f"{key} = {json.dumps([each.text for each in grants], ensure_ascii=False)}"
            for key, grants in granted.items()
        ),
    ]
    if rights.admin:
        lines.append("admin = true")
    if owner is not None:
        lines.append(f"owner = {json.dumps(owner, ensure_ascii=False)}")
    return "\n".join(lines)


def check_tokens(given: Namespace, terminal: Terminal) -> int:
    """List the tokens of a file and what is wrong with it: 1 for errors, 3 for warnings only."""
    contents, now = read_tokens(given.file), terminal.clock.time()
    findings = (*contents.findings, *findings_at(contents.tokens, now))
    data = {
        "file": given.file,
        "ok": not contents.errors,
        "tokens": [_data(token, now) for token in contents.tokens],
        "owners": [_owner(name, contents) for name in _owners(contents)],
        "findings": [_finding(each) for each in findings],
    }
    terminal.show(data, _lines(contents, findings))
    if contents.errors:
        return WRONG
    return DOUBTFUL if findings else 0


def _data(token: AccessToken, now: float) -> dict[str, Any]:
    return {
        "name": token.name,
        "publish": [each.text for each in token.rights.publish],
        "subscribe": [each.text for each in token.rights.subscribe],
        "describe": [each.text for each in token.rights.describe],
        "admin": token.rights.admin,
        "owner": token.owner,
        "expires": token.expires,
        "valid": token.is_valid(now),
    }


def _finding(each: TokenFinding) -> dict[str, str]:
    return {
        "severity": each.severity,
        "code": each.code,
        "where": each.where,
        "text": each.text,
    }


def _owners(contents: Contents) -> list[str]:
    """All to whom something may belong."""
    return sorted({*contents.quotas, *(each.owner for each in contents.tokens)} - {""})


def _owner(name: str, contents: Contents) -> dict[str, Any]:
    quota = contents.quotas.get(name, Quota())
    return {"name": name, **{key: getattr(quota, key) for key in QUOTAS}}


def _lines(contents: Contents, findings: tuple[TokenFinding, ...]) -> Iterator[str]:
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
    for each in findings:
        yield f"{each.severity}: {each}"
    errors = sum(each.severity == "error" for each in findings)
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
