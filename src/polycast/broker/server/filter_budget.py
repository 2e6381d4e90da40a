"""The CPU time that a broker spends on the filters of each owner.

A broker evaluates filters so that fewer events are sent; a client evaluates its own filters in any
case. So filters that take too long are suspended here for a while: every event of their types is
sent, and no other client waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE = 0.01  # seconds of an owner's filters before others have their turn
TOO_LONG = 0.03  # seconds in one turn that suspend them: a single event took most of it
MOST_STEPS = 2_000_000  # for one event, which cannot be interrupted: about 40 ms
WINDOW = 1.0  # seconds over which time is counted
SHARE = 0.5  # of the window, for the filters of one owner
SHORTEST, LONGEST = 1.0, 600.0  # seconds of a suspension; each is twice as long
_log = log_of("polycast.broker")


@dataclass(frozen=True, slots=True)
class SuspendedFilters:
    """The filters of an owner are suspended."""

    owner: str
    seconds: float
    """Remaining seconds."""
    spent: float
    """Seconds of the window that they took."""

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
    last: float = 0.0  # seconds spent before the suspension


class FilterBudget:
    """Adds up time by owner; `monotonic` is the clock."""

    longest = 8_192
    steps: float = MOST_STEPS

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._accounts: dict[str, _Account] = {}

    def allowance(self, party: str) -> float:
        """Seconds that the filters of an owner may take now; 0 while they are suspended."""
        account = self._accounts.get(party)
        if account is None:
            return AT_ONCE
        now = self._monotonic()
        return 0.0 if now < account.suspended_until else AT_ONCE

    def spend(self, party: str, seconds: float) -> None:
        """Charge the filters of an owner; too much in a window suspends them."""
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
        if now - account.suspended_until > account.pause:  # well-behaved for a while
            account.pause = SHORTEST
        account.began, account.spent = now, 0.0

    def _suspend(self, party: str, account: _Account, now: float) -> None:
        account.suspended_until = now + account.pause
        account.last = account.spent
        account.pause = min(2 * account.pause, LONGEST)
        account.began, account.spent = account.suspended_until, 0.0
        for suspended in self.suspended():
            if suspended.owner == party:
                _log.warning("%s", suspended)

    def suspended(self) -> list[SuspendedFilters]:
        """Whose filters are suspended now, and why."""
        now = self._monotonic()
        return [
            SuspendedFilters(owner, account.suspended_until - now, account.last)
            for owner, account in self._accounts.items()
            if account.suspended_until > now
        ]
