"""Writes version_1.db: a store as version 1 left it, which every later version must open.

It was run once, when version 1 was current. Later versions have a script and a file of their own.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from polycast.events import Identity
from polycast.stores import (
    Advert,
    Draft,
    Flight,
    GroupMember,
    Letter,
    Retention,
    StoredSubscription,
    Transaction,
)
from polycast.stores.sqlite import SqliteStore, back_up
from polycast.testing import ManualClock
from polycast.typesystem import describe, event


@event(name="shop.Order")
@dataclass
class Order:
    item: str
    price: float


@event(name="shop.Bill", version=2)
@dataclass
class Bill:
    total: int


def drafts() -> list[Draft]:
    """Orders, and a bill at every third place."""
    made = []
    for n in range(1, 13):
        cls, payload = (Order, b'{"item":"tea","price":%d.5}' % n)
        if n % 3 == 0:
            cls, payload = (Bill, b'{"total":%d}' % n)  # type: ignore[assignment]
        about = describe(cls)
        identity = Identity("till" if n < 8 else "kiosk", 1, n)
        more = {"topic": "/shop/tea", "priority": 3, "headers": {"n": str(n)}} if n == 5 else {}
        made.append(
            Draft(about.name, about.version, about.hash, identity, "json", payload, **more)  # type: ignore[arg-type]
        )
    return made


def state(transaction: Transaction) -> None:
    """Something in every table."""
    for cls in (Order, Bill):
        transaction.describe(describe(cls))
    till = transaction.open_bus("till", until=1_700_000_060.0, address="", process=1)
    transaction.open_bus("kiosk", until=1_700_000_070.0, address="", process=2)
    transaction.save(
        StoredSubscription("audit", b'{"type":"shop.Order"}', 1, 7, token=2, lease=1_800_000_000.0)
    )
    transaction.save(
        StoredSubscription("work", b"{}", 4, 9, group=True, pinned=False, holder=till.id)
    )
    transaction.fly([Flight("audit", 2, "till", None, 1, 2, 1_700_000_030.0)])
    transaction.fly([Flight("work", 5, "till", till.id, 4, 1, 0.0, True)])
    transaction.join(GroupMember("work", till.id, 8))
    record = drafts()[3].at(1_700_000_000.0)
    transaction.bury([Letter(0, "audit", 4, record, "it failed", 5, 1_700_000_040.0)])
    transaction.advertise(Advert(0, till.id, "shop.Order"))


def main() -> None:
    """Write it beside this script."""
    target = Path(__file__).with_name("version_1.db")
    working = target.with_name("writing.db")
    clock = ManualClock()
    store = SqliteStore(working, clock=clock)
    for draft in drafts():
        store.append([draft])
        clock.advance(1)
    store.write(state).result()
    Retention(age=86_400.0, delivered=True).keep_in(store)
    store.truncate(3)
    store.close()
    back_up(working, target)
    working.unlink()
    with closing(apsw.Connection(str(target))) as connection:
        connection.execute("VACUUM")  # nothing that was deleted is left in it


if __name__ == "__main__":
    main()
