"""uvicorn's protocols, with fair reading, timely pings, and limits on what clients can hold."""

from __future__ import annotations

import socket
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.protocol import State

from polycast.broker.server.limits import address_group
from polycast.broker.server.log_rate_limit import server_log

if TYPE_CHECKING:
    from asyncio import BaseTransport, TimerHandle
    from collections.abc import Iterator

    from websockets.frames import Frame

    from polycast.broker.server.flow_control import EvictingPool

CLOSING = 2.0  # seconds for the client to take the rest
GOODBYE = 0.5  # the same, when the broker stops: less than uvicorn waits
PIECE = 65_536  # bytes of a message after which a ping may be sent
MOMENT = 0.002  # seconds for the frames of one connection before others have their turn
LEAST, MOST = 1_024, 262_144  # bytes read between two looks at the clock
WRITE_NOW = "polycast.write_now"  # extension in the scope: `WebSocketProtocol.write_now`
MORE = "polycast.more"  # key in what the application sends: whether the message goes on
_FEW, _SMALL = 16, 1_000  # fragments that a message may have, and bytes that allow one more
_MESSAGE = 500  # bytes of a message besides its contents
_UNSENT = 131_072  # bytes that the kernel buffers before they can be sent
_log = server_log("polycast.broker.http")


class HttpProtocol(H11Protocol):
    """uvicorn's, with a rate-limited log."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _log


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's, whose pings would wait behind megabytes and then time out."""

    def __init__(self, *args: Any, incoming_pool: EvictingPool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = self.conn.logger = _log
        self.group = ""  # the address that it counts for
        self._incoming_pool = incoming_pool
        self._queued = self._handed = 0  # bytes of messages that wait, and of the one being handled
        self._goes_on = False  # whether a message is being sent in pieces
        self._message = bytearray()  # received so far, in fragments
        self._fragments = 0  # of it
        self._unheard = bytearray()  # received, but not parsed yet
        self._bite = LEAST  # bytes parsed between two looks at the clock
        self._later: TimerHandle | None = None
        self._heard = False  # whether anything was received since the last ping
        self._written = self._sent = 0  # bytes written; bytes sent by the last ping

    def connection_made(self, transport: BaseTransport) -> None:
        """Limit the kernel's buffer of unsent bytes: a ping would wait behind it."""
        super().connection_made(cast("BaseTransport", _ClosedOnce(transport)))
        self.group = address_group(self.client[0]) if self.client else ""
        option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
        if option is not None:
            with suppress(OSError):
                transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, option, _UNSENT)

    # -- receiving ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Receive bytes, which show that the client lives."""
        self._heard = True
        self._unheard += data
        if self._later is None:
            self._parse_some()
        else:
            self.transport.pause_reading()

    def _parse_some(self) -> None:
        """Parse received bytes for a moment: they may be very many tiny frames."""
        self._later, took, began = None, 0.0, perf_counter()
        while self._unheard and took < MOMENT and not self.transport.is_closing():
            piece = bytes(self._unheard[: self._bite])
            del self._unheard[: self._bite]
            super().data_received(piece)
            before, took = took, perf_counter() - began
            is_slow = took - before > MOMENT / 4
            self._bite = max(LEAST, self._bite // 2) if is_slow else min(MOST, 2 * self._bite)
        self._count()
        if self.transport.is_closing():
            self._unheard.clear()
        elif self._unheard:
            self.transport.pause_reading()
            self._later = self.loop.call_later(took, self._parse_some)  # others have as much time
        elif not self.read_paused:
            self.transport.resume_reading()

    def send_receive_event_to_app(self) -> None:
        """Queue a complete message until the one before it has been handled."""
        self._queued += _MESSAGE + sum(map(len, self.frames))
        is_first, was_paused = self.queue.empty(), self.read_paused
        # Pausing costs as much as handling a small message: the first that waits is no reason.
        self.read_paused = was_paused or is_first
        super().send_receive_event_to_app()
        self.read_paused = was_paused or not is_first

    async def receive(self) -> Any:
        """The next message; the one before it has been handled."""
        self._handed = 0
        self._count()
        message = await super().receive()
        if message["type"] == "websocket.receive":
            self._handed = _MESSAGE + len(message.get("bytes") or message.get("text") or "")
            self._queued = max(0, self._queued - self._handed)
        return message

    def _count(self) -> None:
        """Update how many received bytes are held."""
        if not (self.disconnected or self.transport.is_closing()):
            incomplete = len(self.conn.reader.buffer) + len(self._message) + len(self._unheard)
            self._incoming_pool.has_now(self, incomplete + self._queued + self._handed)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what an ended connection has left."""
        if self._later is not None:
            self._later.cancel()
        super().connection_lost(exc)
        self._incoming_pool.has_now(self, 0)

    def evict(self) -> None:
        """Abort it: too much is being received, and most of it from this address."""
        _log.warning("%s was cut off: too much comes in, and most of it from there", self.group)
        self.transport.abort()

    def handle_bytes(self, event: Frame) -> None:
        """Begin a binary message, or receive all of it."""
        self._message, self._fragments = _begun(event), 1
        super().handle_bytes(event)

    def handle_text(self, event: Frame) -> None:
        """The same for a text message."""
        self._message, self._fragments = _begun(event), 1
        super().handle_text(event)

    def handle_cont(self, event: Frame) -> None:
        """Add a fragment to a message, which is one buffer however many fragments it has."""
        self._message += event.data
        self._fragments += 1
        if self._fragments > _FEW + len(self._message) // _SMALL:
            self.conn.fail(1008, "a message has too many small fragments")
            self.handle_parser_exception()
        elif event.fin:
            self.frames, self._message = [bytes(self._message)], bytearray()
            self.send_receive_event_to_app()

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, message: Any) -> None:
        """Send a message, or a piece of one: pings may go in between."""
        if MORE not in message:
            await super().send(message)
            if self.close_sent:  # a refused one, too, which uvicorn would report as forgotten
                self.handshake_complete = True
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        send = self.conn.send_continuation if self._goes_on else self.conn.send_binary
        try:
            send(message["bytes"], fin=not message[MORE])
        except InvalidState:
            raise ClientDisconnected from None
        self._goes_on = message[MORE]
        data = b"".join(self.conn.data_to_send())
        self._written += len(data)
        self.transport.write(data)

    def write_now(self, message: bytes) -> bool:
        """Write a small message, if the network takes it now; whether it was written."""
        if len(message) > PIECE or self._goes_on or not self.writable.is_set():
            return False
        if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
            return False
        data = _head(len(message)) + message
        self._written += len(data)
        self.transport.write(data)
        return True

    # -- heartbeat ---------------------------------------------------------------------------------

    def send_keepalive_ping(self) -> None:
        """Send a ping."""
        self._heard, self._sent = False, self._sent_by_now()
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """Abort a client without a pong, unless it shows otherwise that it lives."""
        if self._heard or self.read_paused or self._sent_by_now() > self._sent:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self.transport.abort()

    def _sent_by_now(self) -> int:
        return self._written - self.transport.get_write_buffer_size()

    # -- closing -----------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Close it with the broker; abort a client that has said goodbye and is not gone."""
        with suppress(InvalidState):
            super().shutdown()
        self.loop.call_later(GOODBYE, self.transport.abort)

    async def run_asgi(self) -> None:
        """Serve it, and close it soon afterwards."""
        self.scope["extensions"][WRITE_NOW] = {"call": self.write_now}
        try:
            await super().run_asgi()
        finally:
            self.loop.call_later(CLOSING, self.transport.abort)


class _ClosedOnce:
    """A transport. With TLS, one that is closed twice cannot be aborted any more."""

    def __init__(self, transport: BaseTransport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._transport, name)
        setattr(self, name, value)
        return value

    def close(self) -> None:
        """Close it, unless that has begun."""
        if not self._transport.is_closing():
            self._transport.close()


def _begun(event: Frame) -> bytearray:
    """The first fragment of a message that goes on."""
    return bytearray() if event.fin else bytearray(event.data)


def _head(size: int) -> bytes:
    """The head of a binary message of a server (RFC 6455, 5.2), which is not masked."""
    if size < 126:
        return bytes((0x82, size))
    return b"\x82\x7e" + size.to_bytes(2) if size < 65_536 else b"\x82\x7f" + size.to_bytes(8)


def pieces_of(frame: bytes) -> Iterator[dict[str, Any]]:
    """Split a message into pieces for `send`."""
    for at in range(0, len(frame), PIECE):
        piece, more = frame[at : at + PIECE], at + PIECE < len(frame)
        yield {"type": "websocket.send", "bytes": piece, MORE: more}
