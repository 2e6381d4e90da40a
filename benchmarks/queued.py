"""Delivery outside the publisher's thread: pool threads and coroutines, until all is handled.

`python benchmarks/queued.py` measures this alone and prints whether the goals are met.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import statistics
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import bubus
from measure import QUICK, Effort, Run, Samples, apart, duration, figures, quiet_gc, race, wall_time
from peers import TALK, BubusTalk, Talk
from pyventus.core.processing.asyncio import AsyncIOProcessingService
from pyventus.events import AsyncIOEventEmitter, EventLinker, ExecutorEventEmitter
from tables import Table, show

import polycast as pc

COUNTS = (1, 10)
GOALS = {1: 0.13, 10: 0.16}  # of the events per second of a queue and a thread by hand
HANGING = 45  # callbacks that do not return
LONGEST_DELAY = 0.050  # seconds by which they may delay an unrelated subscriber
AT_ONCE = 2_000  # events published before the publisher waits: well below the queue's 10,000
IN_A_ROW = 25  # events that one way delivers, one at a time, before the next way has its turn


class Countdown:
    """Opens a gate when so many calls have come, one count per subscriber so that none is lost."""

    def __init__(self, subscribers: int) -> None:
        self.left = [0] * subscribers
        self.open = [threading.Event() for _ in range(subscribers)]

    def reset(self, calls: int) -> None:
        for number, event in enumerate(self.open):
            self.left[number] = calls
            event.clear()

    def wait(self) -> None:
        for event in self.open:
            if not event.wait(60):
                raise TimeoutError("events were lost")

    def callback(self, number: int) -> Callable[[object], None]:
        left, event = self.left, self.open[number]

        def handle(_: object) -> None:
            left[number] -= 1
            if not left[number]:
                event.set()

        return handle

    def coroutine(self, number: int) -> Callable[[object], Any]:
        callback = self.callback(number)

        async def handle(event: object) -> None:
            callback(event)

        return handle


def until_handled(publish: Callable[[], object], countdown: Countdown) -> Run:
    """Publish in bursts and wait for the last callback of each."""

    def run(repeats: int) -> float:
        start = wall_time()
        for first in range(0, repeats, AT_ONCE):
            burst = min(AT_ONCE, repeats - first)
            countdown.reset(burst)
            for _ in range(burst):
                publish()
            countdown.wait()
        return wall_time() - start

    return run


@dataclass(frozen=True, slots=True)
class Line:
    """A way to deliver: how to publish one event, and how to see that it was handled."""

    publish: Callable[[], object]
    countdown: Countdown


@contextmanager
def polycast_line(subscribers: int, *, coroutines: bool, history: int = 0) -> Iterator[Line]:
    """polycast's pool, or its own event loop for coroutine functions."""
    countdown = Countdown(subscribers)
    with pc.Bus(history=history) as bus:
        for number in range(subscribers):
            make = countdown.coroutine if coroutines else countdown.callback
            bus.subscribe(Talk, make(number))
        yield Line(lambda: bus.publish(TALK), countdown)


@contextmanager
def executor_line(subscribers: int) -> Iterator[Line]:
    """The standard library's pool, called by hand: no types, order, retries or bound."""
    countdown = Countdown(subscribers)
    callbacks = [countdown.callback(number) for number in range(subscribers)]
    # One thread: with more, nothing would keep the calls of one subscriber apart.
    with ThreadPoolExecutor(1) as pool:

        def publish() -> None:
            for callback in callbacks:
                pool.submit(callback, TALK)

        yield Line(publish, countdown)


@contextmanager
def thread_line(subscribers: int) -> Iterator[Line]:
    """A queue and a thread by hand: the least that anybody could write."""
    countdown = Countdown(subscribers)
    callbacks = [countdown.callback(number) for number in range(subscribers)]
    waiting: queue.SimpleQueue[object] = queue.SimpleQueue()

    def work() -> None:
        while (event := waiting.get()) is not None:
            for callback in callbacks:
                callback(event)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield Line(lambda: waiting.put(TALK), countdown)
    waiting.put(None)
    thread.join()


