"""How many records of some types there are, and where so many of them end: by the index alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.stores.sqlite.rows import fetch_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

__all__ = ["count_records", "skip_records"]

_MOST = 100  # types in one statement
_ONE_TYPE = "SELECT position FROM log WHERE type = ? AND position >= ? AND position < ?"


def count_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int
) -> int:
    """How many records of some types, or of all, are in `[low, high)`; or an upper bound."""
    if types is None or len(types) > _MOST:
        return max(high - low, 0)
    marks = ", ".join("?" * len(types))
    sql = f"SELECT count(*) FROM log WHERE type IN ({marks}) AND position >= ? AND position < ?"
    return int(fetch_one(connection, sql, *types, low, high))


def skip_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int, count: int
) -> int:
    """The end of the first so many records in `[low, high)`; at most so many are before it."""
    if types is None or len(types) > _MOST:
        return min(low + count, high)
    if not types:
        return high
    # Each branch comes in order by the index, so that they are merged and nothing is sorted.
    sql = f"{' UNION ALL '.join([_ONE_TYPE] * len(types))} ORDER BY position LIMIT 1 OFFSET ?"
    bounds = [value for each in types for value in (each, low, high)]
    found = fetch_one(connection, sql, *bounds, count)
    return high if found is None else int(found)
