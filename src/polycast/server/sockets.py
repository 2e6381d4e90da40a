"""The WebSockets of a broker: they end also if the other side takes nothing any more."""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

__all__ = ["Socket"]

CLOSING = 2.0  # seconds for the other side to take the rest


class Socket(WebSocketsSansIOProtocol):
    """That of uvicorn; one that closes waits for what it has sent to be taken, forever."""

    def keepalive_timeout(self) -> None:
        """It does not say that it lives, so it will not take the rest either."""
        super().keepalive_timeout()
        self.transport.abort()

    async def run_asgi(self) -> None:
        """Serve it; when that is over, it ends within a moment."""
        try:
            await super().run_asgi()
        finally:
            self.loop.call_later(CLOSING, self.transport.abort)
