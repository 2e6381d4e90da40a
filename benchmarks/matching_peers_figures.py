"""The tables and the picture of matching_peers.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matching_contenders import NAMES, PEERS, POLYCAST, POLYCAST_JSON
from matching_workloads import GROWING, SMALL
from measure import duration, figures
from tables import Table

if TYPE_CHECKING:
    from matching_peers import Found

OTHERS = tuple(name for name in NAMES if name != POLYCAST_JSON)
LOOKS = {  # colour and mark
    POLYCAST: ("#56B4E9", "s"),
    POLYCAST_JSON: ("#0072B2", "o"),
    "event-ruler": ("#D55E00", "^"),
}

Cell = Callable[["Found", str], str]


def tables(found: Sequence[Found], missing: dict[str, str]) -> list[Table]:
    """Who took part, speeds by both clocks, ratios, and what adding rules takes."""
    many = [each for each in found if each.workload in GROWING]
    return [
        _contenders(found, missing),
        _table("Matching, with peers: events per second of CPU", found, NAMES, "{}", _speed),
        _table("The same by the clock on the wall", found, NAMES, "{}, wall", _on_the_wall),
        _table(
            "Times slower than polycast with JSON, by CPU time",
            found,
            OTHERS,
            "{} over polycast, JSON",
            _ratio,
        ),
        _table("Adding all rules, on the wall", many, NAMES, "{}: adding", _adding),
    ]


def _contenders(found: Sequence[Found], missing: dict[str, str]) -> Table:
    kernels = ", ".join(sorted({each.kernel for each in found}))
    rows = [(POLYCAST, f"kernel: {kernels}", "measured"), (POLYCAST_JSON, "the same", "measured")]
    for peer in PEERS:
        why = missing.get(peer.name)
        rows.append((peer.name, peer.version, _state(why)))
    return Table("Matching, with peers", ("contender", "version", "in this run"), rows)


def _state(why: str | None) -> str:
    """In a cell of a page, a bar would end it."""
    return f"left out: {why.replace('|', '/')}" if why else "measured"


def _table(
    title: str, found: Sequence[Found], names: Sequence[str], heading: str, cell: Cell
) -> Table:
    columns = ("workload", "rules", "matches per event", *(heading.format(name) for name in names))
    rows = [
        (
            each.workload,
            f"{each.rules:,}",
            figures(each.matches) if each.matches >= 0.005 else f"{each.matches:.4f}",
            *(cell(each, name) for name in names),
        )
        for each in found
    ]
    return Table(title, columns, rows)


def _absent(each: Found, name: str) -> str:
    return each.missing.get(name, "-")


def _speed(each: Found, name: str) -> str:
    return figures(1 / each.cpu[name].median) if name in each.cpu else _absent(each, name)


def _on_the_wall(each: Found, name: str) -> str:
    return figures(1 / each.wall[name].median) if name in each.wall else _absent(each, name)


def _ratio(each: Found, name: str) -> str:
    if name not in each.cpu or POLYCAST_JSON not in each.cpu:
        return _absent(each, name)
    return str(each.cpu[name].over(each.cpu[POLYCAST_JSON]))


def _adding(each: Found, name: str) -> str:
    return duration(each.building[name]) if name in each.building else _absent(each, name)


# -- the picture -----------------------------------------------------------------------------------


def draw(found: Sequence[Found], folder: Path) -> None:
    """A panel for few rules, and one for each workload with many."""
    import plots  # here, because it loads other peers

    with plots.mpl.rc_context(plots.STYLE):
        figure = plots.plt.figure(figsize=(12, 7.6))
        grid = figure.add_gridspec(2, 3, width_ratios=(1.15, 1, 1))
        few = figure.add_subplot(grid[:, 0])
        _draw_few(plots, few, [each for each in found if each.workload in SMALL])
        first = None
        for number, name in enumerate(GROWING):
            axes = figure.add_subplot(grid[number // 2, 1 + number % 2], sharey=first)
            first = first or axes
            _draw_many(plots, axes, [each for each in found if each.workload == name])
            axes.set_title(name)
            axes.set_xlabel("rules" if number >= 2 else "")
            axes.set_ylabel("events per second" if number % 2 == 0 else "")
        handles, labels = few.get_legend_handles_labels()
        figure.tight_layout()
        figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5)
        plots.save(figure, folder / "matching-peers.png")


def _draw_few(plots: Any, axes: Any, found: Sequence[Found]) -> None:
    """Events per second across, a line for each workload, the first on top."""
    places = range(len(found))
    for name, (colour, mark) in LOOKS.items():
        across = [1 / each.cpu[name].median if name in each.cpu else None for each in found]
        if name in (POLYCAST, POLYCAST_JSON) or any(across):
            axes.scatter(
                [value for value in across if value],
                [place for place, value in zip(places, across, strict=True) if value],
                label=name,
                color=colour,
                marker=mark,
                s=42,
                zorder=3,
            )
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.xaxis.set_major_locator(plots.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(plots.FuncFormatter(lambda value, _: _thousands(value)))
    axes.set_yticks(places, [each.workload.removeprefix("city lots, ") for each in found])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_title("city lots, 4 to 28 rules")
    axes.set_xlabel("events per second")


def _thousands(count: float) -> str:
    return f"{count / 1e6:g} M" if count >= 1e6 else f"{count / 1e3:g} k"


def _draw_many(plots: Any, axes: Any, found: Sequence[Found]) -> None:
    for name, (colour, mark) in LOOKS.items():
        across = [each.rules for each in found if name in each.cpu]
        up = [1 / each.cpu[name].median for each in found if name in each.cpu]
        axes.plot(across, up, color=colour, marker=mark)
    plots.logarithmic(axes, sorted({each.rules for each in found}))
    axes.yaxis.set_major_formatter(plots.FuncFormatter(lambda value, _: plots.round_count(value)))
