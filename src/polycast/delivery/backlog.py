"""What waits for a subscription: in log order, or by priority where no order is promised."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores import Entry

__all__ = ["Backlog", "Parcel"]


class Parcel(msgspec.Struct, eq=False):
    """One entry on its way to one subscription."""

    entry: Entry
    takers: tuple[Any, ...] = ()  # the members of a group that want it; empty: anyone
    count: int = 0  # attempts so far
    token: int = 0
    holder: Any = None  # the consumer that has it
    tried: tuple[Any, ...] = ()  # the members of a group that have had it

    def __lt__(self, other: Parcel) -> bool:
        mine, theirs = self.entry, other.entry
        return (-mine.priority, mine.position) < (-theirs.priority, theirs.position)


class Backlog:
    """A queue of parcels. Its mailbox's lock guards it."""

    def __init__(self, *, ordered: bool, lifo: bool = False) -> None:
        self._ordered, self._lifo = ordered, lifo
        self._plain: deque[Parcel] = deque()
        self._ranked: list[Parcel] = []  # a heap of those with a priority of their own

    def __len__(self) -> int:
        return len(self._plain) + len(self._ranked)

    def __iter__(self) -> Iterator[Parcel]:
        """All of them, in the order in which they would be taken."""
        plain = reversed(self._plain) if self._lifo else iter(self._plain)
        above = sorted(parcel for parcel in self._ranked if parcel.entry.priority > 0)
        below = sorted(parcel for parcel in self._ranked if parcel.entry.priority < 0)
        yield from above
        yield from plain
        yield from below

    def append(self, parcel: Parcel) -> None:
        """Add what came last."""
        if parcel.entry.priority and not self._ordered:
            heapq.heappush(self._ranked, parcel)
        else:
            self._plain.append(parcel)

    def push_back(self, parcel: Parcel) -> None:
        """Put back what was taken, before everything else."""
        if self._lifo:
            self._plain.append(parcel)
        else:
            self._plain.appendleft(parcel)

    def peek(self) -> Parcel | None:
        """What would be taken next."""
        return next(iter(self), None) if self._ranked else self._next_plain()

    def _next_plain(self) -> Parcel | None:
        if not self._plain:
            return None
        return self._plain[-1] if self._lifo else self._plain[0]

    def pop(self) -> Parcel:
        """Take the next."""
        if self._ranked and (not self._plain or self._ranked[0].entry.priority > 0):
            return heapq.heappop(self._ranked)
        return self._plain.pop() if self._lifo else self._plain.popleft()

    def drop_oldest(self) -> Parcel:
        """Take away the one that has waited longest, of the lowest priority."""
        if self._plain:
            return self._plain.popleft()
        last = max(self._ranked)
        self._ranked.remove(last)
        heapq.heapify(self._ranked)
        return last

    def remove(self, parcel: Parcel) -> None:
        """Take out one of them."""
        if parcel in self._plain:
            self._plain.remove(parcel)
        else:
            self._ranked.remove(parcel)
            heapq.heapify(self._ranked)

    def clear(self) -> list[Parcel]:
        """Take out all of them."""
        everything = list(self)
        self._plain.clear()
        self._ranked.clear()
        return everything
