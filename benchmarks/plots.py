"""The pictures of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from classifying import BY_INSTANCE, BY_LOOKUP, BY_PATTERN, BY_PREFIX, BY_TYPE
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from measure import Samples, duration
from peers import CONTENDERS, POLYCAST, WITH_HISTORY, Scenario

import filters
import matching

STYLE = {
    "figure.dpi": 120,
    "figure.figsize": (8.4, 5.0),
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
}
# Okabe and Ito's colours, which people who see fewer colours can tell apart.
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#555555")
MARKS = ("o", "s", "^", "v", "D", "P", "X")

Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def draw_fanout(results: Mapping[Scenario, Samples], folder: Path) -> None:
    """Time per publish against the number of subscribers, of all contenders."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots()
        chosen = [s for s in results if s.filtering == "true" and not s.by_base]
        lines = {
            name: (
                [s.subscribers for s in chosen if name in results[s]],
                [results[s][name].median for s in chosen if name in results[s]],
            )
            for name in CONTENDERS
        }
        _draw(axes, lines, bold=(POLYCAST, WITH_HISTORY))
        logarithmic(axes, sorted({s.subscribers for s in chosen}))
        axes.set_title("Publishing to subscribers with a filter that is true")
        axes.set_xlabel("subscribers to the published class")
        axes.set_ylabel("time per publish, until handled")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_time(value)))
        legend_beside(axes)
        save(figure, folder / "in-process-fanout.png")


def draw_unrelated(raced: Mapping[int, Samples], folder: Path) -> None:
    """Time per publish against subscriptions that do not want the event."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 3.6))
        counts = list(raced)
        times = [raced[count]["publish"].median * 1e9 for count in counts]
        axes.plot(range(len(counts)), times, marker="o", color=COLOURS[0])
        axes.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
        axes.set_ylim(0, max(times) * 1.6)
        for place, value in enumerate(times):
            axes.annotate(
                f"{value:.0f} ns", (place, value), (0, 8), textcoords="offset points", ha="center"
            )
        axes.set_title("Subscriptions to unrelated types do not slow publishing down")
        axes.set_xlabel("subscriptions to unrelated types on the same bus")
        axes.set_ylabel("time per publish (ns)")
        save(figure, folder / "in-process-unrelated.png")


def draw_checks(found: Mapping[int, Samples], folder: Path) -> None:
    """TPS figure 17."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots()
        names = next(iter(found.values()))
        lines = {
            name: (list(found), [samples[name].median for samples in found.values()])
            for name in names
        }
        _draw(axes, lines, bold=(BY_INSTANCE, BY_LOOKUP, BY_PREFIX), colours=_by_kind(lines))
        logarithmic(axes, list(found))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_time(value)))
        axes.set_title("Finding out the kind of a message, by topic and by type (TPS figure 17)")
        axes.set_xlabel("kinds that the message is checked against")
        axes.set_ylabel("latency per message")
        legend_beside(axes)
        save(figure, folder / "tps-figure-17.png")


