"""Which stretches may be kept after those that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.stores.contract import Stretch

__all__ = ["following"]


def following(stretches: Sequence[Stretch], high: int, end: int) -> list[Stretch]:
    """Those of them that are new, each next to the one before; see `Transaction.advance`."""
    new: list[Stretch] = []
    for each in stretches:
        if each.high <= high:
            continue
        if each.low != high or each.high > end:
            raise ValueError(
                f"a stretch from {each.low} to {each.high} cannot be kept: all before {high} is "
                f"routed, and the log ends at {end}; it must begin at the one, and not pass the "
                "other"
            )
        new.append(each)
        high = each.high
    return new