@contextmanager
def pyventus_threads(subscribers: int) -> Iterator[Line]:
    """pyventus over a thread pool."""

    class Linker(EventLinker):
        """Registers are class-wide."""

    countdown = Countdown(subscribers)
    for number in range(subscribers):
        Linker.subscribe(Talk, event_callback=countdown.callback(number))
    with ThreadPoolExecutor(1) as pool:
        emit = ExecutorEventEmitter(pool, event_linker=Linker, debug=False).emit
        yield Line(lambda: emit(TALK), countdown)


POOL, COROUTINES, BY_HAND = (
    "polycast, pool",
    "polycast, async callbacks",
    "by hand: queue and thread",
)
LINES: dict[str, Callable[[int], Any]] = {
    POOL: lambda count: polycast_line(count, coroutines=False),
    "polycast, pool, history=1000": lambda count: polycast_line(
        count, coroutines=False, history=1000
    ),
    COROUTINES: lambda count: polycast_line(count, coroutines=True),
    BY_HAND: thread_line,
    "by hand: ThreadPoolExecutor": executor_line,
    "pyventus, ThreadPoolExecutor": pyventus_threads,
}


# -- coroutines inside the publisher's own loop ---------------------------------------------------


@contextmanager
def pyventus_coroutines(subscribers: int) -> Iterator[Run]:
    """pyventus with coroutine functions in a running loop."""

    class Linker(EventLinker):
        """Registers are class-wide."""

    countdown = Countdown(subscribers)
    for number in range(subscribers):
        Linker.subscribe(Talk, event_callback=countdown.coroutine(number))
    emit = AsyncIOEventEmitter(event_linker=Linker, debug=False).emit

    async def publish(repeats: int) -> float:
        start = wall_time()
        for first in range(0, repeats, 100):
            for _ in range(min(100, repeats - first)):
                emit(TALK)
            await asyncio.gather(*AsyncIOProcessingService.all_tasks())
        return wall_time() - start

    with asyncio.Runner() as runner:
        yield lambda repeats: runner.run(publish(repeats))


@contextmanager
def bubus_coroutines(subscribers: int) -> Iterator[Run]:
    """bubus with coroutine functions."""
    with asyncio.Runner() as runner:
        bus = runner.run(_bubus_with(subscribers))

        async def publish(repeats: int) -> float:
            events = [BubusTalk(stars=5, title=TALK.title) for _ in range(repeats)]
            start = wall_time()
            for event in events:
                await bus.dispatch(event)
            return wall_time() - start

        yield lambda repeats: runner.run(publish(repeats))
        runner.run(bus.stop())


async def _bubus_with(subscribers: int) -> bubus.EventBus:
    bus, countdown = bubus.EventBus(), Countdown(subscribers)
    for number in range(subscribers):
        handler = countdown.coroutine(number)
        handler.__name__ = f"handle_{number}"
        bus.on(BubusTalk, handler)
    return bus


LOOPS = {"pyventus, coroutines": pyventus_coroutines, "bubus, coroutines": bubus_coroutines}


# -- measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Latency:
    """Of one event at a time: until publish returns, and until it is handled."""

    returned: list[float]
    handled: list[float]


Measured = tuple[Samples, dict[str, Latency]]


@dataclass(frozen=True, slots=True)
class Results:
    """By number of subscribers; and how long others wait while callbacks hang."""

    by_count: dict[int, Measured]
    delays: list[float]


def measure(effort: Effort, report: Callable[[str], None]) -> Results:
    """Throughput of all ways, and latency of those that have a thread of their own."""
    by_count: dict[int, Measured] = {}
    for count in COUNTS:
        report(f"queued delivery to {count}")
        by_count[count] = apart(_measured, count, effort)
    report("callbacks that hang")
    return Results(by_count, apart(_delays, 3 if effort.is_quick else 25))


def _measured(count: int, effort: Effort) -> tuple[Samples, dict[str, Latency]]:
    with ExitStack() as stack:
        lines = {name: stack.enter_context(make(count)) for name, make in LINES.items()}
        runs = {name: until_handled(each.publish, each.countdown) for name, each in lines.items()}
        runs |= {name: stack.enter_context(make(count)) for name, make in LOOPS.items()}
        samples = race(runs, Effort(effort.rounds, effort.slice * 4, effort.longest))
        return samples, _latencies(lines, turns=4 if effort.is_quick else 20)


