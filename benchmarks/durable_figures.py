"""Figures 21 and 22 of the paper on distributed asynchronous collections (DAC), measured here.

One publisher sends messages of one of four kinds to a topic; several subscribers receive them
asynchronously. Figure 21, latency: until the publisher has sent them all. Figure 22, throughput:
until each subscriber has received them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from durable_receiving import Receiver, elsewhere, subscribed
from durable_setting import KINDS, Plan, Report, url_of
from measure import Sample, apart, duration
from tables import Table

import polycast as pc

TOPIC = "/calls"
SUBSCRIBERS = 3

MEMORY = "memory, one process"
FILE = "file, two processes, one by one"
FILE_AT_ONCE = "file, two processes, in one call"
WAYS = (MEMORY, FILE, FILE_AT_ONCE)
SHOWN = (10, 100, 1_000)  # of the numbers of messages, in the tables


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the experiments with one kind and number of messages."""

    sent: Sample
    received: Sample


Results = dict[str, dict[str, dict[int, Times]]]
"""By way, kind and number of messages."""


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """Each way in a process of its own, with all kinds in turn."""
    found: Results = {}
    for number, way in enumerate(WAYS):
        report(f"DAC figures 21 and 22: {way}")
        found[way] = apart(_measured, way, plan, folder / f"figures-{number}.db")
    return found


def _measured(way: str, plan: Plan, path: Path) -> dict[str, dict[int, Times]]:
    found: dict[str, dict[int, list[tuple[float, float]]]] = {
        kind: {count: [] for count in plan.messages} for kind in KINDS
    }
    with _opened(way, path) as (bus, receiver):
        for kind in KINDS:  # the first of a kind takes longer
            _experiment(way, bus, receiver, [KINDS[kind](0)])
        for _ in range(plan.experiments):
            for count in plan.messages:
                for kind, make in KINDS.items():
                    messages = [make(number) for number in range(count)]
                    found[kind][count].append(_experiment(way, bus, receiver, messages))
    return {
        kind: {count: _times(pairs) for count, pairs in counts.items()}
        for kind, counts in found.items()
    }


@contextmanager
def _opened(way: str, path: Path) -> Iterator[tuple[pc.Bus, Receiver]]:
    if way == MEMORY:
        with pc.Bus() as bus:
            yield bus, subscribed(bus, TOPIC, SUBSCRIBERS)
        return
    with pc.Bus(url_of(path)) as bus, elsewhere(path, TOPIC, SUBSCRIBERS) as receiver:
        yield bus, receiver


def _experiment(
    way: str, bus: pc.Bus, receiver: Receiver, messages: list[object]
) -> tuple[float, float]:
    receiver.expect(len(messages))
    start = time.monotonic()
    if way == FILE_AT_ONCE:
        bus.publish_many(messages, topic=TOPIC)
    else:
        for message in messages:
            bus.publish(message, topic=TOPIC)
    sent = time.monotonic() - start
    return sent, receiver.arrivals()[-1] - start


def _times(pairs: list[tuple[float, float]]) -> Times:
    sent, received = zip(*pairs, strict=True)
    return Times(Sample(sent), Sample(received))


# -- showing ---------------------------------------------------------------------------------------


def tables(found: Results) -> list[Table]:
    """Both figures in numbers."""
    note = f"{SUBSCRIBERS} subscribers to the topic; the median of the experiments."
    return [
        Table(
            "DAC figure 21, latency: time until the publisher has sent them all",
            ("sent over", "messages", *KINDS),
            _rows(found, lambda times: times.sent),
            note=note,
        ),
        Table(
            "DAC figure 22, throughput: time until every subscriber has received them all",
            ("received over", "messages", *KINDS),
            _rows(found, lambda times: times.received),
            note=f"{note} In brackets: events a second.",
        ),
    ]


def _rows(found: Results, choose: Callable[[Times], Sample]) -> list[tuple[str, ...]]:
    counts = next(iter(found[MEMORY].values()))
    return [
        (way, f"{count:,}", *(_cell(choose(kinds[kind][count]), count) for kind in KINDS))
        for way, kinds in found.items()
        for count in counts
        if count in SHOWN
    ]


def _cell(sample: Sample, count: int) -> str:
    return f"{duration(sample.median)} ({count / sample.median:,.0f}/s)"


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return {
        way: {
            kind: [
                {"messages": n, "sent": list(t.sent.times), "received": list(t.received.times)}
                for n, t in counts.items()
            ]
            for kind, counts in kinds.items()
        }
        for way, kinds in found.items()
    }


def draw(found: Results, folder: Path) -> None:
    """One picture for each figure, a panel for each way."""
    _draw(
        found,
        lambda times: times.sent,
        "DAC figure 21, latency: from the first publish until the last has returned",
        folder / "dac-figure-21.png",
    )
    _draw(
        found,
        lambda times: times.received,
        f"DAC figure 22, throughput: from the first publish until all {SUBSCRIBERS} subscribers"
        " have received all messages",
        folder / "dac-figure-22.png",
    )


def _draw(found: Results, choose: Callable[[Times], Sample], title: str, path: Path) -> None:
    import plots  # here, so that the processes that measure do not load it

    with plots.mpl.rc_context(plots.STYLE):
        figure, row = plots.plt.subplots(1, len(found), figsize=(12, 4.6), sharey=True)
        for axes, (way, kinds) in zip(row, found.items(), strict=True):
            for (kind, counts), colour, mark in zip(
                kinds.items(), plots.COLOURS[::2], plots.MARKS, strict=False
            ):
                up = [choose(times).median for times in counts.values()]
                axes.plot(list(counts), up, label=kind, color=colour, marker=mark)
            plots.logarithmic(axes, [count for count in counts if count in SHOWN])
            axes.yaxis.set_major_formatter(
                plots.FuncFormatter(lambda value, _: plots.round_time(value))
            )
            axes.set_title(way)
        plots.label_outside(figure, [row], "messages", "time for all of them")
        figure.suptitle(title, x=0.01, y=1.03, ha="left")
        plots.save(figure, path)
