"""A memory limit that many share: above it, the largest holder is evicted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Holder(Protocol):
        """Something that holds memory, such as a connection."""

        group: str  # an owner or an address

        def evict(self) -> None:
            """End it, which frees its memory."""


__all__ = ["EvictingPool"]


class EvictingPool:
    """Counts bytes; above the limit, evicts the largest holder of the group with most of them.

    Waiting for a holder to finish would mean waiting for a client that has stopped halfway.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._sizes: dict[Holder, int] = {}
        self._groups: Counter[str] = Counter()

    def has_now(self, holder: Holder, size: int) -> None:
        """Set how many bytes a holder has."""
        change = size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
        self.held += change
        self._groups[holder.group] += change
        if not self._groups[holder.group]:
            del self._groups[holder.group]
        while self.held > self.limit and self._sizes:
            self._evict_largest()

    def _evict_largest(self) -> None:
        [(group, _)] = self._groups.most_common(1)
        holders = [holder for holder in self._sizes if holder.group == group]
        largest = max(holders, key=self._sizes.__getitem__)
        self.has_now(largest, 0)
        largest.evict()
