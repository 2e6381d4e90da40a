"""polycast as one contender: builds a workload, then obeys one command per line, as the peers do.

count K: how many rules each of the first K events matches. run N: how many matches the next
N events have in all. It is started by matching_peers.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from typing import Any

import matching_rules
import msgspec
from matching_workloads import WORKLOADS, Workload, reduced

import polycast as pc

OBJECTS, JSON = "objects", "json"

Count = Callable[[Any], int]


def built(work: Workload, way: str) -> tuple[Any, list[Any], Count]:
    """The matcher, the events as they come in, and how many rules one of them matches."""
    paths = sorted({path for rule in work.rules for path, _ in rule})
    kind = work.kind if way == OBJECTS else reduced(work.kind, paths)
    matcher: Any = pc.Matcher()
    for number, rule in enumerate(work.rules):
        matcher.add(number, kind, pc.Filter(matching_rules.tree(rule)))
    decode, match = msgspec.json.Decoder(kind).decode, matcher.match
    if way == OBJECTS:
        return matcher, [decode(each) for each in work.events], lambda event: len(match(event))
    return matcher, work.events, lambda event: len(match(decode(event)))


def kernel(matcher: pc.Matcher[int]) -> str:
    """What matches, as one word."""
    return matcher.engine.replace(", ", "-")


def obey(events: list[Any], count: Count, commands: Iterable[str]) -> Iterable[str]:
    """The answers to commands."""
    stream = cycle(events)
    for line in commands:
        what, number = line.split()
        if what == "count":
            yield " ".join(str(count(each)) for each in events[: int(number)])
            continue
        yield str(sum(map(count, islice(stream, int(number)))))


def main() -> None:
    name, size, way = sys.argv[1:]
    work = WORKLOADS[name](int(size))
    began = time.perf_counter()
    matcher, events, count = built(work, way)
    count(events[0])  # the index is made with the first event
    print(time.perf_counter() - began, kernel(matcher), flush=True)
    for answer in obey(events, count, sys.stdin):
        print(answer, flush=True)


if __name__ == "__main__":
    main()
