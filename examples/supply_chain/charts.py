"""The pictures of the report, as SVG that stands in the page itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from supply_chain.participants import ROLES
from supply_chain.parties import PARTIES
from supply_chain.recount import Verdict
from supply_chain.results import Run, Times

PUBLISHED, ROUTED, DELIVERED, QUIET = "#3b6fb6", "#e08214", "#2f8f5b", "#8a93a0"
ROLE_COLOURS = {"SM": "#3b6fb6", "DC": "#e08214", "SP": "#2f8f5b", "HQ": "#9355a8"}
PARTY_COLOURS = {"hq": "#9355a8", "eu": "#3b6fb6", "us": "#c8553d", "uk": "#2f8f5b"}
STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#c5cbd3",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#eceff3",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "polycast",
}


def svg(draw: Callable[[Any], None], *, width: float, height: float) -> str:
    """What a function draws on a figure, as text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


# -- over time -------------------------------------------------------------------------------------


def throughput(figure: Any, run: Run, times: Times) -> None:
    """How much was published, routed and delivered, up to each moment and in each second."""
    began = run.phases["warm"]
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    total = len(times.sent) - 1
    sent = np.sort(times.sent[1:]) - began
    left.plot(sent, np.arange(1, total + 1) / 1_000, color=PUBLISHED, label="published", lw=2)
    if run.batches:
        at = np.array([moment for moment, _ in run.batches]) - began
        upto = np.array([position - 1 for _, position in run.batches]) / 1_000
        left.step(at, upto, where="post", color=ROUTED, label="routed by Spark", lw=1.6)
    came = np.sort(times.came) - began
    some = np.linspace(0, len(came) - 1, 2_000).astype(int)
    share = (some + 1) / len(came) * total / 1_000
    label = f"delivered (100 % = {len(came):,} callbacks)"
    left.plot(came[some], share, color=DELIVERED, label=label, lw=1.6)
    left.set(title="Events, up to each moment", xlabel="seconds", ylabel="thousand events")
    paper = {"frameon": True, "framealpha": 1.0, "edgecolor": "white"}  # lines may pass behind
    left.legend(loc="upper left", bbox_to_anchor=(0.0, 0.9), **paper)
    _mark_phases(left, run)
    seconds = np.arange(0, int(came.max()) + 2)
    right.stairs(np.histogram(came, seconds)[0] / 1_000, seconds, fill=True, color=DELIVERED)
    right.set(title="Deliveries in each second", xlabel="seconds", ylabel="thousand")
    _mark_phases(right, run)


def _mark_phases(axes: Any, run: Run) -> None:
    began, top = run.phases["warm"], axes.get_ylim()[1]
    axes.set_ylim(0, top)
    for phase in ("steady", "rush"):
        at = run.phases[phase] - began
        axes.axvline(at, color=QUIET, lw=0.8, ls=(0, (4, 3)))
        axes.text(at, top, f" {phase}", color=QUIET, va="top", fontsize=9)


