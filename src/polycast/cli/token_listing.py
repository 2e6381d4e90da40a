"""Tokens of a broker, as they are written into its file and listed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from polycast.broker.server.access import Rights
from polycast.broker.server.quotas import QUOTAS, Quota
from polycast.cli.formatting import by_severity, count, listed, moment
from polycast.cli.terminal import UsageError
from polycast.errors import BadGrantError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.broker.server.access import TokenFinding
    from polycast.broker.server.tokenfile import AccessToken, Contents
    from polycast.cli.formatting import Line

__all__ = ["given_rights", "token_lines", "token_toml", "tokens_data"]


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
        "findings": [_finding(finding) for finding in findings],
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


def _finding(finding: TokenFinding) -> dict[str, str]:
    return {
        "severity": finding.severity,
        "code": finding.code,
        "where": finding.where,
        "text": finding.text,
    }


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
