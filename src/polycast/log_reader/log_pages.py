"""The log of a store in pages: a bounded number of records, and of bytes, at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from polycast.errors.failures import STORE_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores import Store, Stored

PAGE_RECORDS = 500
PAGE_BYTES = 2_000_000  # about
GAP = 16  # reading past so few records costs less than reading anew behind them


def records_at(store: Store, positions: list[int]) -> tuple[list[Stored], int | None]:
    """Read the records at some positions, and a few others between them.

    Also return the position of the first that is missing: it is damaged, or the page was full.
    """
    records: list[Stored] = []
    room = PAGE_BYTES
    for first, last in _runs(positions):
        if room <= 0:
            return records, first
        try:
            page = store.read(first, limit=last - first + 1, until=last + 1, size=room)
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
