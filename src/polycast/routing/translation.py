"""Events that cross from one context into others: who can want them there, and as what."""

from __future__ import annotations

import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.errors.failures import FAILURES
from polycast.events.isolation import copied
from polycast.routing.memory_context_versions import Eras

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from polycast.contexts import Federation, FederationMember
    from polycast.routing.plan import Plan, Target

    Party = tuple[str | None, tuple[Target, ...]]  # a context, and who can want an event there

__all__ = ["Astray", "Crossing", "Gone", "Sight", "context_of_letter", "letter_name", "reason_of"]

_PREFIX = "context "


def letter_name(context: str) -> str:
    """Under which dead letters are kept of events that could not get to a context."""
    return f"{_PREFIX}{context}"


def context_of_letter(name: str) -> str | None:
    """The context of such a name."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


class Crossing:
    """The contexts of one bus. None is the root; `at` is the position of an event in a log."""

    def __init__(self) -> None:
        self.federation: Federation | None = None
        self.members: Mapping[str, FederationMember] = {}
        """As they are now. A route that was made with others is stale."""
        self.era = 0
        self._eras = Eras()

    def turn(self, start: int, oldest: int) -> None:
        """Have the contexts as they are, from a position on; nothing is older than the oldest."""
        assert self.federation is not None
        self.members = self.federation.members
        self.era += 1
        self._eras.turn(self.members, start, oldest)

    def member(self, name: str, at: int | None) -> FederationMember | None:
        """A context, as it is for an event, or now; None if it is not here any more."""
        current = self.members.get(name)
        return current if at is None or current is None else self._eras.member(name, at)

    def is_gone(self, name: str | None) -> bool:
        """Whether a context was taken out, so that no event gets there."""
        return name is not None and name not in self.members

    def publisher(self, name: str, at: int | None) -> FederationMember | None:
        """The context of a publisher; what was published before it went has a root form."""
        return self.members.get(name) if at is None else self._eras.member(name, at)

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

    def becomes(
        self, cls: type, source: str | None, target: str | None, at: int | None = None
    ) -> type | None:
        """What events of a class are in another context; None if they do not get there."""
        found: type | None = cls
        if source == target:
            return found
        if source is not None:
            outer = self.publisher(source, at)
            found = None if outer is None else outer.outgoing.becomes(cls)
        if target is None or found is None:
            return found
        inner = self.member(target, at)
        return None if inner is None else inner.incoming.becomes(found)

    def can_leave(self, cls: type, source: str | None) -> bool:
        """Whether events of a class that are published in a context get to the root."""
        return source is None or self.becomes(cls, source, None) is not None

    def leaves(self, cls: type, source: str) -> type | None:
        """What an event of a context is in the root; one that cannot get there is counted."""
        there = self.becomes(cls, source, None)
        if there is None and self.federation is not None:
            self.federation.count_dropped(source, cls)
        return there

    def is_mapped(self, cls: type, source: str) -> bool:
        """Whether events of a class are translated when they leave a context."""
        member = self.member(source, None)
        return member is not None and member.outgoing.mapping(cls) is not None

    def way_out(self, source: str, at: int | None = None) -> Callable[[Any], Any]:
        """What brings events of a context to the root; `Astray` if a function raises."""
        member = self.publisher(source, at)
        if member is None or self.federation is None:
            raise Gone(source)
        return partial(_carried, source, partial(self.federation.cross, member, member.outgoing))

    def way_in(self, target: str, at: int | None = None) -> Callable[[Any], Any]:
        """What brings events of the root into a context; `Astray` if a function raises."""
        member = self.member(target, at)
        if member is None or self.federation is None:
            raise Gone(target)
        return partial(_carried, target, partial(self.federation.cross, member, member.incoming))

    def way_again(self, target: str | None, at: int | None = None) -> Callable[[Any], Any] | None:
        """The way into a context, if it may make another event of the same one each time."""
        member = None if target is None else self.member(target, at)
        if member is None or member.is_pure or self.federation is None:
            return None
        return partial(self.federation.cross, member, member.incoming)

    def fixed(self, source: str | None, target: str | None) -> Collection[type]:
        """The classes whose events become, elsewhere, such that nobody can change; it may shrink.

        What is not among them has to be looked at.
        """
        member = self.member(source or target or "", None)
        if member is None or (source is not None and target is not None):
            return ()
        return member.incoming.fixed if source is None else member.outgoing.fixed

    def sight(self, source: str | None, target: str | None) -> Callable[[Any], Any]:
        """What shows events of one context to another, as these are now."""
        if source == target:
            return _unchanged
        if source is None or target is None:
            return self.way_in(target or "") if source is None else self.way_out(source)
        out, into = self.way_out(source), self.way_in(target)
        return lambda event: into(out(event))


def _unchanged(event: Any) -> Any:
    return event


def _carried(context: str, cross: Callable[[Any], Any], event: Any) -> Any:
    try:
        return cross(event)
    except FAILURES as error:
        raise Astray(context, error) from None


class Gone(Exception):
    """A context has been removed since somebody found that an event gets there."""


class Astray(Exception):
    """A function of a context raised, so an event does not get out of it, or into it."""

    def __init__(self, context: str, error: BaseException) -> None:
        super().__init__(context)
        self.context, self.error = context, error


class Sight:
    """One event, seen from several contexts; each of its forms is made once."""

    def __init__(
        self, event: Any, source: str | None, crossing: Crossing, *, at: int | None = None
    ) -> None:
        self.event, self.source, self._crossing, self._at = event, source, crossing, at
        self._root: tuple[Any, ...] = (event,) if source is None else ()
        self._stuck: Astray | None = None  # why there is no root form
        self._seen: dict[str, Any] | None = None

    def seen(self, context: str | None) -> Any:
        """The event as a context sees it; `Astray` if a function raises."""
        if context == self.source:
            return self.event
        if self._stuck is not None:
            raise self._stuck
        if not self._root:
            assert self.source is not None
            try:
                self._root = (self._crossing.way_out(self.source, self._at)(self.event),)
            except Astray as error:
                self._stuck = error
                raise
        if context is None:
            return self._root[0]
        if self._seen is None:
            self._seen = {}
        if context not in self._seen:
            self._seen[context] = self._crossing.way_in(context, self._at)(self._root[0])
        return self._seen[context]

    def anew(self, context: str | None) -> Callable[[], Any] | None:
        """What shows it to a context once more, if it may look different then.

        The root form is the publisher's, and is made once.
        """
        if context == self.source:
            return None
        way = self._crossing.way_again(context, self._at)
        # Those of its own context may change the object that they are given.
        return None if way is None else partial(way, copied(self._root[0]))


def reason_of(error: BaseException) -> str:
    """Why a function kept an event from a context, as a store can keep it."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return text.encode(errors="backslashreplace").decode()
