"""What a broker has sent and nobody has read yet."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from polycast.broker.wire.frames import decode_records
from polycast.broker.wire.messages import Credit, Follow, Want
from polycast.stores import LogPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.wire.messages import Events, FromClient
    from polycast.stores import Stored

__all__ = ["News"]

PARTS = 8  # of the window; a broker is told when as much has been read, not of each frame


class News:
    """A part of the log from one place on, as far as it has come; what is wanted of it."""

    def __init__(
        self, tell: Callable[[FromClient], None], window: Callable[[], int] = lambda: 0
    ) -> None:
        self._tell, self._window = tell, window  # how much the broker sends ahead
        self.lock = threading.RLock()
        self._stream = 0
        self._at = 0  # all before it has been read here
        self._come: deque[Events] = deque()
        self._open: deque[Stored] = deque()  # what is being read
        self._end = 0  # how far that goes
        self._read = 0  # bytes that the broker has not been told of
        self.wants: dict[str, list[bytes]] = {}
        self.newest = self.revision = 0
        self.events = 0  # how many have come
        self._commits = -1
        self.is_current = False  # whether nothing was changed from here since

    def resumed(self) -> Iterator[FromClient]:
        """What a broker has to be told that knows nothing yet."""
        with self.lock:
            for name, definitions in tuple(self.wants.items()):  # others may change it
                yield Want(0, name, definitions)
            if self._at:
                yield self._follow(self._at)

    def _follow(self, start: int) -> Follow:
        """Begin anew at a place."""
        self._stream += 1
        self._at = start
        self._end = start
        self._read = 0
        self._come.clear()
        self._open.clear()
        return Follow(self._stream, start)

    def brought(self, events: Events) -> bool:
        """More has come; whether anybody should look."""
        with self.lock:
            changed = events.commits != self._commits
            self.is_current = True
            self._commits = events.commits
            self.newest = max(self.newest, events.newest)
            self.revision = max(self.revision, events.revision)
            is_mine = events.stream == self._stream
            if is_mine and self._stream:  # else nobody reads here: it is only told
                if self._come and not self._come[-1].records:
                    self._come.pop()  # it is in what comes after it
                self._come.append(events)
            return changed or is_mine

    def read(self, start: int, limit: int, size: int | None) -> LogPage:
        """What has come from a place on."""
        with self.lock:
            if start != self._at:
                follow = self._follow(start)
                told: list[FromClient] = [follow]
                batch = LogPage([], start, more=False)
            else:
                told = []
                batch = self._taken(limit, size, told)
        for each in told:
            self._tell(each)
        return batch

    def _taken(self, limit: int, size: int | None, told: list[FromClient]) -> LogPage:
        found: list[Stored] = []
        much = float("inf") if size is None else size
        while True:
            while self._open and len(found) < limit:
                found.append(self._open.popleft())
                self._at = found[-1].position + 1
            if self._open:
                break
            self._at = max(self._at, self._end)
            if not self._come or len(found) == limit or much <= 0:
                break
            events = self._come.popleft()
            self._open.extend(decode_records(events.records))
            self.events += len(self._open)
            self._end = events.upto
            self._read += len(events.records)
            much -= len(events.records)
            if events.records and self._read >= self._window() // PARTS:
                told.append(Credit(self._read))
                self._read = 0
        return LogPage(found, self._at, more=bool(self._open or self._come))
