"""Drafts to append."""

from __future__ import annotations

from typing import Protocol

from polycast.events import Identity
from polycast.stores import Draft


class MakeDrafts(Protocol):
    def __call__(
        self, *sequences: int, name: str = ..., publisher: str = ..., epoch: int = ...
    ) -> list[Draft]: ...


def make_drafts(
    *sequences: int, name: str = "shop.Order", publisher: str = "till", epoch: int = 1
) -> list[Draft]:
    """Drafts with these sequence numbers."""
    return [
        Draft(
            name=name,
            version=1,
            hash=name.ljust(32, "0")[:32],
            identity=Identity(publisher, epoch, sequence),
            codec="json",
            payload=b'{"n":%d}' % sequence,
        )
        for sequence in sequences
    ]
