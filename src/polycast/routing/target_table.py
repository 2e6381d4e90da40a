"""Live subscriptions by what they select: which of them can want events of a class on a topic."""

from __future__ import annotations

from abc import get_cache_token
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from polycast.filters.tree.relaxation import all_open
from polycast.matching import Selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.matching import Interest
    from polycast.stores import Entry

__all__ = ["Candidates", "Choice", "Target", "TargetTable"]

Choice = tuple[str | None, Selector[Any]]
"""A context, and what is selected in it."""


class Target(Protocol):
    """Where wanted events go. The dispatcher calls; the delivery package implements."""

    @property
    def inline(self) -> bool:
        """Whether callbacks run in the publisher's thread, so that it has to take its turn."""

    @property
    def blocking(self) -> bool:
        """Whether a publisher may have to wait for room."""

    @property
    def copies(self) -> bool:
        """Whether it has an object of its own even of what is published in its context."""

    @property
    def direct(self) -> Callable[[Any], object] | None:
        """The bare callback, while nothing but calling it is needed."""

    @property
    def watched(self) -> bool:
        """Whether each answer of its filter is counted, because it has failed."""

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """The same filter, so that it is."""

    def interests(self) -> tuple[Interest, ...]:
        """What it wants, one for each member."""

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """The filter for events of a class on a topic."""

    def put(self, entry: Entry, verdict: object) -> bool | None:
        """Take an entry, in log order, under the order lock; True if it needs no wake()."""

    def wake(self) -> None:
        """Go on with what was put."""

    def reserve(self, count: int, *, inside: bool) -> None:
        """Wait for room for so many more, or raise QueueFullError; at once inside a callback."""

    def release(self, count: int) -> None:
        """Give the reserved room back."""

    def expired(self) -> None:
        """The event came too late to be called with."""

    def unfit(self, error: BaseException) -> None:
        """A filter failed, so the event does not match."""

    def failed(self, entry: Entry, error: BaseException) -> None:
        """The bare callback raised."""


Candidates = tuple[str | None, tuple[Target, ...]]
"""A context, and who can want an event there."""


class TargetTable:
    """Targets by what they select. Whoever reads or changes it holds the dispatcher's lock."""

    def __init__(self) -> None:
        self._chosen: dict[Target, list[Choice]] = {}
        self._targets: dict[Choice, dict[Target, None]] = {}
        # Selectors of one topic are found by that topic; the others by the classes they cover,
        # which is worked out once for each class and kept up to date.
        self._on_topic: dict[str, dict[Choice, None]] = {}
        self._general: dict[Choice, None] = {}
        self._registrable: set[Choice] = set()
        self._covering: WeakKeyDictionary[type, dict[Choice, None]] = WeakKeyDictionary()
        self._token = get_cache_token()
        self._contexts: Counter[str | None] = Counter()
        self._opaque: set[Target] = set()  # who has a filter that is, and may change an event

    @property
    def contexts(self) -> list[str | None]:
        """The contexts in which somebody wants something."""
        return list(self._contexts)

    def add(self, target: Target) -> None:
        """Let a target have what it is interested in."""
        self._chosen[target] = [(each.context, each.selector) for each in target.interests()]
        if _is_opaque(target):
            self._opaque.add(target)
        for choice in self._chosen[target]:
            if choice not in self._targets:
                self._admit(choice)
            self._targets[choice][target] = None

    def _admit(self, choice: Choice) -> None:
        context, selector = choice
        self._targets[choice] = {}
        self._contexts[context] += 1
        if selector.registrable:
            self._registrable.add(choice)
        if (topic := _only_topic(selector)) is not None:
            self._on_topic.setdefault(topic, {})[choice] = None
            return
        self._general[choice] = None
        for cls, covering in self._covering.items():
            if selector.covers_class(cls):
                covering[choice] = None

    def remove(self, target: Target) -> None:
        """Let a target have nothing more."""
        self._opaque.discard(target)
        for choice in dict.fromkeys(self._chosen.pop(target, ())):
            del self._targets[choice][target]
            if not self._targets[choice]:
                self._dismiss(choice)

    def _dismiss(self, choice: Choice) -> None:
        context, selector = choice
        del self._targets[choice]
        self._contexts[context] -= 1
        if not self._contexts[context]:
            del self._contexts[context]
        self._registrable.discard(choice)
        if (topic := _only_topic(selector)) is not None:
            del self._on_topic[topic][choice]
            if not self._on_topic[topic]:
                del self._on_topic[topic]
            return
        del self._general[choice]
        for covering in self._covering.values():
            covering.pop(choice, None)

    def covering(
        self, cls: type, topic: str | None, context: str | None = None
    ) -> tuple[Target, ...]:
        """Who in a context can want events of exactly that class on that topic, each once."""
        found: dict[Target, None] = {}
        for choice in self._covering_of(cls):
            where, selector = choice
            if where == context and (selector.topic is None or selector.covers(cls, topic)):
                found.update(self._targets[choice])
        for choice in self._on_topic.get(topic, ()) if topic is not None else ():
            where, selector = choice
            if where == context and selector.covers_class(cls):
                found.update(self._targets[choice])
        return tuple(found)

    def _covering_of(self, cls: type) -> dict[Choice, None]:
        """The general selectors whose types cover a class."""
        token = get_cache_token()
        if token != self._token:  # ABC.register: old verdicts may be wrong
            self._covering.clear()
            self._token = token
        if cls not in self._covering:
            covering = {each: None for each in self._general if each[1].covers_class(cls)}
            self._covering[cls] = covering
        return self._covering[cls]

    def asks_opaque(self, targets: Iterable[Target]) -> bool:
        """Whether one of them has a filter that cannot be looked into."""
        return any(
            target in self._opaque if target in self._chosen else _is_opaque(target)
            for target in targets
        )

    def registrable(self, cls: type) -> bool:
        """Whether `ABC.register` may give a class targets that it does not have now."""
        return any(not selector.covers_class(cls) for _, selector in self._registrable)

    def choices(self, target: Target) -> list[Choice]:
        """What a target is in the plan for."""
        return self._chosen.get(target, [])

    def __iter__(self) -> Iterator[Target]:
        return iter(self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def __contains__(self, target: Target) -> bool:
        return target in self._chosen


def _is_opaque(target: Target) -> bool:
    return not all_open(interest.where for interest in target.interests())


def _only_topic(selector: Selector[Any]) -> str | None:
    pattern = selector.topic
    return pattern.text if pattern is not None and pattern.exact else None
