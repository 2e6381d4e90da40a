"""Opens a WebSocket to a broker, one address after the other."""

from __future__ import annotations

import socket
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

from polycast.broker.wire.messages import PATH
from polycast.errors import (
    AccessDeniedError,
    BrokerRefusedError,
    BrokerUnreachableError,
    NotAvailableError,
)
from polycast.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.uri import WebSocketURI

    from polycast.broker.client.address import Address
    from polycast.broker.client.client_connection import ConnectionOptions
    from polycast.broker.client.client_socket import ClientSocket


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
