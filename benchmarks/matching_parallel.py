"""READY, sections 3 and 4.2: filters evaluated in parallel, as far as two cores tell something.

Threads share the events of a batch, or the filters. And figure 5: fifteen consumers with 2 to 20
filters each, half of them at their administrative object, half at their proxy, all of which have to
be true. AnPm has n threads for the first half and m for the second; in AnP0 the same threads do
both. A batch of events is handed from one pool to the other. All ways take turns, and ratios are
taken within a round; times are those on the wall, because threads that wait use no CPU.

python benchmarks/matching_parallel.py            # two minutes
python benchmarks/matching_parallel.py --quick    # nothing is written
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ready10
from in_process import progress
from measure import QUICK, Effort, Run, Samples, figures, race, setting, wall_time
from ready10 import USUAL, Quote10
from tables import Table, show

import polycast as pc
from polycast.filters.tree import nodes

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "matching_parallel.json"
IMAGES = HERE.parent / "docs" / "images"

BATCH = 10_000
HANDED = 2_000  # events that one pool hands to the other at a time
CONSUMERS = 15
FILTERS = (2, 4, 8, 12, 16, 20)
SIZES = (1_000, 10_000, 100_000)
FEW = (200,)  # where it is only tried out
EFFORT = Effort(rounds=20, slice=0.15, longest=10.0)

ONE, EVENTS, SHARED = "one thread", "two share the events", "two share the filters"
WAYS: dict[str, dict[str, Any]] = {
    ONE: {},
    EVENTS: {"threads": 2},
    SHARED: {"threads": 2, "share": "filters"},
}
POOLS = {"A1P0": (1, 0), "A2P0": (2, 0), "A1P1": (1, 1), "A2P2": (2, 2)}


def repeated(work: Callable[[], object]) -> Run:
    """So many times, by the clock on the wall."""

    def run(repeats: int) -> float:
        start = wall_time()
        for _ in range(repeats):
            work()
        return wall_time() - start

    return run


def shared(size: int, effort: Effort) -> Samples:
    """Seconds for a batch with one thread, and with two."""
    matcher: pc.Matcher[int] = pc.Matcher(native=True)
    for number, each in enumerate(ready10.filters(ready10.subscriptions(size, USUAL))):
        matcher.add(number, Quote10, each)
    batch = ready10.record_batch(ready10.events(BATCH))
    for _ in range(3):  # learns, and chooses its anchors
        matcher.match_batch(batch, of=Quote10)
    runs = {
        name: repeated(lambda way=way: matcher.match_batch(batch, of=Quote10, **way))
        for name, way in WAYS.items()
    }
    return race(runs, effort)


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


def evaluated(count: int, effort: Effort) -> Samples:
    """Seconds for ten batches through both halves of the filters, by how threads are divided."""
    administrative, proxies = halves(count)
    batches = [ready10.record_batch(ready10.events(HANDED, seed=n)) for n in range(10)]

    def one(matcher: pc.Matcher[int], batch: Any) -> None:
        matcher.match_batch(batch, of=Quote10)

    def both(batch: Any) -> None:
        one(administrative, batch)
        one(proxies, batch)

    def through(first: ThreadPoolExecutor, second: ThreadPoolExecutor | None) -> None:
        if second is None:
            list(first.map(both, batches))
            return
        passed = [first.submit(one, administrative, batch) for batch in batches]
        done = []
        for each, batch in zip(passed, batches, strict=True):
            each.result()
            done.append(second.submit(one, proxies, batch))
        for each in done:
            each.result()

    with ExitStack() as stack:
        runs = {}
        for name, (first, second) in POOLS.items():
            pool = stack.enter_context(ThreadPoolExecutor(first))
            other = stack.enter_context(ThreadPoolExecutor(second)) if second else None
            runs[name] = repeated(lambda pool=pool, other=other: through(pool, other))
        return race(runs, effort)


Found = dict[int, Samples]


def tables(sharing: Found, pools: Found) -> list[Table]:
    """Events per second, and the ratio to one thread within each round."""
    return [
        Table(
            "Two threads: events per second",
            ("subscriptions", *WAYS, *(f"{ONE} over {each}" for each in (EVENTS, SHARED))),
            [_row(size, each, ONE, BATCH) for size, each in sharing.items()],
            "Time on the wall, of batches of Arrow.",
        ),
        Table(
            "READY figure 5: events per second",
            ("filters of a consumer", *POOLS, *(f"A1P0 over {each}" for each in [*POOLS][1:])),
            [_row(count, each, "A1P0", 10 * HANDED) for count, each in pools.items()],
            "Time on the wall, of batches of Arrow; a ratio of 2 would be all that two cores have.",
        ),
    ]


def _row(what: int, samples: Samples, alone: str, events: int) -> tuple[str, ...]:
    ratios = [str(samples[alone].over(each)) for name, each in samples.items() if name != alone]
    return (f"{what:,}", *(figures(events / each.median) for each in samples.values()), *ratios)


def write(sharing: Found, pools: Found, shown: list[Table]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": setting(),
        **{
            title: {
                what: {name: list(each.times) for name, each in samples.items()}
                for what, samples in found.items()
            }
            for title, found in (("sharing", sharing), ("pools", pools))
        },
        "tables": [table.plain() for table in shown],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure, write, draw, show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    quick = parser.parse_args().quick
    effort, sizes, counts = (QUICK, FEW, FILTERS[:1]) if quick else (EFFORT, SIZES, FILTERS)
    sharing, pools = {}, {}
    with progress() as report:
        for size in sizes:
            report(f"{size:,} subscriptions, two threads")
            sharing[size] = shared(size, effort)
        for count in counts:
            report(f"figure 5, {count} filters of a consumer")
            pools[count] = evaluated(count, effort)
    shown = tables(sharing, pools)
    if not quick:
        write(sharing, pools, shown)
        import plots

        plots.draw_pools(
            {n: {k: 10 * HANDED / v.median for k, v in each.items()} for n, each in pools.items()},
            IMAGES,
        )
    show(shown)


if __name__ == "__main__":
    main()
