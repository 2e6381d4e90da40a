"""What a bus has submitted and its store has not written yet, in bytes."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from polycast.errors import BusClosed, PublishBufferFullError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from polycast.routing import Submission

__all__ = ["PublishBuffer"]

_OVERHEAD = 500  # bytes that an event takes besides its payload


class PublishBuffer:
    """Bounds what publishers have on its way that do not wait for it in a thread of their own."""

    LIMIT = 16_000_000

    def __init__(self, limit: int, within: float) -> None:
        self.limit, self.held = limit, 0
        self._within = within
        self._room = threading.Condition()
        self._progress = monotonic()  # when the store was last done with something
        self._closed = False

    def has_room(self) -> bool:
        """Whether more may be submitted; the last that is may be large."""
        return self.held < self.limit

    def hold(self, submission: Submission) -> None:
        """Count this until the store is done with it."""
        payloads = [each for run in submission.runs for each in (*run.payloads, *(run.roots or ()))]
        size = _OVERHEAD * len(payloads) + sum(map(len, payloads))
        with self._room:
            self.held += size
        submission.positions.add_done_callback(lambda done: self._release(done, size))

    def _release(self, done: Future[list[int]], size: int) -> None:
        del done
        with self._room:
            self.held -= size
            self._progress = monotonic()
            self._room.notify_all()

    def await_room(self, since: float) -> None:
        """Wait for room as long as the store gets on; it had the same time since this moment."""
        with self._room:
            while not (self._closed or self.has_room()):
                left = max(since, self._progress) + self._within - monotonic()
                if left <= 0:
                    raise PublishBufferFullError(self.held, waited=self._within)
                self._room.wait(left)
            if self._closed:
                raise BusClosed("publish_async()")

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._room:
            self._closed = True
            self._room.notify_all()
