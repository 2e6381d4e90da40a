"""Ends without closing its bus. Arguments: the URL, and what is left undone at the end."""

from __future__ import annotations

import asyncio
import atexit
import gc
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import polycast as pc

COUNT = 50
ENDING = threading.Event()


@dataclass
class Sale:
    number: int = 0


def tell(sale: Sale) -> None:
    """Nothing is handled before the program ends."""
    ENDING.wait(10)
    os.write(1, f"got {sale.number}\n".encode())


async def tell_later(sale: Sale) -> None:
    while not ENDING.is_set():
        await asyncio.sleep(0)
    os.write(1, f"got {sale.number}\n".encode())


def publish(bus: pc.Bus) -> None:
    atexit.register(ENDING.set)  # after the bus was opened, so this comes first
    bus.publish_many([Sale(number) for number in range(COUNT)])


def callbacks(url: str) -> pc.Bus:
    bus = pc.Bus(url)
    bus.subscribe(Sale, tell)
    publish(bus)
    return bus


def async_callbacks(url: str) -> pc.Bus:
    bus = pc.Bus(url)
    bus.subscribe(Sale, tell_later)
    publish(bus)
    return bus


def wrapped(url: str) -> pc.Bus:
    bus = pc.Bus(url)
    bus.subscribe(Sale, lambda sale: tell_later(sale))
    publish(bus)
    return bus


def bridge(url: str) -> tuple[pc.Bus, pc.Bus]:
    """What one bus passes on to another."""
    source, target = pc.Bus(url), pc.Bus()
    target.subscribe(Sale, tell)
    source.subscribe(Sale, target.publish)
    publish(source)
    return source, target


def stuck(url: str) -> pc.Bus:
    """A callback that never returns, and another subscription that is well."""
    bus = pc.Bus(url)
    began = threading.Event()

    def never(sale: Sale) -> None:
        began.set()
        threading.Event().wait()

    bus.subscribe(Sale, never)
    bus.subscribe(Sale, tell)
    publish(bus)
    began.wait(10)
    return bus


def closed_loop(url: str) -> pc.Bus:
    """Async callbacks whose loop has ended with asyncio.run()."""
    bus = pc.Bus(url)

    async def main() -> None:
        bus.subscribe(Sale, tell_later)

    asyncio.run(main())
    publish(bus)
    return bus


def failing(url: str) -> pc.Bus:
    """Ends by an exception."""
    global left
    left = callbacks(url)
    raise ValueError("on purpose")


def forked(url: str) -> pc.Bus:
    """A child that ends by itself, as its parent does; only the parent delivers."""
    bus = pc.Bus(url)
    gate = threading.Event()
    bus.subscribe(Sale, lambda sale: gate.wait(10) and tell(sale))
    publish(bus)
    child = os.fork()
    if not child:
        os.write(1, b"child\n")
        sys.exit()
    _, status = os.waitpid(child, 0)
    os.write(1, f"child ended with {status}\n".encode())
    gate.set()
    return bus


def child(url: str) -> None:
    """A child whose own bus is left open."""
    mine = pc.Bus(url)
    pid = os.fork()
    if not pid:
        global left
        left = callbacks("memory:")
        sys.exit()
    os.waitpid(pid, 0)
    mine.close()


def work(url: str) -> None:
    global left
    left = callbacks(url)
    multiprocessing.util.Finalize(None, ENDING.set, exitpriority=1)  # before the bus is closed


def worker(url: str) -> None:
    """A child that multiprocessing has forked, which leaves its bus open."""
    child = multiprocessing.get_context("fork").Process(target=work, args=(url,))
    child.start()
    child.join()
    os.write(1, f"child ended with {child.exitcode}\n".encode())


def dropped(url: str) -> None:
    """A bus that nobody has: nothing keeps it alive until the end."""
    there = weakref.ref(pc.Bus(url))
    gc.collect()
    os.write(1, f"there: {there() is not None}\n".encode())


def silent_broker(url: str) -> pc.Bus:
    """The broker, whose process is named last, stops to answer."""
    bus = callbacks(url)
    os.kill(int(sys.argv[3]), signal.SIGSTOP)
    publish_on = threading.Thread(target=publish, args=(bus,), daemon=True)
    publish_on.start()
    return bus


def out_of_scope(url: str) -> None:
    """A bus that nobody has any more when its function returns, and its events are waiting."""
    callbacks(url)


def out_of_scope_and_stuck(url: str) -> None:
    stuck(url)


def closed(url: str) -> None:
    bus = callbacks(url)
    ENDING.set()
    bus.close()


left: object = None
WAYS: dict[str, Callable[[str], object]] = {
    each.__name__: each
    for each in (
        callbacks,
        async_callbacks,
        wrapped,
        bridge,
        stuck,
        closed_loop,
        failing,
        forked,
        child,
        worker,
        dropped,
        silent_broker,
        out_of_scope,
        out_of_scope_and_stuck,
        closed,
    )
}

if __name__ == "__main__":
    left = WAYS[sys.argv[2]](sys.argv[1])