def _latencies(lines: dict[str, Line], *, turns: int) -> dict[str, Latency]:
    """The lines take turns, so that no moment of the machine favours one of them."""
    found = {name: Latency([], []) for name in lines}
    with quiet_gc():
        for _ in range(turns):
            for name, line in lines.items():
                for _ in range(IN_A_ROW):
                    _publish_one(line, found[name])
    return found


def _publish_one(line: Line, latency: Latency) -> None:
    line.countdown.reset(1)
    start = wall_time()
    line.publish()
    returned = wall_time()
    line.countdown.wait()
    latency.handled.append(wall_time() - start)
    latency.returned.append(returned - start)


def _delays(turns: int) -> list[float]:
    """How long an unrelated subscriber waits, each time just after callbacks began to hang."""
    return [_delay() for _ in range(turns)]


def _delay() -> float:
    go_on, handled = threading.Event(), threading.Event()
    with pc.Bus() as bus:
        for _ in range(HANGING):
            bus.subscribe(Talk, lambda _: go_on.wait())
        bus.subscribe(str, lambda _: handled.set(), topic="/unrelated")
        bus.publish(TALK)
        start = wall_time()
        bus.publish("hello", topic="/unrelated")
        if not handled.wait(60):
            raise TimeoutError("an unrelated subscriber got nothing")
        delay = wall_time() - start
        go_on.set()
    return delay


def tables(results: Results) -> list[Table]:
    """One table for each number of subscribers, and the goals."""
    shown = [_table(count, *found) for count, found in results.by_count.items()]
    return [*shown, goals(results)]


def goals(results: Results) -> Table:
    """Whether each goal is met."""
    rows = []
    for count, (samples, _) in results.by_count.items():
        for way in (POOL, COROUTINES):
            ratio, goal = samples[BY_HAND].over(samples[way]), GOALS[count]
            what = f"{way}, {count} subscriber{'s' * (count > 1)}: rate over {BY_HAND}"
            rows.append((what, f"at least {goal:g}", str(ratio), _verdict(ratio.median >= goal)))
    ordered = sorted(results.delays)
    worst = ordered[int(0.9 * (len(ordered) - 1))]
    measured = f"{duration(statistics.median(ordered))}; 90 % below {duration(worst)}"
    what = f"delay of an unrelated subscriber while {HANGING} callbacks hang"
    goal_met = _verdict(worst < LONGEST_DELAY)
    rows.append((what, f"less than {duration(LONGEST_DELAY)}", measured, goal_met))
    return Table("Goals of queued delivery", ("what", "goal", "measured", "verdict"), rows)


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "not met"


def _table(count: int, samples: Samples, latencies: dict[str, Latency]) -> Table:
    ours = samples[POOL]
    rows = []
    for name, sample in samples.items():
        latency = latencies.get(name)
        rows.append(
            (
                name,
                f"{figures(1 / sample.median)}",
                str(sample.over(ours)),
                *(("-", "-", "-") if latency is None else _latency_cells(latency)),
            )
        )
    columns = (
        "way",
        "events/s until handled",
        "time over polycast's pool",
        "publish returns: median",
        "handled: median",
        "handled: 99 %",
    )
    title = f"Outside the publisher's thread, {count} subscriber{'s' * (count > 1)}"
    note = f"Throughput in bursts of up to {AT_ONCE:,}; latency with one event at a time."
    return Table(title, columns, rows, note=note)


def _latency_cells(latency: Latency) -> tuple[str, str, str]:
    worst = statistics.quantiles(latency.handled, n=100)[98]
    return (
        duration(statistics.median(latency.returned)),
        duration(statistics.median(latency.handled)),
        duration(worst),
    )


def plain(results: Results) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {"hanging": HANGING, "delays": results.delays},
        *(
            {
                "subscribers": count,
                "seconds": {name: list(each.times) for name, each in samples.items()},
                "latency": {
                    name: {
                        "returned": statistics.median(each.returned),
                        "handled": statistics.median(each.handled),
                        "handled_99": statistics.quantiles(each.handled, n=100)[98],
                    }
                    for name, each in latencies.items()
                },
            }
            for count, (samples, latencies) in results.by_count.items()
        ),
    ]


def main() -> None:
    """Measure and show; nothing is written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out")
    effort = QUICK if parser.parse_args().quick else Effort()
    show(tables(measure(effort, lambda _: None)))


if __name__ == "__main__":
    main()
