"""READY's figures 3 and 4: announcements plus notifications per second against the ideal line.

For each number of consumers the offered rate goes up until the line breaks. Consumers are once such
that only count, so that the broker is what breaks, and once buses, all of them on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker_setting import ALL, GOAL, MOST, ONE, READY_HIGHEST, Plan, Report
from broker_systems import FASTSTREAM, FILE, MEMORY, NATS, SHARED, Point, System, running
from tables import Table

ON_THE_LINE = 0.98  # of the ideal
HOPELESS = 0.85  # below it, higher rates are not tried
COUNTING, CLIENTS, SHARING = "counting", "clients", "on 2 clients"
TITLES = {COUNTING: "consumers that count", CLIENTS: "consumers that are buses, on one core"}
COMPARED: tuple[tuple[System, str], ...] = (
    (MEMORY, COUNTING),
    (NATS, COUNTING),
    (SHARED, SHARING),
    (MEMORY, CLIENTS),
    (NATS, CLIENTS),
    (FASTSTREAM, CLIENTS),
)

Curves = dict[int, list[Point]]
"""By the number of consumers."""
Results = dict[tuple[str, str], dict[str, Curves]]
"""By system and consumers, then by kind."""


def measure(plan: Plan, folder: Path, report: Report) -> Results:
    """All curves of a broker over a file; those of the others with most consumers only."""
    found: Results = {}
    for who in (COUNTING, CLIENTS):
        found[FILE.name, who] = _curves(FILE, who, plan.consumers, plan, folder, report)
    for system, who in () if plan.is_quick else COMPARED:
        if system.missing:
            print(f"left out: {system.name}; not installed: {system.missing}")
        else:
            found[system.name, who] = _curves(system, who, (MOST,), plan, folder, report)
    return found


def _curves(
    system: System, who: str, counts: Sequence[int], plan: Plan, folder: Path, report: Report
) -> dict[str, Curves]:
    found: dict[str, Curves] = {}
    for kind in plan.kinds:
        found[kind] = {}
        for consumers in counts:
            report(f"{system.name}, {consumers} consumers, {who}, {kind}")
            clients = 0 if who == COUNTING else None
            with running(system, kind, consumers, folder, clients=clients) as experiment:
                found[kind][consumers] = _curve(experiment, plan)
    return found


def _curve(experiment: Any, plan: Plan) -> list[Point]:
    experiment.point(1_000, plan.warming)  # whatever has to start begins with it
    points: list[Point] = []
    for rate in plan.rates:
        tries = []
        for _ in range(plan.tries):
            tries.append(experiment.point(rate, plan.lasting))
            if tries[-1].reached >= ON_THE_LINE:
                break
        points.append(max(tries, key=lambda each: each.reached))
        if points[-1].reached < HOPELESS:
            break
    return points


def breaking(points: Sequence[Point]) -> Point | None:
    """The highest rate up to which the line is kept; None if it never is."""
    kept = None
    for point in points:
        if point.reached < ON_THE_LINE:
            break
        kept = point
    return kept


# -- showing ---------------------------------------------------------------------------------------


def tables(found: Results) -> list[Table]:
    """Where the line breaks, against others, and the goal."""
    return [_breaks(found), _compared(found), _goals(found)]


def _breaks(found: Results) -> Table:
    kinds = [*found[FILE.name, COUNTING]]
    columns = ("consumers", *(f"{kind}: {who}" for kind in kinds for who in (COUNTING, CLIENTS)))
    counts = found[FILE.name, COUNTING][kinds[0]]
    rows = [
        (
            f"{consumers}",
            *(
                _kept(found[FILE.name, who][kind][consumers])
                for kind in kinds
                for who in (COUNTING, CLIENTS)
            ),
        )
        for consumers in counts
    ]
    note = "Announcements a second; in brackets, what the broker takes of its core then."
    return Table("The highest rate with at least 98 % of the ideal", columns, rows, note=note)


def _kept(points: Sequence[Point]) -> str:
    point = breaking(points)
    if point is None:
        return f"below {points[0].offered:,}"
    more = "" if point is not points[-1] else "at least "
    return f"{more}{point.offered:,} ({point.broker:.0%})"


def _compared(found: Results) -> Table:
    kinds = [*found[FILE.name, COUNTING]]
    columns = (f"{MOST} consumers", "they are", *kinds)
    rows = [
        (system, who, *(_kept(curves[kind][MOST]) for kind in kinds))
        for (system, who), curves in found.items()
        if MOST in curves[kinds[0]]
    ]
    return Table("The same with most consumers, and with others", columns, rows)


def _goals(found: Results) -> Table:
    columns = (
        f"{GOAL:,} announcements/s, {MOST} consumers",
        "ideal per second",
        "measured",
        "of the ideal",
        "of the broker's core",
        "verdict",
    )
    rows = []
    for kind in found[FILE.name, COUNTING]:
        points = found[FILE.name, COUNTING][kind].get(MOST, [])
        for point in points:
            if point.offered == GOAL:
                reached = point.announced + point.notified
                verdict = "met" if point.reached >= ON_THE_LINE else "not met"
                share = (f"{point.reached:.1%}", f"{point.broker:.0%}")
                rows.append((kind, f"{point.ideal:,.0f}", f"{reached:,.0f}", *share, verdict))
    note = f"READY's highest rate is {READY_HIGHEST} a second; it is below the ideal there."
    return Table("The goal of the broker", columns, rows, note=note)


def plain(found: Results) -> list[dict[str, object]]:
    """For the file of results."""
    return [
        {
            "system": system,
            "consumers": who,
            "kind": kind,
            "count": count,
            "points": [
                {
                    "offered": point.offered,
                    "announced": round(point.announced, 1),
                    "notified": round(point.notified, 1),
                    "reached": round(point.reached, 4),
                    "broker": round(point.broker, 3),
                }
                for point in points
            ],
        }
        for (system, who), curves in found.items()
        for kind, by_count in curves.items()
        for count, points in by_count.items()
    ]


def draw(found: Results, folder: Path) -> None:
    """One picture for each figure, a panel for each kind of consumers."""
    _draw(found, ONE, "READY figure 3: each announcement is wanted by one consumer", folder, 3)
    _draw(found, ALL, "READY figure 4: each announcement is wanted by all consumers", folder, 4)


def _draw(found: Results, kind: str, title: str, folder: Path, number: int) -> None:
    import plots  # here, so that the processes that measure do not load it

    heights = {"height_ratios": (2.4, 1.0)}
    with plots.mpl.rc_context(plots.STYLE):
        figure, grid = plots.plt.subplots(
            2, 2, figsize=(11.5, 7.0), sharex=True, sharey="row", gridspec_kw=heights
        )
        for column, who in enumerate((COUNTING, CLIENTS)):
            _draw_curves(grid[0][column], grid[1][column], found[FILE.name, who][kind])
            grid[0][column].set_title(TITLES[who])
        grid[0][0].plot([], [], color="#999999", linewidth=1.0, linestyle=":", label="ideal")
        grid[0][0].annotate(
            "READY's highest rate",
            (READY_HIGHEST, 1.0),
            (4, -4),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            color="#777777",
        )
        plots.label_outside(figure, grid, "announcements per second, offered", "")
        grid[0][0].set_ylabel("announcements + notifications, per second")
        grid[1][0].set_ylabel("of the ideal")
        figure.suptitle(title, x=0.01, y=1.02, ha="left")
        plots.save(figure, folder / f"ready-figure-{number}.png")


def _draw_curves(above: Any, below: Any, curves: Curves) -> None:
    """Rates against the ideal, and which part of it they are; marks that coincide are rings."""
    import plots

    looks = zip(curves.items(), plots.COLOURS, plots.MARKS, range(10, 0, -1), strict=False)
    for (count, points), colour, mark, size in looks:
        across = [point.offered for point in points]
        look = {"color": colour, "marker": mark, "markersize": size, "linewidth": 1.4}
        above.plot(across, [each.ideal for each in points], color="#999999", lw=1.0, ls=":")
        up = [each.announced + each.notified for each in points]
        above.plot(across, up, label=f"{count} consumer{'s' if count > 1 else ''}", **look)
        below.plot(across, [each.reached for each in points], **look)
    plots.logarithmic(above, [100, 1_000, 10_000])
    count = plots.FuncFormatter(lambda value, _: plots.round_count(value))
    above.yaxis.set_major_formatter(count)
    below.axhline(1.0, color="#999999", linewidth=1.0, linestyle=":")
    below.set_ylim(0.0, 1.15)
    below.yaxis.set_major_formatter(plots.FuncFormatter(lambda value, _: f"{value:.0%}"))
    for axes in (above, below):
        axes.axvline(READY_HIGHEST, color="#bbbbbb", linewidth=1.0, linestyle="--")
