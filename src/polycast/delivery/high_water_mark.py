"""How far a durable subscription may have come, written down before it comes there."""

from __future__ import annotations

__all__ = ["HighWaterMark", "first_limit"]

LEAST = 64  # positions, at least, that are written ahead
AHEAD = 8  # how many times as far as the last save took it
MOST = 1 << 20


class HighWaterMark:
    """Nothing from `limit` on is begun. It moves on with what is saved anyway, before it is met.

    Its keeper's lock guards all but `limit`.
    """

    def __init__(self, start: int) -> None:
        self.limit = first_limit(start)  # as the store has it
        self._base = self._needed = start
        self._ahead = LEAST
        self._is_left = False

    def need(self, position: int) -> None:
        """Somebody waits to begin what is at a position."""
        self._needed = max(self._needed, position + 1)

    def leave(self) -> None:
        """Nothing more is begun."""
        self._is_left = True

    def next(self, handled: int) -> int:
        """Where it is to be once more is saved; what is before `handled` is done with."""
        if self._is_left:
            return self.limit
        base = max(self._base, self._needed, handled)
        self._ahead = max(LEAST, min(MOST, AHEAD * (base - self._base)), self._ahead * 3 // 4)
        self._base = base
        return self.limit if base + self._ahead // 2 <= self.limit else base + self._ahead


def first_limit(start: int) -> int:
    """Where it is when somebody attaches."""
    return start + LEAST
