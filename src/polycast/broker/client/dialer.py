"""Addresses of brokers, as in the URL of a remote bus, and how a WebSocket to one is opened."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from polycast.broker.wire.protocol import PATH
from polycast.errors import (
    AccessDeniedError,
    BadOptionError,
    BrokerRefusedError,
    BrokerUnreachableError,
    NotAvailableError,
)
from polycast.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.uri import WebSocketURI

    from polycast.broker.client.client_connection import ConnectionOptions
    from polycast.broker.client.client_socket import ClientSocket


PORT = 7788
_SCHEMES = {"polycast": "ws", "polycasts": "wss"}
ACCEPTED = (
    "'polycast://host:7788', or 'polycasts://' with TLS; several brokers of one store with commas, "
    "'polycast://one:7788,other:7788'"
)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one broker."""

    scheme: str
    host: str
    port: int

    @property
    def is_secure(self) -> bool:
        """Whether it uses TLS."""
        return self.scheme == "polycasts"

    def uri(self, path: str) -> str:
        """The URI of a WebSocket."""
        return f"{_SCHEMES[self.scheme]}://{self._place}{path}"

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read the traffic: it uses TLS, or stays on this machine.

        Of names, only `localhost` counts: others may resolve differently later.
        """
        if self.is_secure or self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self._place}"


def is_remote(url: object) -> bool:
    """Whether a URL names a broker."""
    return isinstance(url, str) and url.partition(":")[0] in _SCHEMES


def addresses_of(url: str) -> list[Address]:
    """The brokers in a URL, in the order in which they are tried."""
    scheme, _, rest = url.partition("://")
    addresses = []
    for place in rest.rstrip("/").split(","):
        host, port = _split(place.strip())
        if scheme not in _SCHEMES or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise BadOptionError("url", url, accepted=ACCEPTED)
        addresses.append(Address(scheme, host, int(port)))
    return addresses


def _split(place: str) -> tuple[str, str]:
    """Split into host and port."""
    if "@" in place or "/" in place:
        return "", ""  # tokens are options, so that they do not get into logs
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.removeprefix(":") or str(PORT)
    host, _, port = place.partition(":")
    return host, port or str(PORT)


class Dialer:
    """Goes through the addresses of a broker in turn."""

    def __init__(
        self, options: ConnectionOptions, *, dial: Callable[[Address], ClientSocket] | None = None
    ) -> None:
        self._options, self._dial = options, dial
        self._turn = 0

    @property
    def address(self) -> Address:
        """The address whose turn it is."""
        return self._options.addresses[self._turn % len(self._options.addresses)]

    def advance(self) -> bool:
        """Go on to the next address; whether all have been tried."""
        self._turn += 1
        return self._turn % len(self._options.addresses) == 0

    def unreachable(self, why: str) -> BrokerUnreachableError:
        """The error that no address can be reached."""
        return BrokerUnreachableError(", ".join(map(str, self._options.addresses)), why=why)

    def open(self) -> ClientSocket:
        """Open a WebSocket to the address whose turn it is."""
        if self._dial is not None:
            return self._dial(self.address)
        make, parse = _library()
        address, token, within = self.address, self._options.token, self._options.within
        connection = _connected(address, self._options)
        try:
            socket = make(connection, parse(address.uri(PATH)))
        except BaseException:
            connection.close()
            raise
        try:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            socket.shake_hands(headers, within)
        except BaseException as error:
            socket.cut()
            socket.release()
            if isinstance(error, OSError) or not isinstance(error, Exception):
                raise
            raise _refusal(address, error) from None
        return socket


def _connected(address: Address, options: ConnectionOptions) -> socket.socket:
    """Connect to an address, by TLS if it asks for that."""
    connection = socket.create_connection((address.host, address.port), options.within)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.is_secure:
            tls = ssl.create_default_context() if options.tls is None else options.tls
            connection = tls.wrap_socket(connection, server_hostname=address.host)
    except BaseException:
        connection.close()
        raise
    return connection


def _library() -> tuple[type[ClientSocket], Callable[[str], WebSocketURI]]:
    try:
        from websockets.uri import parse_uri

        from polycast.broker.client.client_socket import ClientSocket
    except ImportError:
        raise NotAvailableError(
            "a remote bus", why="it needs websockets", instead="pip install 'polycast[client]'"
        ) from None
    return ClientSocket, parse_uri


def _refusal(address: Address, error: Exception) -> Exception:
    """Why a WebSocket could not be opened."""
    response = getattr(error, "response", None)
    if response is None:
        return BrokerUnreachableError(str(address), why=reason_of(error))
    text = plain(bytes(response.body or b"").decode(errors="replace").strip()[:1_000])
    if response.status_code == HTTPStatus.MISDIRECTED_REQUEST:
        return BrokerRefusedError("other-host", f"{address}: {text}")
    if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS):
        return AccessDeniedError(
            "connect", f"to {address}", token=None
        )  # a valid token is never refused
    if response.status_code == HTTPStatus.FORBIDDEN:
        return BrokerRefusedError("forbidden", f"{address}: {text}")
    return BrokerUnreachableError(
        str(address), why=f"it answers {response.status_code} {text}".strip()
    )


def reason_of(error: Exception | None) -> str:
    """Why a broker cannot be reached, in words."""
    if isinstance(error, BrokerUnreachableError):  # about one address; the caller names all
        return error.why
    return "nobody answers" if error is None else str(error) or type(error).__name__
