"""What waits for a subscription: in log order, or by priority where no order is promised."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.stores import Entry

__all__ = ["Backlog", "Parcel"]


class Parcel(msgspec.Struct, eq=False):
    """One entry on its way to one subscription, for one attempt."""

    entry: Entry
    takers: tuple[Any, ...] = ()  # the members of a group that want it; empty: anyone
    count: int = 0  # attempts so far
    token: int = 0
    holder: Any = None  # the consumer that has it
    tried: tuple[Any, ...] = ()  # the members of a group that have had it
    prior: bool = False  # history or a replay: it does not count against the bound
    begun: bool = False  # its callback has been called
    claim: int = 0  # the token of the claim that a group has on it
    timer: Any = None  # of the time within which it has to be acknowledged
    used: bool = False  # an attempt before this one had its event

    def anew(self) -> Parcel:
        """The same for another attempt; who still has the old one can do nothing with it."""
        count = self.count if self.begun else max(0, self.count - 1)
        return Parcel(
            self.entry,
            self.takers,
            count,
            tried=self.tried,
            prior=self.prior,
            claim=self.claim,
            used=self.used or self.begun,
        )

    def event(self) -> Any:
        """The event for this attempt: what may be another each time is made anew, and may raise."""
        if self.used:
            self.entry = self.entry.anew()
        return self.entry.fresh()

    @property
    def publisher(self) -> str:
        """Whose event it is."""
        given = self.entry.given
        return self.entry.publisher.name if given is None else given.publisher

    def __lt__(self, other: Parcel) -> bool:
        mine, theirs = self.entry, other.entry
        return (-mine.priority, mine.position) < (-theirs.priority, theirs.position)


_NOTHING: deque[Parcel] = deque(maxlen=0)  # of all that are empty; it takes nothing


class Backlog:
    """A queue of parcels. Its mailbox's lock guards it."""

    __slots__ = ("_lifo", "_ordered", "_plain", "_ranked", "bounded")

    def __init__(self, *, ordered: bool, lifo: bool = False) -> None:
        self._ordered, self._lifo = ordered, lifo
        # Most subscriptions that are called in line never have anything waiting.
        self._plain = _NOTHING
        self._ranked: list[Parcel] = []  # a heap of those with a priority of their own
        self.bounded = 0  # how many count against the bound of the queue

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
        self.bounded += not parcel.prior
        if parcel.entry.priority and not self._ordered:
            heapq.heappush(self._ranked, parcel)
        else:
            if self._plain is _NOTHING:
                self._plain = deque()
            self._plain.append(parcel)

    def merge(self, parcels: Iterable[Parcel]) -> None:
        """Put parcels where they stand in the log, among those that wait."""
        more = list(parcels)
        if not more:
            return
        plain = [p for p in more if self._ordered or not p.entry.priority]
        self._plain = deque(sorted([*self._plain, *plain], key=lambda p: p.entry.position))
        self.bounded += sum(not parcel.prior for parcel in plain)
        for parcel in more:
            if parcel.entry.priority and not self._ordered:
                self.append(parcel)

    def put_back(self, parcel: Parcel) -> None:
        """Put one where it stands in the log; mostly it was the first."""
        if self._plain and self._plain[0].entry.position < parcel.entry.position:
            self.merge([parcel])
        elif parcel.entry.priority and not self._ordered:
            self.append(parcel)
        else:
            self.bounded += not parcel.prior
            if self._plain is _NOTHING:
                self._plain = deque()
            self._plain.appendleft(parcel)

    def pop(self) -> Parcel:
        """Take the next."""
        if self._ranked and (not self._plain or self._ranked[0].entry.priority > 0):
            parcel = heapq.heappop(self._ranked)
        else:
            parcel = self._plain.pop() if self._lifo else self._plain.popleft()
        self.bounded -= not parcel.prior
        return parcel

    def pop_first(self, fits: Callable[[Parcel], bool]) -> Parcel | None:
        """Take the first that fits."""
        chosen = next((parcel for parcel in self if fits(parcel)), None)
        if chosen is not None:
            self.remove(chosen)
        return chosen

    def drop_oldest(self) -> Parcel:
        """Take away the one that has waited longest, of the lowest priority."""
        lowest = min(self._ranked, key=lambda p: (p.entry.priority, p.entry.position), default=None)
        if lowest is None or (self._plain and lowest.entry.priority > 0):
            lowest = self._plain[0]
        self.remove(lowest)
        return lowest

    def remove(self, parcel: Parcel) -> None:
        """Take out one of them, if it is there."""
        if self._plain and self._plain[0] is parcel:
            self._plain.popleft()
        elif parcel in self._plain:
            self._plain.remove(parcel)
        elif parcel in self._ranked:
            self._ranked.remove(parcel)
            heapq.heapify(self._ranked)
        else:
            return
        self.bounded -= not parcel.prior

    def clear(self) -> list[Parcel]:
        """Take out all of them."""
        everything = list(self)
        self._plain = _NOTHING
        self._ranked.clear()
        self.bounded = 0
        return everything
