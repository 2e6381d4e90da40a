"""The recipients of events that the pipeline has found, range by range of the log."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING

from polycast.errors import NotDecodableError
from polycast.plain_text import log_of
from polycast.routing.recipients import decode_recipients
from polycast.stores import Stretch

if TYPE_CHECKING:
    from polycast.routing.recipients import Recipients
    from polycast.stores import Store

TOGETHER = 8  # ranges read at a time
MOST, LARGEST = 1_000, 2_000_000  # how many are remembered, and how many bytes of them
_log = log_of("polycast")


class RoutedRange:
    """One stretch of the log with its recipients; or one for which none are kept any more."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self.low, self.high, self.size = stretch.low, stretch.high, len(stretch.takers)

    @cached_property
    def recipients(self) -> Recipients | None:
        """Who takes what; None if that is not known here, so that each has to ask for itself."""
        if not self.size:
            return None
        try:
            return decode_recipients(self.low, self._stretch.takers)
        except NotDecodableError as error:
            _log.error("the stretch from %d to %d is matched here: %s", self.low, self.high, error)
            return None

    @cached_property
    def _by_route(self) -> dict[int, list[int]]:
        return {} if self.recipients is None else self.recipients.by_route()

    def taken(self, route: int, start: int, limit: int) -> tuple[list[int], int]:
        """The first positions that a route takes from a position on; up to where they go."""
        positions = self._by_route.get(route, [])
        begin = bisect_left(positions, start)
        taken = positions[begin : begin + limit]
        return taken, self.high if begin + len(taken) == len(positions) else taken[-1] + 1


class RoutedRanges:
    """The ranges of a store, for one thread; some are remembered, as many mailboxes read them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[int, RoutedRange] = OrderedDict()  # by where it begins
        self._size = 0

    def known(self, position: int) -> RoutedRange | None:
        """Return the range that a position is in, if it is remembered."""
        known = self._known.get(position)
        if known is None:  # mostly somebody goes on where another range ended
            known = next((r for r in self._known.values() if r.low <= position < r.high), None)
        if known is not None:
            self._known.move_to_end(known.low)
        return known

    def load(self, position: int) -> RoutedRange | None:
        """Return what the store has for a position; None if that is not routed yet."""
        with self._store.view() as view:
            end = view.routed().high
            stretches = view.stretches(position, limit=TOGETHER) if position < end else []
        if position >= end:
            return None
        ranges = list(map(RoutedRange, stretches))
        for routed_range in reversed(ranges):  # that which is needed next is forgotten last
            self._remember(routed_range)
        if ranges and ranges[0].low <= position:
            return ranges[0]
        # Whoever was to have it has passed it, by what the store knew.
        return RoutedRange(Stretch(position, ranges[0].low if ranges else end, b""))

    def _remember(self, routed_range: RoutedRange) -> None:
        before = self._known.pop(routed_range.low, None)
        self._size += routed_range.size - (0 if before is None else before.size)
        self._known[routed_range.low] = routed_range
        while len(self._known) > 1 and (len(self._known) > MOST or self._size > LARGEST):
            self._size -= self._known.popitem(last=False)[1].size
