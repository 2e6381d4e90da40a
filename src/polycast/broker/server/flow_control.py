"""Flow control: what one client is sent, how many bytes may be held, and when one is not read from.

An outbox sends what waits, a budget says when there is room, a pool evicts whoever holds most, and
back-pressure pauses reading.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING

from polycast.broker.wire.protocol import Events, Follow, frames

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Protocol

    from polycast.broker.server.client_session import ClientSession
    from polycast.events import Record

    class Holder(Protocol):
        """Something that holds memory, such as a connection."""

        group: str  # an owner or an address

        def evict(self) -> None:
            """End it, which frees its memory."""


class SharedBudget:
    """Counts what is held, in bytes or events, and calls back when there is room again.

    One owner may have no more than `of_one`, so that others have room, too.
    """

    def __init__(self, limit: float = math.inf, *, of_one: float = math.inf) -> None:
        self.limit, self.held = limit, 0
        self._most_of_one = of_one
        self._of: Counter[str] = Counter()
        self._waiting: dict[str | None, dict[Callable[[], None], None]] = {}

    def has_room(self, owner: str | None = None) -> bool:
        """Whether there is room for more, of an owner or of none."""
        is_free = owner is None or self._of[owner] < self._most_of_one
        return self.held < self.limit and is_free

    def change(self, by: int, owner: str | None = None) -> None:
        """Count so much as held, or as released."""
        was_full, was_at_most = self.held >= self.limit, not self.has_room(owner)
        self.held += by
        if owner is not None:
            self._of[owner] += by
            if not self._of[owner]:
                del self._of[owner]
        if was_full and self.has_room():
            for waiting in list(self._waiting):
                self._tell(waiting)
        elif was_at_most and self.has_room(owner):
            self._tell(owner)

    def _tell(self, owner: str | None) -> None:
        for tell in self._waiting.pop(owner, {}):
            tell()

    def await_room(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Call back once, when there is room."""
        self._waiting.setdefault(owner, {})[tell] = None

    def forget(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Cancel a callback."""
        waiting = self._waiting.get(owner, {})
        waiting.pop(tell, None)
        if not waiting:
            self._waiting.pop(owner, None)


class EvictingPool:
    """Counts bytes; above the limit, evicts the largest holder of the group with most of them.

    Waiting for a holder to finish would mean waiting for a client that has stopped halfway.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._sizes: dict[Holder, int] = {}
        self._groups: Counter[str] = Counter()

    def has_now(self, holder: Holder, size: int) -> None:
        """Set how many bytes a holder has."""
        change = size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
        self.held += change
        self._groups[holder.group] += change
        if not self._groups[holder.group]:
            del self._groups[holder.group]
        while self.held > self.limit and self._sizes:
            self._evict_largest()

    def _evict_largest(self) -> None:
        [(group, _)] = self._groups.most_common(1)
        holders = [holder for holder in self._sizes if holder.group == group]
        largest = max(holders, key=self._sizes.__getitem__)
        self.has_now(largest, 0)
        largest.evict()


class Backpressure:
    """Counts the unanswered requests of one client and the bytes that are held for them."""

    def __init__(self, session: ClientSession) -> None:
        broker = session.broker
        self._session, self._owner = session, session.owner
        self._budget, self._budgets = (
            broker.inbound_budget,
            (broker.inbound_budget, broker.unrouted),
        )
        self._limits, self._inbound = broker.limits, broker.server_limits.inbound
        self._pending = 0  # unanswered requests
        self.held = 0  # their bytes
        self.keepalives = 0  # sent while the client was not read from
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def count(self, requests: int, size: int) -> None:
        """Count a request and its bytes as held; with negative numbers, as answered."""
        self._pending += requests
        self.held += size
        self._budget.change(size, self._owner)
        self.update()

    def update(self) -> None:
        """Pause or resume reading, by what is unanswered, or answered and not sent yet."""
        for budget in self._budgets:
            if not budget.has_room(self._owner):
                budget.await_room(self.update, self._owner)
                self._pause()
                return
        if (
            self._pending < self._limits.pending
            and self._session.outbox.has_room()
            and self.held < self._inbound
        ):
            self.may_read.set()
        else:
            self._pause()

    def _pause(self) -> None:
        self.may_read.clear()
        if self._timer is None and self._limits.heartbeat > 0 and not self._is_closed:
            soon = self._limits.heartbeat / 2
            self._timer = asyncio.get_running_loop().call_later(soon, self._send_keepalive)

    def _send_keepalive(self) -> None:
        """Send something: pings of a client that is not read from go unanswered."""
        self._timer = None
        is_read = self.may_read.is_set() or self._is_closed
        if not is_read and self._session.outbox.has_room():
            self.keepalives += 1
            self._session.broker.fanout.tell(self._session.events)
            self.update()

    def close(self) -> None:
        """End it with the connection."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for budget in self._budgets:
            budget.forget(self.update, self._owner)


GONE = 1006  # the close code of a connection that the client has dropped
SMALL = 10_000  # bytes that are not counted before the end of a turn of the event loop
LITTLE = 100_000  # bytes that may wait for one client while the shared budget is exhausted


class Outbox:
    """Sends what a turn of the event loop has put in as one frame; meanwhile, the next gathers.

    A small frame is written at once, if the network takes it. A task waits for the network.
    """

    def __init__(
        self,
        session: ClientSession,
        write: Callable[[bytes], Awaitable[None]],
        write_now: Callable[[bytes], bool] | None,
    ) -> None:
        self._session, self._broker = session, session.broker
        self._write, self._write_now = write, write_now
        self._limit, self._frame = self._broker.limits.window, self._broker.limits.frame
        self.held = 0  # bytes
        self._counted = 0  # of them, in the shared budget
        self.was_full = False  # until its reader resets it
        self._waiting: list[bytes] = []
        self._bell = asyncio.Event()
        self._is_due = False  # whether it is written before the next turn of the loop
        self._is_writing = False  # whether the task waits for the network
        self._is_closing = False

    def has_room(self) -> bool:
        """Whether more may wait; only a little while the shared budget is exhausted."""
        most = self._limit if self._broker.outbound_budget.has_room() else min(self._limit, LITTLE)
        self.was_full = self.was_full or self.held >= most
        return self.held < most

    def put(self, data: bytes) -> None:
        """Queue a message."""
        if self._is_closing:  # it would not be sent
            return
        self._waiting.append(data)
        self.held += len(data)
        if self._is_writing or self.held > SMALL:
            self._count()
        if self._is_writing:
            self._bell.set()
        elif not self._is_due:
            self._is_due = True
            self._broker.defer(self._flush)  # until the end of this turn of the event loop

    def _flush(self) -> None:
        """Write what waits at once, or leave it to the task."""
        self._is_due = False
        if not self._waiting or self._is_writing or self._is_closing:
            return
        # Nothing else is held while the task does not write.
        frame, *more = frames(self._waiting, self._frame) if self.held <= LITTLE else (b"",)
        if frame and not more and self._write_now is not None and self._write_now(frame):
            self._waiting.clear()
            self._was_sent(self.held)
        else:
            self._count()
            self._bell.set()

    def end(self) -> None:
        """Send what waits and no more; it does not count against the shared budget any longer."""
        self._broker.outbound_budget.change(-self._counted)
        self._is_closing = True
        self._broker.outbound_pool.has_now(self._session, 0)
        self._bell.set()

    async def send_all(self) -> None:
        """Send messages until the outbox ends."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            waiting, self._waiting = self._waiting, []
            self._is_writing = True
            try:
                for frame in frames(waiting, self._frame):
                    await self._write(frame)
            except TimeoutError:
                self._waiting.clear()
                self._session.cut_off(1008, f"it took nothing for {self._broker.patience:g} s")
                return
            except Exception:  # the other side is gone
                self._session.cut_off(GONE, "it is gone")
                return
            self._is_writing = False
            self._was_sent(sum(map(len, waiting)))
            if self._is_closing and not self._waiting:
                return

    def _was_sent(self, size: int) -> None:
        self.held -= size
        if self._counted:
            self._count()
        self._session.some_was_sent()

    def _count(self) -> None:
        """Count what is held in the shared budget; little that is written at once never is."""
        change, self._counted = self.held - self._counted, self.held
        if not self._is_closing:
            self._broker.outbound_budget.change(change)
            self._broker.outbound_pool.has_now(self._session, self.held)


LATER = 0.05  # seconds after which progress without events is reported
MUCH_LATER = 0.25  # the same for a client that does not follow the log


class EventStream:
    """One client as a recipient of the fan-out."""

    def __init__(self, session: ClientSession) -> None:
        self._session, self._window = session, session.broker.limits.window
        self.owner = session.owner  # whose filter budget its filters count against
        self.stream = 0  # its number; 0 until the client follows the log
        self.at = 0  # everything before this position has been sent
        self.groups = 0  # how many of its definitions are of shared groups
        self.unread = 0  # bytes of events that the client has not read
        self._awaited = 0  # a position that the client waits to hear of
        self._reported = (0, 0, -1, -1)  # stream, position, revision and commits, as last sent
        self._latest: Events | None = None  # progress that is not reported yet
        self._timer: asyncio.TimerHandle | None = None

    def start(self, follow: Follow) -> None:
        """Begin a new stream; the client does not read what is left of the one before."""
        self.stream, self.at = follow.stream, max(1, follow.start)
        self.unread = 0

    def credit(self, size: int) -> None:
        """Count bytes as read by the client."""
        self.unread = max(0, self.unread - size)

    def await_progress(self, position: int) -> None:
        """Report progress beyond a position at once, without waiting for events."""
        self._awaited = position

    def has_room(self) -> bool:
        """Whether the client has read most of what it was sent."""
        return self.unread < self._window and self._session.outbox.has_room()

    @property
    def may_receive_all(self) -> bool:
        """Whether the client may receive every event."""
        return self._session.authorization.is_open

    def may_receive(self, record: Record) -> bool:
        """Whether the client may receive an event."""
        return self._session.authorization.events.may_receive(record)

    def send_events(self, events: Events) -> None:
        """Send events at once; progress without events can wait a little."""
        if events.records:
            self.unread += len(events.records)
            self.tell(events)
            return
        new = _progress(events)
        if new == self._reported:
            return
        self._latest = events
        _, _, revision, commits = self._reported
        changed = events.revision != revision or (self.groups and events.commits != commits)
        if changed or (self._awaited and events.upto > self._awaited):
            self._awaited = 0
            self._tell_latest()
        elif self._timer is None:
            later = LATER if events.stream else MUCH_LATER
            self._timer = asyncio.get_running_loop().call_later(later, self._tell_latest)

    def _tell_latest(self) -> None:
        self.close()
        if self._latest is not None:
            self.tell(self._latest)

    def tell(self, events: Events) -> None:
        """Send it, whatever was sent before."""
        self._latest = None
        if self._awaited and events.upto > self._awaited:
            self._awaited = 0
        self._reported = _progress(events)
        self._session.post(events)

    def close(self) -> None:
        """Cancel the report of progress that is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _progress(events: Events) -> tuple[int, int, int, int]:
    return events.stream, events.upto, events.revision, events.commits
