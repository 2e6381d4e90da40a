"""The pictures of the contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import contexts_bus
import contexts_changing
import contexts_translating
import matplotlib.pyplot as plt
from contexts_bus import BY_HAND, COMPILED, CONTENT, FORWARD, REFLECTIVE
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator
from measure import Samples
from plots import STYLE, legend_beside, logarithmic, round_time, save

LOOKS = {
    FORWARD: ("#555555", "X"),
    CONTENT: ("#E69F00", "s"),
    COMPILED: ("#0072B2", "o"),
    BY_HAND: ("#009E73", "D"),
    REFLECTIVE: ("#D55E00", "^"),
}


def draw_latency(found: contexts_bus.Latency, folder: Path) -> None:
    """FOS figure 4a: latency against rate, the middle and the hundredth."""
    with mpl.rc_context(STYLE):
        figure, row = plt.subplots(1, 2, figsize=(11.5, 4.6), sharey=True)
        for axes, what in zip(row, ("p50", "p99"), strict=True):
            for setup, by_rate in found.items():
                up = [getattr(each, what) for each in by_rate.values()]
                _line(axes, setup, list(by_rate), up)
            logarithmic(axes, [1_000, 10_000, 100_000])
            _times(axes)
            axes.set_title(f"{what} of the latency (FOS figure 4a)")
            axes.set_xlabel("events per second, offered")
        row[0].set_ylabel("from when an event was due until it was handled")
        legend_beside(row[1])
        figure.tight_layout()
        save(figure, folder / "contexts_latency.png")


def draw_consumers(found: dict[int, Samples], folder: Path) -> None:
    """FOS figure 4b: consumers per producer."""
    names = {
        BY_HAND: "each consumer translates, by hand",
        COMPILED: "translated once for the context",
        CONTENT: "nobody translates",
    }
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots()
        for setup, name in names.items():
            up = [samples[setup].best for samples in found.values()]
            _line(axes, setup, list(found), up, name)
        logarithmic(axes, list(found))
        _times(axes)
        axes.set_title("Consumers in one context (FOS figure 4b)")
        axes.set_xlabel("consumers of each event")
        axes.set_ylabel("time per publish")
        legend_beside(axes)
        save(figure, folder / "contexts_consumers.png")


def draw_shapes(found: contexts_translating.Results, folder: Path) -> None:
    """Compiled, by hand and by reflection, for each shape of event."""
    ways = {
        contexts_translating.BY_HAND: "#009E73",
        contexts_translating.COMPILED: "#0072B2",
        contexts_translating.INTERPRETED: "#E69F00",
        contexts_translating.REFLECTIVE: "#D55E00",
    }
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots()
        width = 0.8 / len(ways)
        for number, (way, colour) in enumerate(ways.items()):
            across = [place + (number - 1.5) * width for place in range(len(found))]
            up = [samples[way].best for samples in found.values()]
            axes.bar(across, up, width * 0.94, label=way, color=colour)
        axes.set_yscale("log")
        _times(axes)
        axes.grid(visible=False, axis="x")
        axes.set_axisbelow(True)
        axes.set_xticks(range(len(found)), list(found))
        axes.set_title("Translating one event")
        axes.set_ylabel("time per event")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4)
        save(figure, folder / "contexts_shapes.png")


def draw_generation(found: contexts_changing.Generation, folder: Path) -> None:
    """FOS figure 5: the time to make code, against rules and selectivity."""
    colours = ("#56B4E9", "#0072B2", "#CC79A7")
    with mpl.rc_context(STYLE):
        figure, row = plt.subplots(1, 2, figsize=(11.5, 4.4))
        kinds = {
            contexts_changing.GENERATED: "Making the code of one event (FOS figure 5)",
            contexts_changing.CHECKED: "Checking the whole context",
        }
        for axes, (kind, title) in zip(row, kinds.items(), strict=True):
            for (selectivity, by_size), colour in zip(found.items(), colours, strict=True):
                up = [samples[kind].best * 1_000 for samples in by_size.values()]
                label = f"rules for {selectivity:.0%} of its attributes"
                axes.plot(list(by_size), up, label=label, color=colour, marker="o")
            axes.set_title(title)
            axes.set_xlabel("rules in the context")
            axes.set_ylabel("ms")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
        row[0].legend(loc="upper left")
        figure.tight_layout()
        save(figure, folder / "contexts_generation.png")


def draw_change(series: contexts_changing.Series, folder: Path) -> None:
    """FOS figure 6: latency around a change."""
    due, spans, changes = series
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9.6, 4.2))
        axes.plot(due, spans, ".", color="#0072B2", markersize=2.5, label="one event")
        for number, (start, end) in enumerate(changes):
            label = None if number else "the context is replaced"
            axes.axvspan(start, end, color="#D55E00", alpha=0.35, linewidth=0, label=label)
        axes.set_yscale("log")
        _times(axes)
        axes.set_title("Latency around a change of a context (FOS figure 6)")
        axes.set_xlabel(f"seconds; {contexts_changing.RATE:,} events in each")
        axes.set_ylabel("from when an event was due until it was handled")
        axes.legend(loc="upper right", markerscale=4)
        save(figure, folder / "contexts_change.png")


def _line(axes: Axes, setup: str, across: list[int], up: list[Any], label: str = "") -> None:
    colour, mark = LOOKS[setup]
    width = 2.4 if setup == COMPILED else 1.5
    axes.plot(across, up, label=label or setup, color=colour, marker=mark, linewidth=width)


def _times(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_time(value)))
    axes.minorticks_off()
