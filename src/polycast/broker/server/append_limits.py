"""How much one client may append: events a second, and bytes in one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import LimitReachedError

if TYPE_CHECKING:
    from polycast.broker.server.limits import Bounds
    from polycast.broker.wire.messages import Append, Limits
    from polycast.config import Clock

__all__ = ["PIECE", "AppendLimits"]

PIECE = 200  # bytes that an event, a step or a description takes besides its contents


class AppendLimits:
    """Of one connection; the rate is a bucket that fills as time passes."""

    def __init__(self, limits: Limits, bounds: Bounds, clock: Clock) -> None:
        self._rate, self._clock = limits.rate, clock
        self._most = max(bounds.appended, 2 * limits.frame)
        self._allowance = float(limits.rate)
        self._counted = clock.monotonic()

    def admit(self, message: Append) -> int:
        """About how many bytes are held for its events; `LimitReachedError` if it is too much."""
        size = _size_of(message)
        self._check_size(size)
        self._check_rate(sum(len(run.payloads) for run in message.runs))
        return size

    def _check_size(self, size: int) -> None:
        """Refuse a message that takes little, and becomes very much in the log."""
        if size > self._most:
            text = (
                f"{size:,} bytes of events in one message, each with its topic, context and "
                f"headers; {self._most:,} are accepted. Publish fewer at a time"
            )
            raise LimitReachedError("too-large", text, {"limit": self._most, "used": size})

    def _check_rate(self, count: int) -> None:
        if not self._rate:
            return
        now = self._clock.monotonic()
        self._allowance = min(self._rate, self._allowance + (now - self._counted) * self._rate)
        self._counted = now
        if count > self._allowance:
            text = f"more than {self._rate} events a second; publish them more slowly"
            raise LimitReachedError("rate", text, {"limit": self._rate})
        self._allowance -= count


def _size_of(message: Append) -> int:
    """About how many bytes are held for events, and stored of them."""
    astray = sum(PIECE + len(stray.reason) for stray in message.astray)
    return PIECE + astray + sum(run.size(PIECE) for run in message.runs)
