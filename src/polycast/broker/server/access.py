"""Tokens: who is at the other end of a connection, and what they may do."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polycast.broker.server.grants import OPEN, Grant, Rights
from polycast.broker.server.ownership import Owners
from polycast.broker.server.quotas import Quota
from polycast.broker.server.tokenfile import Finding, claims_of, findings_at, read_tokens
from polycast.errors import AccessDeniedError, BadTokensError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.tokenfile import Contents, Token

__all__ = [
    "ANYBODY",
    "OPEN",
    "Finding",
    "Grant",
    "Identified",
    "Rights",
    "Tokens",
    "load_tokens",
    "new_token",
]

_QUOTA = Quota()  # where the file says nothing
Stamp = tuple[int, int, int]  # when a file was written, its size, and which file it is


@dataclass(frozen=True, slots=True)
class Identified:
    """Somebody whose token is known; never holds the secret."""

    name: str
    rights: Rights
    expires: float | None = None
    _digest: bytes = field(default=b"", repr=False)
    owner: str | None = None
    """To whom belongs what they make; None where there are no tokens."""

    def check_publish(self, names: Sequence[str], topic: str | None) -> None:
        """Raises `AccessDeniedError` for an event that may not be published."""
        if not self.rights.may_publish(names, topic):
            raise self._denied("publish", _event(names, topic), self.rights.publish)

    def check_subscribe(self, names: Sequence[str], topic: str | None) -> None:
        """Raises `AccessDeniedError` for a subscription that could receive nothing."""
        if not self.rights.may_subscribe(names, topic):
            raise self._denied("subscribe to", _event(names, topic), self.rights.subscribe)

    def check_admin(self, action: str, what: str) -> None:
        """Raises `AccessDeniedError` for what only an admin may do."""
        if not self.rights.admin:
            raise AccessDeniedError(action, what, token=self.name, needs="admin = true")

    def _denied(self, action: str, what: str, granted: Sequence[Grant]) -> AccessDeniedError:
        return AccessDeniedError(action, what, token=self.name, granted=map(str, granted))


ANYBODY = Identified("anybody", OPEN)
"""Who is at the other end of every connection of a broker without tokens."""


class Tokens:
    """The tokens of a file; they can be read again while others ask for them.

    What is known is one value that is replaced as a whole, so `find` needs no lock; one thread
    reloads.
    """

    def __init__(self, path: str, contents: Contents, stamp: Stamp | None) -> None:
        self.path = path
        self.generation = 1
        """Goes up when the file was read again and is in effect."""
        self._contents = contents
        self._owners = Owners(tuple(claims_of(contents.tokens)))
        self._stamp = stamp

    def owner_of(self, name: str) -> str | None:
        """To whom the name of a type belongs; None if nobody may describe it but admins."""
        return self._owners.owner_of(name)

    def quota_of(self, owner: str) -> Quota:
        """How much an owner may have."""
        return self._contents.quotas.get(owner, _QUOTA)

    def owners(self) -> list[str]:
        """All to whom something may belong, by name."""
        return sorted({each.owner for each in self._contents.tokens})

    def __len__(self) -> int:
        return len(self._contents.tokens)

    def find(self, secret: str | None, *, now: float) -> Identified | None:
        """Who has a secret; None for nobody, for one that is not known, or that has expired.

        All digests are compared, each in constant time, so that how long it takes tells nothing.
        """
        if not secret:
            return None
        return self._of(hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest(), now)

    def again(self, who: Identified, *, now: float) -> Identified | None:
        """What somebody who is connected may do by now; None if they are to be let go."""
        return self._of(who._digest, now)

    def findings(self, *, now: float) -> tuple[Finding, ...]:
        """What is doubtful: a file that others can read, tokens that expired or may do nothing."""
        contents = self._contents
        return (*contents.findings, *findings_at(contents.tokens, now))

    def reload_if_changed(self) -> BadTokensError | None:
        """Read the file again if it was written since; what is wrong, said once, keeps the old."""
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

    def _of(self, digest: bytes, now: float) -> Identified | None:
        found: Token | None = None
        for token in self._contents.tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or not found.is_valid(now):
            return None
        return Identified(found.name, found.rights, found.expires, digest, found.owner)


def load_tokens(path: str | os.PathLike[str]) -> Tokens:
    """The tokens of a file; `BadTokensError` with everything that is wrong in it."""
    name = os.fspath(path)
    stamp = _stamp(name)  # before reading, so that what is written meanwhile is noticed later
    contents = read_tokens(name)
    if contents.errors:
        raise BadTokensError(name, contents.errors)
    return Tokens(name, contents, stamp)


def new_token() -> tuple[str, str]:
    """A new secret, and its SHA-256, which is all that a broker keeps of it."""
    secret = secrets.token_urlsafe(32)
    while secret.startswith("-"):  # which a command line would take for an option
        secret = secrets.token_urlsafe(32)
    return secret, hashlib.sha256(secret.encode()).hexdigest()


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _event(names: Sequence[str], topic: str | None) -> str:
    name = names[0] if names else "an event"
    return name if topic is None else f"{name} on {topic}"
