"""What the filters of each owner may take of a broker's time, before its clients ask them instead.

A broker asks filters so that fewer events are sent; a client asks its own filters in any case. So
filters that take too long are suspended here for a while: nothing counts as "does not match", every
event that their subscriptions may want is sent, and nobody else waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FilterBudget", "Suspended"]

AT_ONCE = 0.01  # seconds that the filters of an owner may take before others have their turn
TOO_LONG = 0.03  # seconds in one turn that suspend them: a single event took most of it
MOST_STEPS = 2_000_000  # for one event, of which nothing can be ended: about 40 ms
WINDOW = 1.0  # seconds over which time is counted
SHARE = 0.5  # of the window that the filters of one owner may take
SHORTEST, LONGEST = 1.0, 600.0  # seconds for which filters are suspended; each time twice as long
_log = log_of("polycast.broker")


@dataclass(frozen=True, slots=True)
class Suspended:
    """The filters of an owner are not asked for a while."""

    owner: str
    seconds: float
    """For how much longer."""
    spent: float
    """What they took, in seconds of the window."""

    def __str__(self) -> str:
        return (
            f"the filters of {self.owner!r} took {self.spent:.2f} s of the broker's time within "
            f"{WINDOW:g} s; for {self.seconds:.0f} s more its clients get all events of their "
            f"types and filter them there"
        )


@dataclass(slots=True)
class _Account:
    began: float
    spent: float = 0.0
    suspended_until: float = 0.0
    pause: float = SHORTEST
    last: float = 0.0  # what was spent when they were suspended


class FilterBudget:
    """Counts by owner. `monotonic` tells the time in seconds."""

    longest = 8_192
    steps: float = MOST_STEPS

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._accounts: dict[str, _Account] = {}

    def allowance(self, party: str) -> float:
        """Seconds for which filters of an owner may be asked now; 0 while they are suspended."""
        account = self._accounts.get(party)
        if account is None:
            return AT_ONCE
        now = self._monotonic()
        return 0.0 if now < account.suspended_until else AT_ONCE

    def spend(self, party: str, seconds: float) -> None:
        """The filters of an owner have taken so long; too long in a window suspends them."""
        now = self._monotonic()
        account = self._accounts.setdefault(party, _Account(now))
        if now < account.suspended_until:
            return
        if now - account.began >= WINDOW:
            self._begin_window(account, now)
        account.spent += seconds
        if account.spent > SHARE * WINDOW or seconds > TOO_LONG:
            self._suspend(party, account, now)

    def _begin_window(self, account: _Account, now: float) -> None:
        if now - account.suspended_until > account.pause:  # it has behaved for as long
            account.pause = SHORTEST
        account.began, account.spent = now, 0.0

    def _suspend(self, party: str, account: _Account, now: float) -> None:
        account.suspended_until = now + account.pause
        account.last = account.spent
        account.pause = min(2 * account.pause, LONGEST)
        account.began, account.spent = account.suspended_until, 0.0
        for each in self.suspended():
            if each.owner == party:
                _log.warning("%s", each)

    def suspended(self) -> list[Suspended]:
        """Whose filters are not asked now, and why."""
        now = self._monotonic()
        return [
            Suspended(owner, each.suspended_until - now, each.last)
            for owner, each in self._accounts.items()
            if each.suspended_until > now
        ]
