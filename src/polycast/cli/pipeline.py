"""`polycast pipeline`: run the data pipeline over a store, and show its progress."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.command_line import add_command, add_family, whole
from polycast.cli.formatting import ago, console_for, count, duration, moment
from polycast.cli.operands import StorePlace, module_names, place_of, time_at
from polycast.cli.terminal import StopRequest, Terminal, is_terminal
from polycast.stores.doctor import open_readonly
from polycast.stores.liveness import has_ended
from polycast.stores.pipeline_status import Status, status_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.pipeline import Pipeline


def declare(commands: Any, what: str) -> None:
    """Declare the commands."""
    family = add_family(commands, "pipeline", what, "pipeline run events.db")
    what = "run the pipeline until Ctrl-C; with --json, one report per line"
    example = "pipeline run events.db --imports shop.events"
    command = add_command(family, "run", run_pipeline, what, example)
    command.take_file()
    command.take("--checkpoint FOLDER", "the folder from which Spark resumes; optional")
    what = "modules that define types and functions, separated by commas"
    command.take("--imports MODULES", what)
    command.take("--master URL", "where Spark runs (local[*])", default="local[*]")
    command.take("--batch N", "events per batch (50,000)", type=whole, default=50_000)
    command.take("--once", "route what is in the log now, and stop")
    command.take("--log FILE", "the file for Spark's own messages; - is the terminal")
    what = "show the progress of the pipeline over a store"
    command = add_command(family, "status", run_status, what, "pipeline status events.db")
    command.take_place()


def run_pipeline(given: Namespace, terminal: Terminal) -> int:
    """Run a pipeline until somebody stops it, or all that is there is routed."""
    path = StorePlace(given.store).file("a pipeline")
    with open_readonly(path, current=False):
        pass  # a wrong place is an error before an extra that is missing
    from polycast.pipeline import Pipeline

    pipeline = Pipeline(
        f"sqlite:///{path}",
        checkpoint=given.checkpoint,
        imports=module_names(given.imports),
        master=given.master,
        batch=given.batch,
        log=given.log,
    )
    return attend(pipeline, terminal, once=given.once)


def run_status(given: Namespace, terminal: Terminal) -> int:
    """Show how the pipeline over a store is getting on, as the store knows it."""
    place = place_of(given)
    with place.looking() as store:
        now = time_at(store, terminal)
        status = status_of(place.text, store=store)
    gone = _is_gone(status)
    data = msgspec.to_builtins(status) | {"alive": status.state == "running" and not gone}
    terminal.show(data, _lines(status, now, gone=gone))
    return 0


def _is_gone(status: Status) -> bool:
    return status.process is not None and has_ended(status.process, status.place)


def _lines(status: Status, now: float, *, gone: bool) -> Iterator[str]:
    yield f"pipeline      {_state(status, now, gone=gone)}"
    behind = f"{count(status.lag, 'event')} behind" if status.lag else "to the end"
    yield f"routed        to position {status.position - 1:,}, {behind}"
    version = f", since position {status.plan:,}" if status.plan else ""
    yield f"plan          {count(status.subscriptions, 'subscription')}{version}"
    if status.time is None:
        return
    batch = "" if status.batch is None else f", batch {status.batch:,}"
    rate = f", {status.rate:,.0f} events/s" if status.state == "running" and not gone else ""
    done = f"{count(status.events, 'event')}, {count(status.pairs, 'pair')}"
    yield f"since start   {done}{batch}{rate}"
    if status.failure is not None:
        yield f"failure       {status.failure}"


def _state(status: Status, now: float, *, gone: bool) -> str:
    if status.time is None:
        return f"{status.state}; `polycast pipeline run STORE` starts it"
    when = ago(status.time, now)
    if status.state != "running":
        return f"{status.state} {when} ({moment(status.time)}), in process {status.process}"
    if gone:
        return f"told {when} that it was running, and its process {status.process} is gone"
    return f"running in process {status.process}, as of {when}"


_STEP = 0.25  # seconds after which somebody who wants it to stop is heard


def attend(pipeline: Pipeline, terminal: Terminal, *, once: bool) -> int:
    """Show how a pipeline is getting on until it ends or is asked to."""
    clock = terminal.clock
    began = clock.monotonic()
    with StopRequest() as stop, progress_for(terminal) as progress:
        try:
            pipeline.start(once=once)
            # An exception while Spark is asked would leave its answer to the next question.
            stop.listen()  # anew: Spark has set handlers of its own
            shown = clock.monotonic() - progress.every
            while not stop.is_made and not pipeline.wait(_STEP):
                if clock.monotonic() - shown >= progress.every:
                    shown = clock.monotonic()
                    progress.show(pipeline.status())
        except KeyboardInterrupt:  # before it has begun
            pass
        finally:
            pipeline.stop()
    status = pipeline.status()
    terminal.report(status, summary(status, clock.monotonic() - began))
    return 0


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
        self.terminal.report(status, progress_line(status))
        self.terminal.flush()

    def __enter__(self) -> PipelineProgress:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to clear."""


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
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


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
