"""When a broker's process looks for garbage: seldom enough that no client notices the pauses.

A full collection looks at every object of the process and stops all clients meanwhile: for 50 ms
as soon as everything is imported, and for longer the more subscriptions there are. Python begins
one whenever there are a quarter more objects, so that a client which makes objects could have as
many pauses as it liked.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

REST = 200.0  # a full collection is followed by as many times its duration without one: 0.5 %
MANY = 300  # collections of younger objects after which there is one all the same


class RareCollections:
    """Within a `with` statement, full collections are rare, and leave out what was there before."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._before = gc.get_threshold()
        self._began = self._rests_until = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()  # modules and classes stay as long as the process
        gc.callbacks.append(self._collected)
        return self

    def __exit__(self, *exception: object) -> None:
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Time a collection; Python calls this when it begins and when it ends."""
        now = self._now()
        if phase == "start":
            self._began = now
        elif info["generation"] == 2:
            self._rests_until = now + REST * (now - self._began)
            gc.set_threshold(*self._before[:2], MANY)
        elif self._rests_until and now >= self._rests_until:
            self._rests_until = 0.0
            gc.set_threshold(*self._before)
