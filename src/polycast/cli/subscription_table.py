"""The table of durable subscriptions and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.cli.formatting import TextTable, ago, listed

if TYPE_CHECKING:
    from polycast.stores.doctor import SubscriptionFigures

__all__ = ["subscription_table"]

_HEADS = ("name", "what", "level", "group", "lag", "in flight", "attempts", "attached to", "lease")


def subscription_table(
    subscriptions: list[SubscriptionFigures], now: float, *, indent: int = 0
) -> TextTable:
    """A row for each subscription."""
    rows = [
        (
            figures.name,
            figures.what if figures.where is None else f"{figures.what} where {figures.where}",
            figures.level,
            figures.group or "-",
            figures.lag,
            figures.in_flight,
            figures.attempts,
            _holders(figures),
            "-" if figures.lease is None else f"ends {ago(figures.lease, now)}",
        )
        for figures in subscriptions
    ]
    return TextTable(_HEADS, rows, indent=indent)


def _holders(figures: SubscriptionFigures) -> str:
    dead = [f"bus {bus} (dead)" for bus in figures.dead]
    return listed([*(f"bus {bus}" for bus in figures.buses), *dead])
