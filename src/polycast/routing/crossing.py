"""Events that cross from one context into others: who can want them there, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors import BadContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts import Federation
    from polycast.routing.plan import Plan, Target

    Party = tuple[str | None, tuple[Target, ...]]  # a context, and who can want an event there

__all__ = ["Astray", "Crossing", "Sight"]


class Crossing:
    """The contexts of one bus."""

    def __init__(self) -> None:
        self.federation: Federation | None = None

    def parties(self, plan: Plan, cls: type, topic: str | None, source: str | None) -> list[Party]:
        """Who can want events of a class that are published in a context, context by context."""
        if self.federation is None:
            return [(source, plan.targets(cls, topic, source))]
        found: list[Party] = []
        for context in dict.fromkeys((source, *plan.contexts)):
            there = self.becomes(cls, source, context)
            targets = () if there is None else plan.targets(there, topic, context)
            if targets or context == source:
                found.append((context, targets))
        return found

    def becomes(self, cls: type, source: str | None, target: str | None) -> type | None:
        """What events of a class are in another context; None if they do not get there."""
        if source == target or self.federation is None:
            return cls if source == target else None
        try:
            return self.federation.becomes(cls, source=source, target=target)
        except BadContext:  # it has been removed
            return None

    def can_leave(self, cls: type, source: str | None) -> bool:
        """Whether events of a class that are published in a context get to the root."""
        return source is None or self.becomes(cls, source, None) is not None

    def sight(self, source: str | None, target: str | None) -> Callable[[Any], Any]:
        """What shows events of one context to another, as these are now."""
        assert self.federation is not None
        steps: list[tuple[str, Callable[[Any], Any]]] = []
        if source is not None:
            steps.append((source, self.federation.way_out(source)))
        if target is not None:
            steps.append((target, self.federation.way_in(target)))

        def see(event: Any) -> Any:
            for context, cross in steps:
                try:
                    event = cross(event)
                except Exception as error:
                    raise Astray(context, error) from None
            return event

        return see

    def leaves(self, cls: type, source: str) -> type | None:
        """What an event of a context is in the root; one that cannot get there is counted."""
        there = self.becomes(cls, source, None)
        if there is None and self.federation is not None:
            self.federation.count_dropped(source, cls)
        return there

    def is_mapped(self, cls: type, source: str) -> bool:
        """Whether events of a class are translated when they leave a context."""
        member = None if self.federation is None else self.federation.member(source)
        return member is not None and member.outgoing.mapping(cls) is not None


class Astray(Exception):
    """A function of a context raised, so an event does not get out of it, or into it."""

    def __init__(self, context: str, error: Exception) -> None:
        super().__init__(context)
        self.context, self.error = context, error


class Sight:
    """One event, seen from several contexts; its root form is made once."""

    def __init__(self, event: Any, source: str | None, federation: Federation | None) -> None:
        self._event, self._source, self._federation = event, source, federation
        self._root: tuple[Any, ...] = (event,) if source is None else ()

    def seen(self, context: str | None) -> Any:
        """The event as a context sees it; `Astray` if a function raises."""
        if context == self._source or self._federation is None:
            return self._event
        if not self._root:
            assert self._source is not None
            self._root = (self._translated(self._event, source=self._source),)
        return self._root[0] if context is None else self._translated(self._root[0], target=context)

    def _translated(self, event: Any, **way: str) -> Any:
        assert self._federation is not None
        try:
            return self._federation.translate(event, **way)
        except Exception as error:
            [context] = way.values()
            raise Astray(context, error) from None
