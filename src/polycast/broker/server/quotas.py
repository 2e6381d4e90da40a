"""Quotas of one owner at a broker, over all its connections and tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["QUOTAS", "Quota"]


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one owner. Admins are not limited."""

    connections: int = 1_000
    """At one broker at a time."""
    subscriptions: int = 100_000
    """Of all its connections to one broker at a time."""
    durable: int = 10_000
    """Names of durable subscriptions and groups, and of others that have dead letters."""
    buses: int = 5_000
    """Open ones, and dead ones until their lease has expired."""
    adverts: int = 10_000
    """Of all its buses."""
    types: int = 20_000
    """Descriptions under its names, which are never deleted; as many private ones."""
    bytes_per_day: int | None = None
    """Of events stored per day (UTC), and as many of dead letters; None is unlimited."""


QUOTAS = tuple(quota.name for quota in fields(Quota))
"""The names of all quotas, as in the file of tokens."""
