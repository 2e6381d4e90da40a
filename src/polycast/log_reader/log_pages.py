"""The log of a store in pages: a bounded number of records, and of bytes, at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from polycast.errors.failures import STORE_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores import LogPage, Store, Stored

__all__ = ["PAGE_RECORDS", "LogPages"]

PAGE_RECORDS = 500
PAGE_BYTES = 2_000_000  # about
GAP = 16  # reading past so few records costs less than reading anew behind them


class LogPages:
    """Reads the log of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def news(self, start: int) -> LogPage:
        """Read what is new."""
        return self._store.news(start, limit=PAGE_RECORDS, size=PAGE_BYTES)

    def read(
        self, start: int, room: int, *, until: int, types: list[int] | None, wanted_by: str | None
    ) -> LogPage:
        """Read at most `room` records of some types."""
        return self._store.read(
            start, limit=room, until=until, types=types, wanted_by=wanted_by, size=PAGE_BYTES
        )

    def at(self, positions: list[int]) -> tuple[list[Stored], int | None]:
        """Read the records at some positions, and a few others between them.

        Also return the position of the first that is missing: it is damaged, or the page was full.
        """
        records: list[Stored] = []
        room = PAGE_BYTES
        for first, last in _runs(positions):
            if room <= 0:
                return records, first
            try:
                page = self._store.read(first, limit=last - first + 1, until=last + 1, size=room)
            except STORE_FAILURES:
                if not records:
                    raise
                return records, first
            records += page.entries
            room -= sum(len(stored.record.payload) for stored in page.entries)
            if page.upto <= last:
                return records, page.upto
        return records, None


def _runs(positions: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of positions with small gaps."""
    if not positions:
        return
    first = positions[0]
    for position, following in pairwise(positions):
        if following - position > GAP or following - first >= PAGE_RECORDS:
            yield first, position
            first = following
    yield first, positions[-1]
