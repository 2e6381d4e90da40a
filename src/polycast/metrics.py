"""Counts of what happened, for one subscription and for a whole bus."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Counts"]


@dataclass(slots=True)
class Counts:
    """What became of events. Changed under the lock of who owns it."""

    delivered: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    dropped: int = 0
    expired: int = 0
    filter_failures: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
