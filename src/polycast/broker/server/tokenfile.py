"""The file of tokens: TOML, read into plain values, with everything that is wrong in it."""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

from polycast.broker.server.grants import Grant, Rights
from polycast.broker.server.ownership import Claim, conflicts
from polycast.broker.server.quotas import QUOTAS, Quota
from polycast.broker.wire.security import readable_by_others
from polycast.errors import BadGrantError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

__all__ = [
    "CODES",
    "Contents",
    "Finding",
    "Severity",
    "Token",
    "claims_of",
    "findings_at",
    "name_problem",
    "read_tokens",
]

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
class Finding:
    """One thing that is wrong or doubtful in a file of tokens."""

    code: str
    text: str
    where: str

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return CODES[self.code]

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the file has it: who has the secret, and what they may do."""

    name: str
    digest: bytes = field(repr=False)
    rights: Rights
    expires: float | None = None
    given_owner: str | None = None

    @property
    def owner(self) -> str:
        """To whom belongs what is made with it: tokens with the same owner share that."""
        return self.name if self.given_owner is None else self.given_owner

    def is_valid(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


@dataclass(frozen=True)
class Contents:
    """The tokens of a file that could be read, and what was wrong with it."""

    tokens: tuple[Token, ...] = ()
    findings: tuple[Finding, ...] = ()
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    """By owner; of owners that are not here, all that may be left out."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Why the file cannot be used."""
        return tuple(each for each in self.findings if each.severity == "error")


def read_tokens(path: str) -> Contents:
    """All that is in a file of tokens; nothing is raised."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        return Contents(findings=(Finding("unreadable", why, path),))
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: the byte {error.object[error.start]:#04x} at {error.start}"
        return Contents(findings=(Finding("bad-toml", why, path),))
    reading = _Reading(text, path)
    tokens = reading.tokens()
    quotas = reading.quotas({each.owner for each in tokens})
    warning = readable_by_others(path)
    if warning:
        reading.findings.append(Finding("readable-by-others", warning, path))
    return Contents(tuple(tokens), tuple(reading.findings), quotas)


def findings_at(tokens: tuple[Token, ...], now: float) -> Iterator[Finding]:
    """What is doubtful about tokens that can be used."""
    for token in tokens:
        where, rights = f"token {token.name!r}", token.rights
        if not token.is_valid(now):
            yield Finding("expired", "it has expired and lets nobody in", where)
        if not (rights.admin or rights.publish or rights.subscribe):
            yield Finding("no-rights", "it may do nothing: no publish, no subscribe", where)


def claims_of(tokens: Iterable[Token]) -> Iterator[Claim]:
    """Who may describe what, and so owns its name, also when the token has expired."""
    for token in tokens:
        for grant in token.rights.describe:
            yield Claim(token.owner, grant, token.name)


def _claimed(one: Claim, other: Claim, name: str) -> str:
    whose = (f"describe = [{each.grant.text!r}] of token {each.token!r}" for each in (other, one))
    return (
        f"{' and '.join(whose)} both cover a name such as {name!r}, for the owners {other.owner!r} "
        f"and {one.owner!r}; accepted: names of one owner each, or one owner for both tokens"
    )


class _Reading:
    """One pass over a file, which goes on after an error to find them all."""

    def __init__(self, text: str, path: str) -> None:
        self.findings: list[Finding] = []
        self._path, self._text = path, text
        self._where = path
        self._data = self._tables()

    def tokens(self) -> list[Token]:
        entries = self._entries("token")
        if not entries and not self.findings:
            # A file that is just being written is empty for a moment; it must not lock all out.
            self._add("no-tokens", "there is no [[token]] in it")
        lines = [self._text.count("\n", 0, each.start()) + 1 for each in self._headers()]
        read: list[Token] = []
        places: list[str] = []
        for n, entry in enumerate(entries):
            # Tables that are written otherwise, as in `token = [{...}]`, have no line of theirs.
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
        found = self._data.get(table, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self._add("bad-value", f"{table} is not a list of tables; write [[{table}]] above each")
            return []
        return found

    def quotas(self, owners: Collection[str]) -> dict[str, Quota]:
        """What it says of owners, who are those of its tokens."""
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

    def _token(self, entry: Mapping[str, Any]) -> Token | None:
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
        return Token(name, digest, rights, expires, owner)

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
        # What is there is never shown: it may be the secret, put in the wrong place.
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
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            accepted = f'{key} = ["shop.Order", "/Chat/**"]'
            self._add("bad-value", f"{key} is not a list of strings; accepted: {accepted}")
            return ()
        numbered = enumerate(given)
        return tuple(grant for n, each in numbered for grant in self._grant(key, n, each, read))

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

    def _compare(self, token: Token, others: list[Token], places: list[str]) -> None:
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
        self.findings.append(Finding(code, text, self._where))


def name_problem(name: object) -> str:
    """Why something cannot be the name of a token, which is shown in logs; empty if it can."""
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
