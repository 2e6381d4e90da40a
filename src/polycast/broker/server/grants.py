"""Rights: grants over types and topics, and the verdict on a single event."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from polycast.errors import BadGrantError, BadTopicError
from polycast.matching.topics import TopicPattern

__all__ = ["OPEN", "Grant", "Rights"]

_JOINT = " @ "
_REMEMBERED = 8_192  # verdicts per right; the least recently used go

Verdict = Callable[[tuple[str, ...], str | None], bool]


@dataclass(frozen=True, slots=True)
class Grant:
    """A pattern over the names of types, one over topics, or both; `*` is everything."""

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
        """Whether an event is meant, by the names of its class and supertypes and by its topic."""
        if self.topic is not None and (topic is None or not self.topic.matches(topic)):
            return False
        return self._type is None or any(map(self._type.match, names))

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of_names(cls, text: str) -> Grant:
        """One that covers names of types, whatever the topic; `BadGrantError` for any other."""
        found = cls(text)
        if found.topic is not None:
            at = text.index("/")
            raise BadGrantError(text, at=at, why="a type is described for all topics; leave it out")
        return found


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
    # What fnmatch makes of several `*` does not go astray on long names, as `.*` would.
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
    """What somebody may publish and receive; an admin may do everything, also to others.

    `names` are always those of an event's class and of all its supertypes, so that a right on a
    type is one on its subtypes, also on those that nobody knew when it was granted.
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
        """Rights from grants as they are written; `BadGrantError` for one that cannot be read."""
        named = tuple(map(Grant.of_names, describe))
        return cls(tuple(map(Grant, publish)), tuple(map(Grant, subscribe)), admin, named)

    def may_describe(self, names: Iterable[str]) -> bool:
        """Whether what a type is may be said for all, by its name and its aliases."""
        grants = self.describe
        return self.admin or all(any(e.covers((name,), None) for e in grants) for name in names)

    def may_publish(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether an event may be published."""
        return self._published(tuple(names), topic)

    def may_receive(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether an event may be given to who has these rights."""
        return self._received(tuple(names), topic)

    def may_subscribe(self, names: Sequence[str], topic: str | None) -> bool:
        """Whether a subscription could receive anything at all.

        A subscription to a supertype of what is granted is fine, and so is one whose topics
        overlap, since every single event is judged by `may_receive`. So this is true as soon as
        anything is granted, whatever the names and the topic are.
        """
        return self.admin or bool(self.subscribe)


OPEN = Rights.of(publish=["*"], subscribe=["*"], admin=True)
"""The rights of everybody at a broker without tokens."""
