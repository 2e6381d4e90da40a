"""Rate limit of failed logins, by address. It changes the answer only: a good token gets in."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from polycast.broker.server.connection_limits import address_group

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FailedLogins"]

FEW, EVERY = 10, 6.0  # failures allowed in a burst, and seconds until one more is
MOST = 10_000  # addresses that are remembered


class FailedLogins:
    """Tells an address that fails too often how long to wait."""

    def __init__(
        self,
        *,
        few: int = FEW,
        every: float = EVERY,
        most: int = MOST,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._few, self._every, self._most, self._monotonic = few, every, most, monotonic
        self._until: OrderedDict[str, float] = OrderedDict()  # when its failures are forgotten
        self.failed = self.throttled = 0  # so far

    def __len__(self) -> int:
        return len(self._until)

    def note(self, address: str) -> int | None:
        """Count a failed login; how many seconds to wait, if that was one too many."""
        group, now = address_group(address), self._monotonic()
        until = max(self._until.pop(group, now), now)
        self.failed += 1
        wait = until + self._every - now - self._few * self._every
        if wait > 0:
            self.throttled += 1
        else:
            until += self._every
        self._until[group] = until
        while len(self._until) > self._most:
            self._until.popitem(last=False)  # the address with the oldest failure
        return math.ceil(wait) if wait > 0 else None
