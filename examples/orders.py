"""Orders that survive: a worker is killed in the middle of its work, and nothing is lost.

The shop publishes orders into a file. Two workers, each a process of its own, share them; billing
wants every large one, and books it once in its own database, whatever happens. One worker and
billing are killed without a warning and started again. Run it: python examples/orders.py
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polycast as pc

ORDERS = 600
LARGE = 900.0


@pc.event(name="shop.Order")  # the name that all programs share
@dataclass(frozen=True)
class Order:
    number: int
    amount: float


def work(folder: str, name: str) -> None:
    """A worker: an order goes to one of them."""
    done = sqlite3.connect(f"{folder}/work.db", check_same_thread=False, timeout=30)

    def handle(order: Order, delivery: pc.Delivery) -> None:
        with delivery.transaction(done) as fresh:
            if fresh:
                done.execute("INSERT INTO work VALUES (?, ?)", (order.number, name))

    with pc.Bus(f"sqlite:///{folder}/shop.db", heartbeat_timeout=2) as bus:
        bus.subscribe(Order, handle, group="workers", durable="work", since="beginning")
        sys.stdin.read()  # until the shop closes


def bill(folder: str, name: str) -> None:
    """Billing: every large order, booked exactly once."""
    del name
    books = sqlite3.connect(f"{folder}/books.db", check_same_thread=False, timeout=30)

    def book(order: Order, delivery: pc.Delivery) -> None:
        with delivery.transaction(books) as fresh:
            if fresh:
                books.execute("INSERT INTO booked VALUES (?)", (order.number,))

    with pc.Bus(f"sqlite:///{folder}/shop.db", heartbeat_timeout=2) as bus:
        bus.subscribe(
            Order,
            book,
            durable="billing",
            since="beginning",
            where=lambda order: order.amount > LARGE,
        )
        sys.stdin.read()


def start(role: str, folder: str, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, *(f"-W{warnoption}" for warnoption in sys.warnoptions), __file__]
    return subprocess.Popen([*command, role, folder, name], stdin=subprocess.PIPE)


def rows(path: str, query: str) -> list[tuple[int]]:
    with closing(sqlite3.connect(path, timeout=30)) as database:
        return database.execute(query).fetchall()


def wait_for(path: str, query: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while rows(path, query)[0][0] < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"{query}: there should be {count}")
        time.sleep(0.02)


def shop(folder: str) -> None:
    for path, table in (("work", "work (number, worker)"), ("books", "booked (number)")):
        with closing(sqlite3.connect(f"{folder}/{path}.db")) as database:
            database.execute(f"CREATE TABLE {table}")
    staff = [start("work", folder, "Ann"), start("work", folder, "Bob"), start("bill", folder, "")]
    orders = [Order(n, float(n * 37 % 1_000)) for n in range(ORDERS)]
    large = [order.number for order in orders if order.amount > LARGE]
    with pc.Bus(f"sqlite:///{folder}/shop.db", publisher="shop") as bus:
        bus.advertise(Order)
        began = time.perf_counter()
        for at in range(0, ORDERS, 10):
            bus.publish_many(orders[at : at + 10])
            if at == ORDERS // 2:
                wait_for(f"{folder}/work.db", "SELECT count(*) FROM work", 50)
                for killed in (0, 2):
                    staff[killed].kill()
                    staff[killed].communicate()
                print("half of the orders are in; Ann and billing were killed")
        print(
            f"{ORDERS} orders published in {time.perf_counter() - began:.2f} s, each batch synced"
        )
        staff[0], staff[2] = start("work", folder, "Ann"), start("bill", folder, "")
        wait_for(f"{folder}/work.db", "SELECT count(*) FROM work", ORDERS)
        wait_for(f"{folder}/books.db", "SELECT count(*) FROM booked", len(large))
    for process in staff:
        process.communicate(timeout=30)  # closes its input, at which it ends
    handled = rows(f"{folder}/work.db", "SELECT number FROM work ORDER BY number")
    booked = rows(f"{folder}/books.db", "SELECT number FROM booked ORDER BY number")
    print(
        f"handled by the workers: {len(handled)}, each once:",
        handled == [(n,) for n in range(ORDERS)],
    )
    print(
        f"booked by billing: {len(booked)} large ones, each once:", booked == [(n,) for n in large]
    )


def main() -> None:
    if len(sys.argv) > 1:
        {"work": work, "bill": bill}[sys.argv[1]](*sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as folder:
        shop(folder)
        print(f"the file took {sum(f.stat().st_size for f in Path(folder).iterdir()) // 1024} kB")


if __name__ == "__main__":
    main()
