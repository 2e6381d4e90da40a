"""The report: one page that needs nothing but itself."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from pathlib import Path
from string import Template

import polycast as pc
from supply_chain import charts, events
from supply_chain.events import Event
from supply_chain.participants import World
from supply_chain.parties import PARTIES, type_of
from supply_chain.recount import Verdict
from supply_chain.results import Run, Times
from supply_chain.wishes import Wish, wishes

EXAMPLES = (
    "SM-1/prices",
    "SM-2/bargains",
    "SM-2/far away",
    "SM-3/heavy",
    "SM-3/neighbours",
    "DC-2/cheap offers",
    "DC-1/large",
    "SP-4/goods",
    "SP-5/new and flat",
    "SP-4/everything of ours",
    "HQ-2/statistics",
    "HQ-2/purchases",
    "auditor/everything",
    "auditor/risky",
)
MEMBER = re.compile(r"member\('[\w.]*?(\w+)', '(\w+)'\)")  # of an enum
PAGE = Template(Path(__file__).with_name("report.template.html").read_text(encoding="utf-8"))


def write_report(
    path: Path, run: Run, verdict: Verdict, times: Times, rows: list[tuple[str, str, str]]
) -> None:
    """Write it."""
    job = run.job
    known = wishes(World(job.seed, job.subscriptions), job.seed, job.subscriptions)
    path.write_text(
        PAGE.substitute(
            events=f"{job.events:,}",
            subscriptions=f"{verdict.subscriptions:,}",
            delivered=f"{verdict.delivered:,}",
            each=f"{verdict.delivered / max(1, job.events):.1f}",
            verdict=_verdict(verdict),
            summary=_summary(rows),
            same=_same(run),
            contexts=charts.svg(lambda f: charts.contexts(f, verdict), width=11, height=5.2),
            flow=charts.svg(lambda f: charts.flow(f, verdict), width=11, height=6.6),
            throughput=charts.svg(lambda f: charts.throughput(f, run, times), width=11, height=3.8),
            latency=charts.svg(lambda f: charts.latency(f, run, times), width=11, height=3.8),
            types=_types(verdict, known),
            wishes=_wishes(verdict, known),
            changes=_changes(run),
            engine=_engine(run),
        ),
        encoding="utf-8",
    )


def _verdict(verdict: Verdict) -> str:
    if verdict.is_right:
        return (
            '<p class="right">Every subscriber received exactly what it asked for: '
            "nothing lost, nothing twice, all in order, and all in its own types.</p>"
        )
    wrong = "".join(f"<li>{escape(each)}</li>" for each in verdict.wrong[:20])
    return f'<div class="wrong"><p>Something is wrong:</p><ul>{wrong}</ul></div>'


def _summary(rows: list[tuple[str, str, str]]) -> str:
    cells = (
        f"<tr><th>{escape(what)}</th><td class=number>{escape(number)}</td>"
        f"<td>{escape(meaning)}</td></tr>"
        for what, number, meaning in rows
    )
    return f"<table class=summary>{''.join(cells)}</table>"


def _engine(run: Run) -> str:
    if run.job.engine == "spark":
        return (
            f"Spark routed the log in {len(run.batches)} micro-batches, and wrote for each event "
            "the list of those who take it; the event itself is stored once."
        )
    return "In this run the bus matched the events itself, without Spark."


def _same(run: Run) -> str:
    """One event, as some have received it."""
    if not run.pictures:
        return "<p>In this run there was none that all three have asked for.</p>"
    names = "".join(f"<th>{escape(name)}</th>" for name, _ in run.pictures)
    rows = [f"<tr><th></th>{names}</tr>"]
    for attribute in run.pictures[0][1]:
        seen = [picture[attribute] for _, picture in run.pictures]
        alike = "" if len(set(seen)) > 1 else " class=alike"
        cells = "".join(f"<td><code>{escape(each)}</code></td>" for each in seen)
        rows.append(f"<tr{alike}><th>{escape(attribute)}</th>{cells}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _types(verdict: Verdict, known: list[Wish]) -> str:
    """The tree of classes: how many events are of each, who subscribed, what others call it."""
    published: Counter[str] = Counter()
    for (_, kind), count in verdict.published_as.items():
        for cls in getattr(events, kind).__mro__:
            published[cls.__name__] += count
    wanted = Counter(wish.kind for wish in known)
    most = max(published.values(), default=1)
    rows = []
    for cls, depth in _tree(Event, 0):
        name = cls.__name__
        width = 100 * published[name] / most
        local = "".join(f"<td>{_local(party, cls)}</td>" for party in PARTIES if party != "hq")
        rows.append(
            f'<tr><td class=type style="padding-left:{0.6 + 1.6 * depth:.1f}em">'
            f"{'└ ' if depth else ''}<code>{name}</code></td>"
            f"{local}<td class=number>{published[name]:,}</td>"
            f'<td class=bar><div style="width:{width:.1f}%"></div></td>'
            f"<td class=number>{wanted[name]:,}</td></tr>"
        )
    head = (
        "<tr><th>reference type</th><th>in the EU</th><th>in the US</th><th>in the UK</th>"
        "<th class=number>events</th><th>with its subclasses</th>"
        "<th class=number>wanted by</th></tr>"
    )
    return f"<table class=types>{head}{''.join(rows)}</table>"


def _local(party: str, cls: type[Event]) -> str:
    """What a party calls a reference type, if it has a type of its own for it."""
    own = type_of(party, cls.__name__)
    return "" if own is cls else f"<code>{party.upper()}…</code>"


def _tree(cls: type[Event], depth: int) -> list[tuple[type[Event], int]]:
    found = [(cls, depth)]
    for subclass in _subclasses(cls):
        found += _tree(subclass, depth + 1)
    return found


def _subclasses(cls: type[Event]) -> list[type[Event]]:
    """Those of the module; a class with slots leaves its first form behind."""
    here = [value for value in vars(events).values() if isinstance(value, type)]
    return [each for each in here if each.__base__ is cls]


def _wishes(verdict: Verdict, known: list[Wish]) -> str:
    rows = [
        f"<tr><td>{escape(wish.name)}</td><td><code>{wish.type.__name__}</code></td>"
        f"<td><code>{escape(_in_words(wish))}</code>"
        f"<div class=words>{escape(wish.words)}</div></td>"
        f"<td class=number>{verdict.received_by.get(wish.name, 0):,}</td></tr>"
        for wish in known
        if wish.name in EXAMPLES
    ]
    head = (
        "<tr><th>who, what for</th><th>subscribes to</th><th>where</th>"
        "<th class=number>received</th></tr>"
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _in_words(wish: Wish) -> str:
    """The filter as polycast sees it: with the values that its names stand for."""
    if wish.where is None:
        return "(no filter)"
    lifted = pc.lift(wish.type, wish.where)
    if lifted.opaque_parts():
        return f"{wish.where.__name__}(event)"
    return MEMBER.sub(r"\1.\2", str(lifted))


def _changes(run: Run) -> str:
    if not run.changes:
        return "<p>None in this run.</p>"
    began = run.phases["warm"]
    rows = "".join(
        f"<tr><td class=number>{at - began:.0f} s</td><td>{escape(text)}</td></tr>"
        for at, text in run.changes
    )
    return f"<table>{rows}</table>"
