"""`polycast pipeline`: run the data pipeline over a store, and see how it is getting on."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.formatting import ago, count, moment
from polycast.cli.progress import progress_for, summary
from polycast.cli.targets import Place, place_of, time_at
from polycast.routing.status import status_of
from polycast.stores.doctor import open_readonly
from polycast.stores.processes import has_ended

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from types import TracebackType

    from polycast.cli.terminal import Terminal
    from polycast.pipeline import Pipeline
    from polycast.routing.status import Status

__all__ = ["attend", "run_pipeline", "show_status"]

_STEP = 0.25  # seconds after which somebody who wants it to stop is heard


# -- running ---------------------------------------------------------------------------------------


def run_pipeline(given: Namespace, terminal: Terminal) -> int:
    """Run a pipeline until somebody stops it, or all that is there is routed."""
    path = Place(given.store).file("a pipeline")
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


def attend(pipeline: Pipeline, terminal: Terminal, *, once: bool) -> int:
    """Show how a pipeline is getting on until it ends or is asked to."""
    clock = terminal.clock
    began = clock.monotonic()
    with Asked() as asked, progress_for(terminal) as progress:
        try:
            pipeline.start(once=once)
            asked.listen()
            shown = clock.monotonic() - progress.every
            while not asked.to_stop and not pipeline.wait(_STEP):
                if clock.monotonic() - shown >= progress.every:
                    shown = clock.monotonic()
                    progress.show(pipeline.status())
        except KeyboardInterrupt:  # before it has begun
            pass
        finally:
            pipeline.stop()
    status = pipeline.status()
    if terminal.as_json:
        terminal.line(msgspec.json.encode(status).decode())
    else:
        terminal.line(summary(status, clock.monotonic() - began))
    return 0


class Asked:
    """Whether somebody wants it to stop: Ctrl-C, or the signal that ends a service.

    While Spark is asked something, nothing may be raised: the next answer would be to the last
    question. So from `listen` on it is only noted, once.
    """

    signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.to_stop = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Asked:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.getsignal(each) for each in self.signals}
            for each in self.signals:
                signal.signal(each, signal.default_int_handler)
        return self

    def listen(self) -> None:
        """It runs; Spark has put functions of its own in the place of ours."""
        for each in self._before:
            signal.signal(each, self._note)

    def _note(self, number: int, frame: object) -> None:
        if self.to_stop:
            raise KeyboardInterrupt
        self.to_stop = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)


# -- looking ---------------------------------------------------------------------------------------


def show_status(given: Namespace, terminal: Terminal) -> int:
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
