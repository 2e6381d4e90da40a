"""Rows out of and into the file; many go in with one statement.

A statement lets other threads run while it works, and must wait for its turn afterwards. One
statement per row would wait as often as there are rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

__all__ = ["fetch", "fetch_one", "insert_rows"]

_SIZES = (256, 64, 16, 4, 1)  # few, so that every statement is prepared only once
_texts: dict[tuple[str, int, int], str] = {}


def fetch(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """All rows."""
    return connection.execute(sql, values).fetchall()


def fetch_one(connection: apsw.Connection, sql: str, *values: Any) -> Any:
    """The first column of the only row; None if there is no row."""
    found = connection.execute(sql, values).fetchall()
    return found[0][0] if found else None


def insert_rows(
    connection: apsw.Connection, into: str, values: Sequence[Any], *, width: int
) -> None:
    """Insert rows of so many values; `into` is the statement up to VALUES."""
    start = 0
    for size in _SIZES:
        step = size * width
        while len(values) - start >= step:
            connection.execute(_text(into, width, size), values[start : start + step])
            start += step


def _text(into: str, width: int, rows: int) -> str:
    text = _texts.get((into, width, rows))
    if text is None:
        row = f"({', '.join('?' * width)})"
        text = _texts[into, width, rows] = f"{into} VALUES {', '.join([row] * rows)}"
    return text
