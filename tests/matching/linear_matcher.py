"""The slow, obvious matcher that judges the fast one: it asks every filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.matching.selectors import Selector, selector_for

if TYPE_CHECKING:
    from polycast.filters import Filter

__all__ = ["LinearMatcher"]

K = TypeVar("K")


class LinearMatcher(Generic[K]):
    """Keys by what they want."""

    def __init__(self) -> None:
        self._wanted: dict[K, tuple[Selector[Any], Filter[Any] | None]] = {}

    def add(self, key: K, what: Any, where: Any = None) -> None:
        """Let a key have the events of a type that pass a filter."""
        self._wanted[key] = selector_for(what).parted(where)

    def remove(self, key: K) -> None:
        """Let a key have nothing more."""
        del self._wanted[key]

    def match(self, event: Any, *, topic: str | None = None) -> list[K]:
        """The keys that an event is for."""
        return [
            key
            for key, (selector, where) in self._wanted.items()
            if selector.covers(type(event), topic)
            and (where is None or where.interpret(event, topic=topic))
        ]
