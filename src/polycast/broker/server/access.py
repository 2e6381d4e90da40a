"""Who a client is, what it may publish and receive, and which owner has which names of types."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from polycast.errors import AccessDeniedError, BadGrantError, BadTopicError
from polycast.matching.selectors import TopicPattern

_JOINT = " @ "
_REMEMBERED = 8_192  # decisions per right; the least recently used are dropped

Verdict = Callable[[tuple[str, ...], str | None], bool]


@dataclass(frozen=True, slots=True)
class Grant:
    """A pattern for the names of types, one for topics, or both; `*` matches everything."""

    text: str
    topic: TopicPattern | None = field(init=False, repr=False, compare=False)
    _type: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_letters(self.text)
        names, joint, topic = self.text.partition(_JOINT)
        if self.text.startswith("/"):
            if joint:
                raise BadGrantError(self.text, at=len(names), why="the type comes before the topic")
            names, topic = "", self.text
        start = len(self.text) - len(topic)
        has_topic = bool(joint) or not names
        pattern = _topic_pattern(self.text, topic, start) if has_topic else None
        object.__setattr__(self, "topic", pattern)
        object.__setattr__(self, "_type", _type_pattern(self.text, names) if names else None)

    def covers(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether it covers an event, by the names of its class and supertypes and by its topic."""
        if self.topic is not None and (topic is None or not self.topic.matches(topic)):
            return False
        return self._type is None or any(map(self._type.match, names))

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of_names(cls, text: str) -> Grant:
        """A grant over names of types only; raises `BadGrantError` for one with a topic."""
        grant = cls(text)
        if grant.topic is not None:
            at = text.index("/")
            raise BadGrantError(text, at=at, why="a type is described for all topics; leave it out")
        return grant


def _check_letters(text: str) -> None:
    if not text.strip():
        raise BadGrantError(text, at=0, why="it is empty")
    for at, letter in enumerate(text):
        if not letter.isprintable():
            raise BadGrantError(text, at=at, why=f"{letter!r} cannot be printed")
    if text != text.strip():
        at = 0 if text[0].isspace() else len(text.rstrip())
        raise BadGrantError(text, at=at, why="it has a space at its end")


def _type_pattern(text: str, names: str) -> re.Pattern[str]:
    """Only `*` is special, and it crosses dots."""
    for wrong, why in (
        ("@", "a type and a topic are joined by ' @ ', with a space on each side"),
        ("**", "in a type '*' stands for any letters, dots too; '**' is for topics"),
        ("?", "the only wildcard in a type is '*'"),
        ("/", "a topic begins with '/', and a type has none in it"),
    ):
        if wrong in names:
            raise BadGrantError(text, at=names.index(wrong), why=why)
    # Unlike `.*`, what fnmatch makes of several `*` does not backtrack for long.
    return re.compile(fnmatch.translate(names.replace("[", "[[]")))


def _topic_pattern(text: str, topic: str, start: int) -> TopicPattern:
    if not topic.startswith("/"):
        raise BadGrantError(text, at=start, why=f"the topic {topic!r} does not start with '/'")
    try:
        return TopicPattern(topic)
    except BadTopicError:
        at, why = _bad_level(topic)
        raise BadGrantError(text, at=start + at, why=why) from None


def _bad_level(topic: str) -> tuple[int, str]:
    at = 1
    for level in topic[1:].split("/"):
        if not level:
            return at, "the topic has an empty level"
        if "*" in level and level not in ("*", "**"):
            return at, f"the level {level!r} mixes a name with a wildcard"
        at += len(level) + 1
    return 0, "it is not a topic"


def _covered(
    grants: tuple[Grant, ...], names: tuple[str, ...], topic: str | None, *, everything: bool
) -> bool:
    return everything or any(grant.covers(names, topic) for grant in grants)


