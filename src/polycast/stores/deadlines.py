"""Deadlines and ages kept by the wall clock, judged by one that nobody sets.

What is kept in a store outlives the process that wrote it, so it is a time of the wall clock. That
clock can be set, forward or back, by any amount. So a process that goes on counts from when it
first saw a deadline, by its monotonic clock, as if the wall clock had gone on evenly.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from polycast.config import Clock

__all__ = ["STEP", "AgeClock", "Countdown", "wall_offset"]

STEP = 1.0  # seconds; a smaller difference between the clocks is none that somebody has set


def wall_offset(clock: Clock) -> float:
    """How far the wall clock is ahead of the monotonic one; it changes when somebody sets it."""
    return clock.time() - clock.monotonic()


class Countdown:
    """How long it is until each of some deadlines, counted down since it was first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Hashable, tuple[float, float]] = {}  # as kept, and by the monotonic clock

    def left(
        self, what: Hashable, deadline: float, *, term: float | None = None, is_new: bool = False
    ) -> float:
        """Seconds until a deadline; one of another value is another deadline.

        When it is first seen it is believed, but never to be farther off than the term that was
        given. One that is known to be new is as far off as that, whatever the clock says by now.
        """
        now, known = self._clock.monotonic(), self._ends.get(what)
        if known is None or known[0] != deadline:
            left = deadline - self._clock.time()
            if term is not None:
                left = term if is_new else min(left, term)
            known = self._ends[what] = (deadline, now + left)
        return known[1] - now

    def moved(self, what: Hashable, deadline: float) -> None:
        """The same deadline, by a wall clock that was set."""
        known = self._ends.get(what)
        if known is not None:
            self._ends[what] = (deadline, known[1])

    def since(self, what: Hashable, sign: float) -> float:
        """For how many seconds nobody has seen another sign than this one."""
        now, known = self._clock.monotonic(), self._ends.get(what)
        if known is None or known[0] != sign:
            known = self._ends[what] = (sign, now)
        return now - known[1]

    def keep(self, whats: Collection[Hashable]) -> None:
        """Forget all others."""
        for gone in self._ends.keys() - set(whats):
            del self._ends[gone]


class AgeClock:
    """What time it is for whoever asks how old something is: setting a clock makes nothing old.

    A wall clock that was set forward is believed when it has gone on for as long as the age that is
    asked for: then even what was written just before is that old. One that was set back is believed
    at once, as that can only keep something for longer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Offsets of the wall clock, the lowest first, each with when it was last in effect.
        self._offsets: deque[tuple[float, float]] = deque()
        self.now(0.0)

    def now(self, age: float) -> float:
        """The time by which something is judged that may be as old as `age`."""
        now, offset, seen = self._clock.monotonic(), wall_offset(self._clock), self._offsets
        if seen:
            seen[-1] = (seen[-1][0], now)  # until just now, for all that is known
        if not seen or not 0 <= offset - seen[-1][0] < STEP:
            while seen and seen[-1][0] >= offset:
                seen.pop()
            seen.append((offset, now))
        while seen[0][1] < now - age:
            seen.popleft()
        return now + seen[0][0]