def draw_publishing(found: Mapping[int, Samples], folder: Path) -> None:
    """TPS figure 18a."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots()
        names = next(iter(found.values()))
        lines = {
            name: (list(found), [1 / samples[name].median for samples in found.values()])
            for name in names
        }
        _draw(axes, lines, bold=(BY_TYPE,), colours=("#0072B2", "#E69F00", "#D55E00"))
        _open_marks(axes.lines[-1])  # it lies on the line before
        logarithmic(axes, list(found))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_count(value)))
        axes.set_title("Publishing by type and by topic (TPS figure 18a)")
        axes.set_xlabel("subscribers")
        axes.set_ylabel("events per second")
        axes.legend(loc="lower left")
        save(figure, folder / "tps-figure-18a.png")


def draw_filters(
    arguments: Mapping[int, Samples], found: Mapping[filters.Scenario, Samples], folder: Path
) -> None:
    """TPS figures 5, 18b, 21a and 21b."""
    with mpl.rc_context(STYLE):
        _draw_arguments(arguments, folder / "tps-figure-5.png")
        _draw_subscribers(found, folder / "tps-figures-18b-21a.png")
        _draw_rates(found, folder / "tps-figure-21b.png")


FILTER_COLOURS = {
    filters.WITH_LOOKUP: "#D55E00",
    filters.CLOSURES: "#CC79A7",
    filters.WITHOUT_LOOKUP: "#E69F00",
    filters.STATIC: "#0072B2",
    filters.BY_HAND: "#555555",
}


def _draw_arguments(arguments: Mapping[int, Samples], path: Path) -> None:
    figure, axes = plt.subplots()
    _draw_ways(axes, arguments, lambda median: median)
    axes.set_yscale("log")
    axes.set_xticks(list(arguments))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_time(value)))
    axes.minorticks_off()
    axes.set_title("Evaluating a filter that calls a method (TPS figure 5)")
    axes.set_xlabel("arguments of the method")
    axes.set_ylabel("time per evaluation")
    legend_beside(axes)
    save(figure, path)


def _draw_subscribers(found: Mapping[filters.Scenario, Samples], path: Path) -> None:
    figure, grid = plt.subplots(2, 2, figsize=(10, 7.6), sharex=True, sharey=True)
    names = {0.5: "figure 18b", 0.25: "figure 21a"}
    for row, (rate, name) in zip(grid, names.items(), strict=True):
        for axes, layer in zip(row, filters.LAYERS, strict=True):
            chosen = filters.by_subscribers(dict(found), layer, rate)
            _draw_ways(axes, chosen, lambda median: 1 / median)
            logarithmic(axes, [1, 10, 100, 1_000])
            axes.set_title(f"{layer}, {filters.percent(rate)} match (TPS {name})")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_count(value)))
    label_outside(figure, grid, "subscribers", "events per second")
    save(figure, path)


def _draw_rates(found: Mapping[filters.Scenario, Samples], path: Path) -> None:
    figure, row = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axes, layer in zip(row, filters.LAYERS, strict=True):
        chosen = filters.by_rate(dict(found), layer)
        places = dict(enumerate(chosen.values()))  # rates are too uneven for any scale
        _draw_ways(axes, places, lambda median: 1 / median)
        axes.set_xticks(list(places), [filters.percent(rate) for rate in chosen])
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_count(value)))
        axes.set_title(f"{layer}, {filters.CONSTANT} subscribers (TPS figure 21b)")
    label_outside(figure, [row], "subscribers that want the event", "events per second")
    save(figure, path)


def _draw_ways(axes: Axes, found: Mapping[int, Samples], value: Callable[[float], float]) -> None:
    names = next(iter(found.values()))
    for name, colour in FILTER_COLOURS.items():
        if name not in names:
            continue
        up = [value(samples[name].median) for samples in found.values()]
        mark = MARKS[list(FILTER_COLOURS).index(name)]
        width = 2.4 if name == filters.STATIC else 1.5
        axes.plot(list(found), up, label=name, color=colour, marker=mark, linewidth=width)
        if name == filters.BY_HAND:
            _open_marks(axes.lines[-1])  # it lies on the line before


def label_outside(figure: Any, grid: Any, across: str, up: str) -> None:
    """Labels at the edges only, and one legend for all panels."""
    for axes in grid[-1]:
        axes.set_xlabel(across)
    for row in grid:
        row[0].set_ylabel(up)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)


def draw_matching(results: matching.Results, folder: Path) -> None:
    """Events per second against the number of subscriptions, a panel for each match rate."""
    with mpl.rc_context(STYLE):
        size = (4 * len(results), 4.6)
        figure, grid = plt.subplots(1, len(results), figsize=size, sharey=True, squeeze=False)
        row = list(grid[0])
        for axes, (rate, sizes) in zip(row, results.items(), strict=True):
            lines = {
                name: (
                    [size for size, found in sizes.items() if name in found.samples],
                    [1 / f.samples[name].median for f in sizes.values() if name in f.samples],
                )
                for name in matching.WAYS
            }
            _draw(axes, lines, bold=matching.WAYS[4:], colours=MATCHING_COLOURS)
            logarithmic(axes, list(sizes))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_count(value)))
            axes.set_title(f"{rate} of the subscriptions match")
        label_outside(figure, [row], "subscriptions", "events per second")
        save(figure, folder / "matching.png")


def draw_pools(rates: Mapping[int, Mapping[str, float]], folder: Path) -> None:
    """READY figure 5, with as many threads as two cores have use for."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots()
        names = next(iter(rates.values()))
        lines = {name: (list(rates), [each[name] for each in rates.values()]) for name in names}
        _draw(axes, lines, bold=("A1P0",))
        axes.set_ylim(bottom=0)
        axes.set_xticks(list(rates))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: round_count(value)))
        axes.set_title("Threads for filters of admins and proxies (READY figure 5)")
        axes.set_xlabel("filters of each of 15 consumers")
        axes.set_ylabel("events per second")
        legend_beside(axes)
        save(figure, folder / "ready-figure-5.png")


MATCHING_COLOURS = ("#555555", "#56B4E9", "#E69F00", "#CC79A7", "#0072B2", "#D55E00", "#009E73")


def _by_kind(lines: Lines) -> list[str]:
    """Warm colours for topics, cold ones for types."""
    warm, cold = iter(("#D55E00", "#E69F00")), iter(("#0072B2", "#56B4E9", "#009E73"))
    return [next(warm if name in (BY_PREFIX, BY_PATTERN) else cold) for name in lines]


def _draw(
    axes: Axes, lines: Lines, *, bold: Sequence[str], colours: Sequence[str] = COLOURS
) -> None:
    for (name, (across, up)), colour, mark in zip(lines.items(), colours, MARKS, strict=False):
        width = 2.4 if name in bold else 1.5
        axes.plot(across, up, label=name, color=colour, marker=mark, linewidth=width)


def _open_marks(line: Line2D) -> None:
    line.set(linestyle="--", markerfacecolor="none", markersize=9)


def logarithmic(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def legend_beside(axes: Axes) -> None:
    """At the right, in the order of the lines' ends, topmost first."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda n: -float(handles[n].get_ydata()[-1]))
    axes.legend(
        [handles[n] for n in order],
        [labels[n] for n in order],
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
    )


def round_time(seconds: float) -> str:
    text = duration(seconds * 1.0001)  # powers of ten are not exact
    number, unit = text.split()
    return f"{float(number.replace(',', '')):g} {unit}"


def round_count(count: float) -> str:
    return f"{count / 1e6:g} million" if count >= 1e6 else f"{count:,.0f}"


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
