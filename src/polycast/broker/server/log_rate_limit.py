"""The log of a broker. Strangers have much of it written, so each line comes so often at most."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LogRateFilter", "server_log"]

LINES, PER = 20, 60.0  # lines from one place in the program, and within how many seconds


@dataclass(slots=True)
class _Window:
    began: float
    lines: int = 0


class LogRateFilter(logging.Filter):
    """Leaves out what one place in a program logs too often, and says how much that was."""

    def __init__(
        self,
        *,
        lines: int = LINES,
        per: float = PER,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._lines, self._per, self._monotonic = lines, per, monotonic
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, int], _Window] = {}  # by what stands in the program
        self.left_out = 0  # so far

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is logged; it may tell of those that are not."""
        note = self._note((record.pathname, record.lineno))
        if note is None:
            return False
        if note:
            record.msg, record.args = f"{_words(record)} ({note})", None
        return True

    def begin_anew(self) -> None:
        """Forget what was logged before."""
        with self._lock:
            self._windows.clear()

    def _note(self, place: tuple[str, int]) -> str | None:
        """What to add to a line; None if it is left out."""
        now, before = self._monotonic(), 0
        with self._lock:
            window = self._windows.get(place)
            if window is None or now - window.began >= self._per:
                before = 0 if window is None else max(0, window.lines - self._lines)
                window = self._windows[place] = _Window(now)
            window.lines += 1
            if window.lines > self._lines:
                self.left_out += 1
                return None
        if before:
            return f"{before:,} more like this were left out"
        if window.lines == self._lines:
            return f"more like this are left out for {window.began + self._per - now:.0f} s"
        return ""


def server_log(name: str = "polycast.broker") -> logging.Logger:
    """The log of a broker: plain, and each line of it so often at most."""
    logger = log_of(name)
    if not any(isinstance(each, LogRateFilter) for each in logger.filters):
        logger.filters.insert(0, LogRateFilter())  # what is left out is not even put into words
    return logger


def _words(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the filter that comes next says what is wrong with it
        return str(record.msg)
