"""Counts of records by type, from the index alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.stores.sqlite.interning import rooted
from polycast.stores.sqlite.row_format import fetch_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

__all__ = ["count_records", "skip_records"]

_MOST = 100  # types in one statement
_RANGE = "position >= ? AND position < ?"
# A record that has one of the types itself is counted by that.
_OTHERWISE = "type NOT IN (SELECT value FROM json_each(?))"
_ONE_TYPE = f"SELECT position FROM log WHERE type = ? AND {_RANGE}"
_ONE_ROOT = f"SELECT position FROM log WHERE root = ? AND {_RANGE} AND {_OTHERWISE}"


def count_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int
) -> int:
    """Count the records of some types, or all, in `[low, high)`; or return an upper bound."""
    if types is None or len(types) > _MOST:
        return max(high - low, 0)
    marks = ", ".join("?" * len(types))
    sql = f"SELECT count(*) FROM log WHERE type IN ({marks}) AND {_RANGE}"
    count = int(fetch_one(connection, sql, *types, low, high))
    for number in rooted(connection, types):
        sql = f"SELECT count(*) FROM ({_ONE_ROOT})"
        count += int(fetch_one(connection, sql, number, low, high, _listed(types)))
    return count


def skip_records(
    connection: apsw.Connection, types: Sequence[int] | None, low: int, high: int, count: int
) -> int:
    """Return a position that at most `count` of the records in `[low, high)` come before."""
    if types is None or len(types) > _MOST:
        return min(low + count, high)
    if not types:
        return high
    others = rooted(connection, types)
    # Each branch comes in order by the index, so that they are merged and nothing is sorted.
    branches = " UNION ALL ".join([_ONE_TYPE] * len(types) + [_ONE_ROOT] * len(others))
    bounds: list[Any] = [value for number in types for value in (number, low, high)]
    bounds += [value for number in others for value in (number, low, high, _listed(types))]
    sql = f"{branches} ORDER BY position LIMIT 1 OFFSET ?"
    found = fetch_one(connection, sql, *bounds, count)
    return high if found is None else int(found)


def _listed(types: Sequence[int]) -> str:
    return msgspec.json.encode(types).decode()