def latency(figure: Any, run: Run, times: Times) -> None:
    """How long deliveries took: in the steady stream, and second by second."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    took = 1_000 * times.took[times.steady]
    if not len(took):
        took = np.zeros(1)
    top = max(float(np.percentile(took, 99.9)) * 1.3, 1.0)
    left.hist(took, bins=np.linspace(0, top, 70), color=DELIVERED, label="until delivered")
    left.set(title="The steady stream: how many deliveries took how long")
    left.set(xlabel="milliseconds from making the event to the callback", yticks=[])
    left.spines["left"].set_visible(False)
    left.set(xlim=(0, top), ylim=(0, left.get_ylim()[1] * 1.25))
    for percentile, height in ((50, 0.99), (90, 0.93), (99, 0.87)):
        at = float(np.percentile(took, percentile))
        left.axvline(at, color="#39424e", lw=1, ls=(0, (4, 3)))
        text = f" {percentile} % within {at:,.0f} ms"
        place = {"va": "top", "fontsize": 9}
        left.text(at, height, text, transform=left.get_xaxis_transform(), **place)
    _over_time(right, run, times)


def _over_time(axes: Any, run: Run, times: Times) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    sent = times.came - times.took - run.phases["warm"]
    order = np.argsort(sent)
    sent, took = sent[order], 1_000 * times.took[order]
    seconds = np.arange(0, int(sent.max()) + 2)
    parts = np.split(took, np.searchsorted(sent, seconds[1:]))
    nothing = (np.nan, np.nan)
    half, most = zip(
        *(np.percentile(p, (50, 99)) if len(p) else nothing for p in parts), strict=True
    )
    axes.plot(most, color=ROUTED, lw=1.6, marker=".", label="99 % within")
    axes.plot(half, color=DELIVERED, lw=1.6, marker=".", label="half within")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(title="By when the event was made", xlabel="seconds", ylabel="milliseconds")
    for phase in ("steady", "rush"):
        axes.axvline(run.phases[phase] - run.phases["warm"], color=QUIET, lw=0.8, ls=(0, (4, 3)))
    axes.legend(loc="upper center")


# -- who to whom -----------------------------------------------------------------------------------

GAP, LEAST = 0.012, 0.030  # between two types, and the height of one, as parts of the whole
INNER = (0.375, 0.625)  # where the types stand
Counts = dict[tuple[str, str], float]  # by role and type
Spans = dict[tuple[str, str], tuple[float, float]]  # from, to


def flow(figure: Any, verdict: Verdict) -> None:
    """Who publishes which type, and who receives it."""
    axes = figure.subplots()
    axes.set(xlim=(-0.19, 1.19), ylim=(1.01, -0.07))
    axes.axis("off")
    left: Counts = {pair: float(count) for pair, count in verdict.published_as.items()}
    right: Counts = {
        (role, kind): float(n) for (kind, role), n in verdict.delivered_as.items() if n
    }
    kinds = _sorted_kinds(left)
    nodes = _nodes(left, right, kinds)
    sides = ((left, 0.0, INNER[0], "events"), (right, 1.0, INNER[1], "deliveries"))
    for counts, edge, inner, unit in sides:
        outside, inside = _outside(counts, kinds), _inside(counts, nodes)
        for pair, span in outside.items():
            _ribbon(axes, edge, span, inner, inside[pair], ROLE_COLOURS[pair[0]])
        _label_roles(axes, outside, counts, edge, unit)
    for kind, (top, end) in nodes.items():
        axes.fill_betweenx([top, end], *INNER, color="#e3e7ec", lw=0)
        axes.text(0.5, (top + end) / 2, kind, ha="center", va="center", fontsize=9)
    heads = ((0.0, "left", "published by"), (0.5, "center", "type"), (1.0, "right", "received by"))
    for place, align, text in heads:
        axes.text(place, -0.03, text, ha=align, fontsize=10.5, weight="bold")


def _sorted_kinds(left: Counts) -> list[str]:
    """Types of one publisher stand together."""
    roles = list(ROLES)
    publisher = {kind: roles.index(role) for role, kind in left}
    size = {kind: -count for (_, kind), count in left.items()}
    return sorted(publisher, key=lambda kind: (publisher[kind], size[kind]))


def _nodes(left: Counts, right: Counts, kinds: list[str]) -> dict[str, tuple[float, float]]:
    """Where each type stands: as high as its share of both sides, and enough for its name."""
    shares = {
        kind: sum(
            sum(n for pair, n in side.items() if pair[1] == kind) / max(1, sum(side.values()))
            for side in (left, right)
        )
        for kind in kinds
    }
    room = 1 - GAP * (len(kinds) - 1) - LEAST * len(kinds)
    found, at = {}, 0.0
    for kind in kinds:
        height = LEAST + room * shares[kind] / sum(shares.values())
        found[kind] = (at, at + height)
        at += height + GAP
    return found


def _inside(counts: Counts, nodes: dict[str, tuple[float, float]]) -> Spans:
    """Which part of a type each role has."""
    found: Spans = {}
    for kind, (at, end) in nodes.items():
        total = sum(n for pair, n in counts.items() if pair[1] == kind)
        height = end - at
        for role in ROLES:
            if (role, kind) in counts:
                part = height * counts[role, kind] / total
                found[role, kind] = (at, at + part)
                at += part
    return found


def _outside(counts: Counts, kinds: list[str]) -> Spans:
    """Which part of a role each type has; heights are true to the numbers."""
    roles = [role for role in ROLES if any(pair[0] == role for pair in counts)]
    scale = (1 - 0.05 * (len(roles) - 1)) / max(1, sum(counts.values()))
    found: Spans = {}
    at = 0.0
    for role in roles:
        for kind in kinds:
            if (role, kind) in counts:
                found[role, kind] = (at, at + scale * counts[role, kind])
                at = found[role, kind][1]
        at += 0.05
    return found


def _ribbon(
    axes: Any,
    x: float,
    span: tuple[float, float],
    to_x: float,
    to: tuple[float, float],
    colour: str,
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    middle, (top, end), (to_top, to_end) = (x + to_x) / 2, span, to
    points = [
        *((x, top), (middle, top), (middle, to_top), (to_x, to_top)),
        *((to_x, to_end), (middle, to_end), (middle, end), (x, end), (x, top)),
    ]
    curve = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    axes.add_patch(PathPatch(Path(points, curve), facecolor=colour, alpha=0.45, lw=0.3, ec=colour))


def _label_roles(axes: Any, outside: Spans, counts: Counts, edge: float, unit: str) -> None:
    away = -1 if edge == 0.0 else 1
    for role, name in ROLES.items():
        spans = [span for pair, span in outside.items() if pair[0] == role]
        if not spans:
            continue
        top, end = spans[0][0], spans[-1][1]
        axes.fill_betweenx([top, end], edge, edge + away * 0.008, color=ROLE_COLOURS[role], lw=0)
        count = sum(n for pair, n in counts.items() if pair[0] == role)
        text = f"{name}\n{count:,.0f} {unit}"
        align = "right" if away < 0 else "left"
        axes.text(edge + away * 0.016, (top + end) / 2, text, ha=align, va="center", fontsize=9.5)


# -- from context to context -----------------------------------------------------------------------


def contexts(figure: Any, verdict: Verdict) -> None:
    """From which context to which; what does not stay in its colour's context is translated."""
    axes = figure.subplots()
    axes.set(xlim=(-0.30, 1.30), ylim=(1.02, -0.08))
    axes.axis("off")
    counts = {pair: float(n) for pair, n in verdict.between.items() if n}
    left, right = _stacked(counts, 0), _stacked(counts, 1)
    for (source, target), span in left.items():
        _ribbon(axes, 0.0, span, 1.0, right[source, target], PARTY_COLOURS[source])
    for party, name in PARTIES.items():
        published, translated = verdict.published_in[party], verdict.translated[party]
        total = sum(n for (_, target), n in counts.items() if target == party)
        told = f"{name}\n{published:,} events"
        came = f"{name}\n{total:,.0f} deliveries\n{translated:,} events translated"
        _label_party(axes, party, [span for pair, span in left.items() if pair[0] == party], told)
        there = [span for pair, span in right.items() if pair[1] == party]
        _label_party(axes, party, there, came, edge=1.0)
    for place, align, text in ((0.0, "left", "published in"), (1.0, "right", "received in")):
        axes.text(place, -0.04, text, ha=align, fontsize=10.5, weight="bold")


def _stacked(counts: Counts, side: int) -> Spans:
    """Where each pair of parties begins and ends at one side, in the order of the parties."""
    scale = (1 - 0.05 * (len(PARTIES) - 1)) / max(1, sum(counts.values()))
    found: Spans = {}
    at = 0.0
    for one in PARTIES:
        for other in PARTIES:
            pair = (one, other) if side == 0 else (other, one)
            found[pair] = (at, at + scale * counts.get(pair, 0.0))
            at = found[pair][1]
        at += 0.05
    return {pair: span for pair, span in found.items() if pair in counts}


def _label_party(
    axes: Any, party: str, spans: list[tuple[float, float]], text: str, edge: float = 0.0
) -> None:
    if not spans:
        return
    away, top, end = (-1 if edge == 0.0 else 1), spans[0][0], spans[-1][1]
    axes.fill_betweenx([top, end], edge, edge + away * 0.008, color=PARTY_COLOURS[party], lw=0)
    align = "right" if away < 0 else "left"
    axes.text(edge + away * 0.016, (top + end) / 2, text, ha=align, va="center", fontsize=9.5)
