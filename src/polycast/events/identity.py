"""Who published an event, and the how-manieth it was."""

from __future__ import annotations

import msgspec

__all__ = ["Identity"]


class Identity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Names one publish for good: the publisher, its opening, and the number of the call."""

    publisher: str
    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher}/{self.epoch}/{self.sequence}"
