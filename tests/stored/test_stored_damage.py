"""A record that cannot be read stops what comes after it, is told, and is tried again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
from stored_events import Sale

import polycast as pc

Eventually = Callable[..., None]


def alter(path: Path, position: int) -> None:
    """Flip the bits of one byte in the middle of a record; twice is as it was."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(10_000)
        ((body,),) = connection.execute("SELECT body FROM log WHERE position = ?", (position,))
        data = bytearray(body)
        data[len(data) // 2] ^= 0xFF
        sql = "UPDATE log SET body = ? WHERE position = ?"
        connection.execute(sql, (bytes(data), position))


def test_a_damaged_record_is_told_and_read_when_it_is_well_again(
    tmp_path: Path, eventually: Eventually
) -> None:
    path = tmp_path / "events.db"
    with pc.Bus(f"sqlite:///{path}") as bus:
        bus.publish_many([Sale(n) for n in range(6)])
        alter(path, 4)
        seen: list[Any] = []
        bus.subscribe(Sale, seen.append, durable="all", since="beginning")
        eventually(lambda: any("position 4" in each for each in bus.health().problems))
        assert bus.flush(5) is False
        eventually(lambda: len(seen) == 3)
        live: list[Any] = []
        bus.subscribe(Sale, live.append)
        bus.publish(Sale(6))
        eventually(lambda: live == [Sale(6)])  # who does not need it is not held up
        alter(path, 4)
        eventually(lambda: len(seen) == 7)
        eventually(lambda: bus.health().ok)
    assert [sale.number for sale in seen] == list(range(7))
