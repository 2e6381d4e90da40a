"""A subscription as data: what it wants, under which promise, from which position on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polycast.config import Level
    from polycast.filters import Filter
    from polycast.matching.selectors import Selector

__all__ = ["Interest"]


@dataclass(frozen=True, slots=True)
class Interest:
    """What one subscription wants; it takes effect in `[start, until)` of the log."""

    selector: Selector[Any]
    where: Filter[Any] | None
    level: Level
    group: str | None = None
    durable: str | None = None
    start: int = 0
    until: int | None = None
    context: str | None = None  # in which it sees events; None is the root

    def in_effect(self, position: int) -> bool:
        """Whether an event at that position is meant at all."""
        return self.start <= position and (self.until is None or position < self.until)

    def wants(self, event: object, topic: str | None) -> bool:
        """The slow, obvious verdict that every fast path is judged by."""
        if not self.selector.covers(type(event), topic):
            return False
        return self.where is None or self.where.matches(event, topic=topic)

    def difference(self, other: Interest) -> dict[str, tuple[str, str]]:
        """What another definition changes: field, as it is, as it would be."""
        fields = ("selector", "where", "level", "group", "context")
        return {
            name: (_text(getattr(self, name)), _text(getattr(other, name)))
            for name in fields
            if getattr(self, name) != getattr(other, name)
        }

    def starting(self, position: int) -> Interest:
        """The same from a position on."""
        return replace(self, start=position)


def _text(value: Any) -> str:
    return "nothing" if value is None else str(getattr(value, "name", value))
