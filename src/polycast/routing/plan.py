"""The plan: for each concrete class and topic, which subscriptions can want its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.matching import Interest, Selector
    from polycast.stores import Entry

__all__ = ["Plan", "Target"]


class Target(Protocol):
    """Where wanted events go. The dispatcher calls; the delivery package implements."""

    @property
    def inline(self) -> bool:
        """Whether callbacks run in the publisher's thread, so that it has to take its turn."""

    @property
    def blocking(self) -> bool:
        """Whether a publisher may have to wait for room."""

    @property
    def direct(self) -> Callable[[Any], object] | None:
        """The bare callback, while nothing but calling it is needed."""

    def interests(self) -> tuple[Interest, ...]:
        """What it wants, one for each member."""

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """The filter for events of a class on a topic."""

    def put(self, entry: Entry, verdict: object) -> None:
        """Take an entry; called in log order, under the order lock."""

    def wake(self) -> None:
        """Go on with what was put."""

    def reserve(self, *, inside: bool) -> None:
        """Wait for room for one more entry, or raise QueueFull; at once inside a callback."""

    def release(self) -> None:
        """Give the reserved room back."""

    def unfit(self, error: Exception) -> None:
        """A filter failed, so the event does not match."""

    def failed(self, entry: Entry, error: Exception) -> None:
        """The bare callback raised."""


class Plan:
    """Targets by what they select. Whoever reads or changes it holds the dispatcher's lock."""

    def __init__(self) -> None:
        self._chosen: dict[Target, list[Selector[Any]]] = {}
        self._by_selector: dict[Selector[Any], dict[Target, None]] = {}
        # Selectors of one topic are found by that topic, so that others cost nothing.
        self._by_topic: dict[str | None, dict[Selector[Any], None]] = {}

    def add(self, target: Target) -> None:
        """Let a target have what it is interested in."""
        self._chosen[target] = [interest.selector for interest in target.interests()]
        for selector in self._chosen[target]:
            self._by_selector.setdefault(selector, {})[target] = None
            self._by_topic.setdefault(_topic_of(selector), {})[selector] = None

    def remove(self, target: Target) -> None:
        """Let a target have nothing more."""
        for selector in dict.fromkeys(self._chosen.pop(target, ())):
            del self._by_selector[selector][target]
            if not self._by_selector[selector]:
                del self._by_selector[selector]
                del self._by_topic[_topic_of(selector)][selector]

    def targets(self, cls: type, topic: str | None) -> tuple[Target, ...]:
        """Who can want events of exactly that class on that topic, each once."""
        found: dict[Target, None] = {}
        for selector in self._candidates(topic):
            if selector.covers(cls, topic):
                found.update(self._by_selector[selector])
        return tuple(found)

    def _candidates(self, topic: str | None) -> list[Selector[Any]]:
        general = [*self._by_topic.get(None, ())]
        return general if topic is None else [*general, *self._by_topic.get(topic, ())]

    def registrable(self, cls: type, topic: str | None) -> bool:
        """Whether `ABC.register` may give a class targets that it does not have now."""
        return any(
            selector.registrable and not selector.covers_class(cls)
            for selector in self._candidates(topic)
        )

    def selectors(self, target: Target) -> list[Selector[Any]]:
        """What a target is in the plan for."""
        return self._chosen.get(target, [])

    def __contains__(self, target: Target) -> bool:
        return target in self._chosen


def _topic_of(selector: Selector[Any]) -> str | None:
    pattern = selector.topic
    return pattern.text if pattern is not None and pattern.exact else None
