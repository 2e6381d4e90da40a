"""Limits of a broker and quotas of its owners; connections are counted and timed from the first on.

Sockets count from the moment they are accepted, before TLS and before any request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

from polycast.broker.server.log_rate_limit import server_log

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


AT_ONCE = 100  # connections refused in a row before the loop goes on
_SIX = 64  # bits of an IPv6 prefix, all of whose addresses usually have one owner
_log = server_log()
Ends = tuple[Any, Any]  # the two ends of a connection, as host and port


class ConnectionLimits:
    """Counts connections, and closes those whose request does not come in time."""

    def __init__(self, server_limits: ServerLimits) -> None:
        self._server_limits = server_limits
        self._of: Counter[str] = Counter()
        self._waiting: dict[Ends, tuple[asyncio.TimerHandle, socket.socket]] = {}
        self.open = 0
        self.refused = self.late = 0  # so far

    def refusal_reason(self, address: str) -> str | None:
        """Why one more connection from an address is refused; None if it is accepted."""
        if self.open >= self._server_limits.connections:
            return f"{self.open} are open, and {self._server_limits.connections} are accepted"
        here, most = self._of[address_group(address)], self._server_limits.of_one_address
        if here >= most:
            return f"{here} are open from there, and {most} are accepted from one address"
        return None

    def refuse(self, address: str, why: str) -> None:
        """Count and log a refused connection."""
        self.refused += 1
        _log.warning("a connection from %s was refused: %s", address, why)

    def admit(self, peer: socket.socket, address: Any) -> Callable[[], None]:
        """Count an accepted connection; call the result when it has closed."""
        group, ends = address_group(address[0]), (address[:2], peer.getsockname()[:2])
        self.open += 1
        self._of[group] += 1
        self._set_deadline(ends, peer, self._server_limits.handshake)

        def release() -> None:
            self.open -= 1
            self._of[group] -= 1
            if not self._of[group]:
                del self._of[group]
            self._forget(ends)

        return release

    def request_arrived(self, ends: Ends) -> socket.socket | None:
        """Cancel the deadline of a connection."""
        return self._forget(ends)

    def expect_close(self, ends: Ends, peer: socket.socket, within: float) -> None:
        """Close a connection that was answered and does not close by itself in time."""
        if peer.fileno() != -1:
            self._set_deadline(ends, peer, within)

    def _set_deadline(self, ends: Ends, peer: socket.socket, within: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[ends] = loop.call_later(within, self._end, ends), peer

    def _forget(self, ends: Ends) -> socket.socket | None:
        timer, peer = self._waiting.pop(ends, (None, None))
        if timer is not None:
            timer.cancel()
        return peer

    def _end(self, ends: Ends) -> None:
        peer = self._forget(ends)
        self.late += 1
        if peer is not None:
            with suppress(OSError):  # it closes just now
                peer.shutdown(socket.SHUT_RDWR)


class LimitedListener(socket.socket):
    """A listening socket that closes connections above the limits at once."""

    connection_limits: ConnectionLimits

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection within the limits."""
        for _ in range(AT_ONCE):
            accepted, address = super().accept()
            why = self.connection_limits.refusal_reason(address[0])
            if why is None:
                return self._admit(accepted, address), address
            self.connection_limits.refuse(address[0], why)
            accepted.close()
        raise ConnectionAbortedError  # asyncio calls again in the next round of its loop

    def _admit(self, accepted: socket.socket, address: Any) -> socket.socket:
        peer = AcceptedSocket(
            accepted.family, accepted.type, accepted.proto, fileno=accepted.detach()
        )
        peer.release = self.connection_limits.admit(peer, address)
        return peer


class AcceptedSocket(socket.socket):
    """An accepted connection, which is counted until it closes."""

    release: Callable[[], None] | None = None

    def close(self) -> None:
        """Close it."""
        release, self.release = self.release, None
        if release is not None:
            release()
        super().close()


def address_group(address: str) -> str:
    """The addresses that count as one: a single IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> _SIX << _SIX, _SIX)))
    return str(parsed)


FEW, EVERY = 10, 6.0  # failures allowed in a burst, and seconds until one more is
MOST = 10_000  # addresses that are remembered


class FailedLogins:
    """Tells an address that fails too often how long to wait."""

    def __init__(
        self,
        *,
        few: int = FEW,
        every: float = EVERY,
        most: int = MOST,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._few, self._every, self._most, self._monotonic = few, every, most, monotonic
        self._until: OrderedDict[str, float] = OrderedDict()  # when its failures are forgotten
        self.failed = self.throttled = 0  # so far

    def __len__(self) -> int:
        return len(self._until)

    def note(self, address: str) -> int | None:
        """Count a failed login; how many seconds to wait, if that was one too many."""
        group, now = address_group(address), self._monotonic()
        until = max(self._until.pop(group, now), now)
        self.failed += 1
        wait = until + self._every - now - self._few * self._every
        if wait > 0:
            self.throttled += 1
        else:
            until += self._every
        self._until[group] = until
        while len(self._until) > self._most:
            self._until.popitem(last=False)  # the address with the oldest failure
        return math.ceil(wait) if wait > 0 else None
