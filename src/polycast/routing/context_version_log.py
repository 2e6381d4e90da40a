"""The versions of contexts that a store has, as they were read at one moment."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from polycast.contexts.declare.context_state import read_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.stores import ContextVersion

__all__ = ["Lineage", "VersionLog"]

Lineage = tuple[int, ...]  # the numbers of a version and of those above it, at some position


class VersionLog:
    """It never changes: who reads it meanwhile sees all of a change of contexts or nothing."""

    def __init__(self, versions: Iterable[ContextVersion], *, revision: int | None = None) -> None:
        self.versions, self.revision = tuple(versions), revision
        self.by_number = {version.number: version for version in self.versions}
        self._by_name: dict[str, list[ContextVersion]] = {}
        for version in self.versions:
            self._by_name.setdefault(version.name, []).append(version)
        ends = (end for version in self.versions for end in (version.start, version.until))
        self.turns = sorted({end for end in ends if end is not None})

    def is_after(self, other: VersionLog) -> bool:
        """Whether another one was read earlier: it lacks a version, or the end of one.

        One more that it has may be forgotten, as it was never in effect: revisions tell.
        """
        if self.revision is not None and other.revision not in (None, self.revision):
            return self.revision > other.revision
        if max(self.by_number, default=0) != max(other.by_number, default=0):
            return max(self.by_number, default=0) > max(other.by_number, default=0)
        both = self.by_number.keys() & other.by_number.keys()
        ended = {number for number in both if self.by_number[number].until is not None}
        return any(other.by_number[number].until is None for number in ended)

    def names(self) -> list[str]:
        """The contexts that there are or were."""
        return sorted(self._by_name)

    def of(self, name: str) -> list[ContextVersion]:
        """All versions of a context."""
        return self._by_name.get(name, [])

    def turn(self, position: int) -> int:
        """Between which turns a position is: there, nothing changes."""
        return bisect_right(self.turns, position) if self.turns else 0

    def at(self, name: str, position: int) -> ContextVersion | None:
        """The version of a name at a position; the first is for all that was before it, too."""
        versions = self.of(name)
        if not versions:
            return None
        begun = [version for version in versions if version.start <= position]
        if not begun:
            return versions[0]
        last = begun[-1]
        return last if last.until is None or position < last.until else None

    def lineage(self, name: str, position: int) -> Lineage:
        """The numbers of a version and of those above it, in the order of `Context.lineage`."""
        numbers: dict[str, int] = {}
        waiting = [name]
        for context in waiting:
            version = self.at(context, position)
            if version is None:
                return ()
            if context not in numbers:
                numbers[context] = version.number
                waiting += read_state(version.body).parents
        return tuple(numbers.values())
