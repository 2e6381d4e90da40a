"""Rows in effect from one position of the log to another, in memory: routes and contexts."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from polycast.stores.values import ContextVersion, StoredRoute

__all__ = ["VersionTable"]

V = TypeVar("V", StoredRoute, ContextVersion)


class VersionTable(dict[int, V]):
    """The versions by number, which is the order they were added in."""

    def lasting(self, name: str) -> V | None:
        """Return the version of a name that is in effect from now on."""
        named = (version for version in self.values() if version.name == name)
        return next((version for version in named if version.until is None), None)

    def all(self, *, at: int | None) -> list[V]:
        """List all versions, or those in effect at a position, by number."""
        versions = [self[number] for number in sorted(self)]
        if at is None:
            return versions
        return [row for row in versions if row.start <= at and not _has_ended(row, at)]

    def end(self, name: str, end: int) -> bool:
        """End the current version of a name at the end of the log; return whether there was one."""
        version = self.lasting(name)
        if version is None:
            return False
        if version.start < end:
            self[version.number] = replace(version, until=end)
        else:
            del self[version.number]  # it was never in effect
        return True

    def forget(self, before: int) -> None:
        """Remove versions that ended at a position or earlier."""
        for number in [n for n, version in self.items() if _has_ended(version, before)]:
            del self[number]


def _has_ended(version: StoredRoute | ContextVersion, at: int) -> bool:
    return version.until is not None and version.until <= at
