"""What a batch of objects has in each lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.matching.index.domains import ABSENT, NUMBERS, Careful, Unsure
from polycast.matching.index.thresholds import (
    Ordered,
    order_floats,
    order_integers,
    order_values,
)

if TYPE_CHECKING:
    from polycast.matching.index.domains import Domain
    from polycast.matching.index.layout import Layout

__all__ = ["columns_of"]


def columns_of(layout: Layout, events: list[Any]) -> tuple[list[Ordered], set[int]]:
    """The values of each lane in order, and the events that have to be asked one by one."""
    odd: set[int] = set()
    found = [
        ordered(domain, values, odd)
        for column, values in zip(layout.columns, layout.read_all(events), strict=True)
        for domain in column.lanes
    ]
    return found, odd


def ordered(domain: Domain, values: list[Any], odd: set[int]) -> Ordered:
    """Values of one term in order; what cannot be ordered is told by its number."""
    import numpy as np

    kinds = set(map(type, values))
    if domain == NUMBERS:
        if kinds == {float}:
            return order_floats(np.array(values))
        if kinds == {int}:
            try:
                return order_integers(np.array(values, dtype=np.int64))
            except OverflowError:
                pass
    if kinds.issubset(domain.fast):
        return order_values(map(domain.place, values), range(len(values)))
    usable: list[Any] = []
    events: list[int] = []
    for number, value in enumerate(values):
        try:
            known = domain.coerce(value)
        except Unsure:
            known = Careful(value)
        if type(known) is Careful:
            odd.add(number)
        elif known is not ABSENT and known == known:
            usable.append(domain.place(known))
            events.append(number)
    return order_values(usable, events)
