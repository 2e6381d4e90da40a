"""Rights: grants over types and topics, and the decision on a single event."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from polycast.errors import BadGrantError, BadTopicError
from polycast.matching.topics import TopicPattern

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

    def may_subscribe(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether a subscription could receive anything at all.

        Names and topic do not matter: a subscription may be wider than its grants, since
        `may_receive` decides on every single event.
        """
        return self.admin or bool(self.subscribe)


OPEN = Rights.of(publish=["*"], subscribe=["*"], admin=True)
"""The rights of every client at a broker without tokens."""
