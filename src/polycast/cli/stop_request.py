"""How somebody stops a command that runs: Ctrl-C, or the signal that ends a service."""

from __future__ import annotations

import queue
import signal
import threading
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody wants it to stop; until `listen`, a signal interrupts at once.

    After it the first signal is only noted, and the second one interrupts.
    """

    def __init__(self) -> None:
        self.is_made = False
        self._made: queue.SimpleQueue[None] = queue.SimpleQueue()  # which a handler may fill
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            interrupt = signal.default_int_handler
            self._before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
        return self

    def listen(self) -> None:
        """Note the next signal instead of being interrupted, whoever has set handlers since."""
        for number in self._before:
            signal.signal(number, self._note)

    def wait(self, seconds: float) -> bool:
        """Whether it is made, after this time at most."""
        try:
            self._made.get(timeout=seconds)
        except queue.Empty:
            pass
        return self.is_made

    def _note(self, number: int, frame: object) -> None:
        if self.is_made:
            raise KeyboardInterrupt
        self.is_made = True
        self._made.put(None)

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
