"""The tokens of a file, TOML that is read with everything that is wrong in it, and reloaded."""

from __future__ import annotations

import difflib
import hashlib
import hmac
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from polycast.broker.server.access import Claim, Grant, Owners, Principal, Rights, conflicts
from polycast.broker.server.limits import QUOTAS, Quota
from polycast.broker.wire.security import readable_by_others
from polycast.errors import BadGrantError, BadTokensError

Severity = Literal["error", "warning"]

CODES: dict[str, Severity] = {
    "unreadable": "error",
    "bad-toml": "error",
    "no-tokens": "error",
    "unknown-key": "error",
    "missing-key": "error",
    "bad-value": "error",
    "bad-name": "error",
    "bad-hash": "error",
    "bad-grant": "error",
    "bad-time": "error",
    "same-name": "error",
    "same-hash": "error",
    "same-names": "error",
    "same-owner": "error",
    "readable-by-others": "warning",
    "expired": "warning",
    "no-rights": "warning",
    "no-such-owner": "warning",
}

_KEYS = ("name", "sha256", "publish", "subscribe", "describe", "admin", "expires", "owner")
_TABLES = ("token", "owner")
_OWNER_KEYS = ("name", *QUOTAS)
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*(?:token|\"token\"|'token')[ \t]*\]\]", re.M)
_HASH = re.compile(r"[0-9a-fA-F]{64}")
_OF_NOTHING = hashlib.sha256(b"").digest()
_LONGEST_NAME = 100


