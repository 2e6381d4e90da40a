"""What can be subscribed to: types, unions of types, conjunctions of types, topics."""

from __future__ import annotations

import re
import types
import typing
from abc import ABCMeta
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, cast, overload

import typing_extensions

from polycast.config import is_unicode
from polycast.errors import BadOptionError, BadTopicError, NotATypeError
from polycast.events.structured_event import StructuredEvent
from polycast.filters import Filter
from polycast.filters.tree import nodes
from polycast.typesystem import conforms, conforms_exactly, wire_name
from polycast.typesystem.class_kinds import is_protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import TypeForm


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
    if not is_unicode(topic):
        raise BadTopicError(topic, why="it has half of a surrogate pair; UTF-8 has none")
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


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
ACCEPTED = (
    "Accepted: a class, A | B, a Protocol or ABC, pc.all_of(A, B), a topic such as '/Chat/**', "
    "pc.topic('/Chat/**', ChatMsg), pc.structured('Finance', 'Quote*')"
)


@dataclass(frozen=True, slots=True)
class Selector(Generic[T_co]):
    """Which events, by their class and topic; a value, equal to any other that means the same."""

    types: tuple[type, ...]
    every: bool = False  # conform to all of the types (pc.all_of), instead of any of them
    exact: bool = False
    topic: TopicPattern | None = None
    implied: Filter[Any] | None = None
    """What its events have to say of themselves (pc.structured)."""

    def __hash__(self) -> int:
        return hash(self.types)  # tells most apart

    def parted(
        self, where: Callable[[Any], object] | None
    ) -> tuple[Selector[T_co], Filter[Any] | None]:
        """The same without what is implied, and a filter that asks for that, too."""
        wanted = where if where is None or isinstance(where, Filter) else Filter(where)
        if self.implied is None:
            return self, wanted
        both = self.implied if wanted is None else self.implied & wanted
        return replace(self, implied=None), both

    def covers_class(self, cls: type) -> bool:
        """Whether events of that very class are meant, whatever their topic."""
        try:
            return self._covers_class(cls)
        except Exception:  # a user's __subclasscheck__ or __subclasshook__: no verdict, no event
            return False

    def _covers_class(self, cls: type) -> bool:
        if self.exact and self.every:
            return conforms_exactly(cls, *self.types)
        conform = conforms_exactly if self.exact else conforms
        return (all if self.every else any)(conform(cls, target) for target in self.types)

    def covers(self, cls: type, topic: str | None) -> bool:
        """Whether an event of that class on that topic is meant."""
        return self.covers_topic(topic) and self.covers_class(cls)

    def covers_topic(self, topic: str | None) -> bool:
        """Whether events on that topic are meant, whatever their class."""
        return self.topic is None or (topic is not None and self.topic.matches(topic))

    @property
    def registrable(self) -> bool:
        """Whether a class that does not conform now may be made to by `ABC.register`."""
        return any(map(_is_registrable, self.types))

    def told_apart(self) -> Selector[Any]:
        """A selector that covers no less where only descriptions are known, not `ABC.register`."""
        if any(_is_registrable(cls) and not is_protocol(cls) for cls in self.types):
            return replace(self, types=(object,), every=False, exact=False)
        return self

    def __str__(self) -> str:
        names = (" & " if self.every else " | ").join(wire_name(cls) for cls in self.types)
        if self.topic is not None:
            plain = self.types == (object,)
            names = self.topic.text if plain else f"{names} on {self.topic.text}"
        if self.implied is not None:
            names = f"{names} where {self.implied}"
        return f"exactly {names}" if self.exact else names


class Selectors:
    """Some selectors, asked which of them cover a class; one topic among very many is looked up."""

    def __init__(self) -> None:
        self._anywhere: dict[Selector[Any], None] = {}
        self._on: dict[str, dict[Selector[Any], None]] = {}

    def add(self, selector: Selector[Any]) -> None:
        """Let one be among them."""
        pattern = selector.topic
        if pattern is None or not pattern.exact:
            self._anywhere[selector] = None
        else:
            self._on.setdefault(pattern.text, {})[selector] = None

    def remove(self, selector: Selector[Any]) -> None:
        """Let one that is among them be so no more."""
        pattern = selector.topic
        if pattern is None or not pattern.exact:
            del self._anywhere[selector]
            return
        there = self._on[pattern.text]
        del there[selector]
        if not there:
            del self._on[pattern.text]

    def covering(self, cls: type, topic: str | None) -> list[Selector[Any]]:
        """Those that mean events of a class on a topic."""
        there = self._on.get(topic, ()) if topic is not None else ()
        return [selector for selector in (*self._anywhere, *there) if selector.covers(cls, topic)]


@overload
def all_of(first: type[T], /, *others: type[Any]) -> Selector[T]: ...
@overload
def all_of(first: type[Any], /, *others: type[Any], view: type[T]) -> Selector[T]: ...
@overload
def all_of(first: TypeForm[T], /, *others: TypeForm[Any]) -> Selector[T]: ...
@overload
def all_of(first: TypeForm[Any], /, *others: TypeForm[Any], view: TypeForm[T]) -> Selector[T]: ...
def all_of(first: Any, /, *others: Any, view: Any = None) -> Selector[Any]:
    """Only what conforms to all the types (TPS 7.2); typed as the first, or as `view`."""
    if view is not None:
        check_class(view)
    return Selector(types=_distinct((first, *others)), every=True)


