"""What waits for a subscription, within a bound: in log order, or by priority."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.runtime import LATEST

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    from polycast.config import Settings
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.cursors import Cursor
    from polycast.delivery.mailbox import Services
    from polycast.errors import SubscriptionEndedError
    from polycast.metrics import Counts
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
        self.bound = 0  # how many entries at a time
        self.consumer: Consumer | None = None  # for whom it is open


# Most subscriptions that are called in line never need their own; nothing is ever added to these.
NO_ATTEMPTS: dict[Attempt, None] = {}
NO_PUBLISHERS: dict[str, None] = {}
Candidacy = tuple["Entry", object]
"""An entry, and which members of a group want it."""


class BoundedQueue:
    """Attempts that wait, within a bound, and how far the queue is behind the log.

    Its lock guards all parts of a mailbox. It is taken after the dispatcher's locks and is never
    held while user code runs.
    """

    __slots__ = (
        *("_changed", "_counts", "_cursor", "_services", "backlog", "behind", "candidates"),
        *(
            "delayed",
            "discarded",
            "ended",
            "fast",
            "held",
            "lock",
            "paused",
            "publishers",
            "reserved",
        ),
        *("settings", "stopped_at", "waits_for"),
    )

    def __init__(
        self, settings: Settings, cursor: Cursor, counts: Counts, services: Services
    ) -> None:
        self.settings = settings
        self._cursor, self._counts, self._services = cursor, counts, services
        self.lock = services.runtime.rlock()
        self._changed: threading.Condition | None = None  # made when somebody waits for it
        self.backlog = Backlog(ordered=settings.level.order != "none", lifo=settings.pull == "lifo")
        self.fast: FastPath | None = None  # made when it is first opened
        self.delayed = NO_ATTEMPTS  # waiting for redelivery
        self.candidates: deque[Candidacy] | None = None  # of a group: what is to be claimed first
        self.discarded: tuple[Attempt, ...] = ()  # dropped; freed when no lock is held
        self.publishers = NO_PUBLISHERS  # whose events have come
        self.reserved = 0
        self.held = False  # nothing is handed out yet: history has to come first
        self.paused = False
        self.ended: SubscriptionEndedError | None = None
        self.waits_for = 0  # nothing before this position is wanted (since= in the future)
        self.behind: int | None = None  # from here on it has to be read from the log
        self.stopped_at: int | None = None  # from here on nothing was taken

    def locked(self) -> threading.RLock:
        """Return the lock, noted as what this thread is about to take (see `note`)."""
        LATEST.lock = self.lock
        return self.lock

    def __len__(self) -> int:
        return len(self.backlog) + (0 if self.fast is None else len(self.fast.arrivals))

    @property
    def changed(self) -> threading.Condition:
        """Notified when something comes or goes, or the end comes. The lock is held."""
        if self._changed is None:
            self._changed = self._services.runtime.condition(self.lock)
        return self._changed

    def notify(self) -> None:
        """Notify whoever waits for something to come or go. The lock is held."""
        if self._changed is not None:
            self._changed.notify_all()

    # -- coming in -------------------------------------------------------------------------------

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is to be brought here now."""
        is_live = self.ended is None and self.behind is None and self.stopped_at is None
        return is_live and entry.position >= self.waits_for

    def append(self, attempt: Attempt) -> None:
        """Add the newest."""
        self.backlog.append(attempt)
        self._cursor.enqueued(attempt)
        self.note_publisher(attempt)
        if self.settings.pull:
            self.notify()

    def note_publisher(self, attempt: Attempt) -> None:
        """Note whose event it is, for the order of each publisher."""
        self.publishers = self.publishers or {}
        self.publishers[attempt.publisher] = None

    def merge(self, attempts: Iterable[Attempt]) -> None:
        """Add history, or what is replayed, where it stands in the log, whatever the bound."""
        attempts = list(attempts)
        for attempt in attempts:
            attempt.prior = True
            self.note_publisher(attempt)
            self._cursor.enqueued(attempt)
        self.backlog.merge(attempts)
        self.held = False
        self.notify()

    def room(self) -> int:
        """How many more fit."""
        if self.candidates is not None:
            return self.settings.queue - len(self.candidates)
        return self.settings.queue - self.backlog.bounded - len(self.delayed)

    def make_room(self, entry: Entry) -> bool:
        """Apply the overflow policy to a full queue; whether the new entry is to be kept."""
        policy = self.settings.overflow
        if policy in ("spill", "block"):
            if self._services.source is not None:
                self.behind = entry.position
            return self.behind is None
        self._counts.dropped += 1
        if policy == "drop_oldest" and self.backlog:
            oldest = self.backlog.drop_oldest()
            self.discarded = (*self.discarded, oldest)
            self._cursor.done(oldest)
            return True
        return False

    def reserve(self, count: int, wait: float) -> bool:
        """Wait for room for so many, and keep it; whether there was any in time."""
        with self.locked():
            if not self.changed.wait_for(lambda: self._is_free(count), wait):
                return False
            self.reserved += count
            return True

    def _is_free(self, count: int) -> bool:
        taken = self.backlog.bounded + len(self.delayed) + self.reserved
        return self.ended is not None or taken + count <= self.settings.queue

    def release(self, count: int) -> None:
        """Give reserved room back."""
        with self.locked():
            self.reserved -= count
            self.notify()

    # -- its place in the log ----------------------------------------------------------------------

    def go_live(self, position: int) -> None:
        """Take what is brought from a position on, unless something before it is still missing.

        Without the lock: nobody brings it anything yet.
        """
        if self.behind is not None and self.behind >= position:
            self.waits_for, self.behind = max(self.waits_for, self.behind), None

    def fall_behind(self, position: int) -> None:
        """From a position on, read the log, unless it is behind already."""
        with self.locked():
            if self.ended is None and self.behind is None:
                self.behind = max(self.waits_for, position)

    def caught_up(self, position: int, live: int) -> None:
        """Note that the log was read up to a position; from `live` on all is brought again."""
        if position >= live:  # who brings what is live may still be at an earlier place
            self.waits_for, self.behind = max(self.waits_for, position), None
        else:
            self.behind = position

    # -- going out -------------------------------------------------------------------------------

    def next(self, in_flight: dict[int, Attempt]) -> Attempt | None:
        """Take the next attempt that order allows. The lock is held.

        Ordered levels wait for what is in flight or has failed: FIFO for the same publisher.
        """
        order = self.settings.level.order
        if self.held or self.paused or self.ended is not None or not self.backlog:
            return None
        if order == "none":
            return None if len(in_flight) >= self.settings.queue else self.backlog.pop()
        if not in_flight and not self.delayed:
            return self.backlog.pop()
        if order == "total":
            return None
        waiting_for = {attempt.publisher for attempt in (*in_flight.values(), *self.delayed)}
        if self.publishers.keys() <= waiting_for:
            return None
        return self.backlog.pop_first(lambda attempt: attempt.publisher not in waiting_for)

    def is_expired(self, attempt: Attempt) -> bool:
        """Whether it is too late to deliver it."""
        expires = attempt.entry.expires
        return expires is not None and self._services.clock.time() >= expires
