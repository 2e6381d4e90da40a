"""How much a broker takes on: bytes that it holds, connections, and how long they may take."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Bounds"]

_SPARE = 64  # files that a broker has open besides its connections


def _connections() -> int:
    """As many as this process may have open, up to ten thousand."""
    try:
        import resource
    except ImportError:  # elsewhere there is no such limit
        return 10_000
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return 10_000
    return max(16, min(10_000, allowed - _SPARE))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is not told to clients: beyond it their sockets are not read, or they are not let in."""

    inbound: int = 16_000_000
    """Bytes of one connection that are taken and not answered."""
    appended: int = 32_000_000
    """Bytes that the events of one message become in the log, where two frames are not more."""
    inbound_total: int = 256_000_000
    """The same of all connections together.

    Of what has come and waits for that room, twice as much: then, of the address with most of it,
    the largest is cut off.
    """
    outbound_total: int = 256_000_000
    """Bytes that wait to be sent to all of them; beyond it, each is sent little at a time.

    At twice as much, of the owner or address with most of it, the largest is cut off.
    """
    answers: int = 4_000_000
    """Bytes that the answers to questions within one piece of work may take."""
    connections: int = field(default_factory=_connections)
    per_address: int = 0
    """Of these, those of one address; 0 is half of all, and at most a thousand."""
    handshake: float = 10.0
    """Seconds from a connection to its request, TLS included; as long again until `hello`."""

    @property
    def of_one_address(self) -> int:
        """How many connections one address may have."""
        return self.per_address or max(1, min(1_000, self.connections // 2))
