"""How much one owner may have at a broker, over all its connections and tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["QUOTAS", "Quota"]


@dataclass(frozen=True, slots=True)
class Quota:
    """What one owner may have. Admins are not limited."""

    connections: int = 1_000
    """At one broker at a time."""
    subscriptions: int = 100_000
    """That its connections to one broker have at a time."""
    durable: int = 10_000
    """Names of durable subscriptions and groups, and of others that have dead letters."""
    buses: int = 5_000
    """That are open, or were when they died, until they are buried."""
    adverts: int = 10_000
    """Of all its buses."""
    types: int = 20_000
    """Descriptions under its names, which never go; and as many that are private to connections."""
    bytes_per_day: int | None = None
    """Of events that it stores on a day (UTC), and as many of dead letters; None is any number."""


QUOTAS = tuple(each.name for each in fields(Quota))
"""Their names, as in the file of tokens."""
