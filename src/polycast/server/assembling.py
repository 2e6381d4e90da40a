"""Messages that have not come to their end: bytes of them that a broker holds for all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class Sender(Protocol):
        """One connection."""

        group: str  # of whom it is one, such as an address

        def let_go(self) -> None:
            """End it: it has too much under way."""


__all__ = ["Assembling"]


class Assembling:
    """Counts them; beyond the limit, of those who have most the largest is let go.

    To wait for one to be complete would be to wait for whoever stops in the middle.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._sizes: dict[Sender, int] = {}
        self._groups: Counter[str] = Counter()

    def has_now(self, sender: Sender, size: int) -> None:
        """So many bytes of a message have come; 0 if it is complete, or will never be."""
        change = size - self._sizes.pop(sender, 0)
        if size:
            self._sizes[sender] = size
        self.held += change
        self._groups[sender.group] += change
        if not self._groups[sender.group]:
            del self._groups[sender.group]
        while self.held > self.limit and self._sizes:
            self._let_largest_go()

    def _let_largest_go(self) -> None:
        [(group, _)] = self._groups.most_common(1)
        theirs = [each for each in self._sizes if each.group == group]
        largest = max(theirs, key=self._sizes.__getitem__)
        self.has_now(largest, 0)
        largest.let_go()
