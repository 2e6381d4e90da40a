"""A bus for several hosts: tills, a desk and a warehouse over two brokers, one of which is killed.

Each program has a connection and its own classes; the desk has never seen the class of a gift. The
brokers have none of them. In the middle one broker is killed without a warning: everybody goes on
with the other, and at the end nothing is missing and nothing came twice.
Run it: python examples/hosts.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

import polycast as pc

ORDERS = 300


@pc.event(name="shop.Order")  # the name that all programs share
@dataclass(frozen=True)
class Order:
    number: int
    till: str
    amount: float


def sell(url: str, name: str) -> None:
    """A till, on some host: it sells gifts, too, which only tills know."""

    with pc.Bus(url, publisher=name) as bus:
        for number in range(ORDERS):
            kind = Gift if number % 7 == 0 else Order
            bus.publish(kind(number, name, amount=float(number % 50)))
            if number == ORDERS // 2:
                print("half", flush=True)
                sys.stdin.readline()  # until a broker was killed


if __name__ == "__main__" and sys.argv[1:2] == ["till"]:

    @pc.event(name="shop.Gift")
    @dataclass(frozen=True)
    class Gift(Order):
        note: str = "with love"

    sell(*sys.argv[2:])
    raise SystemExit


def broker(folder: str) -> tuple[subprocess.Popen[str], str]:
    """A broker, on a port that is free."""
    command = [sys.executable, "-m", "polycast", "serve", "--json", "--listen", "127.0.0.1:0"]
    store = f"sqlite:///{folder}/shop.db"
    process = subprocess.Popen(
        [*command, "--store", store], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"].removeprefix("polycast://")


def main() -> None:
    """Start everything, kill a broker, and count."""
    with ExitStack() as around:
        folder = around.enter_context(tempfile.TemporaryDirectory())
        brokers = [broker(folder) for _ in range(2)]
        for process, _ in brokers:
            around.enter_context(process)  # waits for its end
            around.callback(process.terminate)
        url = "polycast://" + ",".join(place for _, place in brokers)
        print("two brokers over one store\n")
        desk = around.enter_context(pc.Bus(url))
        every: Counter[tuple[str, int]] = Counter()
        large: Counter[str] = Counter()

        def note(order: Order) -> None:
            every[order.till, order.number] += 1

        def note_large(order: Order) -> None:
            large[type(order).__name__] += 1

        desk.subscribe(Order, note, durable="desk")
        sub = desk.subscribe(Order, note_large, where=lambda order: order.amount >= 45)
        print(str(sub.explain()).splitlines()[2])
        tills = [_start(url, f"till-{number}") for number in range(2)]
        for till in tills:
            assert till.stdout is not None
            till.stdout.readline()
        brokers[0][0].kill()
        print("half is sold, and one broker was killed")
        for till in tills:
            till.communicate("go on\n")
        desk.flush(20)
        twice = sum(count > 1 for count in every.values())
        print(f"\n{len(every)} of {2 * ORDERS} orders arrived, {twice} of them twice")
        print(f"large ones: {large['Order']} orders, {large['Gift']} gifts, as the class they are")
        assert len(every) == 2 * ORDERS
        assert not twice


def _start(url: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "till", url, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


if __name__ == "__main__":
    main()