@dataclass(frozen=True, slots=True)
class Rights:
    """What a token may publish and receive; an admin may do everything, also to others.

    `names` are always those of an event's class and all its supertypes, so that a grant on a type
    covers its subtypes, also those that are described later.
    """

    publish: tuple[Grant, ...] = ()
    subscribe: tuple[Grant, ...] = ()
    admin: bool = False
    describe: tuple[Grant, ...] = ()
    _published: Verdict = field(init=False, repr=False, compare=False)
    _received: Verdict = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, grants in (("_published", self.publish), ("_received", self.subscribe)):
            verdict = partial(_covered, grants, everything=self.admin)
            object.__setattr__(self, name, lru_cache(_REMEMBERED)(verdict))

    @classmethod
    def of(
        cls,
        *,
        publish: Sequence[str] = (),
        subscribe: Sequence[str] = (),
        admin: bool = False,
        describe: Sequence[str] = (),
    ) -> Rights:
        """Parse rights; raises `BadGrantError` for a grant that cannot be read."""
        named = tuple(map(Grant.of_names, describe))
        return cls(tuple(map(Grant, publish)), tuple(map(Grant, subscribe)), admin, named)

    def may_describe(self, names: Iterable[str]) -> bool:
        """Whether a type with this name and these aliases may be described for everybody."""
        grants = self.describe
        return self.admin or all(
            any(grant.covers((name,), None) for grant in grants) for name in names
        )

    def may_publish(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether an event may be published."""
        return self._published(tuple(names), topic)

    def may_receive(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether an event may be received."""
        return self._received(tuple(names), topic)

    @property
    def may_subscribe(self) -> bool:
        """Whether a subscription could receive anything at all.

        It may be wider than its grants, since `may_receive` decides on every single event.
        """
        return self.admin or bool(self.subscribe)


OPEN = Rights.of(publish=["*"], subscribe=["*"], admin=True)
"""The rights of every client at a broker without tokens."""


# -- owners of names -------------------------------------------------------------------------------

_NAMES_REMEMBERED = 10_000  # names


@dataclass(frozen=True, slots=True)
class Claim:
    """An owner's grant to describe names."""

    owner: str
    grant: Grant
    token: str  # the name of the token with the grant


@dataclass(frozen=True)
class Owners:
    """Which owner has which names: by grant, never by order of arrival."""

    claims: tuple[Claim, ...] = ()
    _known: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def owner_of(self, name: str) -> str | None:
        """The owner of a name; None if it has none."""
        if name not in self._known:
            if len(self._known) >= _NAMES_REMEMBERED:
                self._known.clear()
            owners = (claim.owner for claim in self.claims if claim.grant.covers((name,), None))
            self._known[name] = next(owners, None)
        return self._known.get(name)


def conflicts(claims: Iterable[Claim]) -> Iterator[tuple[Claim, Claim, str]]:
    """Pairs of claims of different owners that cover a common name, with such a name."""
    before: list[Claim] = []
    for claim in claims:
        for other in before:
            name = in_common(claim.grant.text, other.grant.text)
            if other.owner != claim.owner and name is not None:
                yield claim, other, name
        before.append(claim)


def in_common(one: str, other: str) -> str | None:
    """A name that two patterns with `*` both cover; None if there is none."""
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0, "")]
    while waiting:
        here, there, name = waiting.pop()
        if here == len(one) and there == len(other):
            return name
        if (here, there) not in seen:
            seen.add((here, there))
            waiting += _steps(one, other, (here, there, name))
    return None


def _steps(one: str, other: str, at: tuple[int, int, str]) -> Iterator[tuple[int, int, str]]:
    here, there, name = at
    mine, theirs = one[here : here + 1], other[there : there + 1]
    if mine == "*":
        yield here + 1, there, name
        if theirs and theirs != "*":
            yield here, there + 1, name + theirs
    if theirs == "*":
        yield here, there + 1, name
        if mine and mine != "*":
            yield here + 1, there, name + mine
    if mine and mine == theirs != "*":
        yield here + 1, there + 1, name + mine


# -- clients ---------------------------------------------------------------------------------------


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

    def check_subscribe(self, names: Sequence[str]) -> None:
        """Raise `AccessDeniedError` for a subscription that could receive nothing."""
        if not self.rights.may_subscribe:
            raise self._denied("subscribe to", _event(names, None), self.rights.subscribe)

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


def _event(names: Sequence[str], topic: str | None) -> str:
    name = names[0] if names else "an event"
    return name if topic is None else f"{name} on {topic}"
