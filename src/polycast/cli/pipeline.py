"""`polycast pipeline`: run the data pipeline over a store, and see how it is getting on."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_family, add_file, add_place, whole

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.terminal import Terminal
    from polycast.routing.status import Status

__all__ = ["declare"]


def declare(commands: Any) -> None:
    """Declare the commands."""
    what = "run the data pipeline over a store, or see how it is getting on"
    family = add_family(commands, "pipeline", what, "pipeline run events.db")
    what = "run the pipeline until Ctrl-C; with --json one report per line"
    example = "pipeline run events.db --imports shop.events"
    command = add_command(family, "run", run_pipeline, what, example)
    add_file(command)
    command.add_argument(
        "--checkpoint", metavar="FOLDER", help="a folder that Spark goes on from; none is needed"
    )
    command.add_argument(
        "--imports",
        metavar="MODULES",
        help="modules that define types and functions, separated by commas",
    )
    command.add_argument(
        "--master", metavar="URL", default="local[*]", help="where Spark runs (local[*]: here)"
    )
    command.add_argument(
        "--batch", metavar="N", type=whole, default=50_000, help="events in a batch (50000)"
    )
    command.add_argument("--once", action="store_true", help="route what is there now, and end")
    command.add_argument(
        "--log", metavar="FILE", help="where Spark's own words go; - is the terminal"
    )
    what = "show how the pipeline over a store is getting on"
    command = add_command(family, "status", run_status, what, "pipeline status events.db")
    add_place(command)


def run_pipeline(given: Namespace, terminal: Terminal) -> int:
    """Run a pipeline until somebody stops it, or all that is there is routed."""
    from polycast.cli.pipeline_run import attend
    from polycast.cli.targets import StorePlace
    from polycast.stores.doctor import open_readonly

    path = StorePlace(given.store).file("a pipeline")
    with open_readonly(
        path, current=False
    ):  # the wrong place is told before an extra that is missing
        pass
    from polycast.pipeline import Pipeline

    imports = [name for name in (given.imports or "").split(",") if name]
    here = os.getcwd()
    if imports and here not in sys.path:  # as `python -m` would find them
        sys.path.insert(0, here)
    pipeline = Pipeline(
        f"sqlite:///{path}",
        checkpoint=given.checkpoint,
        imports=imports,
        master=given.master,
        batch=given.batch,
        log=given.log,
    )
    return attend(pipeline, terminal, once=given.once)


def run_status(given: Namespace, terminal: Terminal) -> int:
    """Show how the pipeline over a store is getting on, as the store knows it."""
    import msgspec

    from polycast.cli.targets import place_of, time_at
    from polycast.routing.status import status_of

    place = place_of(given)
    with place.looking() as store:
        now = time_at(store, terminal)
        status = status_of(place.text, store=store)
    gone = _is_gone(status)
    data = msgspec.to_builtins(status) | {"alive": status.state == "running" and not gone}
    terminal.show(data, _lines(status, now, gone=gone))
    return 0


def _is_gone(status: Status) -> bool:
    from polycast.stores.processes import has_ended

    return status.process is not None and has_ended(status.process, status.place)


def _lines(status: Status, now: float, *, gone: bool) -> Iterator[str]:
    from polycast.cli.formatting import count

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
    from polycast.cli.formatting import ago, moment

    if status.time is None:
        return f"{status.state}; `polycast pipeline run STORE` starts it"
    when = ago(status.time, now)
    if status.state != "running":
        return f"{status.state} {when} ({moment(status.time)}), in process {status.process}"
    if gone:
        return f"told {when} that it was running, and its process {status.process} is gone"
    return f"running in process {status.process}, as of {when}"
