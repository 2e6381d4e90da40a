"""Logins that fail, by address. Only the answer to them changes: a good token is always let in."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from polycast.broker.server.connection_limits import group_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FailedLogins"]

FEW, EVERY = 10, 6.0  # that may fail at once, and the seconds until one more may
MOST = 10_000  # addresses that are remembered


class FailedLogins:
    """Who has failed too often hears how long to wait, instead of that the token is wrong."""

    def __init__(
        self,
        *,
        few: int = FEW,
        every: float = EVERY,
        most: int = MOST,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._few, self._every, self._most, self._monotonic = few, every, most, monotonic
        self._until: OrderedDict[str, float] = OrderedDict()  # when all is forgotten
        self.failed = self.throttled = 0  # so far

    def __len__(self) -> int:
        return len(self._until)

    def note(self, address: str) -> int | None:
        """One has failed; how many seconds to wait, if that was too often."""
        group, now = group_of(address), self._monotonic()
        until = max(self._until.pop(group, now), now)
        self.failed += 1
        wait = until + self._every - now - self._few * self._every
        if wait > 0:
            self.throttled += 1
        else:
            until += self._every
        self._until[group] = until
        while len(self._until) > self._most:
            self._until.popitem(last=False)  # who has not failed for longest
        return math.ceil(wait) if wait > 0 else None
