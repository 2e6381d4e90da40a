"""The log of a broker, rate-limited by line: strangers can cause most of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from polycast.plain_text import log_of

LINES, PER = 20, 60.0  # lines from one place in the code, and within how many seconds


@dataclass(slots=True)
class _Window:
    began: float
    lines: int = 0


class LogRateFilter(logging.Filter):
    """Drops lines that one place in the code logs too often, and says how many it dropped."""

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
        self._windows: dict[tuple[str, int], _Window] = {}  # by file and line
        self.left_out = 0  # so far

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged; it may mention lines that are not."""
        note = self._note((record.pathname, record.lineno))
        if note is None:
            return False
        if note:
            record.msg, record.args = f"{_words(record)} ({note})", None
        return True

    def begin_anew(self) -> None:
        """Forget what was counted before."""
        with self._lock:
            self._windows.clear()

    def _note(self, place: tuple[str, int]) -> str | None:
        """A note to add to a line; None if the line is dropped."""
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
    """The log of a broker, in plain text and rate-limited."""
    logger = log_of(name)
    if not any(isinstance(known, LogRateFilter) for known in logger.filters):
        logger.filters.insert(0, LogRateFilter())  # dropped lines are not even formatted
    return logger


def _words(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the next filter says what is wrong with it
        return str(record.msg)
