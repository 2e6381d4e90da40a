"""Rate and size limits of what one client appends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import LimitReachedError

if TYPE_CHECKING:
    from polycast.broker.server.limits import ServerLimits
    from polycast.broker.wire.messages import Append, Limits
    from polycast.config import Clock

__all__ = ["OVERHEAD", "AppendLimits"]

OVERHEAD = 200  # bytes that an event, a step or a description takes besides its contents


class AppendLimits:
    """The limits of one connection; the rate is a token bucket."""

    def __init__(self, limits: Limits, server_limits: ServerLimits, clock: Clock) -> None:
        self._rate, self._clock = limits.rate, clock
        self._most = max(server_limits.appended, 2 * limits.frame)
        self._allowance = float(limits.rate)
        self._counted = clock.monotonic()

    def admit(self, message: Append) -> int:
        """About how many bytes its events take; raises `LimitReachedError` above a limit."""
        size = _size_of(message)
        self._check_size(size)
        self._check_rate(sum(len(run.payloads) for run in message.runs))
        return size

    def _check_size(self, size: int) -> None:
        """Refuse a small message that would become very much in the log."""
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
    """About how many bytes events take in memory and in the log."""
    astray = sum(OVERHEAD + len(stray.reason) for stray in message.astray)
    return OVERHEAD + astray + sum(run.size(OVERHEAD) for run in message.runs)
