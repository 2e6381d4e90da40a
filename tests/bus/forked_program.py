"""Forks with a bus open: in the child all is refused, and the parent goes on undisturbed.

Arguments: the URL of the bus, and how the child comes about and ends (`exit` or `multiprocessing`).
The child writes what it was told to the file named last, and has to be done soon.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polycast as pc

DEADLINE = 30.0  # after which a process counts as stuck


@dataclass
class Sale:
    number: int = 0


class Opened:
    """A bus, and what was made of it before the fork."""

    def __init__(self, url: str, got: list[int]) -> None:
        self.url = url
        self.bus = pc.Bus(url, publisher="parent")
        self.is_shared = not url.startswith("memory")
        name = {"durable": "kept"} if self.is_shared else {}
        self.deliveries: list[pc.Delivery] = []
        self.sub = self.bus.subscribe(Sale, lambda sale: got.append(sale.number), **name)
        self.bus.subscribe(Sale, lambda sale: None, dispatch="inline")
        self.manual = self.bus.subscribe(Sale, self._keep, ack="manual")
        self.stream = self.bus.stream(Sale)
        self.sales = pc.DAList(Sale, self.bus)
        self.pulled = pc.DAList(Sale, self.bus, pull="fifo")
        self.advert = self.bus.advertise(Sale)
        self.letters = self.bus.dead_letters()
        self.bus.publish(Sale(0))
        self.bus.publish(Sale(0), topic="/sales")

    def _keep(self, sale: Sale, delivery: pc.Delivery) -> None:
        self.deliveries.append(delivery)

    def operations(self) -> dict[str, Any]:
        """All that can be asked of it."""
        bus, sub = self.bus, self.sub
        return {
            "publish": lambda: bus.publish(Sale(1)),
            "publish on a topic": lambda: bus.publish(Sale(1), topic="/sales"),
            "publish with headers": lambda: bus.publish(Sale(1), headers={"a": "b"}),
            "publish another class": lambda: bus.publish("text"),
            "publish_many": lambda: bus.publish_many([Sale(1), Sale(2)]),
            "publish_async": lambda: asyncio.run(_awaited(lambda: bus.publish_async(Sale(1)))),
            "subscribe": lambda: bus.subscribe(Sale, print),
            "on": lambda: bus.on(Sale)(print),
            "stream": lambda: bus.stream(Sale),
            "advertise": lambda: bus.advertise(Sale),
            "within": lambda: bus.within(pc.Context("abroad")),
            "flush": lambda: bus.flush(),
            "health": lambda: bus.health(),
            "dead_letters": lambda: bus.dead_letters(),
            "letters": lambda: list(self.letters),
            "count letters": lambda: len(self.letters),
            "replay letters": lambda: self.letters.replay(),
            "purge": lambda: self.letters.purge(),
            "cancel": lambda: sub.cancel(),
            "detach": lambda: sub.detach(),
            "pause": lambda: sub.pause(),
            "resume": lambda: sub.resume(),
            "renew": lambda: sub.renew(5),
            "explain": lambda: sub.explain(),
            "explain an event": lambda: sub.explain(Sale(1)),
            "ack": lambda: self.deliveries[0].ack(),
            "nack": lambda: self.deliveries[0].nack(),
            "reject": lambda: self.deliveries[0].reject(),
            "read a stream": lambda: asyncio.run(_awaited(lambda: anext(self.stream))),
            "add": lambda: self.sales.add(Sale(1)),
            "contains": lambda: self.sales.contains(print),
            "contains_all": lambda: self.sales.contains_all(print),
            "remove": lambda: self.sales.remove(print),
            "remove_all": lambda: self.sales.remove_all(print),
            "clear": lambda: self.pulled.clear(),
            "supply": lambda: self.sales.supply(lambda: None),
            "get": lambda: self.pulled.get(),
            "len": lambda: len(self.pulled),
            "renew advert": lambda: self.advert.renew(5),
            "cancel advert": lambda: self.advert.cancel(),
        }


async def _awaited(make: Any) -> Any:
    return await make()


def child(opened: Opened, told: Path) -> None:
    """Try all, let go of all, and open a new one."""
    faulthandler.dump_traceback_later(DEADLINE / 2, exit=True)
    begun = time.monotonic()
    answers: dict[str, str] = {}
    for name, operation in opened.operations().items():
        try:
            operation()
            answers[name] = "accepted"
        except BaseException as error:
            answers[name] = type(error).__name__
    assert "forked" in repr(opened.letters)
    answers["repr"] = repr(opened.bus) and opened.sub.state
    with opened.bus, opened.sub:
        pass
    opened.pulled.close()
    asyncio.run(opened.stream.aclose())
    answers["close"] = repr(opened.bus.close())
    answers["new bus"] = _new_bus(opened.url)
    if "memory" in opened.url:
        answers["federated"] = _new_bus("memory:")
    vars(opened).clear()
    gc.collect()
    answers["seconds"] = str(time.monotonic() - begun)
    told.write_text(json.dumps(answers))


def _new_bus(url: str) -> str:
    """What becomes of a bus that is opened in the child."""
    try:
        with pc.Bus(url, publisher="child") as bus:
            got: list[str] = []
            bus.subscribe("/from/the/child", got.append)
            bus.publish("hello", topic="/from/the/child")
            return f"{bus.flush(10)} {got}"
    except pc.PolycastError as error:
        return type(error).__name__


def fork(opened: Opened, how: str, told: Path) -> int:
    """How the child ended."""
    faulthandler.cancel_dump_traceback_later()  # its thread is not in the child, which would wait
    if how == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=child, args=(opened, told))
        process.start()
        process.join(DEADLINE)
        return -1 if process.exitcode is None else process.exitcode
    number = os.fork()
    if number == 0:
        child(opened, told)
        sys.exit(0)  # with all that an interpreter does when it ends
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def main(url: str, how: str, told: str) -> None:
    """Fork, go on, and say how that went."""
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    got: list[int] = []
    opened = Opened(url, got)
    bus, pulled = opened.bus, opened.pulled
    deadline = time.monotonic() + 10
    while not opened.deliveries and time.monotonic() < deadline:
        time.sleep(0)
    ended = fork(opened, how, Path(told))
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    receipts = [bus.publish(Sale(number)) for number in range(1, 101)]
    deadline = time.monotonic() + 10
    while len(got) < 102 and time.monotonic() < deadline:
        time.sleep(0)
    problems = [each for each in bus.health().problems if "acknowledg" not in each]
    state, waiting = opened.sub.state, len(pulled)
    bus.close(1)
    answer = {
        "child": ended,
        "published": len(receipts),
        "got": got[2:] == list(range(1, 101)),
        "state": state,
        "pulled": waiting,
        "problems": problems,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
