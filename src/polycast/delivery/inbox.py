"""What comes in for a subscription, and what happens when there is too much of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from polycast.delivery.callback_context import inside
from polycast.delivery.cursors import NOTHING_KEPT
from polycast.delivery.queue import Backlog, Parcel
from polycast.errors import CutOffError, QueueFullError, SubscriptionEndedError
from polycast.forks import Home
from polycast.locks import LATEST
from polycast.metrics import Counts
from polycast.runtime import SYSTEM, Runtime
from polycast.stores import Undecodable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from polycast.config import Clock, Settings
    from polycast.delivery.dead_letters import DeadLetters
    from polycast.delivery.event_loop import LoopThread
    from polycast.delivery.executor import Pool
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.timers import Timers
    from polycast.matching import Interest
    from polycast.stores import Entry, StoredRoute

__all__ = ["Inbox", "Services"]


@dataclass(slots=True, eq=False)
class Services:
    """What all mailboxes of a bus share."""

    clock: Clock
    timers: Timers
    pool: Pool
    loop: LoopThread
    dead_letters: DeadLetters
    in_turn: Callable[[Callable[[], None]], None]
    changed: Callable[[Mailbox], None]  # it is called in another way now
    rewrite: Callable[[Mailbox], None]  # where its filter is written out, it is to be made anew
    ended: Callable[[Mailbox], None]
    quiet: threading.Condition  # notified when a mailbox has nothing left to do
    waiting: int = 0  # how many wait for that
    threaded: bool = True
    runtime: Runtime = SYSTEM
    home: Home = field(default_factory=Home)
    source: Source | None = None  # where what did not fit is read again; None: it is kept here
    supplies: set[Supplier] = field(default_factory=set)


class Supplier(Protocol):
    """Who is asked for events."""

    @property
    def problem(self) -> str | None:
        """What is wrong with it."""


class Source(Protocol):
    """The log, as far as an inbox knows it."""

    def behind(self, mailbox: Inbox) -> None:
        """There is room again in an inbox that is behind the log."""

    def position_of(self, mailbox: Inbox) -> int:
        """All before this has been looked at for an inbox."""


class Inbox:
    """A bounded queue in log order, with a policy for when it is full.

    Its lock is taken after the dispatcher's and is never held while user code runs.
    """

    __slots__ = (
        *("__weakref__", "_moved", "backlog", "behind", "counts", "delayed", "ended", "held"),
        *("in_flight", "interest", "keeper", "let_go", "lock", "name", "paused", "publishers"),
        *("reserved", "route", "services", "settings", "stopped_at", "waits_for"),
    )

    def __init__(
        self, name: str, interest: Interest, settings: Settings, services: Services
    ) -> None:
        self.name, self.interest = name, interest
        self.settings, self.services = settings, services
        self.counts = Counts()
        self.lock = services.runtime.rlock()
        self._moved: threading.Condition | None = None  # made when somebody waits for it
        ordered = settings.level.order != "none"
        self.backlog = Backlog(ordered=ordered, lifo=settings.pull == "lifo")
        self.in_flight: dict[int, Parcel] = {}
        self.delayed: dict[Parcel, None] = {}  # waiting for another attempt
        self.held = False  # nothing is handed out yet: history has to come first
        self.waits_for = 0  # nothing before this position is wanted (since= in the future)
        self.paused = False
        self.ended: SubscriptionEndedError | None = None
        self.reserved = 0
        self.publishers: dict[str, None] = {}  # whose events have come
        self.let_go: list[Parcel] = []  # dropped, and freed when no lock is held
        self.behind: int | None = None  # from here on it has to be read from the log
        self.stopped_at: int | None = None  # from here on nothing was taken
        self.route: StoredRoute | None = None  # by which the pipeline says what it takes
        self.keeper = NOTHING_KEPT

    def locked(self) -> threading.RLock:
        """Its lock, noted as what this thread is about to take: `put` alone need not do that."""
        LATEST.lock = self.lock
        return self.lock

    def moved(self) -> threading.Condition:
        """What is notified when something comes or goes, or the end comes. The lock is held."""
        if self._moved is None:
            self._moved = self.services.runtime.condition(self.lock)
        return self._moved

    def has_moved(self) -> None:
        """Notify whoever waits for something to come or go. The lock is held."""
        if self._moved is not None:
            self._moved.notify_all()

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return str(self.interest.selector)

    @property
    def blocking(self) -> bool:
        """Whether a publisher waits for room."""
        return self.settings.overflow == "block"

    @property
    def copies(self) -> bool:
        """Whether it has objects of its own also of what is published in its context, in memory."""
        return self.settings.copy

    # -- coming in -------------------------------------------------------------------------------

    def put(self, entry: Entry, verdict: object) -> None:
        """Take an entry. The dispatcher's order lock is held, so this is log order."""
        with self.lock:
            if self._is_meant(entry) and self._has_room(entry):
                self._keep(entry, verdict)

    def _is_meant(self, entry: Entry) -> bool:
        is_live = self.ended is None and self.behind is None
        return is_live and self.stopped_at is None and entry.position >= self.waits_for

    def _keep(self, entry: Entry, verdict: object) -> None:
        parcel = self._parcel(entry, verdict)
        if isinstance(entry.event, Undecodable):
            self._bury(parcel, entry.event.error)
            return
        self.backlog.append(parcel)
        self.keeper.took(parcel)
        self.publishers[parcel.publisher] = None
        if self.settings.pull:
            self.has_moved()

    def catch_up(self, entries: Iterable[tuple[Entry, object]], upto: int, live: int) -> None:
        """Take what was read from the log; from `live` on it is brought by others again."""
        with self.locked():
            if self.ended is not None or self.behind is None or self.stopped_at is not None:
                return
            for entry, verdict in entries:
                self._keep(entry, verdict)
            if upto >= live:  # who brings what is live may still be at an earlier place
                self.waits_for, self.behind = max(self.waits_for, upto), None
            else:
                self.behind = upto

    def go_live(self, position: int) -> None:
        """What is from a position on will be brought: it is not behind if it begins there.

        Without the lock: nobody brings it anything yet.
        """
        if self.behind is not None and self.behind >= position:
            self.waits_for, self.behind = max(self.waits_for, self.behind), None

    def fall_behind(self, position: int) -> None:
        """From a position on it is to be read from the log, unless that is so already."""
        with self.locked():
            if self.ended is None and self.behind is None:
                self.behind = max(self.waits_for, position)

    def _bury(self, parcel: Parcel, error: BaseException) -> None:
        """To the dead letters with it. The lock is held."""

    def stop(self) -> None:
        """Take nothing more, and remember from where on."""
        with self.locked():
            self._stop()

    def _stop(self) -> None:
        source = self.services.source
        if source is not None and self.stopped_at is None:
            self.stopped_at = source.position_of(self)

    def room(self) -> int:
        """How many more it may read from the log."""
        return self.settings.queue - self.backlog.bounded - len(self.delayed)

    def _parcel(self, entry: Entry, verdict: object) -> Parcel:
        del verdict  # a group needs it
        return Parcel(entry)

    def _has_room(self, entry: Entry) -> bool:
        """Apply the overflow policy; False if the new entry is not to be kept."""
        policy = self.settings.overflow
        if self.room() > 0:
            return True
        if policy in ("spill", "block"):
            if self.services.source is not None:
                self.behind = entry.position
            return self.behind is None
        if policy == "cut_off":
            self.ended = CutOffError(self.title, detail=f"queue={self.settings.queue}")
            return True  # it goes to the dead letters with the others
        self.counts.dropped += 1
        if policy == "drop_oldest" and self.backlog:
            self.let_go.append(self.backlog.drop_oldest())
            self.keeper.done(self.let_go[-1])
            return True
        return False

    def prefill(self, entries: Iterable[tuple[Entry, object]]) -> None:
        """Put history, or what is replayed, where it stands in the log, whatever the bound."""
        parcels = [self._parcel(entry, verdict) for entry, verdict in entries]
        for parcel in parcels:
            parcel.prior = True
            self.publishers[parcel.publisher] = None
        with self.locked():
            for parcel in parcels:
                self.keeper.took(parcel)
            self.backlog.merge(parcels)
            self.held = False
            self.has_moved()

    def reserve(self, count: int, *, inside: bool) -> None:
        """Wait for room for so many, at most as long as the subscription says."""
        wait = 0.0 if inside or _in_callback() else self.settings.block_for
        if not self.services.threaded or count > self.settings.queue:
            wait = 0.0
        with self.locked():
            if not self.moved().wait_for(lambda: self._is_free(count), wait):
                raise QueueFullError(self.title, queue=self.settings.queue, waited=wait)
            self.reserved += count

    def _is_free(self, count: int) -> bool:
        taken = self.backlog.bounded + len(self.delayed) + self.reserved
        return self.ended is not None or taken + count <= self.settings.queue

    def release(self, count: int) -> None:
        """Give reserved room back."""
        with self.locked():
            self.reserved -= count
            self.has_moved()

    # -- going out -------------------------------------------------------------------------------

    def _take(self) -> Parcel | None:
        """The next parcel that may be handed out and has not expired. The lock is held."""
        while (parcel := self._next()) is not None:
            if self.blocking:
                self.has_moved()
            if self.behind is not None:
                self._read_on()
            if not self.is_expired(parcel):
                return parcel
            self.counts.expired += 1
            self.keeper.done(parcel)
        return None

    def _read_on(self) -> None:
        """Ask for what has to be read from the log, once half of what fits has gone."""
        source = self.services.source
        if source is not None and self.room() * 2 >= self.settings.queue:
            source.behind(self)

    def _next(self) -> Parcel | None:
        """Ordered levels wait for what is in flight or has failed: FIFO for the same publisher."""
        order = self.settings.level.order
        if self.held or self.paused or self.ended is not None or not self.backlog:
            return None
        if order == "none":
            return None if len(self.in_flight) >= self.settings.queue else self.backlog.pop()
        if not self.in_flight and not self.delayed:
            return self.backlog.pop()
        if order == "total":
            return None
        under_way = [*self.in_flight.values(), *self.delayed]
        waiting_for = {parcel.publisher for parcel in under_way}
        if self.publishers.keys() <= waiting_for:
            return None
        return self.backlog.pop_first(lambda parcel: parcel.publisher not in waiting_for)

    def is_expired(self, parcel: Parcel) -> bool:
        """Whether it is too late for it."""
        expires = parcel.entry.expires
        return expires is not None and self.services.clock.time() >= expires


def _in_callback() -> bool:
    return bool(inside.get())
