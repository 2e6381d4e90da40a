"""How much there is to hold and to store for what a client says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import LimitReached

if TYPE_CHECKING:
    from polycast.wire.messages import Append

__all__ = ["PIECE", "checked_size"]

PIECE = 200  # bytes that an event, a step or a description takes besides its contents


def checked_size(message: Append, most: int) -> int:
    """About how many bytes its events become; `LimitReached` if that is more than most."""
    astray = sum(PIECE + len(each.reason) for each in message.astray)
    size = PIECE + astray + sum(run.size(PIECE) for run in message.runs)
    if size > most:
        text = (
            f"{size:,} bytes of events in one message, each with its topic, context and headers; "
            f"{most:,} are accepted. Publish fewer at a time"
        )
        raise LimitReached("too-large", text, {"limit": most, "used": size})
    return size
