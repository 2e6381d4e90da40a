"""Who may connect to a broker: so many in all, fewer from one address, and none that dawdles.

What is counted are sockets from the moment they are accepted, before TLS and before any request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from polycast.broker.server.log_rate_limit import server_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.limits import Bounds

__all__ = ["Listener", "Reception", "group_of"]

AT_ONCE = 100  # connections that are refused before others have their turn
_SIX = 64  # bits of an IPv6 address: who has one has all that begin like it
_log = server_log()
Ends = tuple[Any, Any]  # the two ends of a connection, as host and port


class Reception:
    """Counts connections, and ends those whose request does not come in time."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._of: Counter[str] = Counter()
        self._waiting: dict[Ends, tuple[asyncio.TimerHandle, socket.socket]] = {}
        self.open = 0
        self.refused = self.late = 0  # so far

    def why_not(self, address: str) -> str | None:
        """Why one more connection of an address is not let in; None if it is."""
        if self.open >= self._bounds.connections:
            return f"{self.open} are open, and {self._bounds.connections} are accepted"
        here, most = self._of[group_of(address)], self._bounds.of_one_address
        if here >= most:
            return f"{here} are open from there, and {most} are accepted from one address"
        return None

    def refuse(self, address: str, why: str) -> None:
        """One was not let in."""
        self.refused += 1
        _log.warning("a connection from %s was refused: %s", address, why)

    def enter(self, peer: socket.socket, address: Any) -> Callable[[], None]:
        """One more; to be called when it has ended."""
        group, ends = group_of(address[0]), (address[:2], peer.getsockname()[:2])
        self.open += 1
        self._of[group] += 1
        self._expect(ends, peer, self._bounds.handshake)

        def left() -> None:
            self.open -= 1
            self._of[group] -= 1
            if not self._of[group]:
                del self._of[group]
            self._forget(ends)

        return left

    def has_asked(self, ends: Ends) -> socket.socket | None:
        """Its request is there: it is in no hurry any more."""
        return self._forget(ends)

    def let_end(self, ends: Ends, peer: socket.socket, within: float) -> None:
        """It has had its answer: it ends soon, whether it takes that or not."""
        if peer.fileno() != -1:
            self._expect(ends, peer, within)

    def _expect(self, ends: Ends, peer: socket.socket, within: float) -> None:
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
            with suppress(OSError):  # it ends just now
                peer.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A socket that lets in whom its reception lets in; the others are closed at once."""

    reception: Reception

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that is let in."""
        for _ in range(AT_ONCE):
            found, address = super().accept()
            why = self.reception.why_not(address[0])
            if why is None:
                return self._let_in(found, address), address
            self.reception.refuse(address[0], why)
            found.close()
        raise ConnectionAbortedError  # asyncio comes again, after others had their turn

    def _let_in(self, found: socket.socket, address: Any) -> socket.socket:
        peer = Peer(found.family, found.type, found.proto, fileno=found.detach())
        peer.left = self.reception.enter(peer, address)
        return peer


class Peer(socket.socket):
    """A connection that was let in, and says when it ends."""

    left: Callable[[], None] | None = None

    def close(self) -> None:
        """End it."""
        left, self.left = self.left, None
        if left is not None:
            left()
        super().close()


def group_of(address: str) -> str:
    """The addresses that somebody has who has this one: an IPv4 address, or 64 bits of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> _SIX << _SIX, _SIX)))
    return str(found)
