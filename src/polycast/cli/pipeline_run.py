"""A pipeline that runs until somebody stops it, and what is shown meanwhile."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.progress import progress_for, summary

if TYPE_CHECKING:
    from types import TracebackType

    from polycast.cli.terminal import Terminal
    from polycast.pipeline import Pipeline

__all__ = ["StopRequest", "attend"]

_STEP = 0.25  # seconds after which somebody who wants it to stop is heard


def attend(pipeline: Pipeline, terminal: Terminal, *, once: bool) -> int:
    """Show how a pipeline is getting on until it ends or is asked to."""
    clock = terminal.clock
    began = clock.monotonic()
    with StopRequest() as stop, progress_for(terminal) as progress:
        try:
            pipeline.start(once=once)
            stop.listen()
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
    if terminal.as_json:
        terminal.line(msgspec.json.encode(status).decode())
    else:
        terminal.line(summary(status, clock.monotonic() - began))
    return 0


class StopRequest:
    """Whether somebody wants it to stop: Ctrl-C, or the signal that ends a service.

    While Spark is asked something, nothing may be raised: the next answer would be to the last
    question. So from `listen` on it is only noted, once.
    """

    signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.is_made = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in self.signals}
            for number in self.signals:
                signal.signal(number, signal.default_int_handler)
        return self

    def listen(self) -> None:
        """It runs; Spark has put functions of its own in the place of ours."""
        for number in self._before:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: object) -> None:
        if self.is_made:
            raise KeyboardInterrupt
        self.is_made = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
