"""Draws the picture of the README from what a run of the demo has left.

PYTHONPATH=examples .venv/bin/python -m supply_chain --events 10000 --subscriptions 1000
.venv/bin/python tools/demo_picture.py build/demo --events 10000 --subscriptions 1000

It recounts the run, and draws nothing of one that went wrong. Nothing is run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "examples"))

from supply_chain import charts  # noqa: E402
from supply_chain.parties import PARTIES  # noqa: E402
from supply_chain.programs import Job  # noqa: E402
from supply_chain.recount import Verdict, load_received, recount  # noqa: E402
from supply_chain.results import side_by_side  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "demo.png"
SIZE, RESOLUTION = (11, 7.6), 90  # in inches, and dots per inch
COLUMNS = (0.15, 0.43, 0.71)  # where the views of one event begin
LONGEST = 42  # characters of a value; the picture has no room for more
QUIET = "#8a93a0"
VIEWERS = ("hq", "us", "uk")  # whose views these are, in their order
Views = list[tuple[str, dict[str, str]]]


def draw(path: Path, verdict: Verdict, views: Views) -> None:
    """The way of the events between contexts, and one event as three parties see it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(charts.STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(5, 3))
        charts.contexts(above, verdict)
        side_by_side_table(below, views)
        figure.savefig(path, dpi=RESOLUTION, metadata={"Software": None})


def side_by_side_table(figure: Any, views: Views) -> None:
    """A row for each attribute, a column for each party; what is alike is pale."""
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(len(views[0][1]) + 1.5, -0.8))
    axes.axis("off")
    axes.text(0, -0.4, "The same shipment, as it came to three subscribers", weight="bold")
    for column, viewer, (subscription, _) in zip(COLUMNS, VIEWERS, views, strict=True):
        heading = f"{PARTIES[viewer]}: {subscription}"
        axes.text(column, 0.7, heading, fontsize=9.5, weight="bold")
    for row, attribute in enumerate(views[0][1], start=1):
        values = [view[attribute] for _, view in views]
        colour = QUIET if len({*values}) == 1 else "black"
        axes.text(0, row + 0.7, attribute, fontsize=9, color=QUIET)
        for column, value in zip(COLUMNS, values, strict=True):
            axes.text(column, row + 0.7, shortened(value), fontsize=9, color=colour)


def shortened(value: str) -> str:
    """A value as far as there is room for it, without what would be mathematics."""
    text = value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    return text.replace("$", r"\$")


def recounted(job: Job) -> tuple[Verdict, Views]:
    """What a run has left, judged once more."""
    received = load_received(job)
    with np.load(f"{job.folder}/published.npz") as saved:
        verdict = recount(job, saved["positions"], int(saved["turned"]), received)
    return verdict, side_by_side(received)


def main() -> None:
    """Recount, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder that the run has written to")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    size = (given.events, given.subscriptions, given.seed)
    verdict, views = recounted(Job("", str(given.folder), *size, "direct", 0.0))
    if not verdict.is_right:
        raise SystemExit(f"the run went wrong, or had other options: {verdict.wrong[0]}")
    if not views:
        raise SystemExit("no shipment came to all three; run more events")
    draw(given.out, verdict, views)


if __name__ == "__main__":
    main()
