"""READY, sections 3 and 4.2: filters evaluated in parallel, as far as two cores tell something.

Threads share the events of a batch, or the filters. And figure 5: fifteen consumers with 2 to 20
filters each, half of them at their administrative object, half at their proxy, all of which have to
be true. AnPm has n threads for the first half and m for the second; in AnP0 the same threads do
both. A batch of events is handed from one pool to the other.

python benchmarks/matching_parallel.py            # some minutes; shown, not written
python benchmarks/matching_parallel.py --quick
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ready10
from measure import figures
from ready10 import USUAL, Quote10
from tables import Table, show

import polycast as pc
from polycast.filters import nodes

BATCH = 10_000
CONSUMERS = 15
FILTERS = (2, 4, 8, 12, 16, 20)
SIZES = (1_000, 10_000, 100_000)
POOLS = {"A1P0": (1, 0), "A2P0": (2, 0), "A1P1": (1, 1), "A2P2": (2, 2)}
COLUMNS = ("one thread", "two share the events", "two share the filters")


def best(work: Callable[[], object], rounds: int) -> float:
    """Seconds on the wall: threads that wait use no CPU, and that is the question."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def sharing(size: int, rounds: int) -> tuple[str, ...]:
    """Events per second with one thread, and with two."""
    matcher: pc.Matcher[int] = pc.Matcher(native=True)
    for number, each in enumerate(ready10.filters(ready10.subscriptions(size, USUAL))):
        matcher.add(number, Quote10, each)
    batch = ready10.record_batch(ready10.events(BATCH))
    ways: list[dict[str, Any]] = [{}, {"threads": 2}, {"threads": 2, "share": "filters"}]
    matcher.match_batch(batch, of=Quote10)  # learns, and chooses its anchors
    spent = [
        best(lambda way=way: matcher.match_batch(batch, of=Quote10, **way), rounds) for way in ways
    ]
    return (f"{size:,}", *(figures(BATCH / each) for each in spent))


def halves(count: int) -> tuple[pc.Matcher[int], pc.Matcher[int]]:
    """Filters of the administrative objects and of the proxies; each is evaluated."""
    draw = random.Random(count)
    both: tuple[pc.Matcher[int], pc.Matcher[int]] = pc.Matcher(native=True), pc.Matcher(native=True)
    for matcher in both:
        for number in range(CONSUMERS * count // 2):
            tests = tuple(
                nodes.Compare(nodes.Attribute(nodes.Event(), name), ((">=", constant),))
                for name in ready10.DOUBLES
                for constant in [nodes.Constant(draw.random() / 10)]
            )
            matcher.add(number, Quote10, pc.Filter(nodes.And(tests)))
    return both


def evaluated(count: int, pools: tuple[int, int], rounds: int) -> float:
    """Events per second through both halves of the filters."""
    administrative, proxies = halves(count)
    batches = [ready10.record_batch(ready10.events(BATCH // 5, seed=n)) for n in range(10)]

    def one(matcher: pc.Matcher[int], batch: Any) -> None:
        matcher.match_batch(batch, of=Quote10)

    def both(batch: Any) -> None:
        one(administrative, batch)
        one(proxies, batch)

    def run() -> None:
        first, second = pools
        with ThreadPoolExecutor(first) as pool, ThreadPoolExecutor(max(1, second)) as other:
            if not second:
                list(pool.map(both, batches))
                return
            passed = [pool.submit(one, administrative, batch) for batch in batches]
            done = []
            for each, batch in zip(passed, batches, strict=True):
                each.result()
                done.append(other.submit(one, proxies, batch))
            for each in done:
                each.result()

    run()
    return len(batches) * (BATCH // 5) / best(run, rounds)


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out")
    quick = parser.parse_args().quick
    rounds, sizes = (3, SIZES[:2]) if quick else (15, SIZES)
    counts = FILTERS[::3] if quick else FILTERS
    rows = [sharing(size, rounds) for size in sizes]
    figure = [
        (str(count), *(figures(evaluated(count, pools, rounds)) for pools in POOLS.values()))
        for count in counts
    ]
    show(
        [
            Table("Two threads: events per second", ("subscriptions", *COLUMNS), rows, None),
            Table(
                "READY figure 5: events per second",
                ("filters of a consumer", *POOLS),
                figure,
                "Time on the wall, of batches of Arrow; the keys are put together by one thread.",
            ),
        ]
    )


if __name__ == "__main__":
    main()
