"""Writes version_3.db: that of version 2, as version 3 goes on with it, with contexts.

It was run once, when version 3 was current.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw

from polycast.events import Identity, Root
from polycast.stores import Draft, Letter, Transaction
from polycast.stores.sqlite import SqliteStore, back_up
from polycast.testing import ManualClock

HERE = Path(__file__).parent
HASH = "79dd1ff98a0691c0dab1f2bf4a6397c0"  # of shop.Order in version 1
ORDER = Root("shop.Order", 1, HASH, b'{"item":"tea","price":4.5}')
OWN = Root("shop.Order", 1, HASH, b"")


def draft(sequence: int, name: str, context: str, root: Root | None) -> Draft:
    """An event of a context."""
    digest = HASH if name == "shop.Order" else "75" * 16
    payload = b'{"n":%d}' % sequence
    identity = Identity("abroad", 1, sequence)
    return Draft(name, 1, digest, identity, "json", payload, context=context, root=root)


def finish(transaction: Transaction) -> None:
    """A version that lasts, and contexts that ended."""
    transaction.put_context("us", b'{"rules":2}')
    transaction.end_context("uk")


def main() -> None:
    """Write it beside this script."""
    target, working = HERE / "version_3.db", HERE / "writing.db"
    shutil.copy(HERE / "version_2.db", working)
    store = SqliteStore(working, clock=ManualClock())
    store.write(lambda tx: tx.put_context("us", b'{"rules":1}')).result()
    store.write(lambda tx: tx.put_context("uk", b'{"rules":0}')).result()
    mapped = draft(1, "us.Order", "us", ORDER)
    store.append([mapped, draft(2, "us.Order", "us", None), draft(3, "shop.Order", "uk", OWN)])
    store.write(finish).result()
    letter = Letter(0, "audit", 14, mapped.at(7.0), "it failed abroad", 1, 8.0)
    store.write(lambda tx: tx.bury([letter])).result()
    store.append([draft(4, "us.Order", "us", ORDER)])
    store.close()
    back_up(working, target)
    working.unlink()
    with closing(apsw.Connection(str(target))) as connection:
        connection.execute("VACUUM")  # nothing that was deleted is left in it


if __name__ == "__main__":
    main()
