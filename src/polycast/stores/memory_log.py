"""The log of a bus in memory: its newest entries."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.stores.entry import Entry

__all__ = ["Recent"]


class Recent:
    """A bounded log; publishers in different threads may append a little out of order."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._entries: deque[Entry] = deque(maxlen=keep)
        self.append = self._entries.append

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int | None:
        """The position of the oldest entry kept."""
        entries = self.read()
        return entries[0].position if entries else None

    def has_all_from(self, position: int) -> bool:
        """Whether nothing at or after the position was let go; positions count from one."""
        oldest = self.oldest
        return oldest is None or len(self._entries) < self.keep or oldest <= max(position, 1)

    def read(self, *, start: int = 0) -> list[Entry]:
        """The entries at and after a position, oldest first."""
        entries = sorted(self._entries, key=lambda entry: entry.position)
        return entries[bisect_left(entries, start, key=lambda entry: entry.position) :]