@dataclass(frozen=True)
class TokenFinding:
    """An error or a warning about a file of tokens."""

    code: str
    text: str
    where: str

    @property
    def severity(self) -> Severity:
        """Error or warning, by its code."""
        return CODES[self.code]

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.code}]"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token of the file: its holder, and what it may do."""

    name: str
    digest: bytes = field(repr=False)
    rights: Rights
    expires: float | None = None
    given_owner: str | None = None

    @property
    def owner(self) -> str:
        """The owner of what is created with it, which tokens may share."""
        return self.name if self.given_owner is None else self.given_owner

    def is_valid(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


@dataclass(frozen=True)
class Contents:
    """The valid tokens of a file, and what is wrong with it."""

    tokens: tuple[AccessToken, ...] = ()
    findings: tuple[TokenFinding, ...] = ()
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    """By owner; others have the default quota."""

    @property
    def errors(self) -> tuple[TokenFinding, ...]:
        """The findings for which the file cannot be used."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


def read_tokens(path: str) -> Contents:
    """Read a file of tokens; its errors are findings, and nothing is raised."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        return Contents(findings=(TokenFinding("unreadable", why, path),))
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: the byte {error.object[error.start]:#04x} at {error.start}"
        return Contents(findings=(TokenFinding("bad-toml", why, path),))
    reading = _TokenFileReader(text, path)
    tokens = reading.tokens()
    quotas = reading.quotas({token.owner for token in tokens})
    warning = readable_by_others(path)
    if warning:
        reading.findings.append(TokenFinding("readable-by-others", warning, path))
    return Contents(tuple(tokens), tuple(reading.findings), quotas)


def findings_at(tokens: tuple[AccessToken, ...], now: float) -> Iterator[TokenFinding]:
    """Warnings about valid tokens."""
    for token in tokens:
        where, rights = f"token {token.name!r}", token.rights
        if not token.is_valid(now):
            yield TokenFinding("expired", "it has expired and lets nobody in", where)
        if not (rights.admin or rights.publish or rights.subscribe):
            yield TokenFinding("no-rights", "it may do nothing: no publish, no subscribe", where)


def claims_of(tokens: Iterable[AccessToken]) -> Iterator[Claim]:
    """The describe grants of tokens, also of expired ones: they own names."""
    for token in tokens:
        for grant in token.rights.describe:
            yield Claim(token.owner, grant, token.name)


def _claimed(one: Claim, other: Claim, name: str) -> str:
    grants = (f"describe = [{its.grant.text!r}] of token {its.token!r}" for its in (other, one))
    return (
        f"{' and '.join(grants)} both cover a name such as {name!r}, for the owners "
        f"{other.owner!r} and {one.owner!r}; accepted: names of one owner each, or one owner for "
        f"both tokens"
    )


class _TokenFileReader:
    """Reads a file in one pass, and goes on after an error to find them all."""

    def __init__(self, text: str, path: str) -> None:
        self.findings: list[TokenFinding] = []
        self._path, self._text = path, text
        self._where = path
        self._data = self._tables()

    def tokens(self) -> list[AccessToken]:
        entries = self._entries("token")
        if not entries and not self.findings:
            # A file that is being written is empty for a moment; it must not lock out all clients.
            self._add("no-tokens", "there is no [[token]] in it")
        lines = [self._text.count("\n", 0, header.start()) + 1 for header in self._headers()]
        read: list[AccessToken] = []
        places: list[str] = []
        for n, entry in enumerate(entries):
            # Inline tables, as in `token = [{...}]`, have no line of their own.
            line = f", line {lines[n]}" if len(lines) == len(entries) else ""
            place = f"token {n + 1}{line}"
            self._where = f"{self._path}, {place}"
            token = self._token(entry)
            if token is not None:
                self._compare(token, read, places)
                read.append(token)
                places.append(place)
        self._where = self._path
        for one, other, name in conflicts(claims_of(read)):
            self._add("same-names", _claimed(one, other, name))
        return read

    def _headers(self) -> Iterator[re.Match[str]]:
        return _HEADER.finditer(self._text)

    def _tables(self) -> Mapping[str, Any]:
        try:
            data = tomllib.loads(self._text)
        except (ValueError, RecursionError) as error:
            self._add("bad-toml", f"it is not TOML: {error}")
            return {}
        for key in [key for key in data if key not in _TABLES]:
            self._unknown(key, _TABLES, shown=lambda name: f"[[{name}]]")
        return data

    def _entries(self, table: str) -> list[Mapping[str, Any]]:
        entries = self._data.get(table, [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            self._add("bad-value", f"{table} is not a list of tables; write [[{table}]] above each")
            return []
        return entries

    def quotas(self, owners: Collection[str]) -> dict[str, Quota]:
        """Read the quotas of owners, which must be owners of tokens."""
        read: dict[str, Quota] = {}
        for n, entry in enumerate(self._entries("owner")):
            self._where = f"{self._path}, owner {n + 1}"
            name = self._name(entry)
            for key in entry:
                if key not in _OWNER_KEYS:
                    self._unknown(key, _OWNER_KEYS, shown=str)
            given = {key: self._number(key, entry[key]) for key in QUOTAS if key in entry}
            if name and name in read:
                self._add("same-owner", "it is there before; each owner has one [[owner]]")
            elif name and name not in owners:
                self._add("no-such-owner", "no token has this owner")
            read[name] = Quota(**given)
        self._where = self._path
        return read

    def _number(self, key: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        shown = value if isinstance(value, int) and not isinstance(value, bool) else _kind(value)
        self._add("bad-value", f"{key} is {shown}; accepted: a whole number, 1 or more")
        return 1

    def _token(self, entry: Mapping[str, Any]) -> AccessToken | None:
        before = len(self.findings)
        name = self._name(entry)
        for key in entry:
            if key not in _KEYS:
                self._unknown(key, _KEYS, shown=str)
        digest = self._digest(entry)
        publish, subscribe = (self._grants(entry, key) for key in ("publish", "subscribe"))
        described = self._grants(entry, "describe", Grant.of_names)
        admin = entry.get("admin", False)
        if not isinstance(admin, bool):
            self._add("bad-value", f"admin is {_kind(admin)}; accepted: true or false")
        expires = self._expires(entry)
        owner = entry.get("owner")
        problem = "" if owner is None else name_problem(owner)
        if problem:
            self._add("bad-name", f"its owner {problem}")
        if len(self.findings) > before:
            return None
        rights = Rights(publish, subscribe, admin, described)
        return AccessToken(name, digest, rights, expires, owner)

    def _name(self, entry: Mapping[str, Any]) -> str:
        name = entry.get("name")
        if name is None:
            self._add("missing-key", 'it has no name; accepted: one such as name = "till-7"')
            return ""
        problem = name_problem(name)
        if problem:
            self._add("bad-name", f"its name {problem}")
            return ""
        self._where += f" ({name})"
        return str(name)

    def _digest(self, entry: Mapping[str, Any]) -> bytes:
        # The value is never shown: it may be the secret, put in the wrong place.
        given = entry.get("sha256")
        accepted = "accepted: 64 hexadecimal digits, as `polycast token new` prints them"
        if given is None:
            self._add("missing-key", f"it has no sha256; {accepted}")
        elif not isinstance(given, str):
            self._add("bad-hash", f"sha256 is {_kind(given)}; {accepted}")
        elif not _HASH.fullmatch(given):
            self._add("bad-hash", f"sha256 is {len(given)} characters that are no hash; {accepted}")
        elif bytes.fromhex(given) == _OF_NOTHING:
            self._add("bad-hash", f"sha256 is that of an empty secret; {accepted}")
        else:
            return bytes.fromhex(given)
        return b""

    def _grants(
        self, entry: Mapping[str, Any], key: str, read: Callable[[str], Grant] = Grant
    ) -> tuple[Grant, ...]:
        given = entry.get(key, [])
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            accepted = f'{key} = ["shop.Order", "/Chat/**"]'
            self._add("bad-value", f"{key} is not a list of strings; accepted: {accepted}")
            return ()
        numbered = enumerate(given)
        return tuple(grant for n, text in numbered for grant in self._grant(key, n, text, read))

    def _grant(self, key: str, n: int, text: str, read: Callable[[str], Grant]) -> Iterator[Grant]:
        try:
            yield read(text)
        except BadGrantError as error:
            self._add("bad-grant", f"{key}, number {n + 1}: {error}")

    def _expires(self, entry: Mapping[str, Any]) -> float | None:
        given = entry.get("expires")
        if given is None:
            return None
        accepted = "accepted: a time with its zone, such as 2027-01-01T00:00:00Z"
        if isinstance(given, datetime) and given.tzinfo is not None:
            return given.timestamp()
        if isinstance(given, datetime):
            self._add("bad-time", f"expires = {given.isoformat()} has no time zone; {accepted}")
        elif isinstance(given, date):
            self._add("bad-time", f"expires = {given.isoformat()} is a day; {accepted}")
        else:
            self._add("bad-time", f"expires is {_kind(given)}; {accepted}")
        return None

    def _compare(self, token: AccessToken, others: list[AccessToken], places: list[str]) -> None:
        for other, place in zip(others, places, strict=True):
            if other.name == token.name:
                self._add("same-name", f"{place} has that name, too; each has one of its own")
            if other.digest == token.digest:
                who = f"{place} ({other.name})"
                self._add("same-hash", f"{who} has that sha256, too; make another secret")

    def _unknown(self, key: str, known: tuple[str, ...], *, shown: Callable[[str], str]) -> None:
        near = difflib.get_close_matches(key.lower(), known, n=1)
        hint = f"; did you mean {shown(near[0])}?" if near else ""
        if key in ("secret", "token", "password"):
            hint = "; the file has no secrets, only the sha256 of each"
        accepted = ", ".join(map(shown, known))
        self._add("unknown-key", f"there is no key {key!r}{hint}; accepted: {accepted}")

    def _add(self, code: str, text: str) -> None:
        self.findings.append(TokenFinding(code, text, self._where))


def name_problem(name: object) -> str:
    """Why a value cannot be the name of a token, which logs show; empty if it can."""
    accepted = f"accepted: up to {_LONGEST_NAME} characters that can be printed"
    if not isinstance(name, str):
        return f"is {_kind(name)}; {accepted}"
    if not name.strip():
        return f"is empty; {accepted}"
    if len(name) > _LONGEST_NAME:
        return f"is {len(name)} characters long; {accepted}"
    return "" if name.isprintable() else f"is {name!r}; {accepted}"


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a string"}
    kinds |= {list: "a list", dict: "a table"}
    return kinds.get(type(value), f"a {type(value).__name__}")


_QUOTA = Quota()  # of owners without an [[owner]] table
Stamp = tuple[int, int, int]  # when a file was written, its size, and which file it is


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
