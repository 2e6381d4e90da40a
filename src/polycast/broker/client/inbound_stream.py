"""The events that a broker has sent and no reader has taken yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from polycast.broker.wire.frames import decode_records
from polycast.broker.wire.messages import Credit, Follow, Want
from polycast.runtime import SYSTEM, Runtime
from polycast.stores import LogPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.wire.messages import Events, FromClient
    from polycast.stores import Stored

PARTS = 8  # credit is sent for each such part of the window, not for each frame


class InboundStream:
    """The wanted part of the log from one position on, as far as it has been received."""

    def __init__(
        self,
        tell: Callable[[FromClient], None],
        window: Callable[[], int] = lambda: 0,
        *,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._tell, self._window = tell, window  # bytes that the broker sends ahead
        self.lock = runtime.rlock()
        self._stream = 0
        self._at = 0  # everything before it has been read
        self._received: deque[Events] = deque()
        self._decoded: deque[Stored] = deque()  # of the message that is being read
        self._end = 0  # the position after it
        self._read = 0  # bytes without credit yet
        self.wants: dict[str, list[bytes]] = {}
        self.newest = self.revision = 0
        self.events = 0  # how many were received
        self._commits = -1
        self.is_current = False  # whether this client has changed nothing since

    def resumed(self) -> Iterator[FromClient]:
        """The messages that set up the stream over a new connection."""
        with self.lock:
            for name, definitions in tuple(self.wants.items()):  # other threads may change it
                yield Want(0, name, definitions)
            if self._at:
                yield self._follow(self._at)

    def _follow(self, start: int) -> Follow:
        """Begin a new stream at a position."""
        self._stream += 1
        self._at = start
        self._end = start
        self._read = 0
        self._received.clear()
        self._decoded.clear()
        return Follow(self._stream, start)

    def brought(self, events: Events) -> bool:
        """Take a message of the broker; whether readers should be woken."""
        with self.lock:
            changed = events.commits != self._commits
            self.is_current = True
            self._commits = events.commits
            self.newest = max(self.newest, events.newest)
            self.revision = max(self.revision, events.revision)
            is_mine = events.stream == self._stream
            if is_mine and self._stream:  # without a reader, only progress is sent
                if self._received and not self._received[-1].records:
                    self._received.pop()  # the new message includes its progress
                self._received.append(events)
            return changed or is_mine

    def read(self, start: int, limit: int, size: int | None) -> LogPage:
        """Read from a position on."""
        with self.lock:
            if start != self._at:
                replies: list[FromClient] = [self._follow(start)]
                batch = LogPage([], start, more=False)
            else:
                replies = []
                batch = self._take(limit, size, replies)
        for reply in replies:
            self._tell(reply)
        return batch

    def _take(self, limit: int, size: int | None, replies: list[FromClient]) -> LogPage:
        entries: list[Stored] = []
        much = float("inf") if size is None else size
        while True:
            while self._decoded and len(entries) < limit:
                entries.append(self._decoded.popleft())
                self._at = entries[-1].position + 1
            if self._decoded:
                break
            self._at = max(self._at, self._end)
            if not self._received or len(entries) == limit or much <= 0:
                break
            events = self._received.popleft()
            self._decoded.extend(decode_records(events.records))
            self.events += len(self._decoded)
            self._end = events.upto
            self._read += len(events.records)
            much -= len(events.records)
            if events.records and self._read >= self._window() // PARTS:
                replies.append(Credit(self._read))
                self._read = 0
        return LogPage(entries, self._at, more=bool(self._decoded or self._received))
