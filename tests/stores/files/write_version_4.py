"""Writes version_4.db: that of version 3, as version 4 goes on with it, with a client's answers.

It was run once, when version 4 was current.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw

from polycast.stores import StoredReply, StoredSubscription, Transaction
from polycast.stores.sqlite import SqliteStore, back_up
from polycast.testing import ManualClock

HERE = Path(__file__).parent


def go_on(transaction: Transaction) -> None:
    """What a broker keeps for its clients, and a subscription that a bus is attached to."""
    transaction.put_answer(StoredReply("client-1", 7, b"\x93\1\2\3", 1_700_000_100.0))
    transaction.put_answer(StoredReply("client-2", 1, b"", 1_700_000_200.5))
    about = ("leased", b'{"selector":"shop.Bill","lease":60.0}', 13, 15)
    holder = transaction.open_bus("abroad", until=1_700_000_010.0, address="here", process=3)
    lease = 1_700_000_300.0
    transaction.save(
        StoredSubscription(*about, pinned=False, token=9, holder=holder.id, lease=lease)
    )


def main() -> None:
    """Write it beside this script."""
    target, working = HERE / "version_4.db", HERE / "writing.db"
    shutil.copy(HERE / "version_3.db", working)
    store = SqliteStore(working, clock=ManualClock())
    store.write(go_on).result()
    store.close()
    back_up(working, target)
    working.unlink()
    with closing(apsw.Connection(str(target))) as connection:
        connection.execute("VACUUM")  # nothing that was deleted is left in it


if __name__ == "__main__":
    main()
