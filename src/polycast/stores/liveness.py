"""Which processes that use a store are alive, and how deadlines and ages are judged.

A store outlives its processes, so it contains wall-clock times. The wall clock can be set, forward
or back, by any amount. So a running process counts from when it first saw a deadline, by its
monotonic clock, as if nobody had set the wall clock.
"""

from __future__ import annotations

import math
import os
import platform
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from polycast.config import Clock

# -- deadlines -------------------------------------------------------------------------------------

STEP = 1.0  # seconds; a smaller difference between the clocks is drift, not a clock that was set


def wall_offset(clock: Clock) -> float:
    """Return how far the wall clock is ahead of the monotonic one; setting a clock changes it."""
    return clock.time() - clock.monotonic()


class Countdown:
    """Counts down to deadlines from when each was first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Hashable, tuple[float, float]] = {}  # as kept, and by the monotonic clock

    def left(
        self, what: Hashable, deadline: float, *, term: float | None = None, is_new: bool = False
    ) -> float:
        """Return the seconds until a deadline; another value is another deadline.

        A deadline is believed when first seen, but limited to the term. One that is known to be new
        is exactly the term away, whatever the wall clock says.
        """
        now, known = self._clock.monotonic(), self._ends.get(what)
        if known is None or known[0] != deadline:
            left = deadline - self._clock.time()
            if term is not None:
                left = term if is_new else min(left, term)
            known = self._ends[what] = (deadline, now + left)
        return known[1] - now

    def moved(self, what: Hashable, deadline: float) -> None:
        """Note that a deadline has another value only because the wall clock was set."""
        known = self._ends.get(what)
        if known is not None:
            self._ends[what] = (deadline, known[1])

    def since(self, what: Hashable, sign: float) -> float:
        """Return for how many seconds this heartbeat has been the latest seen."""
        now, known = self._clock.monotonic(), self._ends.get(what)
        if known is None or known[0] != sign:
            known = self._ends[what] = (sign, now)
        return now - known[1]

    def keep(self, whats: Collection[Hashable]) -> None:
        """Forget all other deadlines."""
        for gone in self._ends.keys() - set(whats):
            del self._ends[gone]


class AgeClock:
    """The time for judging ages, so that setting a clock forward makes nothing old.

    A clock that was set forward is believed only after the age in question has passed: by then even
    what was written just before is that old. One that was set back is believed at once, as that can
    only keep something for longer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Offsets of the wall clock, the lowest first, each with when it was last in effect.
        self._offsets: deque[tuple[float, float]] = deque()
        self.now(0.0)

    def now(self, age: float) -> float:
        """Return the time by which to judge whether something is older than `age`."""
        now, offset, seen = self._clock.monotonic(), wall_offset(self._clock), self._offsets
        if seen:
            seen[-1] = (seen[-1][0], now)  # as far as is known, it was in effect until now
        if not seen or not 0 <= offset - seen[-1][0] < STEP:
            while seen and seen[-1][0] >= offset:
                seen.pop()
            seen.append((offset, now))
        while seen[0][1] < now - age:
            seen.popleft()
        return now + seen[0][0]


# -- processes -------------------------------------------------------------------------------------

ALIVE_FOR = 10.0  # seconds without a heartbeat after which a bus counts as dead
_TERM = " alive_for="  # as it stands in stores


def has_ended(process: int, place: str) -> bool:
    """Whether a process has certainly ended; one on another host may live."""
    is_here = place.partition(_TERM)[0] == here() and process != os.getpid()
    return is_here and not may_live(process)


def may_live(process: int) -> bool:
    """Whether a process of this host lives, as far as this user can see."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def here() -> str:
    """Name the boot and namespace in which process ids mean what they mean here."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:
        pass
    return "/".join(parts)


def signed(heartbeat_timeout: float) -> str:
    """Return where this process runs, with its heartbeat timeout."""
    return f"{here()}{_TERM}{heartbeat_timeout!r}"


def term_of(place: str) -> float:
    """Return the heartbeat timeout in what `signed` returned."""
    try:
        term = float(place.partition(_TERM)[2])
    except ValueError:  # an older version says only where it is
        return ALIVE_FOR
    return term if math.isfinite(term) and term > 0 else ALIVE_FOR
