"""Identities of events: publisher, epoch and sequence number."""

from __future__ import annotations

import msgspec

__all__ = ["Identity"]


class Identity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The unique name of an event: its publisher, the publisher's epoch, and a sequence number."""

    publisher: str
    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher}/{self.epoch}/{self.sequence}"
