"""Opens a WebSocket to a broker, one address after the other."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

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

    from polycast.broker.client.address import Address
    from polycast.broker.client.client_connection import ConnectionOptions
    from polycast.broker.client.client_socket import ClientSocket

__all__ = ["Dialer", "reason_of"]


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
        connect, kind = _library()
        address, token = self.address, self._options.token
        try:
            opening = connect(
                address.uri(PATH),
                ssl=self._options.tls if address.is_secure else None,
                additional_headers={} if token is None else {"Authorization": f"Bearer {token}"},
                compression=None,
                proxy=None,
                open_timeout=self._options.within,
                close_timeout=1.0,
                ping_interval=None,  # pings are sent by the receiver thread, as the broker says
                max_size=None,
                max_queue=64,
                user_agent_header=None,
                create_connection=kind,
            )
            socket: ClientSocket = opening.__enter__()  # it lasts longer than any block
        except OSError:
            raise
        except Exception as error:
            raise _refusal(address, error) from None
        return socket


def _library() -> tuple[Any, type[ClientSocket]]:
    try:
        from websockets.sync.client import connect

        from polycast.broker.client.client_socket import ClientSocket
    except ImportError:
        raise NotAvailableError(
            "a remote bus", why="it needs websockets", instead="pip install 'polycast[client]'"
        ) from None
    return connect, ClientSocket


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
