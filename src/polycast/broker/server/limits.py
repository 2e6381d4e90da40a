"""Limits of a whole broker, and quotas of each of its owners."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

_SPARE = 64  # files open besides connections


def _connections() -> int:
    """As many files as this process may open, up to ten thousand."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 10_000
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return 10_000
    return max(16, min(10_000, allowed - _SPARE))


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits that clients are not told: above them they are not read from, or not let in."""

    inbound: int = 16_000_000
    """Bytes of the unanswered requests of one connection."""
    appended: int = 32_000_000
    """Bytes of one message's events in the log; at least twice the size of a frame."""
    inbound_total: int = 256_000_000
    """Bytes of the unanswered requests of all connections.

    Twice as much may be received and wait for that room; above it, the largest connection of the
    address with most of it is cut off.
    """
    outbound_total: int = 256_000_000
    """Bytes that wait to be sent to all connections; above it, each is sent little at a time.

    At twice as much, the largest connection of the owner or address with most of it is cut off.
    """
    answers: int = 4_000_000
    """Bytes of the answers to questions within one transaction."""
    connections: int = field(default_factory=_connections)
    per_address: int = 0
    """Connections from one address; 0 is half of all, and at most a thousand."""
    handshake: float = 10.0
    """Seconds from a connection to its request, TLS included; as long again until `hello`."""

    @property
    def of_one_address(self) -> int:
        """How many connections one address may have."""
        return self.per_address or max(1, min(1_000, self.connections // 2))


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
