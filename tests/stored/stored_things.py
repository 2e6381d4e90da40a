"""A class of which another process has an older version."""

from __future__ import annotations

from dataclasses import dataclass

import polycast as pc

__all__ = ["Thing"]


@pc.event(name="shop.Thing", version=2)
@dataclass
class Thing:
    x: int
    y: int