@overload
def topic(pattern: str) -> Selector[object]: ...
@overload
def topic(pattern: str, what: type[T] | Selector[T]) -> Selector[T]: ...
@overload
def topic(pattern: str, what: TypeForm[T]) -> Selector[T]: ...
def topic(pattern: str, what: Any = object) -> Selector[Any]:
    """A typed topic: events on it that conform to the type."""
    return selector_for(what, topic=pattern)


def selector_for(what: object, *, topic: str | None = None, exact: bool = False) -> Selector[Any]:
    """What is meant by the first argument of subscribe."""
    selector = _selector(what)
    if topic is None and not exact:
        return selector
    pattern = selector.topic
    if topic is not None:
        if pattern is not None:
            accepted = f"nothing: the topic {pattern.text!r} is asked for already"
            raise BadOptionError("topic", topic, accepted=accepted)
        pattern = _pattern(topic)
    return replace(selector, exact=exact or selector.exact, topic=pattern)


def _selector(what: object) -> Selector[Any]:
    if isinstance(what, Selector):
        return what
    if isinstance(what, str):
        return Selector((object,), topic=_topic_or_explain(what))
    if isinstance(what, types.UnionType) or typing.get_origin(what) is Union:
        members = cast("tuple[object, ...]", typing.get_args(what))
        return Selector(_distinct(members))
    return Selector((check_class(what),))


def _distinct(members: tuple[object, ...]) -> tuple[type, ...]:
    """Each class once, in an order of its own, so that A | B equals B | A."""
    return tuple(sorted({check_class(member) for member in members}, key=wire_name))


def check_class(what: object) -> type:
    """A class to subscribe to, or an error that says what is wrong with it."""
    origin = typing.get_origin(what)
    if what is Any:
        return object
    if typing_extensions.is_typeddict(what):
        why = "its events are plain dicts, which do not know that they are meant"
        raise NotATypeError(what, why=why, accepted=f"Subscribe to dict with a filter. {ACCEPTED}")
    if isinstance(what, type) and origin is None:  # list[int] calls itself a type
        return what
    if origin is typing.Annotated:
        why = "an annotation is not known when an event arrives"
        raise NotATypeError(what, why=why, accepted=ACCEPTED)
    if origin is Union or isinstance(what, types.UnionType):
        why = "a union cannot be a part here"
        raise NotATypeError(what, why=why, accepted="Subscribe once for each of its members")
    if isinstance(origin, type):
        why = f"the parameters of {what} are not known when an event arrives"
        raise NotATypeError(what, why=why, accepted=f"Subscribe to {origin.__name__}. {ACCEPTED}")
    why = f"it is a value of {type(what).__name__}, not a class"
    raise NotATypeError(what, why=why, accepted=ACCEPTED)


def _pattern(topic: object) -> TopicPattern:
    if not isinstance(topic, str):
        raise BadTopicError(topic, why=f"it is a {type(topic).__name__}, not a string")
    return TopicPattern(topic)


def _topic_or_explain(text: str) -> TopicPattern:
    if not text.startswith("/") and text != "**":
        why = "a string names a topic, and a topic starts with '/'"
        raise NotATypeError(text, why=why, accepted=ACCEPTED)
    return TopicPattern(text)


def _is_registrable(cls: type) -> bool:
    return isinstance(cls, ABCMeta) and not hasattr(cls, "__pydantic_fields__")


# -- structured events -----------------------------------------------------------------------------


EVERY = ("", "*")
ALL = "%ALL"


def structured(domain_name: str, type_name: str, /) -> Selector[StructuredEvent]:
    """Structured events of a domain and a type: `*` is any characters, "" is any name."""
    for option, given in (("domain_name", domain_name), ("type_name", type_name)):
        if not isinstance(given, str):
            raise BadOptionError(option, given, accepted="a string, in which * is any characters")
    if type_name == ALL:
        if domain_name not in EVERY:
            accepted = f"{ALL} with the domain '' or '*'; else a name, or '*'"
            raise BadOptionError("type_name", type_name, accepted=accepted)
        type_name = "*"
    parts = (*_asked("domain_name", domain_name), *_asked("type_name", type_name))
    if not parts:
        return Selector((StructuredEvent,))
    return Selector((StructuredEvent,), implied=Filter(nodes.And(parts)))


def _asked(attribute: str, pattern: str) -> Iterator[nodes.Node]:
    """What a pattern asks of a name, so that an index finds as much of it as possible."""
    name = nodes.Attribute(nodes.Event(), attribute)
    first, *middle, last = pattern.split("*") if "*" in pattern else (pattern, pattern)
    if pattern and "*" not in pattern:
        yield nodes.Compare(name, (("==", nodes.Constant(pattern)),))
        return
    if first:
        yield nodes.Call(name, "startswith", (nodes.Constant(first),))
    if any(middle):
        yield nodes.Applied("etcl", "fits", (name, nodes.Constant(pattern)))
        return
    if last:
        yield nodes.Call(name, "endswith", (nodes.Constant(last),))
    if first and last:
        length = nodes.Constant(len(first) + len(last))
        yield nodes.Compare(nodes.Function("len", (name,)), ((">=", length),))
