"""From time to time, what the retention of a store does not ask to keep is let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import PolycastError
from polycast.plain_text import log_of
from polycast.stores import pins, retain, retention_of
from polycast.stores.deadlines import AgeClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.delivery import Pool, Timer, Timers
    from polycast.stores import Store

__all__ = ["Keeping", "fullness"]

EVERY = 10.0  # seconds
NEARLY_FULL = 0.8
_log = log_of("polycast")


class Keeping:
    """A job for the pool, every few seconds. Whichever bus does it, it is done for all."""

    def __init__(
        self, store: Store, clock: Clock, timers: Timers, pool: Pool, move_on: Callable[[], None]
    ) -> None:
        self._store, self._timers, self._pool = store, timers, pool
        self._ages = AgeClock(clock)
        self._move_on = move_on  # those who get nothing, so that they hold nothing back
        self.started: float | None = None  # no user's callback, so it is never stuck
        self._closed = False
        self._timer: Timer = timers.after(EVERY, self._due)

    def _due(self) -> None:
        if not self._closed and self._store.failure is None:
            self._pool.submit(self)

    def run(self) -> None:
        """Let go of what may go, and do so again later."""
        try:
            if not self._closed:
                self._move_on()
                retain(self._store, self._ages.now)
        except PolycastError as error:
            if not self._closed:
                _log.warning("nothing was let go: %s", error)
        if not self._closed:
            self._timer = self._timers.after(EVERY, self._due)

    def close(self) -> None:
        """Let go of nothing more."""
        self._closed = True
        self._timer.cancel()


def fullness(store: Store) -> list[str]:
    """A warning, if the size that was allowed is nearly taken, with what pins the log."""
    limit = retention_of(store).size
    size = store.size()
    if limit is None or size < NEARLY_FULL * limit:
        return []
    held = [pin for pin in pins(store) if pin.pinned and pin.behind]
    by = f"; {held[0].name} pins it, {held[0].behind} events behind" if held else ""
    return [f"the store takes {size} bytes of the {limit} it may take{by}"]
