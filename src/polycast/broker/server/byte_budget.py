"""A limit of bytes that are held for all clients together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ByteBudget"]


class ByteBudget:
    """Counts held bytes, and calls back when there is room again.

    One owner may have a `share` of the limit, so that others have room, too.
    """

    def __init__(self, limit: int, *, share: float = 1.0) -> None:
        self.limit, self.held = limit, 0
        self._most_of_one = limit * share
        self._of: Counter[str] = Counter()
        self._waiting: dict[str | None, dict[Callable[[], None], None]] = {}

    def has_room(self, owner: str | None = None) -> bool:
        """Whether there is room for more, of an owner or of none."""
        is_free = owner is None or self._of[owner] < self._most_of_one
        return self.held < self.limit and is_free

    def change(self, by: int, owner: str | None = None) -> None:
        """Count bytes as held, or as released."""
        was_full, was_at_most = self.held >= self.limit, not self.has_room(owner)
        self.held += by
        if owner is not None:
            self._of[owner] += by
            if not self._of[owner]:
                del self._of[owner]
        if was_full and self.has_room():
            for waiting in list(self._waiting):
                self._tell(waiting)
        elif was_at_most and self.has_room(owner):
            self._tell(owner)

    def _tell(self, owner: str | None) -> None:
        for tell in self._waiting.pop(owner, {}):
            tell()

    def await_room(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Call back once, when there is room."""
        self._waiting.setdefault(owner, {})[tell] = None

    def forget(self, tell: Callable[[], None], owner: str | None = None) -> None:
        """Cancel a callback."""
        waiting = self._waiting.get(owner, {})
        waiting.pop(tell, None)
        if not waiting:
            self._waiting.pop(owner, None)
