"""How a pipeline is getting on, shown while it runs."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.formatting import count, duration
from polycast.cli.rich_text import console_for
from polycast.cli.terminal import is_terminal

if TYPE_CHECKING:
    from types import TracebackType

    from polycast.cli.terminal import Terminal
    from polycast.routing.status import Status

__all__ = ["PipelineProgress", "progress_for", "progress_line", "summary"]

EVERY = 5.0  # seconds between two lines


def progress_for(terminal: Terminal) -> PipelineProgress:
    """What suits where the output goes."""
    if is_terminal(sys.stdout) and not terminal.as_json:
        with suppress(ImportError):  # lines will do
            return LiveProgress(terminal)
    return PipelineProgress(terminal)


class PipelineProgress:
    """A line now and then, if something has changed: text, or JSON."""

    every = EVERY

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._shown: tuple[object, ...] = ()

    def show(self, status: Status) -> None:
        """Show how it is."""
        about = (status.state, status.position, status.lag, status.plan, status.subscriptions)
        if about == self._shown:
            return
        self._shown = about
        if self.terminal.as_json:
            self.terminal.line(msgspec.json.encode(status).decode())
        else:
            self.terminal.line(progress_line(status))
        self.terminal.flush()

    def __enter__(self) -> PipelineProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class LiveProgress(PipelineProgress):
    """A table that is drawn anew, and gone when it is over."""

    every = 0.5

    def __init__(self, terminal: Terminal) -> None:
        from rich.live import Live

        super().__init__(terminal)
        self._live = Live(console=console_for(sys.stdout), auto_refresh=False, transient=True)

    def show(self, status: Status) -> None:
        """Draw it."""
        self._live.update(_drawn(status), refresh=True)

    def __enter__(self) -> PipelineProgress:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)


def _drawn(status: Status) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    newest = _newest(status)
    drawn = Table.grid(padding=(0, 2))
    drawn.add_column(style="dim")
    drawn.add_column()
    for name, value in (
        ("pipeline", f"{status.state}, batch {_batch(status)}"),
        ("position", f"{status.position - 1:,} of {newest:,}, {_behind(status)}"),
        ("", ProgressBar(total=max(newest, 1), completed=status.position - 1, width=40)),
        ("speed", f"{status.rate:,.0f} events/s"),
        ("so far", f"{count(status.events, 'event')}, {count(status.pairs, 'pair')}"),
        ("plan", f"{count(status.subscriptions, 'subscription')}, version {status.plan:,}"),
    ):
        drawn.add_row(name, value)
    return drawn


def progress_line(status: Status) -> str:
    """The same on one line."""
    return (
        f"{status.state}: batch {_batch(status)}, position {status.position - 1:,} of "
        f"{_newest(status):,}, {_behind(status)}, {status.rate:,.0f} events/s, "
        f"{count(status.subscriptions, 'subscription')}, plan {status.plan:,}, "
        f"{count(status.pairs, 'pair')}"
    )


def summary(status: Status, took: float) -> str:
    """What it has done, on one line."""
    return (
        f"{status.state} after {duration(took)}: {count(status.events, 'event')} routed for "
        f"{count(status.subscriptions, 'subscription')}, {count(status.pairs, 'pair')}; "
        f"position {status.position - 1:,} of {_newest(status):,}, {_behind(status)}"
    )


def _newest(status: Status) -> int:
    return status.position + status.lag - 1


def _behind(status: Status) -> str:
    return f"{count(status.lag, 'event')} behind" if status.lag else "at the end"


def _batch(status: Status) -> str:
    return "-" if status.batch is None else f"{status.batch:,}"
