"""What a person sees while it runs: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

SECONDS_BETWEEN_LINES = 5.0
RECENT = 2.0  # seconds over which a rate is told


@dataclass(slots=True)
class Progressing:
    """How far everything is."""

    subscribed: int = 0
    published: int = 0
    routed: int = 0
    matched: int = 0
    delivered: int = 0


class Rate:
    """How many a second, of late."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def of(self, count: int) -> float:
        now = time.monotonic()
        self._seen = [each for each in self._seen if now - each[0] < RECENT] + [(now, count)]
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (after - before) / (ended - began) if ended - began > 0.3 else 0.0


class View:
    """Says what happens: steps stay, the rest moves."""

    def __init__(self, *, events: int, subscriptions: int, routed: bool) -> None:
        self.console = Console(highlight=False)
        self.events, self.subscriptions = events, subscriptions
        self._live = self.console.is_terminal
        self._began = self._told = time.monotonic()
        self._step, self._note = "", ""
        self._rates = {name: Rate() for name in ("published", "routed", "delivered")}
        self._progress = Progress(
            TextColumn("  {task.description:<11}"),
            BarColumn(bar_width=36),
            TextColumn("{task.fields[count]:<34}"),
            TextColumn("[cyan]{task.fields[rate]:>12}"),
        )
        names = ["subscribed", "published", "routed", "delivered"]
        self._tasks = {
            name: self._progress.add_task(name, total=None, count="", rate="")
            for name in names
            if routed or name != "routed"
        }
        self._screen = Live(console=self.console, refresh_per_second=8, transient=True)

    def __enter__(self) -> View:
        if self._live:
            self._screen.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._screen.stop()

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def step(self, text: str) -> None:
        """What happens now."""
        self._step, self._note = text, ""
        self.console.print(f"[bold]{self.seconds():4.0f} s[/]  {text}", soft_wrap=True)

    def note(self, text: str) -> None:
        """Something that just happened."""
        self._note = text
        if not self._live:
            self.console.print(f"        {text}", markup=False, soft_wrap=True)

    def show(self, at: Progressing) -> None:
        rates = {name: rate.of(getattr(at, name)) for name, rate in self._rates.items()}
        if self._live:
            self._update(at, rates)
        elif time.monotonic() - self._told > SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            line = f"        {_line(at, rates)}"
            self.console.print(line, markup=False, soft_wrap=True)

    def _update(self, at: Progressing, rates: dict[str, float]) -> None:
        totals = {
            "subscribed": (self.subscriptions, ""),
            "published": (self.events, "events"),
            "routed": (self.events, "events"),
            "delivered": (at.matched or None, "matched so far" if at.matched else "deliveries"),
        }
        for name, task in self._tasks.items():
            done, (total, unit) = getattr(at, name), totals[name]
            count = f"{done:>9,} of {total:,} {unit}" if total else f"{done:>9,} {unit}"
            rate = f"{rates[name]:,.0f}/s" if rates.get(name) else ""
            self._progress.update(
                task, completed=done, total=total or max(done, 1), count=count, rate=rate
            )
        self._screen.update(Group(self._progress, Text(f"  {self._note}", style="dim")))


def _line(at: Progressing, rates: dict[str, float]) -> str:
    parts = [
        f"{name} {getattr(at, name):,}" + (f" ({rate:,.0f}/s)" if rate else "")
        for name, rate in rates.items()
        if getattr(at, name)
    ]
    return ", ".join(parts) or f"{at.subscribed:,} subscriptions"


def table_of(rows: list[tuple[str, str, str]]) -> Any:
    """Numbers with what they mean."""
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right", style="cyan")
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def pictures_of(pictures: list[tuple[str, dict[str, str]]]) -> Any:
    """The same event, side by side."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), header_style="bold cyan")
    table.add_column("")
    for name, _ in pictures:
        table.add_column(name, overflow="fold")
    for attribute in pictures[0][1]:
        seen = [picture[attribute] for _, picture in pictures]
        table.add_row(f"[bold]{attribute}[/]", *seen, style="" if len(set(seen)) > 1 else "dim")
    return table
