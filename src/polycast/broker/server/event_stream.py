"""The events that one client is sent, and how far it has read them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.broker.server.client_session import ClientSession
    from polycast.broker.wire.messages import Events, Follow
    from polycast.events import Record

__all__ = ["EventStream"]

LATER = 0.05  # seconds after which progress without events is reported
MUCH_LATER = 0.25  # the same for a client that does not follow the log


class EventStream:
    """One client as a recipient of the fan-out."""

    def __init__(self, session: ClientSession, *, window: int) -> None:
        self._session, self._window = session, window
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
