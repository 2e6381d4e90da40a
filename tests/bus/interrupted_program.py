"""Publishes, and is interrupted in the midst of it by functions that publish, too.

Arguments: the URL of the bus, by what it is interrupted (`signal` or `collector`), in which
dispatch it is called back, and for how long.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

import polycast as pc

DEADLINE = 60.0  # after which it counts as stuck


@dataclass
class Plain:
    number: int = 0


@dataclass
class Inner:
    number: int = 0


def main(url: str, how: str, dispatch: Any, lasting: float) -> None:
    """Publish for a while, and say what has become of it."""
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    bus = pc.Bus(url, publisher="main", publish_timeout=20)
    got: list[Any] = []
    slowest, inside = [0.0], [False]
    accepted: list[tuple[str, int]] = []
    refused: list[str] = []
    options: dict[str, Any] = {"dispatch": dispatch, "queue": 10_000_000}
    bus.subscribe(Plain, lambda event: got.append(("plain", event.number)), **options)
    bus.subscribe(Inner, lambda event: got.append(("inner", event.number)), **options)
    numbers = iter(range(10**9))

    def interrupt(*_: object) -> None:
        if inside[0]:
            return
        inside[0] = True
        number, began = next(numbers), time.monotonic()
        try:
            bus.publish(Inner(number))
            accepted.append(("inner", number))
        except pc.WouldDeadlockError:
            refused.append("inner")
        finally:
            slowest[0] = max(slowest[0], time.monotonic() - began)
            inside[0] = False

    if how == "signal":
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.000_3)
    else:
        gc.callbacks.append(interrupt)
        gc.set_threshold(20)
    end, number = time.monotonic() + lasting, 0
    while time.monotonic() < end:
        bus.publish(Plain(number))
        accepted.append(("plain", number))
        number += 1
        if number % 50 == 0:
            bus.subscribe(Plain, lambda event: None, dispatch=dispatch).cancel()
    if how == "signal":
        signal.setitimer(signal.ITIMER_REAL, 0)
    else:
        gc.callbacks.remove(interrupt)
    quiet = bus.flush(20)
    bus.close(5)
    told = {
        "quiet": quiet,
        "lost": len(set(accepted) - set(got)),
        "doubled": len(got) - len(set(got)),
        "more": len(set(got) - set(accepted)),
        "plain": number,
        "inner": sum(name == "inner" for name, _ in accepted),
        "refused": len(refused),
        "slowest": slowest[0],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
