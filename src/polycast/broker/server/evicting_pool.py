"""Memory that many share and nobody may keep: beyond its bound, who has most loses it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Holder(Protocol):
        """Who holds some of it, such as a connection."""

        group: str  # of whom it is one, such as an address

        def let_go(self) -> None:
            """End it: it has too much."""


__all__ = ["EvictingPool"]


class EvictingPool:
    """Counts bytes; beyond the limit, of the group with most of them the largest holder is let go.

    To wait for one to be done would be to wait for whoever stops in the middle.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._sizes: dict[Holder, int] = {}
        self._groups: Counter[str] = Counter()

    def has_now(self, holder: Holder, size: int) -> None:
        """So many bytes are held by one."""
        change = size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
        self.held += change
        self._groups[holder.group] += change
        if not self._groups[holder.group]:
            del self._groups[holder.group]
        while self.held > self.limit and self._sizes:
            self._let_largest_go()

    def _let_largest_go(self) -> None:
        [(group, _)] = self._groups.most_common(1)
        theirs = [each for each in self._sizes if each.group == group]
        largest = max(theirs, key=self._sizes.__getitem__)
        self.has_now(largest, 0)
        largest.let_go()
