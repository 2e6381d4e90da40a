"""What waits for a subscription: in log order, or by priority where no order is promised."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.delivery.consumer import Consumer
    from polycast.stores import Entry


class Attempt(msgspec.Struct, eq=False):
    """One attempt to deliver an entry to a subscription."""

    entry: Entry
    members: tuple[Any, ...] = ()  # of a group, those that want it; empty: any
    count: int = 0  # attempts so far
    token: int = 0
    consumer: Any = None  # who has it
    tried: tuple[Any, ...] = ()  # the members of a group that have had it
    prior: bool = False  # history or a replay: it does not count against the bound
    begun: bool = False  # its callback has been called
    claim: int = 0  # the token of the claim that a group has on it
    timer: Any = None  # of the time within which it has to be acknowledged
    used: bool = False  # an attempt before this one had its event

    def following(self) -> Attempt:
        """Return the next attempt; whoever still has this one can do nothing with it."""
        count = self.count if self.begun else max(0, self.count - 1)
        return Attempt(
            self.entry,
            self.members,
            count,
            tried=self.tried,
            prior=self.prior,
            claim=self.claim,
            used=self.used or self.begun,
        )

    def event(self) -> Any:
        """Return the event for this attempt: a copy or a new translation, if it needs one."""
        if self.used:
            self.entry = self.entry.anew()
        return self.entry.fresh()

    @property
    def publisher(self) -> str:
        """The name of the publisher."""
        given = self.entry.given
        return self.entry.publisher.name if given is None else given.publisher

    def __lt__(self, other: Attempt) -> bool:
        mine, theirs = self.entry, other.entry
        return (-mine.priority, mine.position) < (-theirs.priority, theirs.position)


ARRIVALS = Attempt(None)  # type: ignore[arg-type]  # handed out for all that comes on the fast path
_NOTHING: deque[Attempt] = deque(maxlen=0)  # of all that are empty; it takes nothing
_NOTHING_RANKED: list[Attempt] = []  # nothing is ever added to it


class Backlog:
    """Attempts in the order in which they are made. The lock of its queue guards it."""

    __slots__ = ("_lifo", "_ordered", "_plain", "_ranked", "bounded")

    def __init__(self, *, ordered: bool, lifo: bool = False) -> None:
        self._ordered, self._lifo = ordered, lifo
        # Most subscriptions that are called in line never have anything waiting.
        self._plain = _NOTHING
        self._ranked = _NOTHING_RANKED  # a heap of those with a priority of their own
        self.bounded = 0  # how many count against the bound of the queue

    def __len__(self) -> int:
        return len(self._plain) + len(self._ranked)

    def __iter__(self) -> Iterator[Attempt]:
        """All of them, in the order in which they would be taken."""
        plain = reversed(self._plain) if self._lifo else iter(self._plain)
        above = sorted(attempt for attempt in self._ranked if attempt.entry.priority > 0)
        below = sorted(attempt for attempt in self._ranked if attempt.entry.priority < 0)
        yield from above
        yield from plain
        yield from below

    def append(self, attempt: Attempt) -> None:
        """Add what came last."""
        self.bounded += not attempt.prior
        if attempt.entry.priority and not self._ordered:
            self._ranked = self._ranked or []
            heapq.heappush(self._ranked, attempt)
        else:
            if self._plain is _NOTHING:
                self._plain = deque()
            self._plain.append(attempt)

    def merge(self, attempts: Iterable[Attempt]) -> None:
        """Put attempts where they stand in the log, among those that wait."""
        more = list(attempts)
        if not more:
            return
        plain = [p for p in more if self._ordered or not p.entry.priority]
        self._plain = deque(sorted([*self._plain, *plain], key=lambda p: p.entry.position))
        self.bounded += sum(not attempt.prior for attempt in plain)
        for attempt in more:
            if attempt.entry.priority and not self._ordered:
                self.append(attempt)

    def put_back(self, attempt: Attempt) -> None:
        """Put one where it stands in the log; mostly it was the first."""
        if self._plain and self._plain[0].entry.position < attempt.entry.position:
            self.merge([attempt])
        elif attempt.entry.priority and not self._ordered:
            self.append(attempt)
        else:
            self.bounded += not attempt.prior
            if self._plain is _NOTHING:
                self._plain = deque()
            self._plain.appendleft(attempt)

    def pop(self) -> Attempt:
        """Take the next."""
        if self._ranked and (not self._plain or self._ranked[0].entry.priority > 0):
            attempt = heapq.heappop(self._ranked)
        else:
            attempt = self._plain.pop() if self._lifo else self._plain.popleft()
        self.bounded -= not attempt.prior
        return attempt

    def pop_first(self, fits: Callable[[Attempt], bool]) -> Attempt | None:
        """Take the first that fits."""
        chosen = next((attempt for attempt in self if fits(attempt)), None)
        if chosen is not None:
            self.remove(chosen)
        return chosen

    def drop_oldest(self) -> Attempt:
        """Take away the one that has waited longest, of the lowest priority."""
        lowest = min(self._ranked, key=lambda p: (p.entry.priority, p.entry.position), default=None)
        if lowest is None or (self._plain and lowest.entry.priority > 0):
            lowest = self._plain[0]
        self.remove(lowest)
        return lowest

    def remove(self, attempt: Attempt) -> None:
        """Take out one of them, if it is there."""
        if self._plain and self._plain[0] is attempt:
            self._plain.popleft()
        elif attempt in self._plain:
            self._plain.remove(attempt)
        elif attempt in self._ranked:
            self._ranked.remove(attempt)
            heapq.heapify(self._ranked)
        else:
            return
        self.bounded -= not attempt.prior

    def clear(self) -> list[Attempt]:
        """Take out all of them."""
        everything = list(self)
        self._plain = _NOTHING
        self._ranked.clear()
        self.bounded = 0
        return everything


class FastPath:
    """Brings entries from publishers to one consumer while calling it back is all there is to do.

    There are no tokens or timers, and neither side takes a lock: CPython runs another thread only
    at calls and backward jumps. Whatever needs an account of each attempt closes it first.
    """

    __slots__ = ("arrivals", "bound", "consumer")

    def __init__(self) -> None:
        self.arrivals: deque[Entry] = deque()
        self.bound = 0
        self.consumer: Consumer | None = None  # for whom it is open

    def open(self, consumer: Consumer, bound: int) -> None:
        """Bring at most so many entries at a time to a consumer."""
        self.consumer, self.bound = consumer, bound
