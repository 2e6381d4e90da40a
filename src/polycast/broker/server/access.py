"""Tokens: who a client is, and what it may do."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polycast.broker.server.grants import OPEN, Grant, Rights
from polycast.broker.server.limits import Quota
from polycast.broker.server.ownership import Owners
from polycast.broker.server.tokenfile import TokenFinding, claims_of, findings_at, read_tokens
from polycast.errors import AccessDeniedError, BadTokensError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.tokenfile import AccessToken, Contents

__all__ = [
    "ANYBODY",
    "OPEN",
    "Grant",
    "Principal",
    "Rights",
    "TokenFinding",
    "Tokens",
    "load_tokens",
    "new_token",
]

_QUOTA = Quota()  # of owners without an [[owner]] table
Stamp = tuple[int, int, int]  # when a file was written, its size, and which file it is


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a valid token, without its secret."""

    name: str
    rights: Rights
    expires: float | None = None
    _digest: bytes = field(default=b"", repr=False)
    owner: str | None = None
    """The owner of what it creates; None where there are no tokens."""

    def check_publish(self, names: Sequence[str], topic: str | None) -> None:
        """Raise `AccessDeniedError` for an event that may not be published."""
        if not self.rights.may_publish(names, topic):
            raise self._denied("publish", _event(names, topic), self.rights.publish)

    def check_subscribe(self, names: Sequence[str], topic: str | None) -> None:
        """Raise `AccessDeniedError` for a subscription that could receive nothing."""
        if not self.rights.may_subscribe(names, topic):
            raise self._denied("subscribe to", _event(names, topic), self.rights.subscribe)

    def check_admin(self, action: str, what: str) -> None:
        """Raise `AccessDeniedError` unless it is an admin."""
        if not self.rights.admin:
            raise AccessDeniedError(action, what, token=self.name, needs="admin = true")

    def check_granted(self, action: str) -> None:
        """Raise `AccessDeniedError` for a token without any grant."""
        rights = self.rights
        if not (rights.admin or rights.publish or rights.subscribe or rights.describe):
            needs = "publish, subscribe or describe grant"
            raise AccessDeniedError(action, "of the store", token=self.name, needs=needs)

    @property
    def may_subscribe(self) -> bool:
        """Whether it may receive anything at all."""
        return self.rights.may_subscribe((), None)

    def owns(self, owner: str | None) -> bool:
        """Whether it may use what belongs to an owner, or to no one; admins may use everything."""
        return self.rights.admin or (owner is not None and owner == self.owner)

    def refuse(self, action: str, what: str) -> None:
        """Raise `AccessDeniedError` for something that belongs to another owner, or to no one."""
        needs = "owner in common with whoever has it"
        raise AccessDeniedError(action, what, token=self.name, needs=needs)

    def _denied(self, action: str, what: str, granted: Sequence[Grant]) -> AccessDeniedError:
        return AccessDeniedError(action, what, token=self.name, granted=map(str, granted))


ANYBODY = Principal("anybody", OPEN)
"""Every client of a broker without tokens."""


class Tokens:
    """The tokens of a file, which can be reloaded while other threads use them.

    The contents are one value that is replaced as a whole, so `find` needs no lock; one thread
    reloads.
    """

    def __init__(self, path: str, contents: Contents, stamp: Stamp | None) -> None:
        self.path = path
        self.generation = 1
        """Grows with each reload."""
        self._contents = contents
        self._owners = Owners(tuple(claims_of(contents.tokens)))
        self._stamp = stamp

    def owner_of(self, name: str) -> str | None:
        """The owner of a type name; None if only admins may describe it."""
        return self._owners.owner_of(name)

    def quota_of(self, owner: str) -> Quota:
        """The quota of an owner."""
        return self._contents.quotas.get(owner, _QUOTA)

    def owners(self) -> list[str]:
        """All owners, sorted."""
        return sorted({token.owner for token in self._contents.tokens})

    def __len__(self) -> int:
        return len(self._contents.tokens)

    def find(self, secret: str | None, *, now: float) -> Principal | None:
        """The holder of a secret; None if it is missing, unknown or expired.

        All digests are compared, each in constant time, so that the time tells nothing.
        """
        if not secret:
            return None
        return self._of(hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest(), now)

    def refresh(self, principal: Principal, *, now: float) -> Principal | None:
        """A connected principal by the tokens of now; None if its token is not valid any more."""
        return self._of(principal._digest, now)

    def findings(self, *, now: float) -> tuple[TokenFinding, ...]:
        """Warnings: a file that others can read, tokens that have expired or may do nothing."""
        contents = self._contents
        return (*contents.findings, *findings_at(contents.tokens, now))

    def reload_if_changed(self) -> BadTokensError | None:
        """Reload a file that has changed; an error is returned once, and keeps the old tokens."""
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        contents = read_tokens(self.path)
        if contents.errors:
            return BadTokensError(self.path, contents.errors)
        self._contents = contents
        self._owners = Owners(tuple(claims_of(contents.tokens)))
        self.generation += 1
        return None

    def _of(self, digest: bytes, now: float) -> Principal | None:
        match: AccessToken | None = None
        for token in self._contents.tokens:
            if hmac.compare_digest(token.digest, digest):
                match = token
        if match is None or not match.is_valid(now):
            return None
        return Principal(match.name, match.rights, match.expires, digest, match.owner)


def load_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Load the tokens of a file; raises `BadTokensError` with everything that is wrong in it."""
    name = os.fspath(path)
    stamp = _stamp(name)  # before reading, so that a change meanwhile is noticed later
    contents = read_tokens(name)
    if contents.errors:
        raise BadTokensError(name, contents.errors)
    return Tokens(name, contents, stamp)


def new_token() -> tuple[str, str]:
    """A new secret, and its SHA-256: a broker knows only that."""
    secret = secrets.token_urlsafe(32)
    while secret.startswith("-"):  # which a command line would take for an option
        secret = secrets.token_urlsafe(32)
    return secret, hashlib.sha256(secret.encode()).hexdigest()


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _event(names: Sequence[str], topic: str | None) -> str:
    name = names[0] if names else "an event"
    return name if topic is None else f"{name} on {topic}"
