"""Writes version_2.db: that of version 1, as version 2 goes on with it, with a pipeline.

It was run once, when version 2 was current.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw

from polycast.events import Identity
from polycast.stores import Draft, Stretch, Transaction
from polycast.stores.sqlite import SqliteStore, back_up
from polycast.testing import ManualClock

HERE = Path(__file__).parent


def state(transaction: Transaction) -> None:
    """A route that has ended and one that lasts, and two stretches."""
    transaction.begin_route("audit", b'{"selector":"shop.Order"}')
    token = transaction.take_routing().token
    stretches = [Stretch(1, 5, b""), Stretch(5, 9, b"\1\2"), Stretch(9, 12, b"\3")]
    transaction.advance(stretches, token=token)
    transaction.drop_stretches(5)


def main() -> None:
    """Write it beside this script."""
    target, working = HERE / "version_2.db", HERE / "writing.db"
    shutil.copy(HERE / "version_1.db", working)
    store = SqliteStore(working, clock=ManualClock())
    store.write(lambda tx: tx.begin_route("work", b'{"selector":"shop.Bill"}')).result()
    last = store.read(12).entries[0].record
    about = (last.name, last.version, last.hash)
    store.append([Draft(*about, Identity("kiosk", 1, 13), last.codec, last.payload)])
    store.write(state).result()
    store.write(lambda tx: tx.end_route("work")).result()
    store.close()
    back_up(working, target)
    working.unlink()
    with closing(apsw.Connection(str(target))) as connection:
        connection.execute("VACUUM")  # nothing that was deleted is left in it


if __name__ == "__main__":
    main()
