"""Who takes what in the log, as the pipeline has found out, for the thread that brings it."""

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

__all__ = ["Piece", "Stretches"]

TOGETHER = 8  # stretches read at a time
MOST, LARGEST = 1_000, 2_000_000  # how many are remembered, and how many bytes of them
_log = log_of("polycast")


class Piece:
    """One stretch; or a part of the log before the end of the routed for which there is none."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self.low, self.high, self.size = stretch.low, stretch.high, len(stretch.takers)

    @cached_property
    def takers(self) -> Recipients | None:
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
        return {} if self.takers is None else self.takers.by_route()

    def taken(self, route: int, start: int, limit: int) -> tuple[list[int], int]:
        """The first positions that a route takes from a position on; up to where they go."""
        positions = self._by_route.get(route, [])
        begin = bisect_left(positions, start)
        found = positions[begin : begin + limit]
        return found, self.high if begin + len(found) == len(positions) else found[-1] + 1


class Stretches:
    """What is in the store, a little of it remembered: many read the same. For one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[int, Piece] = OrderedDict()  # by where it begins
        self._size = 0

    def known(self, position: int) -> Piece | None:
        """The stretch that a position is in, if it is remembered."""
        found = self._known.get(position)
        if found is None:  # mostly somebody goes on where another stretch ended
            inside = (each for each in self._known.values() if each.low <= position < each.high)
            found = next(inside, None)
        if found is not None:
            self._known.move_to_end(found.low)
        return found

    def load(self, position: int) -> Piece | None:
        """What the store has for a position; None if that is not routed yet."""
        with self._store.view() as view:
            end = view.routed().high
            found = view.stretches(position, limit=TOGETHER) if position < end else []
        if position >= end:
            return None
        pieces = [Piece(each) for each in found]
        for piece in reversed(pieces):  # that which is needed next is forgotten last
            self._remember(piece)
        if pieces and pieces[0].low <= position:
            return pieces[0]
        # Whoever was to have it has passed it, by what the store knew.
        return Piece(Stretch(position, pieces[0].low if pieces else end, b""))

    def _remember(self, piece: Piece) -> None:
        before = self._known.pop(piece.low, None)
        self._size += piece.size - (0 if before is None else before.size)
        self._known[piece.low] = piece
        while len(self._known) > 1 and (len(self._known) > MOST or self._size > LARGEST):
            self._size -= self._known.popitem(last=False)[1].size
