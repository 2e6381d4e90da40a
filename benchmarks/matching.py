"""One event against many subscriptions, side by side with a scan of compiled lambdas.

In pure Python, and with the kernel in C. The workload is that of ready10.py. Each number of
subscriptions and rate of matches has a process of its own. Before the clock runs, the index sees
other events than those that are measured, until it becomes no faster: in Python it makes functions
when they are first needed. What that takes is shown. A million subscriptions are matched in C only,
and of their lambdas only some are scanned.

python benchmarks/matching.py            # twenty minutes
python benchmarks/matching.py --quick    # up to 10,000 subscriptions, one rate; nothing is written
python benchmarks/matching.py --size 100000 --rate "0.11 %"    # only this, for tuning
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

import ready10
from matching_figures import tables
from measure import QUICK, Effort, Run, Sample, Samples, apart, quiet_gc, race, setting
from ready10 import MIXES, USUAL, Mix, Quote10
from tables import Table, show

import polycast as pc

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "matching.json"
IMAGES = HERE.parent / "docs" / "images"

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FEW = (200,)  # where it is only tried out
LARGEST_IN_PYTHON = 100_000
SCANNED = 10_000  # lambdas; of more, the time is that of so many, times how many more they are
BATCH = 10_000
LONGEST_WARM_UP = 12  # times so many events
LARGEST_RESULT = 8_000_000  # matches in one batch; a batch of fewer events has no more
EFFORT = Effort(rounds=10, slice=0.2, longest=15.0)


SCAN = "scan of lambdas"
SINGLE = "one by one"
LISTS = "batches of objects"
ARROW = "batches of Arrow"
HOWS = (SINGLE, LISTS, ARROW)
ENGINES = ("python", "native")
WAYS = (SCAN, *(f"{engine}: {how}" for engine in ENGINES for how in HOWS))

# CPU time of all threads: what else runs on the machine does not count, and a second core is not
# for free.
clock = time.process_time


@dataclass(frozen=True, slots=True)
class Start:
    """What is paid before an index is at full speed, in seconds."""

    lifting: float  # per filter, from its tree
    building: float  # per subscription, all of them one after the other
    first: float  # the first event of all
    warming: float  # all events before those that are measured
    warmed: int  # how many these are


@dataclass(frozen=True, slots=True)
class Changes:
    """What changes of a full index cost, in seconds: means of a hundred."""

    adding: float  # one subscription more ...
    after_adding: float  # ... and the next event
    removing: float  # one less ...
    after_removing: float  # ... and the next event
    again: float  # the same event once more
    event_before: float  # of many, before all these changes
    event_after: float  # of many, after them


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured with so many subscriptions."""

    size: int
    matches: float  # per event
    batch: int
    samples: Samples  # seconds per event
    start: dict[str, Start]  # by engine, and so are these
    first_batch: dict[str, float]  # seconds
    changes: dict[str, Changes]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    sizes: tuple[int, ...] = SIZES
    mixes: tuple[Mix, ...] = tuple(MIXES.values())
    ways: tuple[str, ...] = WAYS
    memory: bool = True


Report = Callable[[str], None]
Results = dict[str, dict[int, Found]]
Memory = dict[str, dict[int, dict[str, float]]]


# -- speed -----------------------------------------------------------------------------------------


def measure(effort: Effort, report: Report, plan: Plan) -> Results:
    """By rate and number of subscriptions."""
    results: Results = {}
    for mix in plan.mixes:
        results[mix.name] = {}
        for size in plan.sizes:
            report(f"{size:,} subscriptions, {mix.name} match")
            results[mix.name][size] = apart(_measured, size, mix, effort, plan.ways)
    return results


