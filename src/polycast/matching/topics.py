"""Topics: names in a hierarchy, and patterns over them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from polycast.errors import BadTopicError

_ONE = "an event has one topic, so no wildcard can stand in it"


def check_topic(topic: object) -> str:
    """A topic to publish to: absolute, without wildcards."""
    if not isinstance(topic, str):
        raise BadTopicError(topic, why=f"it is a {type(topic).__name__}, not a string")
    _check_levels(topic)
    if "*" in topic:
        raise BadTopicError(topic, why=_ONE, at=topic.index("*"))
    return topic


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """One topic, or many by wildcards: `*` is one level, `**` any number, also none.

    `/` and `**` are the root, which all topics are below.
    """

    text: str
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = "/**" if self.text in ("/", "**") else self.text
        _check_levels(text)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "_regex", re.compile(_regex_for(text)))

    @property
    def exact(self) -> bool:
        """Whether it names one topic only."""
        return "*" not in self.text

    def matches(self, topic: str) -> bool:
        """Whether a published topic is meant."""
        return topic == self.text or self._regex.fullmatch(topic) is not None

    def with_subtopics(self) -> TopicPattern:
        """The same, and everything below."""
        return self if self.text.endswith("/**") else TopicPattern(f"{self.text}/**")

    def covers(self, other: TopicPattern) -> bool:
        """Whether every topic the other means is this one or below it."""
        return _includes(_levels(self.with_subtopics().text), _levels(other.text))


def _levels(topic: str) -> tuple[str, ...]:
    return () if topic == "/" else tuple(topic[1:].split("/"))


def _includes(mine: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Level by level; a wildcard of the other is met by a wildcard that is as wide.

    From the last level on, so that it takes no more than one step for each pair of levels.
    """
    included = [*(False for _ in other), True]  # the rest of the other, in what is left of mine
    for level in reversed(mine):
        below, included = included, [level == "**" and included[-1]]
        for at in range(len(other) - 1, -1, -1):
            if level == "**":
                is_in = below[at] or included[-1]
            else:
                is_in = other[at] != "**" and level in ("*", other[at]) and below[at + 1]
            included.append(is_in)
        included.reverse()
    return included[0]


def _check_levels(topic: str) -> None:
    if not topic.startswith("/"):
        raise BadTopicError(topic, why="it does not start with '/'", at=0)
    if topic == "/":
        return
    at = 1
    for level in topic[1:].split("/"):
        if not level:
            raise BadTopicError(topic, why="it has an empty level", at=at)
        if "*" in level and level not in ("*", "**"):
            raise BadTopicError(
                topic, why=f"the level {level!r} mixes a name with a wildcard", at=at
            )
        at += len(level) + 1


_ANY = r"(?:/[^/]++)*"
_END = r"(?=/|\Z)"  # of a level


def _regex_for(pattern: str) -> str:
    """What is between two `**` is looked for once: where it comes first is as good as later.

    So no pattern takes for ever.
    """
    first, *others = (_levels_for(part) for part in f"{pattern}/".split("/**"))
    between = "".join(f"(?>{_ANY}?{levels}{_END})" for levels in others[:-1] if levels)
    body = f"{first}{between}{_ANY}{others[-1]}" if others else first
    return rf"{body}|/" if pattern == "/**" else body


def _levels_for(text: str) -> str:
    """Levels without `**`."""
    levels = [level for level in text.split("/") if level]
    return "".join(r"/[^/]++" if level == "*" else f"/{re.escape(level)}" for level in levels)
