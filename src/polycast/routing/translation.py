"""Events that cross from one context into others: who can want them there, and as what."""

from __future__ import annotations

import traceback
from bisect import bisect_right
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from polycast.errors.failures import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from polycast.contexts import Federation, FederationMember
    from polycast.stores import Entry

    # From which position on; None: the context is not there.
    Versions = tuple[tuple[int, FederationMember | None], ...]


class MemoryContextVersions:
    """Contexts by position, as far back as somebody can ask for.

    The first version of a context is for all that was before it, too: as over a store.
    """

    def __init__(self) -> None:
        self._versions: dict[str, Versions] = {}  # replaced, and never changed

    def change(self, members: Mapping[str, FederationMember], start: int, oldest: int) -> None:
        """Contexts have changed from a position on; nobody asks for what is before the oldest."""
        found: dict[str, Versions] = {}
        for name in dict.fromkeys((*self._versions, *members)):
            # One that begins where the next does was never in effect.
            versions = tuple(each for each in self._versions.get(name, ()) if each[0] < start)
            member = members.get(name)
            if member is not (versions[-1][1] if versions else None):
                versions = (*versions, (start, member))
            if versions:
                found[name] = versions[_last_begun(versions, oldest) :]
        self._versions = found

    def member(self, name: str, at: int) -> FederationMember | None:
        """A context at a position; None if it was not there."""
        versions = self._versions.get(name)
        return versions[_last_begun(versions, at)][1] if versions else None

    def __len__(self) -> int:
        return sum(map(len, self._versions.values()))


def _last_begun(versions: Versions, position: int) -> int:
    """Which of the versions is in effect at a position."""
    return max(0, bisect_right(versions, position, key=itemgetter(0)) - 1)


_PREFIX = "context "


def letter_name(context: str) -> str:
    """Under which dead letters are kept of events that could not get to a context."""
    return f"{_PREFIX}{context}"


def context_of_letter(name: str) -> str | None:
    """The context of such a name."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


class ContextTranslation:
    """The contexts of one bus. None is the root; `at` is the position of an event in a log."""

    def __init__(self) -> None:
        self.federation: Federation | None = None
        self.members: Mapping[str, FederationMember] = {}
        """As they are now. A route that was made with others is stale."""
        self.revision = 0
        self._history = MemoryContextVersions()

    def change(self, start: int, oldest: int) -> None:
        """Have the contexts as they are, from a position on; nothing is older than the oldest."""
        assert self.federation is not None
        self.members = self.federation.members
        self.revision += 1
        self._history.change(self.members, start, oldest)

    def member(self, name: str, at: int | None) -> FederationMember | None:
        """A context, as it is for an event, or now; None if it is not here any more."""
        current = self.members.get(name)
        return current if at is None or current is None else self._history.member(name, at)

    def is_gone(self, name: str | None) -> bool:
        """Whether a context was taken out, so that no event gets there."""
        return name is not None and name not in self.members

    def publisher(self, name: str, at: int | None) -> FederationMember | None:
        """The context of a publisher; what was published before it went has a root form."""
        return self.members.get(name) if at is None else self._history.member(name, at)

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

    def root_of(self, entry: Entry) -> Entry | None:
        """The root form that was kept with an event in a store; None if it has none."""
        del entry
        return None  # in memory, no entry comes from a store

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
        """What brings events of a context to the root; `TranslationFailed` if a function raises."""
        member = self.publisher(source, at)
        if member is None or self.federation is None:
            raise ContextRemoved(source)
        return partial(_carried, source, partial(self.federation.cross, member, member.outgoing))

    def way_in(self, target: str, at: int | None = None) -> Callable[[Any], Any]:
        """What brings root events into a context; `TranslationFailed` if a function raises."""
        member = self.member(target, at)
        if member is None or self.federation is None:
            raise ContextRemoved(target)
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

    def way(self, source: str | None, target: str | None) -> Callable[[Any], Any]:
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
        raise TranslationFailed(context, error) from None


class ContextRemoved(Exception):
    """A context has been removed since somebody found that an event gets there."""


class TranslationFailed(Exception):
    """A function of a context raised, so an event does not get out of it, or into it."""

    def __init__(self, context: str, error: BaseException) -> None:
        super().__init__(context)
        self.context, self.error = context, error


def reason_of(error: BaseException) -> str:
    """Why a function kept an event from a context, as a store can keep it."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return text.encode(errors="backslashreplace").decode()