def _measured(size: int, mix: Mix, effort: Effort, ways: tuple[str, ...]) -> Found:
    wanted, published = ready10.subscriptions(size, mix), ready10.events(BATCH)
    engines = _engines(size, ways)
    built = {}
    with quiet_gc():
        for engine in engines:
            built[engine] = _built(wanted, mix, engine)
    tests = ready10.functions(wanted[:SCANNED] if size > LARGEST_IN_PYTHON else wanted)
    more = size / len(tests)
    batch = min(BATCH, int(LARGEST_RESULT / (size * mix.rate)))
    objects = _cut(published, batch)
    runs: dict[str, Run] = {
        SCAN: _one_by_one(lambda event: ready10.scan(tests, event), published, times=more)
    }
    first: dict[str, float] = {}
    for engine, (matcher, _) in built.items():
        _check(matcher, tests, published[:: BATCH // 20])
        first[engine] = _timed(matcher.match_batch, ready10.events(batch, seed=3))
        runs[f"{engine}: {SINGLE}"] = _one_by_one(matcher.match, published)
        runs[f"{engine}: {LISTS}"] = _in_lists(matcher, objects)
        runs[f"{engine}: {ARROW}"] = _in_columns(matcher, objects)
    any_matcher = built[engines[-1]][0]
    matches = statistics.fmean(
        len(any_matcher.match(event)) for event in published[:: BATCH // 200]
    )
    samples = {
        name: sample if name == SCAN or SINGLE in name else _each(sample, batch)
        for name, sample in race({n: runs[n] for n in ways if n in runs}, effort).items()
    }
    with quiet_gc():
        changes = {
            engine: _changes(matcher, mix, published, size)
            for engine, (matcher, _) in built.items()
        }
    starts = {engine: start for engine, (_, start) in built.items()}
    return Found(size, matches, batch, samples, starts, first, changes)


def _engines(size: int, ways: tuple[str, ...]) -> list[str]:
    """Those that are asked for, and are there, and can do so many."""
    asked = [each for each in ENGINES if any(way.startswith(each) for way in ways)]
    there = pc.Matcher().engine.startswith("native")
    able = {"python": size <= LARGEST_IN_PYTHON, "native": there}
    found = [engine for engine in asked if able[engine]]
    if not found:
        raise SystemExit(f"nothing that is there matches {size:,} subscriptions: build the kernel")
    return found


def _cut(published: list[Quote10], batch: int) -> list[list[Quote10]]:
    """Batches of events from everywhere in the stream, so that all cost the same."""
    count = len(published) // batch
    return [published[start::count][:batch] for start in range(count)]


def _one_by_one(
    match: Callable[[Quote10], object], published: list[Quote10], *, times: float = 1.0
) -> Run:
    stream = cycle(published)

    def run(repeats: int) -> float:
        taken = list(islice(stream, repeats))
        start = clock()
        for event in taken:
            match(event)
        return (clock() - start) * times

    return run


def _batches(match: Callable[[Any], object], batches: list[Any]) -> Run:
    stream = cycle(batches)

    def run(repeats: int) -> float:
        spent = 0.0
        for _ in range(repeats):
            batch = next(stream)
            start = clock()
            found = match(batch)
            spent += clock() - start
            del found  # freeing it belongs to who asked
        return spent

    return run


def _each(sample: Sample, batch: int) -> Sample:
    return Sample(tuple(seconds / batch for seconds in sample.times))


def _check(matcher: Any, tests: list[Any], sample: list[Quote10]) -> None:
    wanted = [ready10.scan(tests, event) for event in sample]
    found = [sorted(key for key in matcher.match(e) if key < len(tests)) for e in sample]
    if wanted != found:
        raise AssertionError("the matcher does not find what the scan finds")


def _in_lists(matcher: Any, batches: list[list[Quote10]]) -> Run:
    sample = batches[0][::20]
    found = [sorted(each) for each in matcher.match_batch(sample)]
    if found != [sorted(matcher.match(event)) for event in sample]:
        raise AssertionError("a batch does not find what is found one by one")
    return _batches(matcher.match_batch, batches)


def _in_columns(matcher: Any, batches: list[list[Quote10]]) -> Run:
    sample = batches[0][::20]
    offsets, _ = matcher.match_batch(ready10.record_batch(sample), of=Quote10)
    counts = [int(end) - int(start) for start, end in pairwise(offsets)]
    if counts != [len(matcher.match(event)) for event in sample]:
        raise AssertionError("columns do not find what is found one by one")
    columns = [ready10.record_batch(each) for each in batches]
    return _batches(lambda each: matcher.match_batch(each, of=Quote10), columns)


# -- building and changing -------------------------------------------------------------------------


def _built(wanted: list[ready10.Subscription], mix: Mix, engine: str) -> tuple[Any, Start]:
    """A matcher that is warm, and what that took."""
    size, trees = len(wanted), [ready10.tree(each) for each in wanted]
    start = clock()
    filters = [pc.Filter[Quote10](each) for each in trees]
    lifting = (clock() - start) / size
    matcher: Any = pc.Matcher(native=engine == "native")
    building = _timed(_add_all, matcher, filters) / size
    first = _timed(matcher.match, ready10.events(1)[0])
    each_time = BATCH if size * mix.rate < 1_000 else BATCH // 10
    passes = list(_warming(matcher, each_time))
    return matcher, Start(lifting, building, first, sum(passes), len(passes) * each_time)


def _warming(matcher: Any, count: int) -> Iterator[float]:
    """The seconds of so many events, again and again, until they become hardly less."""
    last = float("inf")
    for number in range(LONGEST_WARM_UP):
        spent = _timed(_match_all, matcher, ready10.events(count, seed=100 + number))
        yield spent
        if spent > 0.95 * last:
            return
        last = spent


def _add_all(matcher: Any, filters: list[Any]) -> None:
    for number, each in enumerate(filters):
        matcher.add(number, Quote10, each)


def _match_all(matcher: Any, published: list[Quote10]) -> None:
    for event in published:
        matcher.match(event)


def _changes(matcher: Any, mix: Mix, published: list[Quote10], size: int) -> Changes:
    """One more and one less, with events between, again and again; the index ends as it was."""
    more = ready10.filters(ready10.subscriptions(100, mix, seed=4))
    sample = published[:: 5 if size * mix.rate < 1_000 else 50]
    before = _timed(_match_all, matcher, sample) / len(sample)
    times = [
        (
            _timed(matcher.add, number, Quote10, each),
            _timed(matcher.match, event),
            _timed(matcher.remove, number),
            _timed(matcher.match, event),
            _timed(matcher.match, event),
        )
        for number, (each, event) in enumerate(zip(more, published[::97], strict=False), size)
    ]
    _match_all(matcher, sample)  # what was changed is made anew
    after = _timed(_match_all, matcher, sample) / len(sample)
    return Changes(*(statistics.fmean(each) for each in zip(*times, strict=True)), before, after)


def _timed(call: Callable[..., object], *arguments: Any) -> float:
    start = clock()
    call(*arguments)
    return clock() - start


# -- memory ----------------------------------------------------------------------------------------


def measure_memory(report: Report, sizes: tuple[int, ...]) -> Memory:
    """Bytes per subscription, by engine and number of subscriptions."""
    found: Memory = {}
    for engine in ENGINES:
        for size in sizes:
            if size <= LARGEST_IN_PYTHON or engine == "native":
                report(f"memory of {size:,} subscriptions, {engine}")
                found.setdefault(engine, {})[size] = apart(_memory, size, engine)
    return found


def _memory(size: int, engine: str) -> dict[str, float]:
    wanted, published = ready10.subscriptions(size), ready10.events(2_000, seed=3)
    matcher: Any = pc.Matcher(native=engine == "native")
    tracemalloc.start()
    trees = [ready10.tree(each) for each in wanted]
    stages = {"tree": _traced(size)}
    filters = [pc.Filter[Quote10](each) for each in trees]
    stages["filter around it"] = _traced(size)
    _add_all(matcher, filters)
    stages["index"] = _traced(size)
    _match_all(matcher, published)
    stages["made by 2,000 events"] = _traced(size) + matcher.native_bytes / size
    tracemalloc.stop()
    steps = [after - before for before, after in pairwise([0.0, *stages.values()])]
    return dict(zip(stages, steps, strict=True))


def _traced(size: int) -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / size


# -- writing --------------------------------------------------------------------------------------


def write(results: Results, memory: Memory, shown: list[Table]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": setting(),
        "matching": {
            rate: [asdict(found) for found in sizes.values()] for rate, sizes in results.items()
        },
        "memory": memory,
        "tables": [table.plain() for table in shown],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _asked() -> tuple[Effort, Plan]:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    parser.add_argument("--way", choices=WAYS[1:], action="append", help="only this way")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only this engine")
    parser.add_argument("--size", type=int, action="append", help="only so many subscriptions")
    parser.add_argument("--rate", choices=[*MIXES], action="append", help="only this match rate")
    options = parser.parse_args()
    sizes = options.size or (FEW if options.quick else SIZES)
    names = options.rate or ([USUAL.name] if options.quick else MIXES)
    mixes = tuple(MIXES[name] for name in names)
    engines = tuple(options.engine or ENGINES)
    ways = (SCAN, *(each for each in options.way or WAYS[1:] if each.startswith(engines)))
    only_some = options.size or options.rate or options.way or options.engine
    plan = Plan(tuple(sizes), mixes, ways, memory=not only_some)
    return (QUICK if options.quick else EFFORT), plan


def main() -> None:
    """Measure, write, draw, show."""
    effort, plan = _asked()
    from in_process import progress  # here, so that the processes that measure load no peers

    with progress() as report:
        results = measure(effort, report, plan)
        memory = measure_memory(report, plan.sizes) if plan.memory else {}
    shown = tables(results, memory)
    if plan == Plan() and not effort.is_quick:
        write(results, memory, shown)
        import plots

        plots.draw_matching(results, IMAGES)
    show(shown)


if __name__ == "__main__":
    main()
