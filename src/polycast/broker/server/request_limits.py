"""Limits of what clients send: events, definitions and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.broker.server.query_rules import definition_of
from polycast.errors import LimitReachedError
from polycast.matching import TopicPattern, check_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polycast.broker.server.authorization import EventAuthorization
    from polycast.broker.server.limits import ServerLimits
    from polycast.broker.wire.protocol import Append, Limits
    from polycast.config import Clock

OVERHEAD = 200  # bytes that an event, a step or a description takes besides its contents
LONGEST, LEVELS = 2_000, 100
"""Characters and levels of a topic: every event is compared with every pattern, level by level."""


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


def check_definitions(
    definitions: Sequence[bytes], authorization: EventAuthorization
) -> Iterator[None]:
    """Refuse definitions that are too large, malformed or not granted; yields after each."""
    for definition in definitions:
        authorization.check_definition(definition_of(definition))
        yield


def check_topic_text(topic: str | None, *, is_pattern: bool) -> None:
    """Refuse a malformed topic, or one too long to compare with many patterns."""
    if topic is None:
        return
    if len(topic) > LONGEST or topic.count("/") > LEVELS:
        text = (
            f"a topic of {len(topic):,} characters and {topic.count('/'):,} levels; up to "
            f"{LONGEST:,} and {LEVELS} are accepted"
        )
        raise LimitReachedError("topic", text, {"limit": LEVELS})
    if is_pattern:
        TopicPattern(topic)
    else:
        check_topic(topic)
