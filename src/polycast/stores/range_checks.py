"""Validation of the pipeline's stretches before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.stores.values import Stretch

__all__ = ["following"]


def following(stretches: Sequence[Stretch], high: int, end: int) -> list[Stretch]:
    """Return the new ones among some stretches; `ValueError` unless they continue at `high`."""
    new: list[Stretch] = []
    for stretch in stretches:
        if stretch.high <= high:
            continue
        if stretch.low != high or stretch.high > end:
            raise ValueError(
                f"a stretch from {stretch.low} to {stretch.high} cannot be kept: all before {high} "
                f"is routed, and the log ends at {end}; it must begin at the one, and not pass "
                "the other"
            )
        new.append(stretch)
        high = stretch.high
    return new
