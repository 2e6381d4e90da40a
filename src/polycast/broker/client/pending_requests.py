"""The requests of a client that its broker has not answered yet."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from polycast.broker.wire.frames import encode
from polycast.errors import LimitReachedError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from polycast.broker.wire.messages import FromClient

__all__ = ["PendingRequests"]


class PendingRequests:
    """Encoded requests and the futures of their answers, by number. `lock` guards them."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._last = 0
        self._requests: dict[int, tuple[bytes, Future[Any]]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._requests)

    def add(self, request: Callable[[int], FromClient], future: Future[Any], limit: int) -> bytes:
        """Add a request; empty if it is too large for a frame. The lock is held."""
        self._last += 1
        data = encode(request(self._last))
        if len(data) + 5 > limit:
            text = (
                f"{len(data)} bytes in one message; the broker takes up to {limit}. Publish less "
                f"at a time, or raise its --frame-limit"
            )
            future.set_exception(LimitReachedError("too-large", text))
            return b""
        self._requests[self._last] = data, future
        return data

    def messages(self) -> list[bytes]:
        """All encoded requests, to send them over another connection. The lock is held."""
        return [self._requests[number][0] for number in sorted(self._requests)]

    def settle(self, number: int, result: Any) -> None:
        """Resolve a request."""
        with self._lock:
            _, future = self._requests.pop(number, (b"", None))
        if future is not None:
            with suppress(InvalidStateError):
                future.set_result(result)

    def fail(self, number: int, error: Exception) -> None:
        """Fail a request."""
        with self._lock:
            _, future = self._requests.pop(number, (b"", None))
        if future is not None:
            with suppress(InvalidStateError):
                future.set_exception(error)

    def fail_all(self, error: Callable[[], Exception]) -> None:
        """Fail all requests, each with an error of its own."""
        with self._lock:
            requests, self._requests = self._requests, {}
        for _, future in requests.values():
            with suppress(InvalidStateError):
                future.set_exception(error())

    @property
    def size(self) -> int:
        """Bytes of all requests, sent or not."""
        with self._lock:
            return sum(len(data) for data, _ in self._requests.values())
