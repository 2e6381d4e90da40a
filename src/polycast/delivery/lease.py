"""The lease of a subscription: it ends by a clock that was passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery.services import Services
    from polycast.delivery.timers import Timer


class Lease:
    """Until when something lives, if that is limited, and what is done then."""

    __slots__ = ("_lapse", "_services", "_timer", "until")

    def __init__(self, services: Services, lapse: Callable[[], None]) -> None:
        self._services, self._lapse = services, lapse
        self._timer: Timer | None = None
        self.until: float | None = None

    def renew(self, seconds: float) -> None:
        """Let it end after so many seconds from now."""
        self.cancel()
        self.until = self._services.clock.monotonic() + seconds
        self._timer = self._services.timers.after(seconds, self._end)

    def is_over(self) -> bool:
        """Whether there was a lease, and it has run out."""
        return self.until is not None and self._services.clock.monotonic() >= self.until

    def cancel(self) -> None:
        """Do nothing when it runs out."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if self.is_over():
            self._lapse()


class NoLease:
    """The lease of all that have none."""

    until = None

    def is_over(self) -> bool:
        """It never is."""
        return False

    def cancel(self) -> None:
        """There is nothing to cancel."""


NO_LEASE = NoLease()
